//! Coroutines: who runs next.

use std::any::Any;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;

use corosensei::{Coroutine, CoroutineResult};

use super::block::{self, Block};
use super::fault::{self, Fault, FaultKind, Raised};
use super::stack::{self, Stack};
use crate::launch::{Launch, LaunchError};
use crate::thread::WARP;

/// A coroutine that runs threads of a block one after the other.
type Worker = Coroutine<(), (), (), Stack>;

/// Runs blocks of one launch on one OS thread.
pub(crate) struct Machine<'a> {
    kernel: &'static str,
    variant: &'static str,
    block: Block,
    /// Worker that carries each started thread.
    carrier: Vec<Cell<u32>>,
    stacks: Vec<Stack>,
    launch: std::marker::PhantomData<&'a ()>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(launch: &Launch<'a>) -> Self {
        Self {
            kernel: launch.kernel.name,
            variant: launch.variant.name,
            block: Block::new(launch),
            carrier: vec![Cell::new(0); launch.variant.block as usize],
            stacks: Vec::new(),
            launch: std::marker::PhantomData,
        }
    }

    /// Runs every thread of block `index`.
    pub(crate) fn run_block(
        &mut self,
        index: u64,
        body: &(dyn Fn() + Sync),
    ) -> Result<(), LaunchError> {
        self.block.reset(index);
        let (block, carrier, stacks) = (&self.block, &self.carrier, &mut self.stacks);
        let threads = block.threads();
        let _entered = block::enter(block);
        let next = Cell::new(0);
        let mut workers: Vec<Worker> = Vec::new();
        let fault = loop {
            let worker = if let Some(thread) = block.next_ready() {
                carrier[thread as usize].get() as usize
            } else if next.get() < threads {
                if stacks.is_empty() {
                    stack::take(stacks, WARP as usize).map_err(|error| LaunchError::Device {
                        kernel: self.variant,
                        call: "mmap",
                        message: format!("no memory for a stack: {error}"),
                    })?;
                }
                let Some(stack) = stacks.pop() else { continue };
                let number = workers.len() as u32;
                let next = &next;
                // SAFETY: all it borrows outlives `workers`, which is dropped (and so unwound) below.
                workers.push(unsafe {
                    Coroutine::with_stack_unchecked(stack, move |yielder, ()| {
                        while next.get() < threads {
                            let thread = next.replace(next.get() + 1);
                            carrier[thread as usize].set(number);
                            block.start(thread, yielder);
                            body();
                        }
                    })
                });
                number as usize
            } else if let Some((thread, location, detail)) = block.deadlock() {
                let raised = Raised {
                    kind: FaultKind::Divergence,
                    location,
                    detail,
                };
                break Some((thread, Box::new(raised) as Box<dyn Any + Send>));
            } else {
                break None;
            };
            let worker = &mut workers[worker];
            match fault::catch(AssertUnwindSafe(|| worker.resume(()))) {
                Ok(CoroutineResult::Yield(()) | CoroutineResult::Return(())) => {}
                Err(payload) => break Some((block.thread(), payload)),
            }
        };
        if fault.is_some() {
            block.abandon();
            // A destructor in a kernel may panic too; that is no second fault.
            for worker in &mut workers {
                let _ = fault::catch(AssertUnwindSafe(|| worker.force_unwind()));
            }
        }
        for worker in workers {
            if worker.done() {
                stacks.push(worker.into_stack());
            }
        }
        match fault {
            Some((thread, payload)) => {
                Err(LaunchError::Fault(Box::new(self.fault(thread, payload))))
            }
            None => Ok(()),
        }
    }

    fn fault(&self, thread: u32, payload: Box<dyn Any + Send>) -> Fault {
        let (kind, (file, line), detail) = match payload.downcast::<Raised>() {
            Ok(raised) => (
                raised.kind,
                (raised.location.file().to_owned(), raised.location.line()),
                raised.detail,
            ),
            Err(payload) => (
                FaultKind::Panic,
                fault::panicked_at().unwrap_or_default(),
                fault::panic_message(&*payload),
            ),
        };
        Fault {
            kind,
            kernel: self.kernel,
            variant: self.variant,
            block: self.block.index(),
            thread,
            file,
            line,
            detail,
        }
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        stack::put_back(&mut self.stacks);
    }
}

//! Runs the threads of a block on coroutines.
//!
//! A *worker* is a coroutine that takes unstarted threads one after the other. When its thread must wait
//! it is suspended with it, and another worker goes on taking threads. So there are as many coroutines as
//! threads that wait at the same time, and none beyond the first in a kernel where nobody waits.

use std::any::Any;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;

use corosensei::{Coroutine, Yielder};

use super::block::{self, Block};
use super::check::{Checker, Found};
use super::fault::{self, Fault, FaultKind, Raised};
use super::schedule::{Schedule, Step};
use super::stack::{self, Stack};
use crate::launch::{Kernel, Launch, LaunchError, VariantInfo};
use crate::thread::WARP;

/// A coroutine that runs threads of a block one after the other.
type Worker = Coroutine<(), (), (), Stack>;

/// Runs blocks of one launch on one OS thread.
pub(crate) struct Machine {
    kernel: &'static Kernel,
    variant: &'static VariantInfo,
    block: Block,
    /// Worker that carries each started thread.
    carrier: Vec<Cell<usize>>,
    stacks: Vec<Stack>,
}

/// What ended a block before its end.
enum Stop {
    /// A thread left with this payload.
    Thread(u32, Box<dyn Any + Send>),
    /// Nobody can go on.
    Deadlock(u32, Raised),
    /// There is no memory for another coroutine.
    NoStack(std::io::Error),
}

impl Machine {
    pub(crate) fn new(launch: &Launch<'_>, schedule: Schedule, checker: Option<Checker>) -> Self {
        Self {
            kernel: launch.kernel,
            variant: launch.variant,
            block: Block::new(launch, schedule, checker),
            carrier: vec![Cell::new(0); launch.variant.block as usize],
            stacks: Vec::new(),
        }
    }

    /// Runs every thread of block `index`.
    pub(crate) fn run_block(
        &mut self,
        index: u64,
        body: &(dyn Fn() + Sync),
    ) -> Result<(), LaunchError> {
        self.block.reset(index);
        let Some(stop) = self.run_threads(body) else {
            let unwritten = self.block.checked(Checker::unwritten_shared).flatten();
            return unwritten.map_or(Ok(()), |found| Err(self.found(found)));
        };
        let fault = match stop {
            Stop::NoStack(error) => {
                return Err(LaunchError::Device {
                    kernel: self.variant.name,
                    call: "mmap",
                    message: format!("no memory for a stack: {error}"),
                });
            }
            Stop::Deadlock(thread, raised) => self.fault(thread, raised),
            Stop::Thread(thread, payload) => match payload.downcast::<Raised>() {
                Ok(raised) => self.fault(thread, *raised),
                Err(payload) => self.panicked(thread, &*payload),
            },
        };
        if !matches!(fault.kind, FaultKind::SharedRace | FaultKind::GlobalRace)
            && let Some(found) = self.block.checked(Checker::unwritten).flatten()
        {
            // What was read before anybody wrote it may well have led to the rest.
            return Err(self.found(found));
        }
        Err(LaunchError::Fault(Box::new(fault)))
    }

    /// The fault that only the end of the launch shows, if there is one.
    pub(crate) fn finish(&mut self) -> Result<(), LaunchError> {
        let unwritten = self.block.checked(Checker::unwritten).flatten();
        unwritten.map_or(Ok(()), |found| Err(self.found(found)))
    }

    fn run_threads(&mut self, body: &(dyn Fn() + Sync)) -> Option<Stop> {
        let (block, carrier, stacks) = (&self.block, &self.carrier, &mut self.stacks);
        let _entered = block::enter(block);
        let mut workers: Vec<Worker> = Vec::new();
        let drive = AssertUnwindSafe(|| drive(block, carrier, stacks, &mut workers, body));
        let stop = match fault::catch(drive) {
            Ok(None) => return None,
            Ok(Some(stop)) => stop,
            Err(payload) => Stop::Thread(block.thread(), payload),
        };
        // The others are unwound, so that what lies on their stacks is dropped. A panic in a destructor
        // is no second fault.
        block.abandon();
        for mut worker in workers {
            if fault::catch(AssertUnwindSafe(|| worker.force_unwind())).is_ok() {
                stacks.push(worker.into_stack());
            }
        }
        Some(stop)
    }

    fn found(&self, found: Found) -> LaunchError {
        let fault = self.fault(found.thread, found.raised);
        let block = self.block.coordinates(u64::from(found.block));
        LaunchError::Fault(Box::new(Fault { block, ..fault }))
    }

    fn fault(&self, thread: u32, raised: Raised) -> Fault {
        Fault {
            kind: raised.kind,
            kernel: self.kernel.name,
            variant: self.variant.name,
            block: self.block.index(),
            thread,
            file: raised.location.file().to_owned(),
            line: raised.location.line(),
            detail: raised.detail,
        }
    }

    fn panicked(&self, thread: u32, payload: &(dyn Any + Send)) -> Fault {
        let kernel = || (self.kernel.file.to_owned(), self.kernel.line);
        let (file, line) = fault::panicked_at().unwrap_or_else(kernel);
        Fault {
            kind: FaultKind::Panic,
            kernel: self.kernel.name,
            variant: self.variant.name,
            block: self.block.index(),
            thread,
            file,
            line,
            detail: fault::panic_message(payload),
        }
    }
}

/// Runs threads until all have ended or nobody can go on. A panic in one of them comes through.
fn drive(
    block: &Block,
    carrier: &[Cell<usize>],
    stacks: &mut Vec<Stack>,
    workers: &mut Vec<Worker>,
    body: &(dyn Fn() + Sync),
) -> Option<Stop> {
    loop {
        let step = block.schedule().step();
        let number = match step {
            Some(Step::Resume(thread)) => carrier[thread as usize].get(),
            Some(Step::Start) => {
                let stack = match next_stack(stacks) {
                    Ok(stack) => stack,
                    Err(error) => return Some(Stop::NoStack(error)),
                };
                let number = workers.len();
                let threads = move |yielder: &Yielder<(), ()>, ()| {
                    loop {
                        let next = block.schedule().next_unstarted();
                        let Some(thread) = next else { break };
                        carrier[thread as usize].set(number);
                        block.start(thread, yielder);
                        body();
                        if block.schedule().is_varied() {
                            break;
                        }
                    }
                };
                // SAFETY: `run_threads` ends or unwinds the workers before what they borrow ends.
                workers.push(unsafe { Coroutine::with_stack_unchecked(stack, threads) });
                number
            }
            None => match block.deadlock() {
                Some((thread, raised)) => return Some(Stop::Deadlock(thread, raised)),
                None => break,
            },
        };
        workers[number].resume(());
    }
    stacks.extend(workers.drain(..).map(Worker::into_stack));
    None
}

/// A stack, from a warp's worth taken from the pool.
fn next_stack(stacks: &mut Vec<Stack>) -> std::io::Result<Stack> {
    if let Some(stack) = stacks.pop() {
        return Ok(stack);
    }
    stack::take(stacks, WARP as usize)?;
    stacks
        .pop()
        .ok_or_else(|| std::io::ErrorKind::OutOfMemory.into())
}

impl Drop for Machine {
    fn drop(&mut self) {
        stack::put_back(&mut self.stacks);
    }
}

//! A machine that runs kernels without a GPU.
//!
//! [`run`] executes one launch. Each GPU thread is a coroutine only when it has to be: a worker takes
//! unstarted threads one after the other, and another worker starts when a thread must wait for others at
//! a barrier or a warp operation. A kernel without collectives is therefore a plain loop. In
//! [`Mode::Fast`] the blocks of a grid are spread over the machine's cores; in [`Mode::Checked`] they run
//! one after the other, in an order drawn from a seed, and every access is checked.
//!
//! Both modes check bounds and alignment of every access, and find a barrier that not all threads reach.
//! A fault ends the launch with a [`Fault`] that names kernel, block, thread and source line; nothing a
//! kernel does takes the process down.
//!
//! | module | holds |
//! | --- | --- |
//! | [`memory`] | allocations, and the bounds an access must stay in |
//! | `block` | the state of the block being run, and the host bodies of the words |
//! | `scheduler` | coroutines: who runs next |
//! | `stack` | the stacks they run on |
//! | `access` | host bodies of reads, writes, atomics and copies |
//! | `fault` | what went wrong, and where |

pub(crate) mod access;
pub(crate) mod block;
mod fault;
pub mod memory;
mod scheduler;
mod stack;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub use fault::{Fault, FaultKind};
pub use memory::Memory;

use crate::launch::{Launch, LaunchError, RawArg};
use memory::{Allocation, Region};

/// How a launch is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Blocks in parallel; bounds, alignment and deadlocks are checked.
    Fast,
    /// One thread of one block at a time, in an order drawn from `seed`; everything is checked.
    Checked {
        /// Chooses the schedule.
        seed: u64,
    },
}

/// Runs `launch` to its end.
///
/// # Errors
///
/// [`LaunchError::Refused`] if the arguments do not fit the kernel or are not memory of the emulator,
/// [`LaunchError::Fault`] with the first fault found (of several blocks that fail in parallel, the one
/// with the smallest index), [`LaunchError::Device`] if the machine is out of memory for stacks.
pub fn run(launch: &Launch<'_>, mode: Mode) -> Result<(), LaunchError> {
    launch.validate()?;
    let buffers = Buffers::resolve(launch)?;
    let args = buffers.args(launch);
    let mut result = Ok(());
    let entry = std::panic::AssertUnwindSafe(|| {
        (launch.variant.entry)(&args, &mut |body| result = run_grid(launch, mode, body));
    });
    if let Err(payload) = fault::catch(entry) {
        return Err(LaunchError::Refused {
            kernel: launch.variant.name,
            reason: fault::panic_message(&*payload),
        });
    }
    result
}

/// The launch's buffers, kept alive, with the regions its accesses must stay in.
struct Buffers {
    /// One per argument; `None` for scalars.
    regions: Vec<Option<(Arc<Allocation>, Box<Region>)>>,
}

impl Buffers {
    fn resolve(launch: &Launch<'_>) -> Result<Self, LaunchError> {
        let mut regions = Vec::with_capacity(launch.args.len());
        for (param, arg) in launch.kernel.params.iter().zip(launch.args) {
            regions.push(match arg {
                RawArg::Scalar(_) => None,
                RawArg::Buffer(buffer) => {
                    let allocation = memory::find(buffer).ok_or_else(|| LaunchError::Refused {
                        kernel: launch.variant.name,
                        reason: format!("`{}` is not in the emulator's memory", param.name),
                    })?;
                    let region =
                        Box::new(Region::new(buffer.address as usize, buffer.bytes as usize));
                    Some((allocation, region))
                }
            });
        }
        Ok(Self { regions })
    }

    /// The arguments with their regions set.
    fn args<'a>(&'a self, launch: &Launch<'a>) -> Vec<RawArg<'a>> {
        let with_region =
            |(arg, region): (&RawArg<'a>, &'a Option<(_, Box<Region>)>)| match (*arg, region) {
                (RawArg::Buffer(mut buffer), Some((_, region))) => {
                    buffer.region = &raw const **region;
                    RawArg::Buffer(buffer)
                }
                (arg, _) => arg,
            };
        launch
            .args
            .iter()
            .zip(&self.regions)
            .map(with_region)
            .collect()
    }
}

/// Runs `body` for every thread of the grid.
fn run_grid(launch: &Launch<'_>, mode: Mode, body: &(dyn Fn() + Sync)) -> Result<(), LaunchError> {
    let blocks = launch.grid.blocks();
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let first: Mutex<Option<(u64, LaunchError)>> = Mutex::new(None);
    let task = || {
        let mut machine = scheduler::Machine::new(launch);
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= blocks {
                break;
            }
            if let Err(error) = machine.run_block(index, body) {
                stop.store(true, Ordering::Relaxed);
                let mut first = first
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                if first.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                    *first = Some((index, error));
                }
            }
        }
    };
    let tasks = match mode {
        Mode::Fast => stack::tasks(launch.variant.block).min(blocks),
        Mode::Checked { .. } => 1,
    };
    if tasks == 1 {
        task();
    } else {
        rayon::scope(|scope| (0..tasks).for_each(|_| scope.spawn(|_| task())));
    }
    match first
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
    {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

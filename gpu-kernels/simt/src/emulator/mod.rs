//! A machine that runs kernels without a GPU.
//!
//! [`run`] executes one launch. Each GPU thread is a coroutine only when it has to be: a worker takes
//! unstarted threads one after the other, and another worker starts when a thread must wait for others at
//! a barrier or a warp operation. A kernel without collectives is therefore a plain loop. In
//! [`Mode::Fast`] the blocks of a grid are spread over the machine's cores; in [`Mode::Checked`] they run
//! one after the other, in an order drawn from a seed, and every access is checked.
//!
//! Both modes check bounds and alignment of every access, and find a barrier that not all threads reach.
//! Threads are never interrupted: a thread that spins until another one has stored something would not end.
//! Where threads wait for each other they must do so at a collective. One that looks at the same word 2^24
//! times in a row, finds the same, and changes nothing meanwhile ends the launch with [`FaultKind::Spin`]:
//! looks are atomics that change nothing, and in checked mode plain reads too. In fast mode plain accesses
//! are not counted, since that would cost as much as they do: there a wait on plain reads hangs, and a
//! plain write between two atomics does not show that a thread gets on. A wait that looks at several words
//! in turn hangs in both modes.
//!
//! A fault ends the launch with a [`Fault`] that names kernel, block, thread and source line; nothing a
//! kernel does takes the process down.
//!
//! | module | holds |
//! | --- | --- |
//! | [`memory`] | allocations, and the bounds an access must stay in |
//! | `arena` | the shared memory of a block |
//! | `access` | host bodies of reads, writes, atomics and copies |
//! | `block` | the state of the block being run: who waits where |
//! | `barrier` | barriers of a block |
//! | `collective` | warp operations: who meets, and what they compute |
//! | `mbarrier` | barriers in shared memory, and copies that arrive at them |
//! | `wgmma` | products of a warpgroup |
//! | `schedule` | who may run, and in which order |
//! | `scheduler` | the coroutines that run them |
//! | `stack` | the stacks of the coroutines |
//! | `check` | checked mode: every access against shadow and clock |
//! | `shadow` | what is remembered about each word of memory |
//! | `clock` | what happened before what |
//! | `fault` | what went wrong, and where |

pub(crate) mod access;
mod arena;
mod barrier;
pub(crate) mod block;
pub(crate) mod check;
mod clock;
mod collective;
mod fault;
pub(crate) mod mbarrier;
pub mod memory;
mod schedule;
mod scheduler;
mod shadow;
mod stack;
pub(crate) mod wgmma;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use fault::{Fault, FaultKind};
pub use memory::Memory;

use crate::launch::{Launch, LaunchError, ParamKind, RawArg, RawBuffer};
use check::Checker;
use memory::{Allocation, Region};
use schedule::{Random, Schedule};
use scheduler::Machine;
use shadow::Shadow;

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
/// The first call installs a panic hook that keeps panics of kernels quiet, since they become faults, and
/// passes all others to the hook that was there.
///
/// # Errors
///
/// [`LaunchError::Refused`] if the arguments do not fit the kernel or are not memory of the emulator,
/// [`LaunchError::Fault`] with the first fault found (of several blocks that fail in parallel, the one
/// with the smallest index), [`LaunchError::Device`] if the machine is out of memory for stacks.
pub fn run(launch: &Launch<'_>, mode: Mode) -> Result<(), LaunchError> {
    launch.validate()?;
    let refuse = |reason| LaunchError::Refused {
        kernel: launch.variant.name,
        reason,
    };
    if launch.variant.shared_bytes as usize > arena::LIMIT {
        let bytes = launch.variant.shared_bytes;
        return Err(refuse(format!(
            "{bytes} bytes of dynamic shared memory: a block has at most {}",
            arena::LIMIT
        )));
    }
    if mode != Mode::Fast && launch.grid.blocks() > u64::from(u32::MAX) {
        return Err(refuse(format!(
            "{} blocks are too many for checked mode",
            launch.grid.blocks()
        )));
    }
    let buffers = Buffer::resolve(launch)?;
    let mut shadows = if mode == Mode::Fast {
        Vec::new()
    } else {
        Shadows::lock(&buffers)
    };
    let regions: Vec<Option<Box<Region>>> = buffers
        .iter()
        .map(|buffer| {
            let buffer = buffer.as_ref()?;
            let shadow = shadows
                .iter_mut()
                .find(|shadow| shadow.allocation == buffer.allocation.id());
            let shadow = shadow.map_or(std::ptr::null_mut(), Shadows::pointer);
            let name = format!("`{}`", buffer.name);
            Some(Box::new(Region::new(
                buffer.raw.address as usize,
                buffer.raw.bytes as usize,
                shadow,
                name,
            )))
        })
        .collect();
    let args: Vec<RawArg<'_>> = launch
        .args
        .iter()
        .zip(&regions)
        .map(|(arg, region)| match (*arg, region) {
            (RawArg::Buffer(mut buffer), Some(region)) => {
                buffer.region = &raw const **region;
                RawArg::Buffer(buffer)
            }
            (arg, _) => arg,
        })
        .collect();
    let mut result = Ok(());
    let entry = AssertUnwindSafe(|| {
        (launch.variant.entry)(&args, &mut |body| result = run_grid(launch, mode, body));
    });
    if let Err(payload) = fault::catch(entry) {
        return Err(refuse(fault::panic_message(&*payload)));
    }
    drop(shadows);
    if mode == Mode::Fast {
        // Nobody looked which bytes were written.
        for buffer in buffers.iter().flatten().filter(|buffer| buffer.is_written) {
            buffer
                .allocation
                .mark_written(buffer.raw.address as usize, buffer.raw.bytes as usize);
        }
    }
    result
}

/// A buffer of a launch, kept alive.
struct Buffer {
    raw: RawBuffer,
    allocation: Arc<Allocation>,
    name: &'static str,
    is_written: bool,
}

impl Buffer {
    /// One per argument; `None` for scalars.
    fn resolve(launch: &Launch<'_>) -> Result<Vec<Option<Self>>, LaunchError> {
        let pairs = launch.kernel.params.iter().zip(launch.args);
        let resolve = pairs.map(|(param, arg)| match arg {
            RawArg::Scalar(_) => Ok(None),
            RawArg::Buffer(raw) => {
                let is_written = matches!(param.kind, ParamKind::GlobalMut { .. });
                let buffer = memory::find(raw).map(|allocation| Self {
                    raw: *raw,
                    allocation,
                    name: param.name,
                    is_written,
                });
                buffer.map(Some).ok_or_else(|| LaunchError::Refused {
                    kernel: launch.variant.name,
                    reason: format!("`{}` is not in the emulator's memory", param.name),
                })
            }
        });
        resolve.collect()
    }
}

/// The shadow of an allocation, ours until the launch ends.
struct Shadows<'a> {
    allocation: u64,
    shadow: Held<'a>,
}

enum Held<'a> {
    Locked(MutexGuard<'a, Shadow>),
    /// The memory was not made for checked launches: all of it counts as written.
    Own(Box<Shadow>),
}

impl<'a> Shadows<'a> {
    /// Locks the shadow of each allocation once, in the order of their numbers: two launches that share
    /// memory wait for each other, and not in a circle.
    fn lock(buffers: &'a [Option<Buffer>]) -> Vec<Self> {
        let mut allocations: Vec<&Arc<Allocation>> = buffers
            .iter()
            .flatten()
            .map(|buffer| &buffer.allocation)
            .collect();
        allocations.sort_by_key(|allocation| allocation.id());
        allocations.dedup_by_key(|allocation| allocation.id());
        let lock = |allocation: &'a Arc<Allocation>| Self {
            allocation: allocation.id(),
            shadow: allocation.lock_shadow().map_or_else(
                || Held::Own(Box::new(allocation.full_shadow())),
                Held::Locked,
            ),
        };
        allocations.into_iter().map(lock).collect()
    }

    fn pointer(&mut self) -> *mut Shadow {
        match &mut self.shadow {
            Held::Locked(shadow) => &raw mut **shadow,
            Held::Own(shadow) => &raw mut **shadow,
        }
    }
}

/// Runs `body` for every thread of the grid.
fn run_grid(launch: &Launch<'_>, mode: Mode, body: &(dyn Fn() + Sync)) -> Result<(), LaunchError> {
    match mode {
        Mode::Fast => run_parallel(launch, body),
        Mode::Checked { seed } => run_checked(launch, seed, body),
    }
}

/// One block at a time, in an order drawn from `seed`.
fn run_checked(
    launch: &Launch<'_>,
    seed: u64,
    body: &(dyn Fn() + Sync),
) -> Result<(), LaunchError> {
    static LAUNCHES: AtomicU32 = AtomicU32::new(1);
    let checker = Checker::new(
        launch.variant.block,
        LAUNCHES.fetch_add(1, Ordering::Relaxed),
    );
    let mut machine = Machine::new(launch, Schedule::varied(seed), Some(checker));
    let mut order: Vec<u32> = (0..launch.grid.blocks() as u32).collect();
    Random(!seed).shuffle(&mut order);
    for index in order {
        machine.run_block(u64::from(index), body)?;
    }
    machine.finish()
}

/// As many blocks at a time as the machine has cores.
fn run_parallel(launch: &Launch<'_>, body: &(dyn Fn() + Sync)) -> Result<(), LaunchError> {
    let blocks = launch.grid.blocks();
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let first: Mutex<Option<(u64, LaunchError)>> = Mutex::new(None);
    let task = || {
        let mut machine = Machine::new(launch, Schedule::fixed(), None);
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= blocks {
                break;
            }
            if let Err(error) = machine.run_block(index, body) {
                stop.store(true, Ordering::Relaxed);
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                    *first = Some((index, error));
                }
            }
        }
    };
    let tasks = stack::tasks(launch.variant.block).min(blocks);
    if tasks == 1 {
        task();
    } else {
        rayon::scope(|scope| (0..tasks).for_each(|_| scope.spawn(|_| task())));
    }
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

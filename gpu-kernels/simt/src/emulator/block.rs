//! The state of the block being run, and the host bodies of the words that need it.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt::Write;
use std::panic::Location;
use std::ptr;

use corosensei::Yielder;

use super::arena::Arena;
use super::check::Checker;
use super::collective::{Operation, Registers, lanes};
pub(crate) use super::collective::{Reduction, Shuffle, Signs};
use super::fault::{FaultKind, Raised, raise};
use super::memory::Region;
use super::schedule::Schedule;
use crate::launch::{Grid, Launch};
use crate::thread::{FULL_MASK, WARP};

/// Named barriers of a block.
const BARRIERS: usize = 16;

thread_local! {
    /// The block that this OS thread runs; null outside kernels.
    static CURRENT: Cell<*const Block> = const { Cell::new(ptr::null()) };
}

/// The block being run.
///
/// # Panics
///
/// Outside a kernel.
#[inline(always)]
#[track_caller]
pub(crate) fn with_current<R>(f: impl FnOnce(&Block) -> R) -> R {
    let block = CURRENT.get();
    assert!(
        !block.is_null(),
        "this word can only be used in a kernel that a launch runs"
    );
    // SAFETY: set by `enter` to a block that outlives the guard that resets it.
    f(unsafe { &*block })
}

/// The block being run has failed: from now on its collectives return at once, so that threads unwind to
/// their ends, also through destructors that use them.
pub(crate) fn abandon_current() {
    // SAFETY: as in `with_current`.
    if let Some(block) = unsafe { CURRENT.get().as_ref() } {
        block.abandoned.set(true);
    }
}

/// Makes `block` the current one until the guard is dropped.
pub(crate) fn enter(block: &Block) -> Entered<'_> {
    Entered {
        outer: CURRENT.replace(block),
        block: std::marker::PhantomData,
    }
}

/// Restores the block that was current before.
pub(crate) struct Entered<'a> {
    outer: *const Block,
    block: std::marker::PhantomData<&'a Block>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

/// Where a thread waits.
#[derive(Clone, Copy)]
struct Waiting {
    at: At,
    location: &'static Location<'static>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Barrier { barrier: u32, threads: u32 },
    Warp { operation: Operation, mask: u32 },
}

/// One block on its way through the emulator.
pub(crate) struct Block {
    grid: Grid,
    threads: u32,
    index: Cell<[u32; 3]>,
    /// The thread that runs.
    thread: Cell<u32>,
    /// Its coroutine's way out.
    yielder: Cell<*const Yielder<(), ()>>,
    /// Set after a fault: collectives return at once.
    abandoned: Cell<bool>,
    /// Threads that may go on.
    schedule: RefCell<Schedule>,
    /// What each thread waits for; `None` for one that runs, may go on, has ended or has not begun.
    waiting: Vec<Cell<Option<Waiting>>>,
    /// Per barrier, the threads that came.
    barriers: RefCell<[Vec<u32>; BARRIERS]>,
    /// Per warp, the lanes that wait in a warp operation.
    arrived: Vec<Cell<u32>>,
    /// Per warp, the registers its lanes brought or may take.
    registers: Vec<UnsafeCell<[Registers; WARP as usize]>>,
    shared: RefCell<Arena>,
    checker: Option<RefCell<Checker>>,
}

impl Block {
    pub(crate) fn new(launch: &Launch<'_>, schedule: Schedule, checker: Option<Checker>) -> Self {
        let threads = launch.variant.block;
        let warps = threads.div_ceil(WARP) as usize;
        Self {
            grid: launch.grid,
            threads,
            index: Cell::new([0; 3]),
            thread: Cell::new(0),
            yielder: Cell::new(ptr::null()),
            abandoned: Cell::new(false),
            schedule: RefCell::new(schedule),
            waiting: vec![Cell::new(None); threads as usize],
            barriers: RefCell::default(),
            arrived: vec![Cell::new(0); warps],
            registers: (0..warps)
                .map(|_| UnsafeCell::new([[0; 10]; WARP as usize]))
                .collect(),
            shared: RefCell::new(Arena::new(
                threads,
                launch.variant.shared_bytes as usize,
                checker.is_some(),
            )),
            checker: checker.map(RefCell::new),
        }
    }

    /// Makes this the block with linear index `index`, none of its threads started.
    pub(crate) fn reset(&self, index: u64) {
        let (x, y) = (u64::from(self.grid.x), u64::from(self.grid.y));
        self.index.set([
            (index % x) as u32,
            (index / x % y) as u32,
            (index / (x * y)) as u32,
        ]);
        self.abandoned.set(false);
        self.schedule.borrow_mut().begin(self.threads);
        self.waiting.iter().for_each(|waiting| waiting.set(None));
        self.barriers.borrow_mut().iter_mut().for_each(Vec::clear);
        self.arrived.iter().for_each(|arrived| arrived.set(0));
        self.shared.borrow_mut().begin();
        self.checked(|checker| checker.begin(index as u32));
    }

    /// The running thread.
    #[inline(always)]
    pub(crate) fn thread(&self) -> u32 {
        self.thread.get()
    }

    /// Threads of the block.
    #[inline(always)]
    pub(crate) fn threads(&self) -> u32 {
        self.threads
    }

    /// Index of the block in the grid.
    #[inline(always)]
    pub(crate) fn index(&self) -> [u32; 3] {
        self.index.get()
    }

    /// Blocks of the grid.
    #[inline(always)]
    pub(crate) fn grid(&self) -> Grid {
        self.grid
    }

    /// Who runs next.
    pub(crate) fn schedule(&self) -> std::cell::RefMut<'_, Schedule> {
        self.schedule.borrow_mut()
    }

    /// Runs `f` on the checker, if there is one.
    pub(crate) fn checked<R>(&self, f: impl FnOnce(&mut Checker) -> R) -> Option<R> {
        self.checker
            .as_ref()
            .map(|checker| f(&mut checker.borrow_mut()))
    }

    /// Says which thread runs, on which coroutine.
    pub(crate) fn start(&self, thread: u32, yielder: &Yielder<(), ()>) {
        self.thread.set(thread);
        self.yielder.set(yielder);
    }

    /// As [`abandon_current`].
    pub(crate) fn abandon(&self) {
        self.abandoned.set(true);
    }

    /// Leaves the running thread until the scheduler resumes it.
    fn suspend(&self) {
        let (thread, yielder) = (self.thread.get(), self.yielder.get());
        // SAFETY: the yielder of the coroutine this runs on, which is alive while it runs.
        unsafe { (*yielder).suspend(()) };
        self.thread.set(thread);
        self.yielder.set(yielder);
    }

    /// Lets `threads` go on, the running thread among them.
    fn release(&self, threads: impl DoubleEndedIterator<Item = u32>) {
        let running = self.thread.get();
        let mut schedule = self.schedule.borrow_mut();
        for thread in threads.rev() {
            self.waiting[thread as usize].set(None);
            // Whoever comes last just goes on, unless the schedule is to be varied.
            if thread != running || schedule.is_varied() {
                schedule.ready(thread);
            }
        }
        let suspend = schedule.is_varied();
        drop(schedule);
        if suspend {
            self.suspend();
        }
    }

    /// Arrives at a barrier and waits for the rest.
    fn barrier(&self, barrier: u32, threads: Option<u32>, location: &'static Location<'static>) {
        if self.abandoned.get() {
            return;
        }
        let expected = threads.unwrap_or(self.threads);
        let divergence = |detail| raise(FaultKind::Divergence, location, detail);
        if barrier as usize >= BARRIERS {
            divergence(format!("barrier {barrier} is not below {BARRIERS}"));
        }
        if threads
            .is_some_and(|threads| threads == 0 || threads % WARP != 0 || threads > self.threads)
        {
            divergence(format!(
                "{expected} threads at a barrier: not a multiple of {WARP} up to {}",
                self.threads
            ));
        }
        let thread = self.thread.get();
        let mut barriers = self.barriers.borrow_mut();
        let came = &mut barriers[barrier as usize];
        came.push(thread);
        self.waiting[thread as usize].set(Some(Waiting {
            at: At::Barrier {
                barrier,
                threads: expected,
            },
            location,
        }));
        if (came.len() as u32) < expected {
            drop(barriers);
            self.suspend();
            return;
        }
        let came = std::mem::take(came);
        drop(barriers);
        if let Err(detail) = self.whole_warps(&came, expected) {
            divergence(detail);
        }
        self.checked(|checker| checker.clock.meet(&came));
        self.release(came.iter().copied());
        let mut barriers = self.barriers.borrow_mut();
        if barriers[barrier as usize].is_empty() {
            // Keep the allocation for the next time.
            barriers[barrier as usize] = {
                let mut came = came;
                came.clear();
                came
            };
        }
    }

    /// A barrier is `.aligned`: the threads of a warp come together, by the same call, and agree on how
    /// many threads shall meet.
    fn whole_warps(&self, came: &[u32], expected: u32) -> Result<(), String> {
        let mut warps = [(0u32, None::<&'static Location<'static>>); WARP as usize];
        for thread in came {
            let Some(waiting) = self.waiting[*thread as usize].get() else {
                continue;
            };
            let At::Barrier { threads, .. } = waiting.at else {
                continue;
            };
            if threads != expected {
                return Err(format!(
                    "thread {thread} expects {threads} threads at this barrier, not {expected}"
                ));
            }
            let (arrived, location) = &mut warps[(thread / WARP) as usize];
            *arrived |= 1 << (thread % WARP);
            let first = *location.get_or_insert(waiting.location);
            if !ptr::eq(first, waiting.location) && first != waiting.location {
                return Err(format!(
                    "thread {thread} of the same warp came by {}",
                    waiting.location
                ));
            }
        }
        for (warp, (arrived, _)) in warps.iter().enumerate() {
            if *arrived != 0 && *arrived != self.present(warp as u32) {
                return Err(format!(
                    "only the lanes {arrived:#010x} of warp {warp} came"
                ));
            }
        }
        Ok(())
    }

    /// The lanes that warp `warp` has: the last warp of a block may be short.
    fn present(&self, warp: u32) -> u32 {
        let count = self.threads.saturating_sub(warp * WARP).min(WARP);
        (u64::from(FULL_MASK) >> (WARP - count)) as u32
    }

    /// Brings `registers` to a warp operation and gives what it made of them.
    fn warp(
        &self,
        operation: Operation,
        mask: u32,
        registers: Registers,
        location: &'static Location<'static>,
    ) -> Registers {
        if self.abandoned.get() {
            return [0; 10];
        }
        let thread = self.thread.get();
        let (warp, lane) = (thread / WARP, thread % WARP);
        let present = self.present(warp);
        let divergence = |detail| raise(FaultKind::Divergence, location, detail);
        if mask >> lane & 1 == 0 {
            divergence(format!(
                "lane {lane} is not in the mask {mask:#010x} it gave"
            ));
        }
        if operation.is_aligned() && present != FULL_MASK {
            divergence(format!(
                "{} in a warp of {} threads",
                operation.name(),
                present.count_ones()
            ));
        }
        let at = At::Warp { operation, mask };
        let all = self.registers[warp as usize].get();
        // SAFETY: coroutines of one block run one at a time, and no reference outlives a statement here.
        unsafe { (*all)[lane as usize] = registers };
        let arrived = self.arrived[warp as usize].get() | 1 << lane;
        self.arrived[warp as usize].set(arrived);
        self.waiting[thread as usize].set(Some(Waiting { at, location }));
        let members = mask & present;
        let member = |lane: u32| warp * WARP + lane;
        let together = |lane: u32| {
            self.waiting[member(lane) as usize]
                .get()
                .is_some_and(|waiting| {
                    waiting.at == at
                        && (!operation.is_aligned()
                            || ptr::eq(waiting.location, location)
                            || waiting.location == location)
                })
        };
        if arrived & members == members && lanes(members).all(together) {
            self.arrived[warp as usize].set(arrived & !members);
            // SAFETY: as above.
            let result = unsafe { operation.perform(members, &mut *all) };
            if let Err(detail) = result {
                divergence(detail);
            }
            if operation == Operation::Sync {
                self.checked(|checker| {
                    let members: Vec<u32> = lanes(members).map(member).collect();
                    checker.clock.meet(&members);
                });
            }
            self.release(
                (0..WARP)
                    .filter(|lane| members >> lane & 1 == 1)
                    .map(member),
            );
        } else {
            self.suspend();
        }
        // SAFETY: as above.
        unsafe { (*all)[lane as usize] }
    }

    /// The fault of a block where nobody can go on: the first thread that waits, and who waits where.
    pub(crate) fn deadlock(&self) -> Option<(u32, Raised)> {
        let waiting = || {
            self.waiting
                .iter()
                .enumerate()
                .filter_map(|(i, waiting)| Some((i as u32, waiting.get()?)))
        };
        let (thread, first) = waiting().next()?;
        let mut places: Vec<(Waiting, Vec<u32>)> = Vec::new();
        for (thread, waiting) in waiting() {
            match places
                .iter_mut()
                .find(|(place, _)| place.at == waiting.at && place.location == waiting.location)
            {
                Some((_, threads)) => threads.push(thread),
                None => places.push((waiting, vec![thread])),
            }
        }
        let mut detail = String::new();
        for (place, threads) in &places {
            let name = match place.at {
                At::Barrier {
                    barrier: 0,
                    threads,
                } if threads == self.threads => "sync_threads".to_owned(),
                At::Barrier { barrier, threads } => {
                    format!("barrier {barrier} of {threads} threads")
                }
                At::Warp { operation, mask } => {
                    format!("{} of lanes {mask:#010x}", operation.name())
                }
            };
            let (file, line) = (place.location.file(), place.location.line());
            let _ = write!(
                detail,
                "threads {} wait at {name} ({file}:{line}); ",
                ranges(threads)
            );
        }
        let others: Vec<u32> = (0..self.threads)
            .filter(|i| self.waiting[*i as usize].get().is_none())
            .collect();
        if others.is_empty() {
            detail += "nobody can come";
        } else {
            let _ = write!(detail, "threads {} have ended", ranges(&others));
        }
        Some((
            thread,
            Raised {
                kind: FaultKind::Divergence,
                location: first.location,
                detail,
            },
        ))
    }
}

/// `0-31, 40`: ascending numbers, for a fault.
fn ranges(numbers: &[u32]) -> String {
    let mut text = String::new();
    for run in numbers.chunk_by(|a, b| a + 1 == *b) {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = match run {
            [one] => write!(text, "{separator}{one}"),
            [first, .., last] => write!(text, "{separator}{first}-{last}"),
            [] => Ok(()),
        };
    }
    text
}

/// Host body of the barriers.
#[track_caller]
pub(crate) fn barrier(barrier: u32, threads: Option<u32>) {
    let location = Location::caller();
    with_current(|block| block.barrier(barrier, threads, location));
}

/// Host body of `sync_warp`.
#[track_caller]
pub(crate) fn sync_warp(mask: u32) {
    one(Operation::Sync, mask, 0);
}

/// Host body of the shuffles.
#[track_caller]
pub(crate) fn shuffle(mode: Shuffle, mask: u32, bits: u64, argument: u32) -> u64 {
    let location = Location::caller();
    let mut registers = [0; 10];
    registers[..3].copy_from_slice(&[bits as u32, (bits >> 32) as u32, argument]);
    let result =
        with_current(|block| block.warp(Operation::Shuffle(mode), mask, registers, location));
    u64::from(result[0]) | u64::from(result[1]) << 32
}

/// A warp operation on one word.
#[track_caller]
fn one(operation: Operation, mask: u32, value: u32) -> u32 {
    let location = Location::caller();
    let mut registers = [0; 10];
    registers[0] = value;
    with_current(|block| block.warp(operation, mask, registers, location))[0]
}

/// Host body of `ballot`.
#[track_caller]
pub(crate) fn ballot(mask: u32, predicate: bool) -> u32 {
    one(Operation::Ballot, mask, u32::from(predicate))
}

/// Host body of `any`.
#[track_caller]
pub(crate) fn any(mask: u32, predicate: bool) -> bool {
    one(Operation::Any, mask, u32::from(predicate)) != 0
}

/// Host body of `all`.
#[track_caller]
pub(crate) fn all(mask: u32, predicate: bool) -> bool {
    one(Operation::All, mask, u32::from(predicate)) != 0
}

/// Host body of the reductions.
#[track_caller]
pub(crate) fn reduce(mode: Reduction, mask: u32, value: u32) -> u32 {
    one(Operation::Reduce(mode), mask, value)
}

/// Host body of `mma`.
#[track_caller]
pub(crate) fn mma(signs: Signs, acc: &mut [i32; 4], a: [u32; 4], b: [u32; 2]) {
    let location = Location::caller();
    let [c0, c1, c2, c3] = acc.map(|sum| sum as u32);
    let registers = [a[0], a[1], a[2], a[3], b[0], b[1], c0, c1, c2, c3];
    let result =
        with_current(|block| block.warp(Operation::Mma(signs), FULL_MASK, registers, location));
    *acc = [
        result[0] as i32,
        result[1] as i32,
        result[2] as i32,
        result[3] as i32,
    ];
}

/// Host body of `ldmatrix`.
#[track_caller]
pub(crate) fn ldmatrix<const COUNT: usize>(
    address: usize,
    region: *const Region,
    transposed: bool,
) -> [u32; COUNT] {
    let location = Location::caller();
    let lane = with_current(Block::thread) % WARP;
    let mut registers = [0; 10];
    if lane < 8 * COUNT as u32 {
        registers[..4].copy_from_slice(&super::access::read::<crate::U32x4>(address, region).0);
    }
    let operation = Operation::Ldmatrix {
        count: COUNT as u8,
        transposed,
    };
    let result = with_current(|block| block.warp(operation, FULL_MASK, registers, location));
    std::array::from_fn(|i| result[i])
}

/// Host body of `Shared::dynamic`.
#[track_caller]
pub(crate) fn dynamic_shared() -> *const Region {
    with_current(|block| block.shared.borrow().dynamic())
}

/// Host body of `shared_array!`.
#[track_caller]
pub(crate) fn static_shared(bytes: usize) -> *const Region {
    let location = Location::caller();
    let result = with_current(|block| {
        block
            .shared
            .borrow_mut()
            .next_static(block.thread(), bytes, location)
    });
    result.unwrap_or_else(|raised| raise(raised.kind, raised.location, raised.detail))
}

/// Offset of a host address in the shared arena.
#[track_caller]
pub(crate) fn shared_offset(address: usize) -> u32 {
    with_current(|block| block.shared.borrow().offset(address))
}

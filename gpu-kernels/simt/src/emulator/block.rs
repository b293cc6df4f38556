//! The state of the block being run, and the host bodies of the words that need it.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::panic::Location;
use std::ptr;

use corosensei::Yielder;

use super::arena::Arena;
use super::barrier::Barrier;
use super::check::Checker;
use super::collective::{Call, Operation, Warp};
pub(crate) use super::collective::{Reduction, Shuffle, Signs};
use super::fault::{FaultKind, Raised, raise};
use super::mbarrier::Mbarriers;
use super::memory::Region;
use super::schedule::Schedule;
use crate::launch::{Grid, Launch};
use crate::thread::{FULL_MASK, WARP};

/// Polls in a row after which a thread counts as spinning: above what a kernel does that ends, and reached
/// within a second or two.
pub(crate) const MAX_POLLS: u32 = 1 << 24;

/// Looks of one thread at one word that found the same, with no change of memory by the thread between.
#[derive(Clone, Copy, Default)]
struct Polls {
    address: usize,
    value: u64,
    count: u32,
}

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

/// One block on its way through the emulator.
pub(crate) struct Block {
    grid: Grid,
    threads: u32,
    index: Cell<[u32; 3]>,
    /// The thread that runs.
    thread: Cell<u32>,
    /// Its coroutine's way out.
    yielder: Cell<*const Yielder<(), ()>>,
    /// What each thread last looked at, and how often.
    polls: Vec<Cell<Polls>>,
    /// Set after a fault: collectives return at once.
    abandoned: Cell<bool>,
    /// Threads that may go on.
    schedule: RefCell<Schedule>,
    barriers: RefCell<[Barrier; BARRIERS]>,
    mbarriers: RefCell<Mbarriers>,
    warps: Vec<RefCell<Warp>>,
    shared: RefCell<Arena>,
    checker: Option<RefCell<Checker>>,
}

impl Block {
    pub(crate) fn new(launch: &Launch<'_>, schedule: Schedule, checker: Option<Checker>) -> Self {
        let threads = launch.variant.block;
        let warps = threads.div_ceil(WARP);
        Self {
            grid: launch.grid,
            threads,
            index: Cell::new([0; 3]),
            thread: Cell::new(0),
            yielder: Cell::new(ptr::null()),
            polls: vec![Cell::default(); threads as usize],
            abandoned: Cell::new(false),
            schedule: RefCell::new(schedule),
            barriers: RefCell::default(),
            mbarriers: RefCell::default(),
            warps: (0..warps)
                .map(|warp| RefCell::new(Warp::new(threads - warp * WARP)))
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
        self.index.set(self.coordinates(index));
        self.abandoned.set(false);
        self.polls
            .iter()
            .for_each(|polls| polls.set(Polls::default()));
        self.schedule.borrow_mut().begin(self.threads);
        self.barriers
            .borrow_mut()
            .iter_mut()
            .for_each(Barrier::clear);
        self.mbarriers.borrow_mut().clear();
        self.warps.iter().for_each(|warp| warp.borrow_mut().clear());
        self.shared.borrow_mut().begin();
        self.checked(|checker| checker.begin(index as u32));
    }

    /// The block with linear index `index`.
    pub(crate) fn coordinates(&self, index: u64) -> [u32; 3] {
        let (x, y) = (u64::from(self.grid.x), u64::from(self.grid.y));
        [index % x, index / x % y, index / (x * y)].map(|i| i as u32)
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

    /// The barriers in shared memory.
    pub(crate) fn mbarriers(&self) -> std::cell::RefMut<'_, Mbarriers> {
        self.mbarriers.borrow_mut()
    }

    /// Whether a fault has ended the block.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.get()
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
    ///
    /// Inlined into the kernel, like all that leads here: a function that is entered before a switch and
    /// left after it costs a mispredicted return.
    #[inline(always)]
    pub(crate) fn suspend(&self) {
        let (thread, yielder) = (self.thread.get(), self.yielder.get());
        // SAFETY: the yielder of the coroutine this runs on, which is alive while it runs.
        unsafe { (*yielder).suspend(()) };
        self.thread.set(thread);
        self.yielder.set(yielder);
    }

    /// Arrives at a barrier in the middle, where there is nothing to do but wait. Most threads do, and what
    /// they do not touch of their stacks need not come into the cache.
    #[inline(always)]
    fn join(
        &self,
        barrier: u32,
        threads: Option<u32>,
        location: &'static Location<'static>,
    ) -> bool {
        let expected = threads.unwrap_or(self.threads);
        match self.barriers.borrow_mut().get_mut(barrier as usize) {
            Some(barrier) if !self.abandoned.get() => {
                barrier.join(self.thread.get(), expected, location)
            }
            _ => false,
        }
    }

    /// Arrives at a warp operation in the middle, as [`Block::join`].
    #[inline(always)]
    fn join_warp(&self, call: &Call, brought: &[u32]) -> bool {
        let thread = self.thread.get();
        let mut warp = self.warps[(thread / WARP) as usize].borrow_mut();
        !self.abandoned.get() && warp.join(thread % WARP, call, brought)
    }

    /// Arrives at a barrier; whether the thread must wait.
    #[inline(never)]
    fn arrive(
        &self,
        barrier: u32,
        threads: Option<u32>,
        location: &'static Location<'static>,
    ) -> bool {
        if self.abandoned.get() {
            return false;
        }
        let mut barriers = self.barriers.borrow_mut();
        let arrival = match barriers.get_mut(barrier as usize) {
            Some(barrier) => barrier.arrive(self.thread.get(), threads, self.threads, location),
            None => Err(format!("barrier {barrier} is not below {BARRIERS}")),
        };
        match arrival {
            Ok(false) => true,
            Ok(true) => {
                let barrier = &mut barriers[barrier as usize];
                let came = barrier.calls().iter().map(|(thread, _)| *thread);
                self.checked(|checker| checker.clock.meet(&came.clone().collect::<Vec<_>>()));
                let wait = self.release(came);
                barrier.clear();
                wait
            }
            Err(detail) => {
                drop(barriers);
                raise(FaultKind::Divergence, location, detail)
            }
        }
    }

    /// Arrives at a warp operation; whether the thread must wait.
    #[inline(never)]
    fn arrive_warp(&self, call: Call, brought: &[u32]) -> bool {
        if self.abandoned.get() {
            return false;
        }
        let thread = self.thread.get();
        let mut warp = self.warps[(thread / WARP) as usize].borrow_mut();
        match warp.arrive(thread % WARP, call, brought) {
            Ok(None) => true,
            Ok(Some(members)) => {
                let first = thread / WARP * WARP;
                let members = (0..WARP)
                    .filter(|lane| members >> lane & 1 == 1)
                    .map(|lane| first + lane);
                if call.operation.orders_memory() {
                    self.checked(|checker| {
                        checker.clock.meet(&members.clone().collect::<Vec<_>>());
                    });
                }
                self.release(members)
            }
            Err(detail) => {
                drop(warp);
                raise(FaultKind::Divergence, call.location, detail)
            }
        }
    }

    /// Lets `threads` go on, the running thread among them; whether it must wait for its turn.
    fn release(&self, threads: impl DoubleEndedIterator<Item = u32>) -> bool {
        let mut schedule = self.schedule.borrow_mut();
        // Whoever comes last just goes on, unless the schedule is to be varied.
        let last = if schedule.is_varied() {
            None
        } else {
            Some(self.thread.get())
        };
        schedule.ready(threads.rev().filter(|thread| Some(*thread) != last));
        last.is_none()
    }

    /// The fault of a block where nobody can go on: the first thread that waits, and who waits where.
    pub(crate) fn deadlock(&self) -> Option<(u32, Raised)> {
        let mut waiting: Vec<(u32, String, &'static Location<'static>)> = Vec::new();
        for (number, barrier) in self.barriers.borrow().iter().enumerate() {
            let expected = barrier.expected();
            let name = if number == 0 && expected == self.threads {
                "sync_threads".to_owned()
            } else {
                format!("barrier {number} of {expected} threads")
            };
            let came = barrier.calls().iter();
            waiting.extend(came.map(|(thread, location)| (*thread, name.clone(), *location)));
        }
        for (number, warp) in self.warps.iter().enumerate() {
            for (lane, call) in warp.borrow().waiting() {
                let name = format!("{} of lanes {:#010x}", call.operation.name(), call.mask);
                waiting.push((number as u32 * WARP + lane, name, call.location));
            }
        }
        let mbarriers = self.mbarriers.borrow();
        waiting.extend(
            mbarriers
                .waiting()
                .map(|(thread, location)| (thread, "an mbarrier".to_owned(), location)),
        );
        waiting.sort_by_key(|(thread, ..)| *thread);
        let (thread, _, location) = *waiting.first()?;
        let mut places: Vec<(&str, &Location<'_>, Vec<u32>)> = Vec::new();
        for (thread, name, location) in &waiting {
            match places
                .iter_mut()
                .find(|(n, l, _)| n == name && l == location)
            {
                Some((_, _, threads)) => threads.push(*thread),
                None => places.push((name, location, vec![*thread])),
            }
        }
        let mut detail = String::new();
        for (name, location, threads) in &places {
            let (file, line) = (location.file(), location.line());
            let _ = write!(
                detail,
                "threads {} wait at {name} ({file}:{line}); ",
                ranges(threads)
            );
        }
        let ended: Vec<u32> = (0..self.threads)
            .filter(|i| waiting.iter().all(|(thread, ..)| thread != i))
            .collect();
        if ended.is_empty() {
            detail += "nobody else can come";
        } else {
            let _ = write!(detail, "threads {} have ended", ranges(&ended));
        }
        Some((
            thread,
            Raised {
                kind: FaultKind::Divergence,
                location,
                detail,
            },
        ))
    }
}

/// Counts a look of the running thread at a word that is `value`; whether it waits for what will not come.
/// The count goes on over collectives: a whole block may spin through them.
#[inline(always)]
#[track_caller]
pub(crate) fn is_spinning(address: usize, value: u64) -> bool {
    with_current(|block| {
        let polls = &block.polls[block.thread.get() as usize];
        let mut now = polls.get();
        if (now.address, now.value) != (address, value) {
            now = Polls {
                address,
                value,
                count: 0,
            };
        }
        now.count = now.count.saturating_add(1);
        polls.set(now);
        // Once: what a fault's unwinding looks at must not raise another.
        now.count == MAX_POLLS
    })
}

/// The running thread changed memory: it does not spin.
#[inline(always)]
#[track_caller]
pub(crate) fn made_progress() {
    with_current(|block| block.polls[block.thread.get() as usize].set(Polls::default()));
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
#[inline(always)]
#[track_caller]
pub(crate) fn barrier(barrier: u32, threads: Option<u32>) {
    let location = Location::caller();
    with_current(|block| {
        if block.join(barrier, threads, location) || block.arrive(barrier, threads, location) {
            block.suspend();
        }
    });
}

/// Brings registers to a warp operation and gives those it made of them.
#[inline(always)]
#[track_caller]
fn warp<const BROUGHT: usize, const TAKEN: usize>(
    operation: Operation,
    mask: u32,
    brought: [u32; BROUGHT],
) -> [u32; TAKEN] {
    let call = Call {
        operation,
        mask,
        location: Location::caller(),
    };
    with_current(|block| {
        if block.join_warp(&call, &brought) || block.arrive_warp(call, &brought) {
            block.suspend();
        }
        let thread = block.thread.get();
        block.warps[(thread / WARP) as usize]
            .borrow()
            .taken(thread % WARP)
    })
}

/// Host body of `sync_warp`.
#[inline(always)]
#[track_caller]
pub(crate) fn sync_warp(mask: u32) {
    let [] = warp(Operation::Sync, mask, []);
}

/// Host body of the shuffles.
#[inline(always)]
#[track_caller]
pub(crate) fn shuffle(mode: Shuffle, mask: u32, bits: u64, argument: u32) -> u64 {
    let [low, high] = warp(
        Operation::Shuffle(mode),
        mask,
        [bits as u32, (bits >> 32) as u32, argument],
    );
    u64::from(low) | u64::from(high) << 32
}

/// A warp operation on one word.
#[inline(always)]
#[track_caller]
fn one(operation: Operation, mask: u32, value: u32) -> u32 {
    let [result] = warp(operation, mask, [value]);
    result
}

/// Host body of `ballot`.
#[inline(always)]
#[track_caller]
pub(crate) fn ballot(mask: u32, predicate: bool) -> u32 {
    one(Operation::Ballot, mask, u32::from(predicate))
}

/// Host body of `any`.
#[inline(always)]
#[track_caller]
pub(crate) fn any(mask: u32, predicate: bool) -> bool {
    one(Operation::Any, mask, u32::from(predicate)) != 0
}

/// Host body of `all`.
#[inline(always)]
#[track_caller]
pub(crate) fn all(mask: u32, predicate: bool) -> bool {
    one(Operation::All, mask, u32::from(predicate)) != 0
}

/// Host body of the reductions.
#[inline(always)]
#[track_caller]
pub(crate) fn reduce(mode: Reduction, mask: u32, value: u32) -> u32 {
    one(Operation::Reduce(mode), mask, value)
}

/// Host body of `mma`.
#[inline(always)]
#[track_caller]
pub(crate) fn mma(signs: Signs, acc: &mut [i32; 4], a: [u32; 4], b: [u32; 2]) {
    let [c0, c1, c2, c3] = acc.map(|sum| sum as u32);
    let registers = [c0, c1, c2, c3, a[0], a[1], a[2], a[3], b[0], b[1]];
    let sums: [u32; 4] = warp(Operation::Mma(signs), FULL_MASK, registers);
    *acc = sums.map(|sum| sum as i32);
}

/// The meeting of a warp before a `wgmma`.
#[inline(always)]
#[track_caller]
pub(crate) fn meet_for_product() {
    let [] = warp(Operation::Wgmma, FULL_MASK, []);
}

/// The meeting of a warp before a `wgmma` of registers: those of the lane's quad.
#[inline(always)]
#[track_caller]
pub(crate) fn gather_for_product(a: [u32; 4]) -> [u32; 16] {
    warp(Operation::WgmmaRegisters, FULL_MASK, a)
}

/// The meeting of a warp at `wgmma::wait_group`.
#[inline(always)]
#[track_caller]
pub(crate) fn meet_for_wait() {
    let [] = warp(Operation::WgmmaWait, FULL_MASK, []);
}

/// Host body of `ldmatrix`.
#[inline(always)]
#[track_caller]
pub(crate) fn ldmatrix<const COUNT: usize>(
    address: usize,
    region: *const Region,
    transposed: bool,
) -> [u32; COUNT] {
    let lane = with_current(Block::thread) % WARP;
    let row = if lane < 8 * COUNT as u32 {
        super::access::read::<crate::U32x4>(address, region).0
    } else {
        [0; 4]
    };
    warp(
        Operation::Ldmatrix {
            count: COUNT as u8,
            transposed,
        },
        FULL_MASK,
        row,
    )
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

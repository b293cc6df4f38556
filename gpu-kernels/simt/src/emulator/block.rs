//! The state of the block being run, and the host bodies of the words that need it.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;

use corosensei::Yielder;

use super::fault::{FaultKind, raise};
use super::memory::Region;
use crate::launch::Launch;
use crate::thread::WARP;

/// Named barriers of a block.
const BARRIERS: usize = 16;
/// Most shared memory a block can have (sm_90).
const SHARED_LIMIT: usize = 227 * 1024;

thread_local! {
    /// The block that this OS thread runs; null outside kernels.
    static CURRENT: Cell<*const Block> = const { Cell::new(ptr::null()) };
}

/// The block being run.
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

/// Makes `block` the current one until the guard is dropped.
pub(crate) fn enter(block: &Block) -> Entered {
    Entered(CURRENT.replace(block))
}

/// Restores the block that was current before.
pub(crate) struct Entered(*const Block);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Registers a lane brings to, and takes from, a warp operation: the fragments of an `mma`.
type Registers = [u32; 10];

/// What a warp operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Sync,
    Shuffle(Shuffle),
    Ballot,
    Any,
    All,
    Reduce(Reduction),
    Ldmatrix { count: u8, transposed: bool },
    Mma(Signs),
}

/// Where a shuffle reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shuffle {
    Index,
    Up,
    Down,
    Xor,
}

/// How a reduction joins two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduction {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// Signedness of the operands of an `mma`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signs {
    SS,
    SU,
    US,
    UU,
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

/// A barrier of the block.
#[derive(Default)]
struct Barrier {
    waiting: Vec<u32>,
}

/// One block on its way through the emulator.
pub(crate) struct Block {
    grid: [u32; 3],
    threads: u32,
    index: Cell<[u32; 3]>,
    /// The thread that runs.
    thread: Cell<u32>,
    /// Its coroutine's way out.
    yielder: Cell<*const Yielder<(), ()>>,
    /// Set while coroutines are unwound after a fault: collectives return at once.
    abandoned: Cell<bool>,
    /// Threads that may go on, the next one last.
    ready: RefCell<Vec<u32>>,
    waiting: RefCell<Vec<Option<Waiting>>>,
    registers: RefCell<Vec<Registers>>,
    barriers: RefCell<[Barrier; BARRIERS]>,
    shared: RefCell<Shared>,
}

/// The shared memory of a block.
struct Shared {
    /// The arena, in units of its alignment.
    arena: Vec<Line>,
    dynamic: Box<Region>,
    /// Static arrays, in the order threads meet them.
    statics: Vec<(Box<Region>, &'static Location<'static>)>,
    /// Arrays each thread has met.
    met: Vec<usize>,
    used: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Line([u8; 128]);

impl Block {
    pub(crate) fn new(launch: &Launch<'_>) -> Self {
        let threads = launch.variant.block;
        let dynamic = launch.variant.shared_bytes as usize;
        let arena = vec![Line([0; 128]); SHARED_LIMIT.max(dynamic).div_ceil(128)];
        let base = arena.as_ptr() as usize;
        Self {
            grid: [launch.grid.x, launch.grid.y, launch.grid.z],
            threads,
            index: Cell::new([0; 3]),
            thread: Cell::new(0),
            yielder: Cell::new(ptr::null()),
            abandoned: Cell::new(false),
            ready: RefCell::default(),
            waiting: RefCell::new(vec![None; threads as usize]),
            registers: RefCell::new(vec![[0; 10]; threads.next_multiple_of(WARP) as usize]),
            barriers: RefCell::default(),
            shared: RefCell::new(Shared {
                arena,
                dynamic: Box::new(Region::new(base, dynamic)),
                statics: Vec::new(),
                met: vec![0; threads as usize],
                used: dynamic.next_multiple_of(128),
            }),
        }
    }

    /// Makes this the block with linear index `index`, none of its threads started.
    pub(crate) fn reset(&self, index: u64) {
        let [x, y, _] = self.grid.map(u64::from);
        self.index.set([
            (index % x) as u32,
            (index / x % y) as u32,
            (index / (x * y)) as u32,
        ]);
        self.abandoned.set(false);
        self.ready.borrow_mut().clear();
        self.waiting.borrow_mut().fill(None);
        self.barriers
            .borrow_mut()
            .iter_mut()
            .for_each(|barrier| barrier.waiting.clear());
        let mut shared = self.shared.borrow_mut();
        shared.met.fill(0);
    }

    #[inline(always)]
    pub(crate) fn thread(&self) -> u32 {
        self.thread.get()
    }

    #[inline(always)]
    pub(crate) fn threads(&self) -> u32 {
        self.threads
    }

    #[inline(always)]
    pub(crate) fn index(&self) -> [u32; 3] {
        self.index.get()
    }

    #[inline(always)]
    pub(crate) fn grid(&self) -> [u32; 3] {
        self.grid
    }

    /// Says which thread runs, on which coroutine.
    pub(crate) fn start(&self, thread: u32, yielder: &Yielder<(), ()>) {
        self.thread.set(thread);
        self.yielder.set(yielder);
    }

    /// The next thread that may go on.
    pub(crate) fn next_ready(&self) -> Option<u32> {
        self.ready.borrow_mut().pop()
    }

    /// From now on collectives return at once, so that unwinding coroutines reach their ends.
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

    /// Arrives at a barrier and waits for the rest.
    fn barrier(&self, barrier: u32, threads: Option<u32>, location: &'static Location<'static>) {
        if self.abandoned.get() {
            return;
        }
        let expected = threads.unwrap_or(self.threads);
        if barrier as usize >= BARRIERS {
            raise(
                FaultKind::Divergence,
                location,
                format!("barrier {barrier} is not below {BARRIERS}"),
            );
        }
        if threads.is_some_and(|threads| threads == 0 || threads % WARP != 0)
            || expected > self.threads
        {
            let detail = format!(
                "{expected} threads at barrier {barrier}: not a multiple of {WARP} up to {}",
                self.threads
            );
            raise(FaultKind::Divergence, location, detail);
        }
        let thread = self.thread.get();
        {
            let mut barriers = self.barriers.borrow_mut();
            let waiting = &mut barriers[barrier as usize].waiting;
            if waiting.len() as u32 + 1 == expected {
                let mut all = self.waiting.borrow_mut();
                waiting
                    .iter()
                    .for_each(|thread| all[*thread as usize] = None);
                self.ready.borrow_mut().extend(waiting.drain(..).rev());
                return;
            }
            waiting.push(thread);
            let at = At::Barrier {
                barrier,
                threads: expected,
            };
            self.waiting.borrow_mut()[thread as usize] = Some(Waiting { at, location });
        }
        self.suspend();
    }

    /// Lanes of the running thread's warp that exist.
    fn lanes(&self) -> u32 {
        let first = self.thread.get() / WARP * WARP;
        let count = (self.threads - first).min(WARP);
        (u64::MAX >> (64 - count)) as u32
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
        let (first, lane) = (thread / WARP * WARP, thread % WARP);
        if mask >> lane & 1 == 0 {
            raise(
                FaultKind::Divergence,
                location,
                format!("lane {lane} is not in the mask {mask:#010x} it gave"),
            );
        }
        let present = mask & self.lanes();
        let at = At::Warp { operation, mask };
        self.registers.borrow_mut()[thread as usize] = registers;
        {
            let mut waiting = self.waiting.borrow_mut();
            waiting[thread as usize] = Some(Waiting { at, location });
            let arrived = lanes(present).all(|lane| {
                waiting[(first + lane) as usize].is_some_and(|waiting| waiting.at == at)
            });
            if arrived {
                let mut ready = self.ready.borrow_mut();
                for lane in lanes(present).rev() {
                    waiting[(first + lane) as usize] = None;
                    if first + lane != thread {
                        ready.push(first + lane);
                    }
                }
            }
            drop(waiting);
            if arrived {
                let mut all = self.registers.borrow_mut();
                let warp = &mut all[first as usize..][..WARP as usize];
                if let Err(detail) = perform(operation, mask, self.lanes(), warp) {
                    drop(all);
                    raise(FaultKind::Divergence, location, detail);
                }
            } else {
                self.suspend();
            }
        }
        self.registers.borrow()[thread as usize]
    }

    /// The fault of a block where nobody can go on: the first thread that waits, and who waits where.
    pub(crate) fn deadlock(&self) -> Option<(u32, &'static Location<'static>, String)> {
        let waiting = self.waiting.borrow();
        let (thread, first) = waiting
            .iter()
            .enumerate()
            .find_map(|(i, waiting)| waiting.map(|w| (i as u32, w)))?;
        let mut places: Vec<(Waiting, u32)> = Vec::new();
        for waiting in waiting.iter().flatten() {
            match places
                .iter_mut()
                .find(|(place, _)| place.at == waiting.at && place.location == waiting.location)
            {
                Some((_, count)) => *count += 1,
                None => places.push((*waiting, 1)),
            }
        }
        let ended = waiting.iter().filter(|waiting| waiting.is_none()).count();
        let mut detail = String::new();
        for (place, count) in &places {
            let name = match place.at {
                At::Barrier { barrier, threads } => format!("barrier {barrier} of {threads}"),
                At::Warp { operation, mask } => format!("{operation:?} of {mask:#010x}"),
            };
            let Location { .. } = place.location;
            detail += &format!(
                "{count} threads wait at {name} ({}:{}), ",
                place.location.file(),
                place.location.line()
            );
        }
        detail += &format!("{ended} ended");
        Some((thread, first.location, detail))
    }

    /// The dynamic arena.
    fn dynamic(&self) -> *const Region {
        &raw const *self.shared.borrow().dynamic
    }

    /// The next static array of the running thread.
    fn next_static(&self, bytes: usize, location: &'static Location<'static>) -> *const Region {
        let mut shared = self.shared.borrow_mut();
        let thread = self.thread.get() as usize;
        let met = shared.met[thread];
        shared.met[thread] += 1;
        if let Some((region, first)) = shared.statics.get(met) {
            if region.bytes() != bytes || *first != location {
                let detail =
                    format!("shared array {met} of this thread is another one's at {first}");
                raise(FaultKind::Divergence, location, detail);
            }
            return &raw const **region;
        }
        let (start, limit) = (shared.used, shared.arena.len() * 128);
        let end = start.saturating_add(bytes);
        if end > limit {
            raise(
                FaultKind::OutOfBounds,
                location,
                format!("{end} bytes of shared memory in a block that has {limit}"),
            );
        }
        shared.used = end.next_multiple_of(16);
        let region = Box::new(Region::new(shared.arena.as_ptr() as usize + start, bytes));
        let pointer = &raw const *region;
        shared.statics.push((region, location));
        pointer
    }

    /// Offset of a host address in the arena.
    pub(crate) fn shared_offset(&self, address: usize) -> u32 {
        address.wrapping_sub(self.shared.borrow().arena.as_ptr() as usize) as u32
    }
}

/// The lanes of a mask, ascending.
fn lanes(mask: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..WARP).filter(move |lane| mask >> lane & 1 == 1)
}

/// What a warp operation makes of the registers its lanes brought.
fn perform(
    operation: Operation,
    mask: u32,
    present: u32,
    warp: &mut [Registers],
) -> Result<(), String> {
    let members = mask & present;
    match operation {
        Operation::Sync => {}
        Operation::Shuffle(mode) => {
            let mut results = [[0; 2]; WARP as usize];
            for lane in lanes(members) {
                let argument = warp[lane as usize][2];
                let source = match mode {
                    Shuffle::Index => argument % WARP,
                    Shuffle::Up => lane.checked_sub(argument % WARP).unwrap_or(lane),
                    Shuffle::Down => Some(lane + argument % WARP)
                        .filter(|lane| *lane < WARP)
                        .unwrap_or(lane),
                    Shuffle::Xor => lane ^ (argument % WARP),
                };
                if members >> source & 1 == 0 {
                    return Err(format!(
                        "lane {lane} reads lane {source}, which takes no part"
                    ));
                }
                results[lane as usize] = [warp[source as usize][0], warp[source as usize][1]];
            }
            for lane in lanes(members) {
                warp[lane as usize][..2].copy_from_slice(&results[lane as usize]);
            }
        }
        Operation::Ballot | Operation::Any | Operation::All => {
            let votes =
                lanes(members).fold(0, |votes, lane| votes | warp[lane as usize][0] << lane);
            let result = match operation {
                Operation::Ballot => votes,
                Operation::Any => u32::from(votes != 0),
                _ => u32::from(votes == members),
            };
            lanes(members).for_each(|lane| warp[lane as usize][0] = result);
        }
        Operation::Reduce(mode) => {
            let values = lanes(members).map(|lane| warp[lane as usize][0]);
            let result = match mode {
                Reduction::Add => values.fold(0, u32::wrapping_add),
                Reduction::Min => values.fold(u32::MAX, u32::min),
                Reduction::Max => values.fold(0, u32::max),
                Reduction::And => values.fold(u32::MAX, |a, b| a & b),
                Reduction::Or => values.fold(0, |a, b| a | b),
                Reduction::Xor => values.fold(0, |a, b| a ^ b),
            };
            lanes(members).for_each(|lane| warp[lane as usize][0] = result);
        }
        Operation::Ldmatrix { count, transposed } => {
            // Each lane brought its row, four words.
            let mut results = [[0; 4]; WARP as usize];
            for (lane, result) in results.iter_mut().enumerate() {
                for (matrix, word) in result[..count as usize].iter_mut().enumerate() {
                    let half = |row: usize, column: usize| {
                        warp[8 * matrix + row][column / 2] >> (16 * (column % 2)) & 0xffff
                    };
                    let (row, pair) = (lane / 4, 2 * (lane % 4));
                    *word = if transposed {
                        half(pair, row) | half(pair + 1, row) << 16
                    } else {
                        half(row, pair) | half(row, pair + 1) << 16
                    };
                }
            }
            for (registers, result) in warp.iter_mut().zip(results) {
                registers[..4].copy_from_slice(&result);
            }
        }
        Operation::Mma(signs) => multiply(signs, warp),
    }
    Ok(())
}

/// The product of an `mma.m16n8k32`.
fn multiply(signs: Signs, warp: &mut [Registers]) {
    let (a_signed, b_signed) = (
        matches!(signs, Signs::SS | Signs::SU),
        matches!(signs, Signs::SS | Signs::US),
    );
    // Sign extension as a subtraction: a byte of 128 or more stands for itself minus 256.
    let widen = |byte: u8, signed: bool| {
        if signed {
            i16::from(byte as i8)
        } else {
            i16::from(byte)
        }
    };
    let mut a = [[0i16; 32]; 16];
    let mut b = [[0i16; 32]; 8];
    for (lane, registers) in warp.iter().enumerate() {
        let (group, quad) = (lane / 4, lane % 4);
        for register in 0..4 {
            let to = &mut a[group + 8 * (register % 2)][4 * quad + 16 * (register / 2)..][..4];
            for (to, byte) in to.iter_mut().zip(registers[register].to_le_bytes()) {
                *to = widen(byte, a_signed);
            }
        }
        for register in 0..2 {
            let to = &mut b[group][4 * quad + 16 * register..][..4];
            for (to, byte) in to.iter_mut().zip(registers[4 + register].to_le_bytes()) {
                *to = widen(byte, b_signed);
            }
        }
    }
    for (lane, registers) in warp.iter_mut().enumerate() {
        for register in 0..4 {
            let (row, column) = (lane / 4 + 8 * (register / 2), 2 * (lane % 4) + register % 2);
            let dot: i32 = a[row]
                .iter()
                .zip(&b[column])
                .map(|(x, y)| i32::from(*x) * i32::from(*y))
                .sum();
            registers[register] = registers[6 + register].wrapping_add(dot as u32);
        }
    }
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
    let location = Location::caller();
    with_current(|block| block.warp(Operation::Sync, mask, [0; 10], location));
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
        with_current(|block| block.warp(Operation::Mma(signs), u32::MAX, registers, location));
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
    let result = with_current(|block| block.warp(operation, u32::MAX, registers, location));
    std::array::from_fn(|i| result[i])
}

/// Host body of `Shared::dynamic`.
#[track_caller]
pub(crate) fn dynamic_shared() -> *const Region {
    with_current(Block::dynamic)
}

/// Host body of `shared_array!`.
#[track_caller]
pub(crate) fn static_shared(bytes: usize) -> *const Region {
    let location = Location::caller();
    with_current(|block| block.next_static(bytes, location))
}

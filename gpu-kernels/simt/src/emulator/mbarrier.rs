//! Host bodies of [`crate::mbarrier`] and of the copies that arrive at one ([`crate::bulk`]).
//!
//! In fast mode a copy arrives at once. In checked mode its bytes count as on their way until a thread waits at
//! its barrier; the barrier's word is an atomic to the clocks, which an arrival releases and a wait acquires.

use std::collections::HashMap;
use std::panic::Location;

use super::access::{self, Place};
use super::block::{self, Block};
use super::check;
use super::fault::{FaultKind, raise};
use super::memory::Region;
use crate::atomic::Operation;
use crate::bulk::{TILE_WIDTH, TensorMap, tile_offset};
use crate::{Order, Scope, Shared};

/// Most arrivals of a phase.
const MAX_ARRIVALS: u32 = (1 << 20) - 1;

/// The barriers of a block, by host address.
#[derive(Default)]
pub(crate) struct Mbarriers(HashMap<usize, State>);

/// One barrier.
struct State {
    /// Arrivals of a phase.
    arrivals: u32,
    /// Arrivals that the current phase still wants.
    pending: u32,
    /// Bytes announced less bytes arrived.
    bytes: i64,
    /// Parity of the current phase.
    parity: u32,
    /// Threads that wait for its end.
    waiting: Vec<(u32, &'static Location<'static>)>,
    /// Copies on their way, in checked mode.
    arriving: Vec<Arriving>,
}

/// Bytes on their way.
struct Arriving {
    address: usize,
    size: usize,
    region: *const Region,
}

impl State {
    /// Ends the phase if nothing is left to come; the threads that may go on.
    fn advance(&mut self) -> Vec<u32> {
        if self.pending > 0 || self.bytes != 0 {
            return Vec::new();
        }
        self.pending = self.arrivals;
        self.parity ^= 1;
        self.waiting.drain(..).map(|(thread, _)| thread).collect()
    }

    /// Lets the copies on their way arrive.
    fn land(&mut self) -> Vec<u32> {
        for copy in self.arriving.drain(..) {
            check::land(copy.region, copy.address, copy.size);
            self.bytes -= copy.size as i64;
        }
        self.advance()
    }
}

impl Mbarriers {
    /// A new block begins.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Threads that wait, and where.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u32, &'static Location<'static>)> {
        self.0
            .values()
            .flat_map(|state| state.waiting.iter().copied())
    }
}

/// Runs `f` on the barrier in `word`; threads that `f` gives may go on.
fn with_state<R>(
    block: &Block,
    word: Shared<u64>,
    location: &'static Location<'static>,
    f: impl FnOnce(&mut State) -> (R, Vec<u32>),
) -> R {
    let mut barriers = block.mbarriers();
    let Some(state) = barriers.0.get_mut(&word.place(0).0) else {
        drop(barriers);
        let detail = "an mbarrier that nobody initialised".to_owned();
        raise(FaultKind::Uninitialised, location, detail);
    };
    let (result, released) = f(state);
    drop(barriers);
    block.schedule().ready(released.into_iter().rev());
    result
}

/// The access to the barrier's word that orders memory.
#[track_caller]
fn touch(word: Shared<u64>, order: Order) {
    let (address, region) = word.place(0);
    access::synchronise(address, region, Operation::Or(0u64), order, Scope::Block);
}

#[track_caller]
pub(crate) fn init(word: Shared<u64>, arrivals: u32) {
    let location = Location::caller();
    word.write(0, 0);
    if arrivals == 0 || arrivals > MAX_ARRIVALS {
        let detail = format!("an mbarrier of {arrivals} arrivals: 1 to {MAX_ARRIVALS}");
        raise(FaultKind::Divergence, location, detail);
    }
    let state = State {
        arrivals,
        pending: arrivals,
        bytes: 0,
        parity: 0,
        waiting: Vec::new(),
        arriving: Vec::new(),
    };
    block::with_current(|block| block.mbarriers().0.insert(word.place(0).0, state));
}

#[track_caller]
pub(crate) fn arrive(word: Shared<u64>, bytes: u32) {
    let location = Location::caller();
    touch(word, Order::Release);
    block::with_current(|block| {
        if block.is_abandoned() {
            return;
        }
        let came = with_state(block, word, location, |state| {
            if state.pending == 0 {
                return (false, Vec::new());
            }
            state.pending -= 1;
            state.bytes += i64::from(bytes);
            (true, state.advance())
        });
        if !came {
            let detail = "an arrival more than the phase of the mbarrier wants".to_owned();
            raise(FaultKind::Divergence, location, detail);
        }
    });
}

#[track_caller]
pub(crate) fn wait(word: Shared<u64>, parity: u32) {
    let location = Location::caller();
    let must_wait = block::with_current(|block| {
        !block.is_abandoned()
            && with_state(block, word, location, |state| {
                let released = state.land();
                let must_wait = state.parity == parity & 1;
                if must_wait {
                    state.waiting.push((block.thread(), location));
                }
                (must_wait, released)
            })
    });
    if must_wait {
        block::with_current(Block::suspend);
    }
    touch(word, Order::Acquire);
}

/// Counts a copy of `size` bytes to `address`: arrived, or in checked mode on its way.
#[track_caller]
fn count(word: Shared<u64>, (address, region): Place, size: usize) {
    let location = Location::caller();
    // Its start is in the past of whoever waits for its end.
    touch(word, Order::Release);
    // SAFETY: regions live as long as the launch or block.
    let checked = unsafe { (*region).is_checked() };
    block::with_current(|block| {
        with_state(block, word, location, |state| {
            if checked && state.waiting.is_empty() {
                state.arriving.push(Arriving {
                    address,
                    size,
                    region,
                });
                check::depart(region, address, size);
                return ((), Vec::new());
            }
            state.bytes -= size as i64;
            ((), state.advance())
        });
    });
}

#[track_caller]
pub(crate) fn copy(dst: Place, src: Place, bytes: u32, word: Shared<u64>) {
    access::copy_bulk(dst, src, bytes as usize);
    count(word, dst, bytes as usize);
}

#[track_caller]
pub(crate) fn copy_tile(
    (dst, dst_region): Place,
    map: &TensorMap,
    (src, src_region): Place,
    (byte, row): (u32, u32),
    word: Shared<u64>,
) {
    let location = Location::caller();
    let (address, tensor) = map.read();
    if address != src as u64 {
        let detail = "the tensor map was made for another buffer".to_owned();
        raise(FaultKind::OutOfBounds, location, detail);
    }
    if !byte.is_multiple_of(16) || !dst.is_multiple_of(8 * TILE_WIDTH) {
        let detail = format!(
            "a tile from byte {byte} of a row: at a multiple of 16, and to one of 1024 in shared memory"
        );
        raise(FaultKind::Misaligned, location, detail);
    }
    for tile_row in 0..tensor.tile_rows as usize {
        let row = u64::from(row) + tile_row as u64;
        let inside = if row < tensor.rows {
            tensor
                .width
                .saturating_sub(u64::from(byte))
                .min(TILE_WIDTH as u64) as usize
        } else {
            0
        };
        let mut bytes = [0; TILE_WIDTH];
        let from = src + (row * tensor.stride) as usize + byte as usize;
        access::read_bytes((from, src_region), &mut bytes[..inside]);
        let mut swizzled = [0; TILE_WIDTH];
        for piece in (0..TILE_WIDTH).step_by(16) {
            let at = tile_offset(tile_row, piece) - tile_row * TILE_WIDTH;
            swizzled[at..at + 16].copy_from_slice(&bytes[piece..piece + 16]);
        }
        access::write_bytes((dst + tile_row * TILE_WIDTH, dst_region), &swizzled);
    }
    count(
        word,
        (dst, dst_region),
        tensor.tile_rows as usize * TILE_WIDTH,
    );
}

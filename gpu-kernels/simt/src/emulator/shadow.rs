//! What the emulator remembers about memory in checked mode.
//!
//! One bit per byte says whether it was ever written, one whether an asynchronous copy is on its way to
//! it. For races, each 4-byte word has a cell with the last accesses: who, when, from which line. Words
//! that are accessed in parts are split into four cells, so that threads that write different bytes of a
//! word are no race. Cells are made in pages, on first touch.

use std::panic::Location;

use super::clock::{Clock, Time};
use crate::Scope;

/// Words of a page.
const PAGE: usize = 256;

/// An access, as a cell remembers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) location: &'static Location<'static>,
    /// Linear index of the block.
    pub(crate) block: u32,
    /// Serial number of the launch; earlier launches ended before this one began.
    pub(crate) launch: u32,
    pub(crate) time: Time,
    pub(crate) thread: u16,
    /// How far the access is atomic; `None` for a plain one.
    pub(crate) atomic: Option<Scope>,
}

impl Stamp {
    fn same_thread(&self, other: &Self) -> bool {
        (self.launch, self.block, self.thread) == (other.launch, other.block, other.thread)
    }

    /// Whether both are atomic for each other.
    fn both_atomic(&self, other: &Self) -> bool {
        match (self.atomic, other.atomic) {
            (Some(Scope::Block), Some(_)) | (Some(_), Some(Scope::Block)) => {
                self.block == other.block
            }
            (Some(_), Some(_)) => true,
            _ => false,
        }
    }
}

/// The last accesses to a word or byte.
///
/// Two reads by different threads are enough: of any writer, at least one is another thread. A reader in
/// the past of a new one is replaced by it, since whoever knows the new one knows the old one too. Two
/// writes are kept for atomics, which do not race with each other but do with a plain access.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    writes: [Option<Stamp>; 2],
    reads: [Option<Stamp>; 2],
}

#[derive(Clone, Debug)]
enum Word {
    Whole(Cell),
    Bytes(Box<[Cell; 4]>),
}

/// The other side of a race.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict {
    pub(crate) stamp: Stamp,
    pub(crate) wrote: bool,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    /// A read through the read-only path, which does not see what the launch has written.
    ReadOnly,
    Write,
}

impl Cell {
    /// Notes an access; gives one that conflicts with it and that nothing orders before it.
    fn access(
        &mut self,
        kind: Kind,
        me: Stamp,
        past: &impl Fn(&Stamp) -> bool,
    ) -> Option<Conflict> {
        let concurrent = |stamp: &&Stamp| !stamp.both_atomic(&me) && !past(stamp);
        let in_launch = |stamp: &&Stamp| stamp.launch == me.launch;
        let mut writes = self.writes.iter().flatten();
        let write = match kind {
            Kind::Read | Kind::Write => writes.find(concurrent),
            Kind::ReadOnly => writes.find(in_launch),
        };
        let read = match kind {
            Kind::Read | Kind::ReadOnly => None,
            Kind::Write => self.reads.iter().flatten().find(concurrent),
        };
        let conflict = write
            .map(|stamp| (*stamp, true))
            .or(read.map(|stamp| (*stamp, false)))
            .map(|(stamp, wrote)| Conflict { stamp, wrote });
        match kind {
            Kind::Read | Kind::ReadOnly => note(&mut self.reads, me, past),
            Kind::Write => {
                note(&mut self.writes, me, past);
                self.reads = [None; 2];
            }
        }
        conflict
    }
}

/// Puts `me` in place of what it makes superfluous, or else of the older stamp.
fn note(stamps: &mut [Option<Stamp>; 2], me: Stamp, past: &impl Fn(&Stamp) -> bool) {
    for stamp in &mut *stamps {
        if stamp.is_some_and(|stamp| stamp.same_thread(&me) || past(&stamp)) {
            *stamp = None;
        }
    }
    *stamps = match *stamps {
        [None, other] | [other, None] => [other, Some(me)],
        [Some(_), newer] => [newer, Some(me)],
    };
}

/// The shadow of one allocation, or of a block's shared memory.
#[derive(Debug)]
pub(crate) struct Shadow {
    base: usize,
    shared: bool,
    written: Bits,
    arriving: Bits,
    pages: Vec<Option<Box<[Word]>>>,
}

impl Shadow {
    /// The shadow of `bytes` bytes at `base`, all of them written or none.
    pub(crate) fn new(base: usize, bytes: usize, shared: bool, written: bool) -> Self {
        let mut shadow = Self {
            base,
            shared,
            written: Bits::new(bytes),
            arriving: Bits::new(if shared { bytes } else { 0 }),
            pages: vec![None; bytes.div_ceil(4 * PAGE)],
        };
        shadow.written.fill(written);
        shadow
    }

    /// Forgets everything: a new block begins.
    pub(crate) fn clear(&mut self) {
        // Cells stay: their stamps name the block.
        self.written.fill(false);
        self.arriving.fill(false);
    }

    /// Whether this is shared memory.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Counts `size` bytes at `address` as written.
    pub(crate) fn mark_written(&mut self, address: usize, size: usize) {
        self.written.set(address - self.base, size, true);
    }

    /// Whether all of `size` bytes at `address` were written.
    pub(crate) fn is_written(&self, address: usize, size: usize) -> bool {
        self.written.all(address - self.base, size)
    }

    /// Says whether a copy is on its way to `size` bytes at `address`.
    pub(crate) fn mark_arriving(&mut self, address: usize, size: usize, arriving: bool) {
        self.arriving.set(address - self.base, size, arriving);
    }

    /// Whether a copy is on its way to any of `size` bytes at `address`.
    pub(crate) fn is_arriving(&self, address: usize, size: usize) -> bool {
        self.shared && self.arriving.any(address - self.base, size)
    }

    /// Notes an access to `size` bytes at `address`; gives a conflicting one that nothing orders with it.
    pub(crate) fn access(
        &mut self,
        kind: Kind,
        address: usize,
        size: usize,
        me: Stamp,
        clock: &Clock,
    ) -> Option<Conflict> {
        let thread = u32::from(me.thread);
        let shared = self.shared;
        let past = |stamp: &Stamp| {
            stamp.launch != me.launch
                || (shared && stamp.block != me.block)
                || clock.knows(thread, stamp.block, u32::from(stamp.thread), stamp.time)
        };
        let (first, end) = (address - self.base, address - self.base + size);
        let mut conflict = None;
        for word in first / 4..end.div_ceil(4) {
            let page = self.pages[word / PAGE]
                .get_or_insert_with(|| vec![Word::Whole(Cell::default()); PAGE].into_boxed_slice());
            let cell = &mut page[word % PAGE];
            let bytes = first.max(4 * word) - 4 * word..end.min(4 * word + 4) - 4 * word;
            let found = match cell {
                Word::Whole(whole) if bytes.len() == 4 => whole.access(kind, me, &past),
                Word::Whole(whole) => {
                    let mut split = Box::new([*whole; 4]);
                    let found = split[bytes]
                        .iter_mut()
                        .filter_map(|byte| byte.access(kind, me, &past))
                        .last();
                    *cell = Word::Bytes(split);
                    found
                }
                Word::Bytes(split) => split[bytes]
                    .iter_mut()
                    .filter_map(|byte| byte.access(kind, me, &past))
                    .last(),
            };
            conflict = conflict.or(found);
        }
        conflict
    }
}

/// A bit per byte of memory.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(bits: usize) -> Self {
        Self(vec![0; bits.div_ceil(64)])
    }

    fn fill(&mut self, value: bool) {
        self.0.fill(if value { u64::MAX } else { 0 });
    }

    /// Applies `f` to each word and the mask of the bits of `start..start + len` in it, until it gives
    /// `false`.
    fn masks(start: usize, len: usize, mut f: impl FnMut(usize, u64) -> bool) {
        let (mut at, end) = (start, start + len);
        while at < end {
            let count = (64 - at % 64).min(end - at);
            if !f(at / 64, u64::MAX >> (64 - count) << (at % 64)) {
                break;
            }
            at += count;
        }
    }

    fn set(&mut self, start: usize, len: usize, value: bool) {
        Self::masks(start, len, |word, mask| {
            if value {
                self.0[word] |= mask;
            } else {
                self.0[word] &= !mask;
            }
            true
        });
    }

    fn all(&self, start: usize, len: usize) -> bool {
        let mut all = true;
        Self::masks(start, len, |word, mask| {
            all = self.0[word] & mask == mask;
            all
        });
        all
    }

    fn any(&self, start: usize, len: usize) -> bool {
        let mut any = false;
        Self::masks(start, len, |word, mask| {
            any = self.0[word] & mask != 0;
            !any
        });
        any
    }
}

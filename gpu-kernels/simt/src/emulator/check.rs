//! Checked mode: every access against the shadow and the clock.

use std::panic::Location;

use super::access;
use super::block;
use super::clock::Clock;
use super::fault::{FaultKind, Raised, raise};
use super::memory::Region;
use super::shadow::{Conflict, Kind, Shadow, Stamp};
use crate::{Order, Scope};

/// The checks of one launch.
pub(crate) struct Checker {
    /// Serial number of the launch.
    launch: u32,
    /// Linear index of the block being run.
    block: u32,
    pub(crate) clock: Clock,
    copies: Vec<Copies>,
    products: Vec<Products>,
    unwritten: Unwritten,
}

/// First reads of memory that nobody had written yet.
///
/// Such a read is not reported at once: if another thread writes the word later with nothing to order the
/// two, the fault is a race (a forgotten barrier, say), and only the schedule made it look like a read of
/// uninitialised memory.
#[derive(Default)]
struct Unwritten {
    shared: Option<Found>,
    global: Option<Found>,
}

/// A fault that has not been reported yet.
pub(crate) struct Found {
    pub(crate) thread: u32,
    /// Linear index of the block.
    pub(crate) block: u32,
    pub(crate) raised: Raised,
}

/// The asynchronous copies of a thread.
#[derive(Clone, Default)]
struct Copies {
    /// Copies since the last commit.
    open: Vec<Transfer>,
    /// Committed groups, oldest first.
    groups: Vec<Vec<Transfer>>,
}

/// What the products of a warp read that have not been waited for.
#[derive(Clone, Default)]
struct Products {
    /// Reads since the last commit.
    open: Vec<TileRead>,
    /// Committed groups, oldest first.
    groups: Vec<Vec<TileRead>>,
}

/// Bytes of a tile that a product reads.
#[derive(Clone, Copy)]
struct TileRead {
    address: usize,
    size: usize,
    /// What they held when the product started.
    words: [u32; 8],
    region: *const Region,
    location: &'static Location<'static>,
}

impl TileRead {
    /// What the bytes hold now.
    fn load(&self) -> [u32; 8] {
        let mut words = [0; 8];
        for (half, words) in words.chunks_mut(4).enumerate() {
            words.copy_from_slice(&access::load_words(self.address + 16 * half, 16));
        }
        words
    }

    fn access(&self) -> Access<'_> {
        Access {
            address: self.address,
            size: self.size,
            // SAFETY: regions live as long as the block.
            region: unsafe { &*self.region },
            location: self.location,
        }
    }
}

/// An asynchronous copy on its way.
#[derive(Clone)]
struct Transfer {
    dst: usize,
    src: usize,
    dst_region: *const Region,
    src_region: *const Region,
    size: usize,
    /// What the source held when the copy was started.
    words: [u32; 4],
    location: &'static Location<'static>,
}

impl Checker {
    pub(crate) fn new(threads: u32, launch: u32) -> Self {
        Self {
            launch,
            block: 0,
            clock: Clock::new(threads),
            copies: vec![Copies::default(); threads as usize],
            products: vec![Products::default(); threads as usize],
            unwritten: Unwritten::default(),
        }
    }

    /// Begins block `block`.
    pub(crate) fn begin(&mut self, block: u32) {
        self.block = block;
        self.clock.begin(block);
        self.copies.fill(Copies::default());
        self.products.fill(Products::default());
        self.unwritten.shared = None;
    }

    /// A read of shared memory that nobody wrote until the end of the block.
    pub(crate) fn unwritten_shared(&mut self) -> Option<Found> {
        self.unwritten.shared.take()
    }

    /// The first read of anything that nobody has written until now.
    pub(crate) fn unwritten(&mut self) -> Option<Found> {
        let Unwritten { global, shared } = std::mem::take(&mut self.unwritten);
        global.or(shared)
    }

    fn stamp(
        &self,
        thread: u32,
        atomic: Option<Scope>,
        location: &'static Location<'static>,
    ) -> Stamp {
        let time = self.clock.time(thread);
        Stamp {
            location,
            block: self.block,
            launch: self.launch,
            time,
            thread: thread as u16,
            atomic,
        }
    }

    fn read(&mut self, thread: u32, kind: Kind, at: &Access<'_>) -> Result<(), Raised> {
        at.arrived(FaultKind::AsyncRead)?;
        self.written(thread, at);
        let stamp = self.stamp(thread, None, at.location);
        at.ordered(kind, stamp, &self.clock)
    }

    fn write(&mut self, thread: u32, at: &Access<'_>) -> Result<(), Raised> {
        at.arrived(at.race())?;
        let stamp = self.stamp(thread, None, at.location);
        at.ordered(Kind::Write, stamp, &self.clock)?;
        at.shadow(|shadow| shadow.mark_written(at.address, at.size));
        Ok(())
    }

    fn atomic(
        &mut self,
        thread: u32,
        at: &Access<'_>,
        order: Order,
        scope: Scope,
    ) -> Result<(), Raised> {
        at.arrived(at.race())?;
        self.written(thread, at);
        self.clock
            .acquire(thread, at.address, at.shared(), order, scope);
        let stamp = self.stamp(thread, Some(scope), at.location);
        at.ordered(Kind::Write, stamp, &self.clock)?;
        at.shadow(|shadow| shadow.mark_written(at.address, at.size));
        self.clock
            .release(thread, at.address, at.shared(), order, scope);
        Ok(())
    }

    /// Keeps the first read of bytes that nobody wrote.
    fn written(&mut self, thread: u32, at: &Access<'_>) {
        if at.shadow(|shadow| shadow.is_written(at.address, at.size)) {
            return;
        }
        let place = if at.shared() {
            &mut self.unwritten.shared
        } else {
            &mut self.unwritten.global
        };
        if place.is_none() {
            let raised = at.raised(FaultKind::Uninitialised, "");
            *place = Some(Found {
                thread,
                block: self.block,
                raised,
            });
        }
    }

    fn start_copy(&mut self, thread: u32, copy: Transfer) -> Result<(), Raised> {
        // SAFETY: regions live as long as the launch or block.
        let (dst_region, src_region) = unsafe { (&*copy.dst_region, &*copy.src_region) };
        let dst = Access {
            address: copy.dst,
            size: copy.size,
            region: dst_region,
            location: copy.location,
        };
        let src = Access {
            address: copy.src,
            size: copy.size,
            region: src_region,
            location: copy.location,
        };
        self.read(thread, Kind::Read, &src)?;
        // It may arrive at any time from now on.
        self.write(thread, &dst)?;
        dst.shadow(|shadow| shadow.mark_arriving(dst.address, dst.size, true));
        self.copies[thread as usize].open.push(copy);
        Ok(())
    }

    fn start_product(&mut self, thread: u32, mut read: TileRead) -> Result<(), Raised> {
        self.read(thread, Kind::Read, &read.access())?;
        read.words = read.load();
        self.products[thread as usize].open.push(read);
        Ok(())
    }

    fn commit_products(&mut self, thread: u32) {
        let products = &mut self.products[thread as usize];
        products.groups.push(std::mem::take(&mut products.open));
    }

    /// The tiles were read until now.
    fn wait_products(&mut self, thread: u32, keep: usize) -> Result<(), Raised> {
        let groups = &mut self.products[thread as usize].groups;
        let keep = groups.len().saturating_sub(keep);
        let done: Vec<TileRead> = groups.drain(..keep).flatten().collect();
        for read in done {
            self.read(thread, Kind::Read, &read.access())?;
            if read.load() != read.words {
                let detail = "they were overwritten before the product was waited for";
                return Err(read.access().raised(FaultKind::SharedRace, detail));
            }
        }
        Ok(())
    }

    fn commit_copies(&mut self, thread: u32) {
        let copies = &mut self.copies[thread as usize];
        copies.groups.push(std::mem::take(&mut copies.open));
    }

    fn wait_copies(&mut self, thread: u32, keep: usize) -> Result<(), Raised> {
        let groups = &mut self.copies[thread as usize].groups;
        let done: Vec<Transfer> = groups
            .drain(..groups.len().saturating_sub(keep))
            .flatten()
            .collect();
        for copy in done {
            // SAFETY: as in `start_copy`.
            let (dst_region, src_region) = unsafe { (&*copy.dst_region, &*copy.src_region) };
            let dst = Access {
                address: copy.dst,
                size: copy.size,
                region: dst_region,
                location: copy.location,
            };
            let src = Access {
                address: copy.src,
                size: copy.size,
                region: src_region,
                location: copy.location,
            };
            self.read(thread, Kind::Read, &src)?;
            if access::load_words(copy.src, copy.size) != copy.words {
                let detail = "the source of this copy was written before the copy was waited for";
                return Err(src.raised(FaultKind::GlobalRace, detail));
            }
            dst.shadow(|shadow| shadow.mark_arriving(dst.address, dst.size, false));
            self.write(thread, &dst)?;
            access::store_words(copy.dst, copy.size, copy.words);
        }
        Ok(())
    }
}

/// One access: where, how wide, from which line.
pub(crate) struct Access<'a> {
    pub(crate) address: usize,
    pub(crate) size: usize,
    pub(crate) region: &'a Region,
    pub(crate) location: &'static Location<'static>,
}

impl Access<'_> {
    fn shadow<R>(&self, f: impl FnOnce(&mut Shadow) -> R) -> R {
        // SAFETY: checked launches hold the lock of each shadow and run on one thread, and no reference to
        // a shadow outlives this call. Only regions that have one are checked.
        f(unsafe { &mut *self.region.shadow() })
    }

    fn shared(&self) -> bool {
        self.shadow(|shadow| shadow.is_shared())
    }

    fn race(&self) -> FaultKind {
        if self.shared() {
            FaultKind::SharedRace
        } else {
            FaultKind::GlobalRace
        }
    }

    /// The fault `kind` of this access; `detail` goes on after the place.
    fn raised(&self, kind: FaultKind, detail: &str) -> Raised {
        let mut place = self.region.describe(self.address, self.size);
        if !detail.is_empty() {
            place += ": ";
            place += detail;
        }
        Raised {
            kind,
            location: self.location,
            detail: place,
        }
    }

    /// Checks that no copy is on its way to these bytes.
    fn arrived(&self, kind: FaultKind) -> Result<(), Raised> {
        if self.shadow(|shadow| shadow.is_arriving(self.address, self.size)) {
            return Err(self.raised(kind, "an asynchronous copy to them has not been waited for"));
        }
        Ok(())
    }

    /// Checks that conflicting accesses are ordered with this one.
    fn ordered(&self, kind: Kind, stamp: Stamp, clock: &Clock) -> Result<(), Raised> {
        let conflict =
            self.shadow(|shadow| shadow.access(kind, self.address, self.size, stamp, clock));
        let Some(Conflict {
            stamp: other,
            wrote,
        }) = conflict
        else {
            return Ok(());
        };
        let mine = match kind {
            Kind::Read => "read",
            Kind::ReadOnly => "read through the read-only path",
            Kind::Write => "written",
        };
        let theirs = if wrote { "written" } else { "read" };
        let why = if kind == Kind::ReadOnly {
            "in the same launch"
        } else {
            "with nothing to order the two"
        };
        let block = if other.block == stamp.block {
            String::new()
        } else {
            format!(" of block {}", other.block)
        };
        let detail = format!(
            "{mine} here and {theirs} by thread {}{block} at {}:{}, {why}",
            other.thread,
            other.location.file(),
            other.location.line()
        );
        Err(self.raised(self.race(), &detail))
    }
}

/// Runs `f` on the checker of the block being run, and leaves the kernel if it finds a fault.
fn checked(f: impl FnOnce(&mut Checker, u32) -> Result<(), Raised>) {
    let result = block::with_current(|block| block.checked(|checker| f(checker, block.thread())));
    if let Some(Err(raised)) = result {
        raise(raised.kind, raised.location, raised.detail);
    }
}

/// Checks a read, which is a poll whatever it finds: a thread that looks at one word all the time and
/// changes nothing waits for it.
#[cold]
#[inline(never)]
pub(crate) fn read(at: &Access<'_>) {
    checked(|checker, thread| checker.read(thread, Kind::Read, at));
    if block::is_spinning(at.address, 0) {
        access::spins(at);
    }
}

/// Checks a read through the read-only path.
#[cold]
#[inline(never)]
pub(crate) fn read_only(at: &Access<'_>) {
    checked(|checker, thread| checker.read(thread, Kind::ReadOnly, at));
}

/// Checks a write.
#[cold]
#[inline(never)]
pub(crate) fn write(at: &Access<'_>) {
    checked(|checker, thread| checker.write(thread, at));
    block::made_progress();
}

/// Checks an atomic, and orders what it orders.
#[cold]
#[inline(never)]
pub(crate) fn atomic(at: &Access<'_>, order: Order, scope: Scope) {
    checked(|checker, thread| checker.atomic(thread, at, order, scope));
}

/// Orders what a fence orders.
pub(crate) fn fence(order: Order, scope: Scope) {
    checked(|checker, thread| {
        checker.clock.fence(thread, order, scope);
        Ok(())
    });
}

/// Starts a copy that arrives at the wait. Both places are in bounds and aligned.
#[cold]
#[inline(never)]
pub(crate) fn start_copy(dst: &Access<'_>, src: &Access<'_>) {
    let copy = Transfer {
        dst: dst.address,
        src: src.address,
        dst_region: dst.region,
        src_region: src.region,
        size: src.size,
        words: access::load_words(src.address, src.size),
        location: src.location,
    };
    checked(|checker, thread| checker.start_copy(thread, copy));
    block::made_progress();
}

/// A copy to these bytes is on its way.
pub(crate) fn depart(region: *const Region, address: usize, size: usize) {
    mark_arriving(region, address, size, true);
}

/// The copy to these bytes has arrived.
pub(crate) fn land(region: *const Region, address: usize, size: usize) {
    mark_arriving(region, address, size, false);
}

fn mark_arriving(region: *const Region, address: usize, size: usize, arriving: bool) {
    let at = Access {
        address,
        size,
        // SAFETY: regions live as long as the launch or block.
        region: unsafe { &*region },
        location: Location::caller(),
    };
    at.shadow(|shadow| shadow.mark_arriving(address, size, arriving));
}

/// Notes that a product of the running thread's warp reads these bytes until it is waited for.
pub(crate) fn start_product(
    region: *const Region,
    address: usize,
    size: usize,
    location: &'static Location<'static>,
) {
    let read = TileRead {
        address,
        size,
        words: [0; 8],
        region,
        location,
    };
    checked(|checker, thread| checker.start_product(thread, read));
}

/// Closes the running thread's current group of products.
pub(crate) fn commit_products() {
    checked(|checker, thread| {
        checker.commit_products(thread);
        Ok(())
    });
}

/// All but the last `keep` groups of products of the running thread have ended.
pub(crate) fn wait_products(keep: usize) {
    checked(|checker, thread| checker.wait_products(thread, keep));
}

/// Closes the running thread's current group of copies.
pub(crate) fn commit_copies() {
    checked(|checker, thread| {
        checker.commit_copies(thread);
        Ok(())
    });
}

/// Lets all but the last `keep` groups of the running thread arrive.
pub(crate) fn wait_copies(keep: usize) {
    checked(|checker, thread| checker.wait_copies(thread, keep));
}

//! Host bodies of reads, writes, atomics and copies.
//!
//! A view carries the address it starts at and a pointer to its region, so an access is a bounds check, an
//! alignment check and the access itself, with no look-up of who is running. In checked mode the region has
//! a shadow, and one branch leads to the rest of the checks.

use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::block;
use super::check::{self, Access};
use super::fault::{FaultKind, raise};
use super::memory::Region;
use crate::atomic::{Atomic, Operation};
use crate::{Element, Order, Scope};

/// Checks that `size` bytes at `address` lie in `region` and are aligned to `align`.
#[inline(always)]
fn check(
    address: usize,
    size: usize,
    align: usize,
    region: &Region,
    location: &'static Location<'static>,
) {
    let offset = address.wrapping_sub(region.base());
    if region.bytes() < size || offset > region.bytes() - size || !address.is_multiple_of(align) {
        bad_access(address, size, align, region, location);
    }
}

#[cold]
#[inline(never)]
fn bad_access(
    address: usize,
    size: usize,
    align: usize,
    region: &Region,
    location: &'static Location<'static>,
) -> ! {
    let place = region.describe(address, size);
    if address.is_multiple_of(align) {
        raise(FaultKind::OutOfBounds, location, place);
    }
    raise(
        FaultKind::Misaligned,
        location,
        format!("{place}, not at a multiple of {align}"),
    );
}

/// Bytes that one atomic access moves: the alignment, at most 8.
const fn piece<T>() -> usize {
    if align_of::<T>() > 8 {
        8
    } else {
        align_of::<T>()
    }
}

/// Loads a `T` in relaxed atomic pieces.
///
/// # Safety
///
/// `size_of::<T>()` initialised bytes at `address`, aligned for `T`, touched only atomically.
#[inline(always)]
#[expect(
    clippy::cast_ptr_alignment,
    reason = "a piece is no wider than the alignment of T"
)]
unsafe fn load<T: Element>(address: usize) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr().cast::<u8>();
    let from = address as *mut u8;
    let mut at = 0;
    while at < size_of::<T>() {
        // SAFETY: `at` stays inside both, and both are aligned to a piece.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            match piece::<T>() {
                8 => to
                    .cast::<u64>()
                    .write(AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed)),
                4 => to
                    .cast::<u32>()
                    .write(AtomicU32::from_ptr(from.cast()).load(Ordering::Relaxed)),
                2 => to
                    .cast::<u16>()
                    .write(AtomicU16::from_ptr(from.cast()).load(Ordering::Relaxed)),
                _ => to.write(AtomicU8::from_ptr(from).load(Ordering::Relaxed)),
            }
        }
        at += piece::<T>();
    }
    // SAFETY: every byte was written, and any bit pattern is a valid `T`.
    unsafe { value.assume_init() }
}

/// Stores a `T` in relaxed atomic pieces.
///
/// # Safety
///
/// As [`load`].
#[inline(always)]
#[expect(
    clippy::cast_ptr_alignment,
    reason = "a piece is no wider than the alignment of T"
)]
unsafe fn store<T: Element>(address: usize, value: &T) {
    let from = (&raw const *value).cast::<u8>();
    let to = address as *mut u8;
    let mut at = 0;
    while at < size_of::<T>() {
        // SAFETY: `at` stays inside both, and both are aligned to a piece.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            match piece::<T>() {
                8 => AtomicU64::from_ptr(to.cast())
                    .store(from.cast::<u64>().read(), Ordering::Relaxed),
                4 => AtomicU32::from_ptr(to.cast())
                    .store(from.cast::<u32>().read(), Ordering::Relaxed),
                2 => AtomicU16::from_ptr(to.cast())
                    .store(from.cast::<u16>().read(), Ordering::Relaxed),
                _ => AtomicU8::from_ptr(to).store(from.read(), Ordering::Relaxed),
            }
        }
        at += piece::<T>();
    }
}

/// Reads a `T`.
#[inline(always)]
#[track_caller]
pub(crate) fn read<T: Element>(address: usize, region: *const Region) -> T {
    let location = Location::caller();
    // SAFETY: views point to regions that live as long as their launch or block.
    let region = unsafe { &*region };
    let size = size_of::<T>();
    check(address, size, align_of::<T>(), region, location);
    if region.is_checked() {
        check::read(&Access {
            address,
            size,
            region,
            location,
        });
    }
    // SAFETY: checked.
    unsafe { load(address) }
}

/// Reads a `T` that nobody writes during the launch.
#[inline(always)]
#[track_caller]
pub(crate) fn read_only<T: Element>(address: usize, region: *const Region) -> T {
    let location = Location::caller();
    // SAFETY: as in `read`.
    let region = unsafe { &*region };
    let size = size_of::<T>();
    check(address, size, align_of::<T>(), region, location);
    if region.is_checked() {
        check::read_only(&Access {
            address,
            size,
            region,
            location,
        });
    }
    // SAFETY: checked.
    unsafe { load(address) }
}

/// Writes a `T`.
#[inline(always)]
#[track_caller]
pub(crate) fn write<T: Element>(address: usize, region: *const Region, value: T) {
    let location = Location::caller();
    // SAFETY: as in `read`.
    let region = unsafe { &*region };
    let size = size_of::<T>();
    check(address, size, align_of::<T>(), region, location);
    if region.is_checked() {
        check::write(&Access {
            address,
            size,
            region,
            location,
        });
    }
    // SAFETY: checked.
    unsafe { store(address, &value) }
}

/// Applies `operation` to a `T` in one step; gives what it was. One that changes nothing is a poll.
#[inline(always)]
#[track_caller]
pub(crate) fn read_modify_write<T: Atomic>(
    address: usize,
    region: *const Region,
    operation: Operation<T>,
    order: Order,
    scope: Scope,
) -> T {
    let old = synchronise(address, region, operation, order, scope);
    if old.apply(operation) != old {
        block::made_progress();
    } else if block::is_spinning(address, old.into()) {
        spins(&Access {
            address,
            size: size_of::<T>(),
            // SAFETY: as in `read`.
            region: unsafe { &*region },
            location: Location::caller(),
        });
    }
    old
}

/// Leaves a kernel that waits for a word that nobody will change.
#[cold]
#[inline(never)]
pub(crate) fn spins(at: &Access<'_>) -> ! {
    let place = at.region.describe(at.address, at.size);
    let detail = format!("{place}: the same in {} polls in a row", block::MAX_POLLS);
    raise(FaultKind::Spin, at.location, detail);
}

/// Applies `operation` to a `T` in one step, not counted as a poll; gives what it was.
#[inline(always)]
#[track_caller]
pub(crate) fn synchronise<T: Atomic>(
    address: usize,
    region: *const Region,
    operation: Operation<T>,
    order: Order,
    scope: Scope,
) -> T {
    let location = Location::caller();
    // SAFETY: as in `read`.
    let region = unsafe { &*region };
    let size = size_of::<T>();
    check(address, size, size, region, location);
    if region.is_checked() {
        check::atomic(
            &Access {
                address,
                size,
                region,
                location,
            },
            order,
            scope,
        );
    }
    // The strongest order always: blocks may run on several threads of the host.
    // SAFETY: checked; a `u32` or `u64` at a multiple of its size.
    unsafe { T::update(address, operation) }
}

/// Host body of the fence.
pub(crate) fn fence(order: Order, scope: Scope) {
    if order != Order::Relaxed {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
    check::fence(order, scope);
}

/// A place in memory: an address and the region it must lie in.
pub(crate) type Place = (usize, *const Region);

/// Starts an asynchronous copy of `BYTES` bytes: 4, 8 or 16.
///
/// In fast mode it arrives at once.
#[inline(always)]
#[track_caller]
pub(crate) fn copy_async<const BYTES: usize>((dst, dst_region): Place, (src, src_region): Place) {
    let location = Location::caller();
    // SAFETY: as in `read`.
    let (dst_region, src_region) = unsafe { (&*dst_region, &*src_region) };
    check(src, BYTES, BYTES, src_region, location);
    check(dst, BYTES, BYTES, dst_region, location);
    if dst_region.is_checked() {
        let dst = Access {
            address: dst,
            size: BYTES,
            region: dst_region,
            location,
        };
        let src = Access {
            address: src,
            size: BYTES,
            region: src_region,
            location,
        };
        check::start_copy(&dst, &src);
    } else {
        store_words(dst, BYTES, load_words(src, BYTES));
    }
}

/// Checks that `bytes` bytes of a swizzled tile lie in its array, at a multiple of 1,024.
pub(crate) fn check_tile(
    (address, region): Place,
    bytes: usize,
    location: &'static Location<'static>,
) {
    // SAFETY: as in `read`.
    check(address, bytes, 1024, unsafe { &*region }, location);
}

/// Copies `bytes` bytes, as the copy engine does: multiples of 16, from and to such.
#[track_caller]
pub(crate) fn copy_bulk(dst: Place, src: Place, bytes: usize) {
    let location = Location::caller();
    if !bytes.is_multiple_of(16) || !src.0.is_multiple_of(16) || !dst.0.is_multiple_of(16) {
        let detail = format!("a copy of {bytes} bytes: all of it at multiples of 16");
        raise(FaultKind::Misaligned, location, detail);
    }
    let mut buffer = vec![0; bytes];
    read_bytes(src, &mut buffer);
    write_bytes(dst, &buffer);
}

/// Reads bytes, from a multiple of 8 on.
#[track_caller]
pub(crate) fn read_bytes((address, region): Place, bytes: &mut [u8]) {
    let location = Location::caller();
    // SAFETY: as in `read`.
    let region = unsafe { &*region };
    let size = bytes.len();
    if size == 0 {
        return;
    }
    check(address, size, 8, region, location);
    if region.is_checked() {
        check::read(&Access {
            address,
            size,
            region,
            location,
        });
    }
    let (words, tail) = bytes.as_chunks_mut::<8>();
    let tail_at = address + 8 * words.len();
    for (i, word) in words.iter_mut().enumerate() {
        // SAFETY: checked.
        *word = unsafe { load::<u64>(address + 8 * i) }.to_ne_bytes();
    }
    for (i, byte) in tail.iter_mut().enumerate() {
        // SAFETY: checked.
        *byte = unsafe { load(tail_at + i) };
    }
}

/// Writes bytes, a multiple of 8 of them, to a multiple of 8.
#[track_caller]
pub(crate) fn write_bytes((address, region): Place, bytes: &[u8]) {
    let location = Location::caller();
    // SAFETY: as in `read`.
    let region = unsafe { &*region };
    let size = bytes.len();
    check(address, size, 8, region, location);
    if region.is_checked() {
        check::write(&Access {
            address,
            size,
            region,
            location,
        });
    }
    for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        // SAFETY: checked.
        unsafe { store(address + 8 * i, &u64::from_ne_bytes(*word)) }
    }
}

/// The words of a copy's source, `size` bytes in bounds and aligned.
pub(crate) fn load_words(address: usize, size: usize) -> [u32; 4] {
    let mut words = [0; 4];
    for (i, word) in words.iter_mut().enumerate().take(size / 4) {
        // SAFETY: checked by the caller.
        *word = unsafe { load(address + 4 * i) };
    }
    words
}

/// Writes the words of a copy to its destination, `size` bytes in bounds and aligned.
pub(crate) fn store_words(address: usize, size: usize, words: [u32; 4]) {
    for (i, word) in words.iter().enumerate().take(size / 4) {
        // SAFETY: checked by the caller.
        unsafe { store(address + 4 * i, word) }
    }
}

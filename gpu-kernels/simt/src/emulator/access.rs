//! Host bodies of reads, writes, atomics and copies.
//!
//! A view carries the address it starts at and a pointer to its region, so an access is a bounds check, an
//! alignment check and the access itself, with no look-up of who is running.

use std::mem::MaybeUninit;
use std::panic::Location;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

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
    let offset = address.wrapping_sub(region.base()) as isize;
    let bytes = region.bytes();
    if address.is_multiple_of(align) {
        raise(
            FaultKind::OutOfBounds,
            location,
            format!("{size} bytes at byte {offset} of {bytes}"),
        );
    }
    raise(
        FaultKind::Misaligned,
        location,
        format!("{size} bytes at byte {offset}, not a multiple of {align}"),
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
    // SAFETY: views point to regions that live as long as their launch or block.
    let region = unsafe { &*region };
    check(
        address,
        size_of::<T>(),
        align_of::<T>(),
        region,
        Location::caller(),
    );
    // SAFETY: checked.
    unsafe { load(address) }
}

/// Writes a `T`.
#[inline(always)]
#[track_caller]
pub(crate) fn write<T: Element>(address: usize, region: *const Region, value: T) {
    // SAFETY: as in `read`.
    let region = unsafe { &*region };
    check(
        address,
        size_of::<T>(),
        align_of::<T>(),
        region,
        Location::caller(),
    );
    // SAFETY: checked.
    unsafe { store(address, &value) }
}

/// Applies `operation` to a `T` in one step; gives what it was.
#[inline(always)]
#[track_caller]
pub(crate) fn read_modify_write<T: Atomic>(
    address: usize,
    region: *const Region,
    operation: Operation<T>,
    order: Order,
    scope: Scope,
) -> T {
    // SAFETY: as in `read`.
    let region = unsafe { &*region };
    check(
        address,
        size_of::<T>(),
        align_of::<T>(),
        region,
        Location::caller(),
    );
    let _ = (order, scope);
    // The host always takes the strongest order: blocks may run on several of its threads.
    // SAFETY: checked; `T` is `u32` or `u64`.
    unsafe { T::update(address, operation) }
}

/// Memory fence.
#[track_caller]
pub(crate) fn fence(order: Order, scope: Scope) {
    let _ = scope;
    if order != Order::Relaxed {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// A place in memory: an address and the region it must lie in.
type Place = (usize, *const Region);

/// Starts an asynchronous copy of `BYTES` bytes.
#[track_caller]
pub(crate) fn copy_async<const BYTES: usize>(dst: Place, src: Place) {
    let location = Location::caller();
    // SAFETY: as in `read`.
    let (dst_region, src_region) = unsafe { (&*dst.1, &*src.1) };
    check(src.0, BYTES, BYTES, src_region, location);
    check(dst.0, BYTES, BYTES, dst_region, location);
    for at in (0..BYTES).step_by(4) {
        // SAFETY: checked, and `BYTES` is a multiple of 4.
        unsafe { store::<u32>(dst.0 + at, &load::<u32>(src.0 + at)) }
    }
}

/// Closes the current group of copies.
pub(crate) fn commit_copies() {}

/// Waits for all but the last `keep` groups.
pub(crate) fn wait_copies(keep: usize) {
    let _ = keep;
}

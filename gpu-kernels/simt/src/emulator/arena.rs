//! The shared memory of a block.

use std::cell::UnsafeCell;
use std::panic::Location;
use std::ptr;

use super::fault::{FaultKind, Raised};
use super::memory::Region;
use super::shadow::Shadow;

/// Most shared memory a block can have (sm_90).
pub(crate) const LIMIT: usize = 227 * 1024;
/// Most of it that static arrays can take, on every architecture.
const STATIC_LIMIT: usize = 48 * 1024;
/// Alignment of the dynamic arena.
const ALIGNMENT: usize = 128;

/// The dynamic arena, then the static arrays in the order threads meet them.
pub(crate) struct Arena {
    lines: Box<[UnsafeCell<Line>]>,
    shadow: Option<Box<UnsafeCell<Shadow>>>,
    dynamic: Box<Region>,
    statics: Vec<Static>,
    /// How many static arrays each thread has met.
    met: Vec<usize>,
    /// Bytes taken.
    used: usize,
}

/// A static array and the place in the source that declares it.
struct Static {
    region: Box<Region>,
    location: &'static Location<'static>,
}

#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Line([u8; ALIGNMENT]);

impl Arena {
    /// The arena of blocks of `threads` threads with `dynamic` bytes of dynamic shared memory.
    pub(crate) fn new(threads: u32, dynamic: usize, checked: bool) -> Self {
        let bytes = LIMIT.max(dynamic).next_multiple_of(ALIGNMENT);
        let lines: Box<[UnsafeCell<Line>]> = (0..bytes / ALIGNMENT)
            .map(|_| UnsafeCell::new(Line([0; ALIGNMENT])))
            .collect();
        let base = lines.as_ptr() as usize;
        let shadow =
            checked.then(|| Box::new(UnsafeCell::new(Shadow::new(base, bytes, true, false))));
        let pointer = shadow
            .as_ref()
            .map_or(ptr::null_mut(), |shadow| shadow.get());
        let dynamic_region =
            Region::new(base, dynamic, pointer, "dynamic shared memory".to_owned());
        Self {
            lines,
            shadow,
            dynamic: Box::new(dynamic_region),
            statics: Vec::new(),
            met: vec![0; threads as usize],
            used: dynamic.next_multiple_of(ALIGNMENT),
        }
    }

    fn base(&self) -> usize {
        self.lines.as_ptr() as usize
    }

    /// A new block begins: nobody wrote anything, nobody met an array.
    pub(crate) fn begin(&mut self) {
        self.met.fill(0);
        if let Some(shadow) = &mut self.shadow {
            shadow.get_mut().clear();
        }
    }

    /// The dynamic arena.
    pub(crate) fn dynamic(&self) -> *const Region {
        &raw const *self.dynamic
    }

    /// The next static array of `thread`.
    pub(crate) fn next_static(
        &mut self,
        thread: u32,
        bytes: usize,
        location: &'static Location<'static>,
    ) -> Result<*const Region, Raised> {
        let number = self.met[thread as usize];
        self.met[thread as usize] += 1;
        if let Some(array) = self.statics.get(number) {
            if array.region.bytes() == bytes && array.location == location {
                return Ok(&raw const *array.region);
            }
            let detail = format!(
                "this is shared array {number} of the thread; another met the one at {} there",
                array.location
            );
            return Err(Raised {
                kind: FaultKind::Divergence,
                location,
                detail,
            });
        }
        let statics = self
            .statics
            .iter()
            .map(|array| array.region.bytes())
            .sum::<usize>()
            + bytes;
        let end = self.used.saturating_add(bytes);
        if statics > STATIC_LIMIT || end > self.lines.len() * ALIGNMENT {
            let detail = format!(
                "{statics} bytes of static and {} of dynamic shared memory: too much for a block",
                self.dynamic.bytes()
            );
            return Err(Raised {
                kind: FaultKind::OutOfBounds,
                location,
                detail,
            });
        }
        let shadow = self
            .shadow
            .as_ref()
            .map_or(ptr::null_mut(), |shadow| shadow.get());
        let region = Box::new(Region::new(
            self.base() + self.used,
            bytes,
            shadow,
            format!("shared array {number}"),
        ));
        self.used = end.next_multiple_of(16);
        let pointer = &raw const *region;
        self.statics.push(Static { region, location });
        Ok(pointer)
    }

    /// Offset of a host address in the arena.
    pub(crate) fn offset(&self, address: usize) -> u32 {
        address.wrapping_sub(self.base()) as u32
    }
}

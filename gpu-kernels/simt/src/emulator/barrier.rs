//! Barriers of a block.

use std::panic::Location;
use std::ptr;

use crate::thread::{FULL_MASK, WARP};

/// A barrier and the threads that wait at it.
#[derive(Default)]
pub(crate) struct Barrier {
    /// Who came, and by which call.
    calls: Vec<(u32, &'static Location<'static>)>,
    /// How many shall come, as the first one said.
    expected: u32,
    /// Whether all came by the same call.
    one_call: bool,
}

impl Barrier {
    /// The short way: `thread` comes like those before it, and is neither the first nor the last.
    /// Otherwise nothing happens.
    #[inline(always)]
    pub(crate) fn join(
        &mut self,
        thread: u32,
        expected: u32,
        location: &'static Location<'static>,
    ) -> bool {
        let joins = expected == self.expected
            && self.calls.len() + 1 < expected as usize
            && self.calls.len() < self.calls.capacity()
            && self
                .calls
                .first()
                .is_some_and(|(_, first)| ptr::eq(*first, location));
        if joins {
            self.calls.push((thread, location));
        }
        joins
    }

    /// `thread` of a block of `block` threads comes, and expects `threads` threads or all; whether it is
    /// the last one.
    pub(crate) fn arrive(
        &mut self,
        thread: u32,
        threads: Option<u32>,
        block: u32,
        location: &'static Location<'static>,
    ) -> Result<bool, String> {
        let expected = threads.unwrap_or(block);
        if let Some((_, first)) = self.calls.first() {
            if expected != self.expected {
                return Err(format!(
                    "{expected} threads are expected here and {} at {first}",
                    self.expected
                ));
            }
            self.one_call &= ptr::eq(*first, location);
        } else {
            if threads.is_some_and(|threads| threads == 0 || threads % WARP != 0 || threads > block)
            {
                return Err(format!(
                    "{expected} threads are not a multiple of {WARP} from {WARP} to {block}"
                ));
            }
            self.calls.reserve(expected as usize);
            self.expected = expected;
            self.one_call = true;
        }
        self.calls.push((thread, location));
        if self.calls.len() < expected as usize {
            return Ok(false);
        }
        if !self.one_call || expected < block {
            self.whole_warps(block)?;
        }
        Ok(true)
    }

    /// The barrier is `.aligned`: the threads of a warp come together and by the same call.
    fn whole_warps(&self, block: u32) -> Result<(), String> {
        let mut warps = [(0u32, None::<&'static Location<'static>>); WARP as usize];
        for &(thread, by) in &self.calls {
            let (arrived, first) = &mut warps[(thread / WARP) as usize];
            *arrived |= 1 << (thread % WARP);
            let first = *first.get_or_insert(by);
            if first != by {
                return Err(format!(
                    "threads of warp {} came by {first} and by {by}",
                    thread / WARP
                ));
            }
        }
        for (warp, (arrived, _)) in warps.iter().enumerate() {
            let present =
                FULL_MASK >> (WARP - block.saturating_sub(warp as u32 * WARP).clamp(1, WARP));
            if *arrived != 0 && *arrived != present {
                return Err(format!(
                    "only the lanes {arrived:#010x} of warp {warp} came"
                ));
            }
        }
        Ok(())
    }

    /// The threads that wait, and by which call each came.
    pub(crate) fn calls(&self) -> &[(u32, &'static Location<'static>)] {
        &self.calls
    }

    /// How many threads shall come.
    pub(crate) fn expected(&self) -> u32 {
        self.expected
    }

    /// Lets everybody go.
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
    }
}

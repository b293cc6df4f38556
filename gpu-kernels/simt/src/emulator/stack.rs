//! Stacks for coroutines.
//!
//! Stacks that all begin at a page boundary fall into the same few sets of the cache, and a switch costs
//! two to four times as much. So the top of each stack is lowered by its own multiple of 320 bytes within
//! a page. Stacks are kept in one pool; a task takes a warp's worth at a time.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use corosensei::stack::{DefaultStack, Stack as CoroutineStack, StackPointer};

/// Bytes of a stack. Pages are only backed once touched.
const BYTES: usize = 256 * 1024;

/// Stacks that may be in use at once. Each is two memory mappings, of which Linux by default allows a
/// process 65530.
const LIMIT: u64 = 24 * 1024;

/// A stack with a lowered top.
pub(crate) struct Stack {
    inner: DefaultStack,
    lowered: usize,
}

// SAFETY: the inner stack keeps its guard page and all but a page of its size; `base` stays aligned to
// 64 bytes, more than the ABI asks.
unsafe impl CoroutineStack for Stack {
    fn base(&self) -> StackPointer {
        let inner = self.inner.base();
        StackPointer::new(inner.get() - self.lowered).unwrap_or(inner)
    }

    fn limit(&self) -> StackPointer {
        self.inner.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.inner.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.inner
            .update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

impl Stack {
    fn new() -> io::Result<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let lowered = MADE.fetch_add(1, Ordering::Relaxed) * 320 % 4096;
        Ok(Self {
            inner: DefaultStack::new(BYTES)?,
            lowered,
        })
    }
}

static POOL: Mutex<Vec<Stack>> = Mutex::new(Vec::new());

/// Appends `count` stacks to `stacks`.
pub(crate) fn take(stacks: &mut Vec<Stack>, count: usize) -> io::Result<()> {
    {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = pool.len() - count.min(pool.len());
        stacks.extend(pool.drain(kept..));
    }
    while stacks.len() < count {
        stacks.push(Stack::new()?);
    }
    Ok(())
}

/// Gives `stacks` back.
pub(crate) fn put_back(stacks: &mut Vec<Stack>) {
    POOL.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .append(stacks);
}

/// How many tasks may run blocks of `threads` threads side by side.
pub(crate) fn tasks(threads: u32) -> u64 {
    (rayon::current_num_threads() as u64)
        .min(LIMIT / u64::from(threads))
        .max(1)
}

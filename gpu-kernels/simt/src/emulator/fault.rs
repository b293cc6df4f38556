//! What went wrong in a kernel, and where.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{self, Location, UnwindSafe};
use std::sync::Once;

use super::block;

/// The kinds of fault the emulator finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// An access outside its buffer or shared array.
    OutOfBounds,
    /// An access whose address is not a multiple of its alignment.
    Misaligned,
    /// A read of bytes that nobody wrote.
    Uninitialised,
    /// Two threads of a block touched one shared word, at least one wrote, and nothing ordered them.
    SharedRace,
    /// Two threads touched one word of global memory, at least one wrote, and nothing ordered them.
    GlobalRace,
    /// A barrier or warp operation that not all of its threads reached, or not in the same way.
    Divergence,
    /// A read of bytes that an asynchronous copy has yet to bring.
    AsyncRead,
    /// A thread polls a word until another thread changes it, which must be waited for at a collective.
    Spin,
    /// The kernel panicked.
    Panic,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfBounds => "access out of bounds",
            Self::Misaligned => "misaligned access",
            Self::Uninitialised => "read of memory nobody wrote",
            Self::SharedRace => "race on shared memory",
            Self::GlobalRace => "race on global memory",
            Self::Divergence => "divergence at a collective",
            Self::AsyncRead => "read of an unfinished asynchronous copy",
            Self::Spin => "wait that does not end",
            Self::Panic => "panic",
        })
    }
}

/// A fault, with the place it was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// The kernel.
    pub kernel: &'static str,
    /// Its variant.
    pub variant: &'static str,
    /// Index of the block.
    pub block: [u32; 3],
    /// Thread of the block.
    pub thread: u32,
    /// Source file of the access.
    pub file: String,
    /// Source line of the access.
    pub line: u32,
    /// Which bytes, which other thread.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(
            f,
            "{}: {} at {}:{}, block ({x}, {y}, {z}), thread {}: {}",
            self.variant, self.kind, self.file, self.line, self.thread, self.detail
        )
    }
}

impl std::error::Error for Fault {}

/// A fault on its way from the access to the scheduler, which knows block and thread.
pub(crate) struct Raised {
    pub(crate) kind: FaultKind,
    pub(crate) location: &'static Location<'static>,
    pub(crate) detail: String,
}

/// Leaves the kernel with a fault.
#[cold]
#[inline(never)]
pub(crate) fn raise(kind: FaultKind, location: &'static Location<'static>, detail: String) -> ! {
    block::abandon_current();
    panic::resume_unwind(Box::new(Raised {
        kind,
        location,
        detail,
    }))
}

thread_local! {
    /// Whether this thread runs kernel code, whose panics become faults.
    static IN_KERNEL: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic in kernel code was.
    static PANICKED_AT: RefCell<Option<(String, u32)>> = const { RefCell::new(None) };
}

/// Runs `f`; a panic in it is not printed, and its place is kept for [`panicked_at`].
pub(crate) fn catch<T>(f: impl FnOnce() -> T + UnwindSafe) -> Result<T, Box<dyn Any + Send>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IN_KERNEL.get() {
                block::abandon_current();
                let place = info.location().map(|l| (l.file().to_owned(), l.line()));
                PANICKED_AT.with(|at| *at.borrow_mut() = place);
            } else {
                previous(info);
            }
        }));
    });
    let outer = IN_KERNEL.replace(true);
    let result = panic::catch_unwind(f);
    IN_KERNEL.set(outer);
    result
}

/// Where the panic that [`catch`] last caught on this thread was.
pub(crate) fn panicked_at() -> Option<(String, u32)> {
    PANICKED_AT.with(|at| at.borrow_mut().take())
}

/// What a panic said.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}

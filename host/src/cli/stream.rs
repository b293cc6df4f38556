//! Stdout and stderr as the program was given them.
//!
//! Rust's own streams hide two losses: where a descriptor is closed, what starts before `main` opens
//! `/dev/null` in its place, and a write that the system refuses with EBADF passes for done. Here both
//! are errors.

use std::fs::File;
use std::io::{Error, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// A standard stream, unbuffered.
pub(super) struct Stream(std::result::Result<File, String>);

impl Stream {
    pub(super) fn stdout() -> Self {
        Self::new(std::io::stdout().as_fd(), closed::was(1))
    }

    pub(super) fn stderr() -> Self {
        Self::new(std::io::stderr().as_fd(), closed::was(2))
    }

    fn new(descriptor: BorrowedFd<'_>, closed: bool) -> Self {
        Self(if closed {
            Err("it is closed".to_owned())
        } else {
            match descriptor.try_clone_to_owned() {
                Ok(descriptor) => Ok(descriptor.into()),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    /// Says at once what the first write would say.
    pub(super) fn check(&mut self) -> Result<()> {
        self.file().map(drop)
    }

    fn file(&mut self) -> Result<&mut File> {
        self.0.as_mut().map_err(|why| Error::other(why.clone()))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file()?.flush()
    }
}

/// Which descriptors were closed before anything of Rust ran.
#[cfg(target_os = "linux")]
mod closed {
    use std::ffi::c_int;
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

    pub(super) fn was(descriptor: usize) -> bool {
        CLOSED[descriptor].load(Ordering::Relaxed)
    }

    unsafe extern "C" {
        fn fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
    }

    extern "C" fn look() {
        const F_GETFD: c_int = 1;
        for (descriptor, closed) in (0..).zip(&CLOSED) {
            // SAFETY: F_GETFD takes no further argument and changes nothing; the only error of it is
            // EBADF.
            let flags = unsafe { fcntl(descriptor, F_GETFD) };
            closed.store(flags == -1, Ordering::Relaxed);
        }
    }

    // SAFETY: the C library calls each pointer of this section once, before `main`, on the only thread;
    // `look` needs nothing of Rust's that is set up later.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;
}

/// Elsewhere nobody looked.
#[cfg(not(target_os = "linux"))]
mod closed {
    pub(super) fn was(_: usize) -> bool {
        false
    }
}

//! What can go wrong with a backend, one sentence each: what happened, then what to do.

use simt::launch::LaunchError;

use super::Bytes;

/// An error of a backend.
///
/// Each message is one line. Errors of the CUDA driver name the call, and the kernel that met
/// it where there was one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `libcuda` was not found.
    #[error(
        "no NVIDIA driver on this machine: install driver {} or later, or use `--backend cpu`",
        super::MIN_DRIVER_RELEASE
    )]
    NoDriver,
    /// `libcuda` is there, but refuses to start.
    #[error("the NVIDIA driver does not start ({call}: {message}): {advice}")]
    DriverFailed {
        /// The driver call that failed.
        call: &'static str,
        /// What the driver said.
        message: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// The driver is older than the cubins in the image.
    #[error(
        "the NVIDIA driver here {found}, Gristmill's kernels need CUDA {}: \
         install driver {} or later, or use `--backend cpu`",
        super::MIN_CUDA,
        super::MIN_DRIVER_RELEASE
    )]
    DriverTooOld {
        /// Which CUDA version it knows, or which symbol it lacks.
        found: String,
    },
    /// The driver sees no GPU.
    #[error(
        "the NVIDIA driver sees no GPU: check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use `--backend cpu`"
    )]
    NoGpu,
    /// The GPU is older than sm_80.
    #[error(
        "{name} is sm_{major}{minor}, Gristmill needs sm_80 (Ampere) or later: \
         take another GPU by CUDA_VISIBLE_DEVICES, or use `--backend cpu`"
    )]
    GpuTooOld {
        /// The name of the GPU.
        name: String,
        /// Compute capability, major.
        major: u32,
        /// Compute capability, minor.
        minor: u32,
    },
    /// The binary was built without device code.
    #[error(
        "this binary holds no GPU code: run `cargo xtask setup`, build again with \
         `GRISTMILL_ARCH={arch} cargo build --release`, or use `--backend cpu`"
    )]
    EmptyImage {
        /// The architecture of the GPU, for instance `sm_90a`.
        arch: String,
    },
    /// The image holds device code, but none that this GPU can run.
    #[error(
        "this binary holds {what} for {held}, not for {arch}: build again with \
         `GRISTMILL_ARCH={arch} cargo build --release`, or use `--backend cpu`"
    )]
    NoCode {
        /// The variant in backquotes, or `GPU code`.
        what: String,
        /// The architectures that the image holds it for.
        held: String,
        /// The architecture of the GPU.
        arch: String,
    },
    /// The driver would not load the code of a variant.
    #[error(
        "the driver (CUDA {driver}) does not load {what} of `{variant}` ({message}): install a newer driver, \
         or build again with `GRISTMILL_ARCH={arch} cargo build --release`"
    )]
    ModuleRefused {
        /// The variant whose module was loaded.
        variant: &'static str,
        /// `the sm_90a cubin` or `the PTX`.
        what: String,
        /// The CUDA version of the driver.
        driver: String,
        /// The architecture of the GPU.
        arch: String,
        /// What the driver said.
        message: String,
    },
    /// `clmad` gives wrong products on this GPU.
    #[error(
        "`{variant}` uses clmad, which gives wrong bits here ({detail}): update the driver, \
         or use a variant without clmad"
    )]
    ClmadBroken {
        /// The variant that was to run.
        variant: &'static str,
        /// What gave which bits.
        detail: String,
    },
    /// More memory was asked for than is free.
    #[error(
        "{place} has {} free and {} are needed: ask for less, or free some memory",
        Bytes(*free), Bytes(*wanted)
    )]
    OutOfMemory {
        /// Which memory.
        place: String,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes free.
        free: u64,
    },
    /// `len` elements of a type are more bytes than an address can say.
    #[error("a buffer of {len} elements of {size} bytes is larger than any memory")]
    TooLong {
        /// Elements asked for.
        len: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// A host slice and a buffer differ in length.
    #[error("{call}: the buffer holds {buffer} elements, the slice {slice}")]
    Length {
        /// The operation.
        call: &'static str,
        /// Elements of the buffer.
        buffer: usize,
        /// Elements of the slice.
        slice: usize,
    },
    /// A range is not inside its buffer.
    #[error("elements {start}..{end} are not inside a buffer of {len}")]
    Range {
        /// First element.
        start: usize,
        /// One past the last element.
        end: usize,
        /// Elements of the buffer.
        len: usize,
    },
    /// A buffer, stream, event or graph was used with a backend that does not own it.
    #[error("{call}: the {what} belongs to another backend")]
    OtherBackend {
        /// The operation.
        call: &'static str,
        /// `buffer`, `stream`, `event` or `graph`.
        what: &'static str,
    },
    /// An elapsed time was asked of events that were not recorded.
    #[error("the event was not recorded")]
    NotRecorded,
    /// A call to the CUDA driver failed.
    #[error("{call}: {message}{}", after(*kernel))]
    Cuda {
        /// The driver call.
        call: &'static str,
        /// The variant launched last before the error showed, where there was one.
        kernel: Option<&'static str>,
        /// What the driver said.
        message: String,
    },
    /// The image in this binary is damaged.
    #[error(transparent)]
    Image(#[from] codegen::image::ImageError),
    /// A launch was refused or failed.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

fn after(kernel: Option<&'static str>) -> String {
    kernel.map_or_else(String::new, |kernel| {
        format!(" (the last launch was `{kernel}`)")
    })
}

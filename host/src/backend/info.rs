//! What a backend runs on: the kind, the device and its memory, and the driver that is asked for.

use std::fmt;

use codegen::arch::Capability;

/// The oldest CUDA version whose driver loads the cubins of ptxas 13 and has every symbol used.
pub const MIN_CUDA: CudaVersion = CudaVersion {
    major: 13,
    minor: 0,
};

/// The driver release that brought [`MIN_CUDA`].
pub const MIN_DRIVER_RELEASE: u32 = 580;

/// A version of CUDA, as a driver reports the newest that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A number of bytes, shown in the largest binary unit that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        let unit = (self.0.max(1).ilog2() / 10).min(4) as usize;
        if unit == 0 {
            write!(f, "{} bytes", self.0)
        } else {
            let value = self.0 as f64 / (1u64 << (10 * unit)) as f64;
            write!(f, "{value:.1} {}", UNITS[unit])
        }
    }
}

/// The two backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The emulator.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        })
    }
}

/// What a backend runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Which backend.
    pub kind: Kind,
    /// The name of the GPU or CPU.
    pub name: String,
    /// Compute capability of a GPU.
    pub capability: Option<Capability>,
    /// Release of the NVIDIA driver and the CUDA version that it knows.
    pub driver: Option<String>,
    /// Bytes of the L2 of a GPU, of the last-level cache of a CPU; 0 when it is not known.
    pub l2_bytes: u64,
    /// Streaming multiprocessors of a GPU, hardware threads of a CPU.
    pub multiprocessors: u32,
    /// Top clock in kHz, where it is known.
    pub clock_khz: Option<u32>,
    /// Shared memory that one block may have, in bytes.
    pub shared_bytes: u32,
}

impl DeviceInfo {
    /// The architecture to build device code for, as `GRISTMILL_ARCH` takes it.
    pub fn arch(&self) -> Option<String> {
        self.capability.map(|capability| {
            codegen::arch::Arch::ALL
                .iter()
                .rev()
                .find(|arch| arch.cubin_runs_on(capability))
                .map_or_else(
                    || format!("sm_{}{}", capability.major, capability.minor),
                    ToString::to_string,
                )
        })
    }
}

/// Memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that can still be had.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// The release of the NVIDIA driver, where it can be read, and the CUDA version that it knows.
pub(super) fn driver_text(version: CudaVersion) -> String {
    let release = std::fs::read_to_string("/proc/driver/nvidia/version")
        .ok()
        .and_then(|text| {
            // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release ..."
            let release = text.lines().next()?.split_whitespace().find(|word| {
                word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.')
            })?;
            Some(release.to_owned())
        });
    match release {
        Some(release) => format!("{release}, CUDA {version}"),
        None => format!("CUDA {version}"),
    }
}

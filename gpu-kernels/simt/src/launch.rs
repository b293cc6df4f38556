//! What a kernel is to the host, and one launch of it.
//!
//! `#[kernel]` makes a [`Kernel`] beside each kernel function and submits it to a registry, so that the
//! whole set can be listed ([`kernels`]). A typed `launch` function, also generated, packs its arguments
//! into a [`Launch`] and gives it to a [`Queue`]: a stream of a GPU, or the [`crate::emulator`].

use core::fmt;

use crate::emulator::Fault;
use crate::emulator::memory::Region;
use crate::{Element, Global, GlobalMut};

/// Blocks of a launch along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Blocks along `x`, 1 to 2^31 - 1.
    pub x: u32,
    /// Blocks along `y`, 1 to 65535.
    pub y: u32,
    /// Blocks along `z`, 1 to 65535.
    pub z: u32,
}

impl Grid {
    /// `x` blocks in a row.
    pub const fn x(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }

    /// `x` by `y` blocks.
    pub const fn xy(x: u32, y: u32) -> Self {
        Self { x, y, z: 1 }
    }

    /// `x` by `y` by `z` blocks.
    pub const fn xyz(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// Blocks in all.
    pub const fn blocks(self) -> u64 {
        self.x as u64 * self.y as u64 * self.z as u64
    }
}

/// A kernel as the host sees it: one function, its parameters, and its variants.
#[derive(Debug)]
pub struct Kernel {
    /// Name of the function.
    pub name: &'static str,
    /// Its documentation.
    pub doc: &'static str,
    /// Its parameters in order.
    pub params: &'static [Param],
    /// One entry point per combination of const generics.
    pub variants: &'static [VariantInfo],
    /// Source file.
    pub file: &'static str,
    /// Source line.
    pub line: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the source.
    pub name: &'static str,
    /// What is passed for it.
    pub kind: ParamKind,
}

/// What is passed for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A buffer to read.
    Global {
        /// Name of the element type.
        element: &'static str,
        /// Bytes of an element.
        size: usize,
    },
    /// A buffer to read and write.
    GlobalMut {
        /// Name of the element type.
        element: &'static str,
        /// Bytes of an element.
        size: usize,
    },
    /// A value.
    Scalar {
        /// Name of the type.
        ty: &'static str,
        /// Bytes of the value.
        size: usize,
    },
}

/// One entry point of a kernel.
#[derive(Debug)]
pub struct VariantInfo {
    /// Name of the PTX entry.
    pub name: &'static str,
    /// The const generics it was made with, in order.
    pub constants: &'static [(&'static str, i64)],
    /// Threads of a block, 1 to 1024.
    pub block: u32,
    /// Blocks that shall fit a multiprocessor together; 0 asks for nothing.
    pub min_blocks: u32,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Lowest compute capability, times ten: 80.
    pub min_arch: u32,
    /// The only architecture it is built for, if there is one: `Some("sm_90a")`.
    pub arch_feature: Option<&'static str>,
    /// The same function, compiled for the host.
    pub entry: HostEntry,
}

/// The variants of one kernel as a type: the `Variant` that `#[kernel]` makes in the kernel's module.
pub trait KernelVariant: Copy + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// Those that are built, in the order of [`Kernel::variants`].
    const ALL: &'static [Self];

    /// The kernel.
    fn kernel() -> &'static Kernel;

    /// The variant that a descriptor of the kernel describes.
    fn of(info: &VariantInfo) -> Option<Self> {
        let variants = Self::kernel().variants.iter();
        let index = variants
            .map(|variant| variant.name)
            .position(|name| name == info.name)?;
        Self::ALL.get(index).copied()
    }
}

/// Unpacks the arguments once, then hands the body of one thread to the driver.
pub type HostEntry = fn(&[RawArg<'_>], &mut dyn FnMut(&(dyn Fn() + Sync)));

/// An argument on its way to a kernel.
#[derive(Clone, Copy, Debug)]
pub enum RawArg<'a> {
    /// A buffer.
    Buffer(RawBuffer),
    /// The bytes of a value.
    Scalar(&'a [u8]),
}

impl RawArg<'_> {
    /// The argument as a buffer to read, for a [`HostEntry`].
    ///
    /// # Panics
    ///
    /// If it is not a buffer of the launch now running: the entry and the kernel's `params` were not made
    /// from the same signature. The emulator reports it as a fault.
    pub fn global<T: Element>(&self) -> Global<T> {
        self.global_mut().as_const()
    }

    /// The argument as a buffer to read and write, for a [`HostEntry`].
    ///
    /// # Panics
    ///
    /// As [`RawArg::global`].
    pub fn global_mut<T: Element>(&self) -> GlobalMut<T> {
        match self {
            RawArg::Buffer(buffer) if !buffer.region.is_null() => {
                GlobalMut::new(buffer.address as usize, buffer.region)
            }
            RawArg::Buffer(_) => panic!("the buffer is not part of a launch on the emulator"),
            RawArg::Scalar(_) => panic!("a scalar was passed for a buffer"),
        }
    }

    /// The argument as a value, for a [`HostEntry`].
    ///
    /// # Panics
    ///
    /// If it is a buffer or of another size than `T`: see [`RawArg::global`].
    pub fn scalar<T: Element>(&self) -> T {
        match self {
            RawArg::Scalar(bytes) => bytemuck::pod_read_unaligned(bytes),
            RawArg::Buffer(_) => panic!("a buffer was passed for a scalar"),
        }
    }
}

/// A buffer without its type.
///
/// Made by [`RawBuffer::on_gpu`] or by [`crate::emulator::Memory::raw`]. It does not keep the memory
/// alive; the emulator refuses a launch whose memory is gone.
#[derive(Clone, Copy, Debug)]
pub struct RawBuffer {
    /// Address of its first byte: in GPU memory, or in the emulator's.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Which instance of a backend owns it.
    pub device: u64,
    /// The emulator's name for the allocation; 0 on a GPU.
    pub(crate) allocation: u64,
    /// Set while the emulator runs the launch.
    pub(crate) region: *const Region,
}

impl RawBuffer {
    /// A buffer in the memory of a GPU.
    pub const fn on_gpu(address: u64, bytes: u64, device: u64) -> Self {
        Self {
            address,
            bytes,
            device,
            allocation: 0,
            region: core::ptr::null(),
        }
    }
}

// SAFETY: addresses and lengths; only the emulator follows `region`, and only while it is set.
unsafe impl Send for RawBuffer {}
// SAFETY: as above.
unsafe impl Sync for RawBuffer {}

/// A typed buffer that a launch may read.
pub trait DeviceRef<T> {
    /// Its length in elements.
    fn len(&self) -> usize;
    /// Whether it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The buffer without its type.
    fn raw(&self) -> RawBuffer;
}

/// A typed buffer that a launch may write.
pub trait DeviceMut<T>: DeviceRef<T> {
    /// The buffer without its type, to be written.
    fn raw_mut(&mut self) -> RawBuffer;
}

/// One launch: which entry point, over which grid, with which arguments.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// One of its variants.
    pub variant: &'static VariantInfo,
    /// Blocks.
    pub grid: Grid,
    /// One argument per parameter.
    pub args: &'a [RawArg<'a>],
}

impl Launch<'_> {
    /// Checks the launch against its descriptor: axes of the grid, number and kind of the arguments,
    /// size of scalars. Every [`Queue`] calls it before it starts anything.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Refused`] with the first thing that does not fit.
    pub fn validate(&self) -> Result<(), LaunchError> {
        let refuse = |reason: String| {
            Err(LaunchError::Refused {
                kernel: self.variant.name,
                reason,
            })
        };
        let Grid { x, y, z } = self.grid;
        if x == 0 || y == 0 || z == 0 || x > i32::MAX as u32 || y > 65535 || z > 65535 {
            return refuse(format!(
                "the grid {x} x {y} x {z} is not within 1 to (2147483647, 65535, 65535)"
            ));
        }
        if self.variant.block == 0 || self.variant.block > 1024 {
            return refuse(format!(
                "a block of {} threads is not within 1 to 1024",
                self.variant.block
            ));
        }
        if self.args.len() != self.kernel.params.len() {
            return refuse(format!(
                "{} arguments for {} parameters",
                self.args.len(),
                self.kernel.params.len()
            ));
        }
        for (param, arg) in self.kernel.params.iter().zip(self.args) {
            match (param.kind, arg) {
                (ParamKind::Scalar { size, ty }, RawArg::Scalar(bytes)) if bytes.len() != size => {
                    return refuse(format!(
                        "`{}`: {} bytes for a {ty} of {size}",
                        param.name,
                        bytes.len()
                    ));
                }
                (ParamKind::Scalar { .. }, RawArg::Scalar(_))
                | (ParamKind::Global { .. } | ParamKind::GlobalMut { .. }, RawArg::Buffer(_)) => {}
                (ParamKind::Scalar { .. }, RawArg::Buffer(_)) => {
                    return refuse(format!("`{}`: a buffer for a scalar", param.name));
                }
                (_, RawArg::Scalar(_)) => {
                    return refuse(format!("`{}`: a scalar for a buffer", param.name));
                }
            }
        }
        Ok(())
    }

    /// Checks that every buffer belongs to `device`, the number a backend has given itself.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Refused`] with the first buffer that does not.
    pub fn on_device(&self, device: u64) -> Result<(), LaunchError> {
        for (param, arg) in self.kernel.params.iter().zip(self.args) {
            if let RawArg::Buffer(buffer) = arg
                && buffer.device != device
            {
                let reason = format!("`{}` is a buffer of another device", param.name);
                return Err(LaunchError::Refused {
                    kernel: self.variant.name,
                    reason,
                });
            }
        }
        Ok(())
    }
}

/// Something that runs launches in order.
pub trait Queue {
    /// Starts `launch`; on a GPU it may return before the kernel ends.
    ///
    /// # Errors
    ///
    /// See [`LaunchError`].
    fn launch(&self, launch: &Launch<'_>) -> Result<(), LaunchError>;
}

/// Why a launch failed. One line each.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The launch does not fit the kernel; nothing was started.
    #[error("{kernel}: launch refused: {reason}")]
    Refused {
        /// The variant.
        kernel: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// The emulator stopped the kernel.
    #[error("{0}")]
    Fault(Box<Fault>),
    /// The device or its driver failed.
    #[error("{kernel}: {call}: {message}")]
    Device {
        /// The variant.
        kernel: &'static str,
        /// The call that failed.
        call: &'static str,
        /// What it said.
        message: String,
    },
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {}", self.x, self.y, self.z)
    }
}

inventory::collect!(&'static Kernel);

/// Every kernel linked into this program, sorted by name.
pub fn kernels() -> Vec<&'static Kernel> {
    let mut kernels: Vec<&'static Kernel> = inventory::iter::<&'static Kernel>
        .into_iter()
        .copied()
        .collect();
    kernels.sort_by_key(|kernel| kernel.name);
    kernels
}

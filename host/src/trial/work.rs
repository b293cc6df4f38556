//! What a launch does, and what bounds it.

use simt::launch::LaunchError;

use crate::backend::Stream;

/// What one launch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of memory that must be read at least once.
    pub bytes_read: u64,
    /// Bytes of memory that must be written at least once.
    pub bytes_written: u64,
    /// Bytes that must come from L2 at least, where they are more than those from memory.
    pub l2_read: u64,
    /// 32 x 32 + 64 bit multiply-adds (`IMAD.WIDE`), over all threads.
    pub imad_wide: u64,
    /// 8-bit multiply-adds on tensor cores, by `mma.sync`.
    pub mma_int8: u64,
    /// 8-bit multiply-adds on tensor cores, by `wgmma`.
    pub wgmma_int8: u64,
    /// 64 x 64 bit carry-less multiply-adds, one half of the product each (`CLMAD`), over all
    /// threads.
    pub clmad: u64,
}

/// A limit of the hardware, measured by a kernel that does nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ceiling {
    /// Bytes a second that memory can be read at.
    DramRead,
    /// Bytes a second that memory can be copied at, read and written bytes both counted.
    DramCopy,
    /// Bytes a second that L2 can be read at.
    L2Read,
    /// `IMAD.WIDE` a second.
    ImadWide,
    /// 8-bit tensor multiply-adds a second (`mma.m16n8k32`).
    MmaInt8,
    /// 8-bit tensor multiply-adds a second of warpgroups (`wgmma`, sm_90a).
    WgmmaInt8,
    /// `CLMAD` a second.
    Clmad,
}

impl Ceiling {
    /// Every ceiling.
    pub const ALL: &'static [Self] = &[
        Self::DramRead,
        Self::DramCopy,
        Self::L2Read,
        Self::ImadWide,
        Self::MmaInt8,
        Self::WgmmaInt8,
        Self::Clmad,
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::DramRead => "dram_read",
            Self::DramCopy => "dram_copy",
            Self::L2Read => "l2_read",
            Self::ImadWide => "imad_wide",
            Self::MmaInt8 => "mma_int8",
            Self::WgmmaInt8 => "wgmma_int8",
            Self::Clmad => "clmad",
        }
    }

    /// The unit in results.
    pub fn unit(self) -> &'static str {
        match self {
            Self::DramRead | Self::DramCopy | Self::L2Read => "bytes/s",
            Self::ImadWide | Self::MmaInt8 | Self::WgmmaInt8 | Self::Clmad => "op/s",
        }
    }
}

impl Work {
    /// What a launch takes from a resource.
    ///
    /// Memory counts against the read ceiling when nearly all of it is read (a tenth or less
    /// written), else against the copy ceiling.
    pub fn of(&self, ceiling: Ceiling) -> u64 {
        let bytes = self.bytes_read + self.bytes_written;
        let mostly_read = self.bytes_written <= bytes / 10;
        match ceiling {
            Ceiling::DramRead if mostly_read => bytes,
            Ceiling::DramCopy if !mostly_read => bytes,
            Ceiling::DramRead | Ceiling::DramCopy => 0,
            Ceiling::L2Read => self.l2_read,
            Ceiling::ImadWide => self.imad_wide,
            Ceiling::MmaInt8 => self.mma_int8,
            Ceiling::WgmmaInt8 => self.wgmma_int8,
            Ceiling::Clmad => self.clmad,
        }
    }
}

/// One shape of a variant, ready to launch.
pub struct Case {
    /// The shape, for instance `n=2^26`.
    pub shape: String,
    /// What one launch does.
    pub work: Work,
    /// Launches once; owns its buffers.
    pub launch: LaunchOnce,
}

/// Launches a case once on a stream.
pub type LaunchOnce = Box<dyn FnMut(&Stream) -> Result<(), LaunchError>>;

impl Case {
    /// A case of its three parts.
    pub fn new(
        shape: impl Into<String>,
        work: Work,
        launch: impl FnMut(&Stream) -> Result<(), LaunchError> + 'static,
    ) -> Self {
        Self {
            shape: shape.into(),
            work,
            launch: Box::new(launch),
        }
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case")
            .field("shape", &self.shape)
            .field("work", &self.work)
            .finish_non_exhaustive()
    }
}

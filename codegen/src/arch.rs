//! The GPU architectures that device code is built for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An architecture that ptxas assembles for.
///
/// The order is that of the compute capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Arch {
    /// A100 (compute capability 8.0).
    Sm80,
    /// GA10x: RTX 30, A10, A40 (8.6).
    Sm86,
    /// Ada: RTX 40, L4, L40 (8.9).
    Sm89,
    /// Hopper with its architecture-specific instructions, `wgmma` among them: H100, H200 (9.0).
    Sm90a,
    /// Data-centre Blackwell: B200 (10.0).
    Sm100,
    /// Consumer Blackwell: RTX 50 (12.0).
    Sm120,
}

/// A compute capability, as a driver reports it for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// The generation.
    pub major: u32,
    /// The revision inside the generation.
    pub minor: u32,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A name that is no architecture of [`Arch::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture '{name}'; known are {}, or 'all'", Arch::names())]
pub struct UnknownArch {
    /// What was asked for.
    pub name: String,
}

impl Arch {
    /// Every architecture, oldest first.
    pub const ALL: &'static [Self] = &[
        Self::Sm80,
        Self::Sm86,
        Self::Sm89,
        Self::Sm90a,
        Self::Sm100,
        Self::Sm120,
    ];

    /// The name that ptxas takes, such as `sm_90a`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm86 => "sm_86",
            Self::Sm89 => "sm_89",
            Self::Sm90a => "sm_90a",
            Self::Sm100 => "sm_100",
            Self::Sm120 => "sm_120",
        }
    }

    /// The compute capability of the first device of this architecture.
    pub const fn capability(self) -> Capability {
        let (major, minor) = match self {
            Self::Sm80 => (8, 0),
            Self::Sm86 => (8, 6),
            Self::Sm89 => (8, 9),
            Self::Sm90a => (9, 0),
            Self::Sm100 => (10, 0),
            Self::Sm120 => (12, 0),
        };
        Capability { major, minor }
    }

    /// Whether code for this architecture runs on its own compute capability and no other.
    pub const fn is_specific(self) -> bool {
        matches!(self, Self::Sm90a)
    }

    /// Whether a device of `device` can run a cubin built for this architecture.
    ///
    /// Cubins run on the same major revision and an equal or higher minor one; those of an
    /// architecture-specific target on exactly theirs (CUDA C++ Programming Guide, "Binary
    /// Compatibility").
    pub fn cubin_runs_on(self, device: Capability) -> bool {
        let built = self.capability();
        if self.is_specific() {
            built == device
        } else {
            built.major == device.major && built.minor <= device.minor
        }
    }

    /// Whether a driver can translate PTX of this architecture for a device of `device`.
    pub fn ptx_runs_on(self, device: Capability) -> bool {
        if self.is_specific() {
            self.capability() == device
        } else {
            self.capability() <= device
        }
    }

    /// Parses `all`, or a comma-separated list such as `sm_80,sm_90a`, into a sorted list without
    /// repetitions. An empty text is an empty list.
    ///
    /// # Errors
    ///
    /// [`UnknownArch`] with the first name that is not known.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, UnknownArch> {
        let mut archs = Vec::new();
        for name in text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            if name == "all" {
                archs.extend_from_slice(Self::ALL);
            } else {
                archs.push(name.parse()?);
            }
        }
        archs.sort_unstable();
        archs.dedup();
        Ok(archs)
    }

    /// All names, for messages.
    fn names() -> String {
        Self::ALL
            .iter()
            .map(|arch| arch.name())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(name: &str) -> Result<Self, UnknownArch> {
        Self::ALL
            .iter()
            .copied()
            .find(|arch| arch.name() == name)
            .ok_or_else(|| UnknownArch {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_all_are_listed_in_order() {
        for &arch in Arch::ALL {
            assert_eq!(arch.name().parse::<Arch>(), Ok(arch));
        }
        assert!(Arch::ALL.is_sorted());
        assert_eq!(Arch::parse_list("all").unwrap(), Arch::ALL);
    }

    #[test]
    fn a_list_is_sorted_without_repetitions() {
        assert_eq!(
            Arch::parse_list("sm_90a, sm_80,sm_90a"),
            Ok(vec![Arch::Sm80, Arch::Sm90a])
        );
        assert_eq!(Arch::parse_list(""), Ok(vec![]));
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
        let message = Arch::parse_list("sm_80,sm_91").unwrap_err().to_string();
        assert!(message.contains("'sm_91'"), "{message}");
        for arch in Arch::ALL {
            assert!(message.contains(arch.name()), "{message}");
        }
    }

    #[test]
    fn cubins_run_on_the_same_major_and_specific_ones_on_their_own_device_only() {
        let cap = |major, minor| Capability { major, minor };
        assert!(Arch::Sm80.cubin_runs_on(cap(8, 9)));
        assert!(!Arch::Sm89.cubin_runs_on(cap(8, 6)));
        assert!(!Arch::Sm80.cubin_runs_on(cap(9, 0)));
        assert!(Arch::Sm90a.cubin_runs_on(cap(9, 0)));
        assert!(!Arch::Sm90a.cubin_runs_on(cap(10, 0)));
        assert!(Arch::Sm100.cubin_runs_on(cap(10, 3)));
        assert!(Arch::Sm80.ptx_runs_on(cap(12, 0)));
        assert!(!Arch::Sm90a.ptx_runs_on(cap(12, 0)));
    }
}

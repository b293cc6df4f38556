//! Work that several variants can do, and which of them takes it.

use simt::launch::VariantInfo;

use super::{AnyTrial, Case, TrialError};
use crate::backend::{Backend, DeviceInfo};

/// Work that several variants do alike, bit for bit: which of them takes it is chosen per device.
pub struct Job {
    /// Its name in tables: `family.job`.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    /// The kernels whose variants can do it.
    pub trials: &'static [&'static dyn AnyTrial],
    /// Which of their variants can.
    pub fits: fn(&VariantInfo) -> bool,
    /// The built-in table: part of a device's name, or `cpu` or `cuda`, and the name of the variant. The first row that
    /// fits a device is taken; the last one fits any: its part is empty.
    pub defaults: &'static [(&'static str, &'static str)],
    /// The shape by which variants are compared.
    pub case: fn(&Backend, &'static VariantInfo, u64) -> Result<Case, TrialError>,
}

impl Job {
    /// The variants that can do it, in the order of their kernels.
    pub fn candidates(&self) -> impl Iterator<Item = &'static VariantInfo> {
        self.trials
            .iter()
            .flat_map(|trial| trial.kernel().variants)
            .filter(|variant| (self.fits)(variant))
    }

    /// The candidate of that name.
    pub fn candidate(&self, name: &str) -> Option<&'static VariantInfo> {
        self.candidates().find(|variant| variant.name == name)
    }

    /// The variant of the built-in table.
    pub fn default_for(&self, device: &DeviceInfo) -> Option<&'static VariantInfo> {
        let kind = device.kind.to_string();
        self.defaults
            .iter()
            .filter(|(part, _)| *part == kind || device.name.contains(part))
            .find_map(|(_, name)| self.candidate(name))
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("name", &self.name)
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}

/// The value of a constant of a variant.
pub fn constant(variant: &VariantInfo, name: &str) -> Option<i64> {
    let found = variant.constants.iter().find(|(other, _)| *other == name);
    found.map(|(_, value)| *value)
}

//! What the expansion of `#[kernel]` calls. Nothing here is for other callers, and all of it may
//! change.

use core::fmt::Debug;

pub use inventory;

use crate::Element;
use crate::launch::{Kernel, LaunchError};

/// The bytes of a scalar argument.
pub fn bytes<T: Element>(value: &T) -> &[u8] {
    bytemuck::bytes_of(value)
}

/// The refusal of a `Variant` that was not built.
pub fn no_such_variant(kernel: &'static Kernel, variant: &dyn Debug) -> LaunchError {
    let reason = format!(
        "{variant:?} is not among the {} variants built",
        kernel.variants.len()
    );
    LaunchError::Refused {
        kernel: kernel.name,
        reason,
    }
}

/// Why a condition of `requires` refuses a launch: the condition as written, and what is known of
/// the values in it.
pub fn requirement(condition: &str, values: &[(&str, Option<String>)]) -> String {
    let values: Vec<String> = values
        .iter()
        .filter_map(|(name, value)| Some(format!("{name} = {}", value.as_ref()?)))
        .collect();
    if values.is_empty() {
        format!("it requires {condition}")
    } else {
        format!("it requires {condition}, but {}", values.join(", "))
    }
}

/// A value that is shown if its type has `Debug`. Written `(&Show(&value)).show()` with both traits
/// in scope, method lookup finds [`ShowDebug`] first where it applies, and [`ShowNothing`] one
/// reference later where it does not.
pub struct Show<'a, T>(pub &'a T);

/// See [`Show`].
pub trait ShowDebug {
    /// The value as text.
    fn show(&self) -> Option<String>;
}

impl<T: Debug> ShowDebug for Show<'_, T> {
    fn show(&self) -> Option<String> {
        Some(format!("{:?}", self.0))
    }
}

/// See [`Show`].
pub trait ShowNothing {
    /// Nothing.
    fn show(&self) -> Option<String>;
}

impl<T> ShowNothing for &Show<'_, T> {
    fn show(&self) -> Option<String> {
        None
    }
}

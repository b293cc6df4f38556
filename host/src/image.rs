//! The kernel image that this binary carries.

use std::sync::OnceLock;

use codegen::image::{Image, ImageError};

/// The commit that the binary was built from, `-dirty` when the tree had changes, `unknown`
/// outside a git checkout.
pub const COMMIT: &str = env!("GRISTMILL_COMMIT");

static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image.bin"));

/// The image in this binary; empty when it was built without `GRISTMILL_ARCH`.
///
/// # Errors
///
/// [`ImageError`] when the embedded bytes are damaged.
pub fn embedded() -> Result<&'static Image, ImageError> {
    static IMAGE: OnceLock<Result<Image, ImageError>> = OnceLock::new();
    IMAGE
        .get_or_init(|| Image::from_bytes(BYTES))
        .as_ref()
        .map_err(Clone::clone)
}

/// Bytes that the image takes in this binary.
pub fn embedded_bytes() -> usize {
    BYTES.len()
}

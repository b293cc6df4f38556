//! What memory holds: types that are plain bits, and short vectors that move in one instruction.
//!
//! A GPU loads 1, 2, 4, 8 or 16 bytes at once, and only from an address that is a multiple of that
//! size. In Rust the alignment of a type says how it may be loaded, so `[u32; 4]` (alignment 4) costs
//! four loads, and [`U32x4`] (alignment 16) one `LDG.128`.

/// A type that can lie in GPU memory: any bit pattern is valid and there is no padding.
///
/// # Safety
///
/// Implementors promise what [`bytemuck::Pod`] already asks (inhabited, any bit pattern, no padding,
/// no pointers, no interior mutability) and, beyond it, that their layout is the same on the host and on
/// the device: `#[repr(C)]` or `#[repr(transparent)]`, and no `usize`.
pub unsafe trait Element: bytemuck::Pod {}

/// Numbers are elements.
macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: an integer of fixed width has the same layout on both sides.
        unsafe impl Element for $t {}
    )* };
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64);

/// Short vectors: an array with the alignment of its own size.
macro_rules! vector {
    ($(#[$doc:meta])* $name:ident, $lane:ty, $lanes:literal, $align:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(C, align($align))]
        pub struct $name(pub [$lane; $lanes]);

        // SAFETY: all-zero bits are zeroes in every lane.
        unsafe impl bytemuck::Zeroable for $name {}
        // SAFETY: an array of integers; size and alignment are equal, so there is no padding.
        unsafe impl bytemuck::Pod for $name {}
        // SAFETY: `repr(C)` over an array of fixed-width integers.
        unsafe impl Element for $name {}

        const _: () = assert!(size_of::<$name>() == $align);

        impl From<[$lane; $lanes]> for $name {
            #[inline(always)]
            fn from(lanes: [$lane; $lanes]) -> Self {
                Self(lanes)
            }
        }

        impl From<$name> for [$lane; $lanes] {
            #[inline(always)]
            fn from(vector: $name) -> Self {
                vector.0
            }
        }
    };
}

vector! {
    /// Two words that move together (8 bytes).
    U32x2, u32, 2, 8
}
vector! {
    /// Four words that move together (16 bytes).
    U32x4, u32, 4, 16
}
vector! {
    /// Two double words that move together (16 bytes).
    U64x2, u64, 2, 16
}
vector! {
    /// Sixteen bytes that move together.
    U8x16, u8, 16, 16
}

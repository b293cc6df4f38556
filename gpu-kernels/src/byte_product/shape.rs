//! Sizes and strides.

use bytemuck::{Pod, Zeroable};

/// Sizes and strides of a product; see the [module](super) for what they mean.
///
/// Rows, inner positions and columns are at most [`Shape::MAX_SIZE`] each; their products may be
/// any size.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of `D` and `Y`.
    pub rows: u32,
    /// Columns of `D`, in bytes; rows of `X`; at most [`Shape::MAX_SIZE`].
    pub inner: u32,
    /// Columns of `X` and `Y`.
    pub columns: u32,
    /// Bytes from one row of `D` to the next: at least `inner`, a multiple of 16.
    pub database_stride: u32,
    /// Words from one column of `X` to the next: at least `inner`, a multiple of 4.
    pub x_stride: u32,
    /// Words from one column of `Y` to the next: at least `rows`.
    pub y_stride: u32,
}

// SAFETY: all bits zero is an empty shape.
unsafe impl Zeroable for Shape {}
// SAFETY: six 32-bit integers, so no padding; the layout is C's on both sides.
unsafe impl Pod for Shape {}
// SAFETY: as for `Pod`.
unsafe impl simt::Element for Shape {}

impl Shape {
    /// Most rows, inner positions or columns: kernels count them in 32 bits, a tile past the end.
    pub const MAX_SIZE: u32 = 1 << 31;

    /// The smallest strides for these sizes; `None` for sizes over [`Shape::MAX_SIZE`].
    #[must_use]
    pub const fn packed(rows: u32, inner: u32, columns: u32) -> Option<Self> {
        if rows > Self::MAX_SIZE || inner > Self::MAX_SIZE || columns > Self::MAX_SIZE {
            return None;
        }
        Some(Self {
            rows,
            inner,
            columns,
            database_stride: inner.next_multiple_of(16),
            x_stride: inner.next_multiple_of(4),
            y_stride: rows,
        })
    }

    /// Whether sizes and strides are what the kernels need.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.rows <= Self::MAX_SIZE
            && self.inner <= Self::MAX_SIZE
            && self.columns <= Self::MAX_SIZE
            && self.inner <= self.database_stride
            && self.database_stride.is_multiple_of(16)
            && self.inner <= self.x_stride
            && self.x_stride.is_multiple_of(4)
            && self.rows <= self.y_stride
    }

    /// Bytes of `D`, the fill of its last row included.
    #[must_use]
    pub const fn database_len(&self) -> u64 {
        self.rows as u64 * self.database_stride as u64
    }

    /// Words of `X`, the fill of its last column included.
    #[must_use]
    pub const fn x_len(&self) -> u64 {
        self.columns as u64 * self.x_stride as u64
    }

    /// Words of `Y`, the fill of its last column included.
    #[must_use]
    pub const fn y_len(&self) -> u64 {
        self.columns as u64 * self.y_stride as u64
    }

    /// Blocks of [`byte_matvec`](fn@super::byte_matvec) that all have work; 1 where there is none.
    #[must_use]
    pub fn matvec_blocks(&self, rows_of_a_warp: usize) -> u32 {
        at_least_one_block((self.rows as u64).div_ceil(8 * rows_of_a_warp as u64))
    }

    /// Blocks of [`byte_matmul`](fn@super::byte_matmul) that all have work; 1 where there is none.
    #[must_use]
    pub fn matmul_blocks(&self, column_tiles: usize) -> u32 {
        let columns = column_tiles as u64 * super::fragment::COLUMNS as u64;
        let row_tiles = (self.rows as u64).div_ceil(super::MATMUL_ROWS as u64);
        at_least_one_block(row_tiles.saturating_mul((self.columns as u64).div_ceil(columns)))
    }
}

/// A number of blocks that a grid can have; the kernels loop over what is left.
fn at_least_one_block(blocks: u64) -> u32 {
    blocks.clamp(1, i32::MAX as u64) as u32
}

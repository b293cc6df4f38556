//! The product of a matrix of bytes with a matrix of 32-bit words, modulo 2^32.
//!
//! `Y = D X`: the database `D` has `rows` x `inner` bytes, `X` has `inner` x `columns` words, `Y`
//! has `rows` x `columns` words. This is the scalar fold of private information retrieval: a column
//! of `X` is one client's query, the same column of `Y` its answer (SimplePIR,
//! <https://eprint.iacr.org/2022/949>); with the public LWE matrix for `X`, `Y` is the hint. Bytes
//! are unsigned, or signed in two's complement, which is what a database should hold as `b - 128`:
//! the products with noise are then half as large.
//!
//! # Layout
//!
//! All three are stored so that the long dimension is contiguous. A [`Shape`] has the sizes and the
//! strides.
//!
//! - `D`: row by row, a row of `inner` bytes every `database_stride` bytes, a multiple of 16.
//! - `X`: **column by column**, the `inner` words of a column contiguous, a column every `x_stride`
//!   words, a multiple of 4. So a query goes into its place as it came, and 16 bytes of a row meet
//!   16 consecutive words of a column.
//! - `Y`: **column by column** too, the `rows` words of a column contiguous, a column every
//!   `y_stride` words: an answer leaves as it is, and `N` consecutive words of a hint's column are
//!   the polynomial that ring packing makes of them.
//!
//! What fills a row or column up to its stride is read but has no influence: it may hold anything,
//! but must have been written once. [`Shape::packed`] gives the smallest strides. All indices are
//! 64 bits wide on the way to an address, so a database may have any size that the memory has.
//!
//! # Method
//!
//! A word is split into its four bytes, `x = sum 2^(8 j) x_j` ([`planes`]), so that `D X = sum 2^(8
//! j) D X_j` with four products of bytes, exact modulo 2^32 for any `inner` because 32-bit
//! accumulators wrap. [`byte_matvec`](fn@byte_matvec) takes `dp4a` for them, for one column;
//! [`byte_matmul`](fn@byte_matmul) takes tensor cores.

pub mod fragment;
mod kernels;
pub mod planes;
#[cfg(not(target_arch = "nvptx64"))]
pub mod reference;
mod shape;
#[cfg(test)]
mod tests;

pub use kernels::*;
pub use shape::Shape;

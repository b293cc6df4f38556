//! Negacyclic number-theoretic transforms: `Z_q[X]/(X^N + 1)` to `N` values and back.
//!
//! # What is computed
//!
//! Let `psi` be the root of order `2N` that [`Modulus::root_of_unity`] chooses, and `brv` the reversal of `log2 N` bits.
//! The forward transform takes coefficients `a[0..N]` in their natural order to
//!
//! ```text
//! A[i] = a(psi^(2 brv(i) + 1))        i in 0..N
//! ```
//!
//! so values come in **bit-reversed order**; the inverse takes that order back to natural coefficients and includes the
//! factor `1/N`. Products of two transforms, value by value, are products in the ring.
//!
//! The powers of `psi` are merged into the butterflies (Cooley-Tukey forward, Gentleman-Sande backward), so there is no
//! twist and no permutation pass: P. Longa and M. Naehrig, *Speeding up the number theoretic transform for faster
//! ideal lattice-based cryptography*, CANS 2016, algorithms 1 and 2.
//!
//! # Data
//!
//! A batch is `[batch][prime][N]` words: polynomial `p` starts at word `p * N` and belongs to modulus `p mod primes`.
//! Both transforms read values below `4q` and write residues (below `q`). Inside, the forward transform keeps values
//! below `8q` and the inverse below `4q`; `butterfly` proves both.
//!
//! # Tables
//!
//! [`TwiddleTable`] builds, for each modulus, `N` pairs for each direction: entry `2^s + i` is the factor of block `i` of the
//! stage with `2^s` blocks. See there for the two entries of the inverse that carry `1/N`.

mod butterfly;
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub mod reference;
#[cfg(not(target_arch = "nvptx64"))]
mod table;

#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::grid;
pub use kernels::{ntt_forward, ntt_inverse};
#[cfg(not(target_arch = "nvptx64"))]
pub use table::{MAX_LOG_N, TableError, TwiddleTable};

#[cfg(doc)]
use crate::arith::Modulus;

//! Checks, benches and floors of the `gf128` kernels.

use gpu_kernels::gf128::{
    self, Field128, Ghash, Polyval, gf128_matmul, gf128_mul, gf128_mul_add, gf128_mul_bitsliced,
    method, polyval_mul, polyval_mul_add, reference,
};
use simt::launch::Grid;

use crate::backend::{Backend, Kind};
use crate::trial::{
    Case, Digest, Family, Inputs, Trial, TrialError, Work, repeated, verify, verify_at,
};

inventory::submit! { &FAMILY }

/// The family.
pub static FAMILY: Family = Family {
    name: "gf128",
    trials: &[
        &GhashMul,
        &GhashMulBitsliced,
        &GhashMulAdd,
        &GhashMatmul,
        &PolyvalMul,
        &PolyvalMulAdd,
    ],
    ceilings: &[],
    jobs: &[],
};

struct GhashMul;
struct GhashMulBitsliced;
struct GhashMulAdd;
struct GhashMatmul;
struct PolyvalMul;
struct PolyvalMulAdd;

/// `len` elements, those among them where reductions begin and end.
fn elements<F: Field128>(inputs: &mut Inputs, len: usize) -> Vec<F> {
    let limbs: Vec<[u64; 2]> = {
        let low = inputs.double_words(len);
        let high = inputs.double_words(len);
        low.into_iter()
            .zip(high)
            .map(|(low, high)| [low, high])
            .collect()
    };
    let edges = [
        [0, 0],
        F::ONE.limbs(),
        [u64::MAX, u64::MAX],
        [0, 1 << 63],
        [1, 0],
        [0x87, 0],
        [0, 1],
    ];
    inputs
        .with_edges(limbs, &edges)
        .into_iter()
        .map(F::from_limbs)
        .collect()
}

/// A thread for each output.
fn cover(outputs: usize) -> Grid {
    Grid::x(outputs.div_ceil(256).clamp(1, i32::MAX as usize) as u32)
}

/// Check and bench of the product.
macro_rules! product {
    ($hook:ident, $field:ty, $kernel:ident, $reference:path, clmad = $clmad:expr) => {
        impl Trial for $hook {
            type Variant = $kernel::Variant;

            fn check(
                &self,
                backend: &Backend,
                variant: Self::Variant,
                mut inputs: Inputs,
            ) -> Result<Digest, TrialError> {
                let n = 500 + inputs.number_below(1000) as usize;
                let (a, b) = (elements(&mut inputs, n), elements(&mut inputs, n));
                let expected: Vec<$field> =
                    a.iter().zip(&b).map(|(&a, &b)| $reference(a, b)).collect();

                let grid = Grid::x(1 + inputs.number_below(4) as u32);
                let (a, b, mut c) = (backend.upload(&a)?, backend.upload(&b)?, backend.alloc(n)?);
                $kernel::launch(backend, variant, grid, &a, &b, &mut c, n as u64)?;
                verify(backend, "c", &c, &expected)
            }

            fn cases(
                &self,
                backend: &Backend,
                variant: Self::Variant,
                mut inputs: Inputs,
            ) -> Result<Vec<Case>, TrialError> {
                let n: usize = match backend.kind() {
                    Kind::Cpu => 1 << 14,
                    Kind::Cuda => 1 << 25,
                };
                let a = repeated::<$field>(backend, &mut inputs, n)?;
                let b = repeated::<$field>(backend, &mut inputs, n)?;
                let mut c = backend.alloc::<$field>(n)?;
                let work = Work {
                    bytes_read: 32 * n as u64,
                    bytes_written: 16 * n as u64,
                    clmad: n as u64 * $clmad(variant),
                    ..Work::default()
                };
                Ok(vec![Case::new(format!("n={n}"), work, move |stream| {
                    $kernel::launch(stream, variant, cover(n), &a, &b, &mut c, n as u64)
                })])
            }
        }
    };
}
product!(
    GhashMul,
    Ghash,
    gf128_mul,
    reference::ghash,
    clmad = |variant: gf128_mul::Variant| method::clmad(variant.method, 1)
);
product!(
    GhashMulBitsliced,
    Ghash,
    gf128_mul_bitsliced,
    reference::ghash,
    clmad = |_| 0
);
product!(
    PolyvalMul,
    Polyval,
    polyval_mul,
    reference::polyval,
    clmad = |variant: polyval_mul::Variant| method::clmad(variant.method, 1)
);

/// Check and bench of the sum of products.
macro_rules! sum_of_products {
    ($hook:ident, $field:ty, $kernel:ident, $reference:path) => {
        impl Trial for $hook {
            type Variant = $kernel::Variant;

            fn check(
                &self,
                backend: &Backend,
                variant: Self::Variant,
                mut inputs: Inputs,
            ) -> Result<Digest, TrialError> {
                let n = 100 + inputs.number_below(500) as usize;
                let terms = inputs.number_below(6) as usize;
                let a: Vec<$field> = elements(&mut inputs, n * terms);
                let b: Vec<$field> = elements(&mut inputs, n * terms);
                let before: Vec<$field> = elements(&mut inputs, n);
                let mut expected = before.clone();
                for (term, (&a, &b)) in a.iter().zip(&b).enumerate() {
                    expected[term % n] += $reference(a, b);
                }

                let grid = Grid::x(1 + inputs.number_below(4) as u32);
                let (a, b, mut c) = (
                    backend.upload(&a)?,
                    backend.upload(&b)?,
                    backend.upload(&before)?,
                );
                $kernel::launch(
                    backend,
                    variant,
                    grid,
                    &a,
                    &b,
                    &mut c,
                    n as u64,
                    terms as u32,
                )?;
                verify(backend, "c", &c, &expected)
            }

            fn cases(
                &self,
                backend: &Backend,
                variant: Self::Variant,
                mut inputs: Inputs,
            ) -> Result<Vec<Case>, TrialError> {
                const TERMS: usize = 8;
                let n: usize = match backend.kind() {
                    Kind::Cpu => 1 << 11,
                    Kind::Cuda => 1 << 22,
                };
                let a = repeated::<$field>(backend, &mut inputs, TERMS * n)?;
                let b = repeated::<$field>(backend, &mut inputs, TERMS * n)?;
                let mut c = repeated::<$field>(backend, &mut inputs, n)?;
                let work = Work {
                    bytes_read: (32 * TERMS * n + 16 * n) as u64,
                    bytes_written: 16 * n as u64,
                    clmad: n as u64 * method::clmad(variant.method, TERMS as u64),
                    ..Work::default()
                };
                Ok(vec![Case::new(
                    format!("n={n} terms={TERMS}"),
                    work,
                    move |stream| {
                        let size = n as u64;
                        $kernel::launch(
                            stream,
                            variant,
                            cover(n),
                            &a,
                            &b,
                            &mut c,
                            size,
                            TERMS as u32,
                        )
                    },
                )])
            }
        }
    };
}
sum_of_products!(GhashMulAdd, Ghash, gf128_mul_add, reference::ghash);
sum_of_products!(PolyvalMulAdd, Polyval, polyval_mul_add, reference::polyval);

impl Trial for GhashMatmul {
    type Variant = gf128_matmul::Variant;

    fn check(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Digest, TrialError> {
        let mut size = |most: u64| 1 + inputs.number_below(most) as usize;
        let (rows, n, terms, blocks) = (size(40), size(150), size(30) - 1, size(4));
        let a: Vec<Ghash> = elements(&mut inputs, rows * terms);
        let b: Vec<Ghash> = elements(&mut inputs, terms * n);
        let before: Vec<Ghash> = elements(&mut inputs, rows * n);
        let mut expected = before.clone();
        for (at, sum) in expected.iter_mut().enumerate() {
            let (row, column) = (at / n, at % n);
            for t in 0..terms {
                *sum += reference::ghash(a[row * terms + t], b[t * n + column]);
            }
        }

        let (a, b, mut c) = (
            backend.upload(&a)?,
            backend.upload(&b)?,
            backend.upload(&before)?,
        );
        gf128_matmul::launch(
            backend,
            variant,
            Grid::x(blocks as u32),
            &a,
            &b,
            &mut c,
            rows as u32,
            terms as u32,
            n as u64,
        )?;
        verify_at(backend, "c", &c, &expected, |at| {
            format!("{}, {}", at / n, at % n)
        })
    }

    fn cases(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Vec<Case>, TrialError> {
        // Sixteen combinations of 64 vectors, of 16 MiB each on a GPU.
        let (rows, terms, n): (usize, usize, usize) = match backend.kind() {
            Kind::Cpu => (16, 16, 64),
            Kind::Cuda => (16, 64, 1 << 20),
        };
        let a = repeated::<Ghash>(backend, &mut inputs, rows * terms)?;
        let b = repeated::<Ghash>(backend, &mut inputs, terms * n)?;
        let mut c = repeated::<Ghash>(backend, &mut inputs, rows * n)?;
        let outputs = (rows * n) as u64;
        let work = Work {
            bytes_read: 16 * (rows * terms + terms * n + rows * n) as u64,
            bytes_written: 16 * outputs,
            clmad: outputs * method::clmad(variant.method, terms as u64),
            ..Work::default()
        };
        let shape = format!("rows={rows} terms={terms} n={n}");
        let grid = gf128::matmul_grid(rows as u32, n as u64);
        Ok(vec![Case::new(shape, work, move |stream| {
            gf128_matmul::launch(
                stream,
                variant,
                grid,
                &a,
                &b,
                &mut c,
                rows as u32,
                terms as u32,
                n as u64,
            )
        })])
    }
}

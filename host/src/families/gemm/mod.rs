//! Checks, benches and floors of the `gemm` kernels.

use gpu_kernels::arith::Modulus;
use gpu_kernels::arith::prime::VIPIR;
use gpu_kernels::gemm::{grid, modular_gemm, reference};
use simt::launch::Grid;

use crate::backend::{Backend, Kind};
use crate::trial::{Case, Digest, Family, Inputs, Trial, TrialError, Work, tiled, verify_at};

inventory::submit! { &FAMILY }

/// The family.
pub static FAMILY: Family = Family {
    name: "gemm",
    trials: &[&ModularGemm],
    ceilings: &[],
    jobs: &[],
};

struct ModularGemm;

fn grid_of(points: u32, m: u32, n: u32, columns: usize) -> Result<Grid, TrialError> {
    let error = || TrialError::Other(format!("no grid for {points} products of {m} x {n}"));
    grid(points, m, n, columns).ok_or_else(error)
}

impl Trial for ModularGemm {
    type Variant = modular_gemm::Variant;

    fn check(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Digest, TrialError> {
        let moduli = [VIPIR[0], Modulus::LARGEST, VIPIR[2]];
        let (points, per_modulus) = (5, 2);
        let (m, k, n) = (
            50 + inputs.number_below(50) as usize,
            100 + inputs.number_below(100) as usize,
            10 + inputs.number_below(20) as usize,
        );
        let (mut a, mut b, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for point in 0..points {
            let q = moduli[point / per_modulus].get();
            let (of_a, of_b) = if point == 0 {
                // The largest sums that there are.
                (vec![q - 1; m * k], vec![q - 1; k * n])
            } else {
                (inputs.residues(m * k, q), inputs.residues(k * n, q))
            };
            expected.extend(reference::modular_product(&of_a, &of_b, (m, k, n), q));
            a.extend(of_a);
            b.extend(of_b);
        }

        let (a, b) = (backend.upload(&a)?, backend.upload(&b)?);
        let moduli = backend.upload(&moduli)?;
        let mut c = backend.alloc(expected.len())?;
        let grid = grid_of(points as u32, m as u32, n as u32, variant.columns)?;
        modular_gemm::launch(
            backend,
            variant,
            grid,
            &a,
            &b,
            &mut c,
            &moduli,
            per_modulus as u32,
            m as u32,
            k as u32,
            n as u32,
        )?;
        verify_at(backend, "c", &c, &expected, |i| {
            format!("{}, {}, {}", i / (m * n), i / n % m, i % n)
        })
    }

    fn cases(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Vec<Case>, TrialError> {
        // Ring packing: M = D1 / N, K = n of the LWE, N = 2 x queries.
        let shapes: &[(u32, u32, u32, u32)] = match backend.kind() {
            Kind::Cpu => &[(1, 64, 128, 2), (1, 64, 128, 64)],
            Kind::Cuda => &[(1024, 256, 1280, 2), (1024, 256, 1280, 64)],
        };
        let q = VIPIR[0];
        let mut cases = Vec::new();
        for &(points, m, k, n) in shapes {
            let of_a = points as usize * m as usize * k as usize;
            let of_b = points as usize * k as usize * n as usize;
            let of_c = points as usize * m as usize * n as usize;
            let a = tiled(backend, &inputs.residues(of_a.min(1 << 20), q.get()), of_a)?;
            let b = tiled(backend, &inputs.residues(of_b.min(1 << 20), q.get()), of_b)?;
            let mut c = backend.alloc(of_c)?;
            let moduli = backend.upload(&[q])?;
            let work = Work {
                bytes_read: 4 * (of_a + of_b) as u64,
                bytes_written: 4 * of_c as u64,
                imad_wide: of_a as u64 * u64::from(n),
                ..Work::default()
            };
            let grid = grid_of(points, m, n, variant.columns)?;
            let shape = format!("points={points} m={m} k={k} n={n}");
            cases.push(Case::new(shape, work, move |stream| {
                modular_gemm::launch(
                    stream, variant, grid, &a, &b, &mut c, &moduli, points, m, k, n,
                )
            }));
        }
        Ok(cases)
    }
}

//! Checks, benches and floors of the `ntt` kernels.

use gpu_kernels::arith::Modulus;
use gpu_kernels::arith::prime::{NTT_16384, VIPIR};
use gpu_kernels::ntt::{TwiddleTable, grid, ntt_forward, ntt_inverse, reference};
use simt::launch::Grid;

use crate::backend::{Backend, Kind};
use crate::trial::{Case, Digest, Family, Inputs, Trial, TrialError, Work, tiled, verify_at};

inventory::submit! { &FAMILY }

/// The family.
pub static FAMILY: Family = Family {
    name: "ntt",
    trials: &[&Forward, &Inverse],
    ceilings: &[],
    jobs: &[],
};

/// The moduli of the VIPIR set as far as they reach, then the ones that reach `N = 2^14`.
fn moduli(log_n: usize) -> &'static [Modulus] {
    if log_n <= 12 { &VIPIR } else { &NTT_16384 }
}

fn table(moduli: &[Modulus], log_n: usize) -> Result<TwiddleTable, TrialError> {
    TwiddleTable::new(moduli, log_n as u32).map_err(|error| TrialError::Other(error.to_string()))
}

fn grid_of(batch: usize, primes: usize) -> Result<Grid, TrialError> {
    let error = || TrialError::Other(format!("no grid for {batch} x {primes} polynomials"));
    grid(batch, primes).ok_or_else(error)
}

/// A batch of values below `4q`, and the same as residues.
fn batch(inputs: &mut Inputs, table: &TwiddleTable, batch: usize) -> (Vec<u32>, Vec<u32>) {
    let (mut lazy, mut residues) = (Vec::new(), Vec::new());
    for _ in 0..batch {
        for q in table.moduli() {
            for residue in inputs.residues(table.n(), q.get()) {
                residues.push(residue);
                lazy.push(residue + q.get() * inputs.number_below(4) as u32);
            }
        }
    }
    (lazy, residues)
}

/// The reference of each polynomial of a batch.
fn expected(
    table: &TwiddleTable,
    data: &[u32],
    transform: fn(&[u32], u32, u32) -> Vec<u32>,
) -> Result<Vec<u32>, TrialError> {
    let mut values = Vec::with_capacity(data.len());
    for (polynomial, q) in data
        .chunks_exact(table.n())
        .zip(table.moduli().iter().cycle())
    {
        let psi = q
            .root_of_unity(table.log_n() + 1)
            .ok_or_else(|| TrialError::Other(format!("{q} has no root of unity")))?;
        values.extend(transform(polynomial, q.get(), psi));
    }
    Ok(values)
}

/// Check and bench of one direction.
macro_rules! direction {
    ($hook:ident, $kernel:ident, $factors:ident, $reference:path) => {
        struct $hook;

        impl Trial for $hook {
            type Variant = $kernel::Variant;

            fn check(
                &self,
                backend: &Backend,
                variant: Self::Variant,
                mut inputs: Inputs,
            ) -> Result<Digest, TrialError> {
                let moduli = moduli(variant.log_n);
                let primes = 1 + inputs.number_below(3) as usize;
                let first = inputs.number_below((moduli.len() - primes + 1) as u64) as usize;
                let table = table(&moduli[first..first + primes], variant.log_n)?;
                // The emulator checks about 2^16 values in a tenth of a second.
                let count = if variant.log_n <= 12 { 2 } else { 1 };
                let (lazy, residues) = batch(&mut inputs, &table, count);
                let expected = expected(&table, &residues, $reference)?;

                let mut data = backend.upload(&lazy)?;
                let factors = backend.upload(table.$factors())?;
                let moduli = backend.upload(table.moduli())?;
                let grid = grid_of(count, primes)?;
                $kernel::launch(
                    backend,
                    variant,
                    grid,
                    &mut data,
                    &factors,
                    &moduli,
                    primes as u32,
                )?;
                verify_at(backend, "data", &data, &expected, |i| {
                    let (polynomial, at) = (i / table.n(), i % table.n());
                    format!("{}, {}, {at}", polynomial / primes, polynomial % primes)
                })
            }

            fn cases(
                &self,
                backend: &Backend,
                variant: Self::Variant,
                mut inputs: Inputs,
            ) -> Result<Vec<Case>, TrialError> {
                const PRIMES: usize = 3;
                let table = table(&moduli(variant.log_n)[..PRIMES], variant.log_n)?;
                // 3 x 2^26 bytes at least: three times the L2 of an H200.
                let count = match backend.kind() {
                    Kind::Cpu => 1,
                    Kind::Cuda => (1 << 24) >> variant.log_n,
                };
                let words = count * PRIMES * table.n();
                let (_, part) = batch(&mut inputs, &table, count.min(16));
                let mut data = tiled(backend, &part, words)?;
                let factors = backend.upload(table.$factors())?;
                let moduli = backend.upload(table.moduli())?;
                let butterflies = (words / 2 * variant.log_n) as u64;
                let work = Work {
                    bytes_read: 4 * words as u64,
                    bytes_written: 4 * words as u64,
                    // A Shoup product is one IMAD.HI, which costs as much as an IMAD.WIDE, and two
                    // IMAD at half of that.
                    imad_wide: 2 * butterflies,
                    ..Work::default()
                };
                let grid = grid_of(count, PRIMES)?;
                let shape = format!("n={} primes={PRIMES} batch={count}", table.n());
                Ok(vec![Case::new(shape, work, move |stream| {
                    $kernel::launch(
                        stream,
                        variant,
                        grid,
                        &mut data,
                        &factors,
                        &moduli,
                        PRIMES as u32,
                    )
                })])
            }
        }
    };
}

direction!(Forward, ntt_forward, forward, reference::forward);
direction!(Inverse, ntt_inverse, inverse, reference::inverse);

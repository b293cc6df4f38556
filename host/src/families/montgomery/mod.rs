//! Checks, benches and floors of the `montgomery` kernels.

use gpu_kernels::arith::Modulus;
use gpu_kernels::arith::prime::VIPIR;
use gpu_kernels::montgomery::{
    self, from_montgomery, modular_add, modular_sub, montgomery_mul, montgomery_mul_add, reference,
    to_montgomery,
};
use simt::launch::Grid;

use crate::backend::{Backend, Kind};
use crate::trial::{Case, Digest, Family, Inputs, Trial, TrialError, Work, tiled, verify};

inventory::submit! { &FAMILY }

/// The family.
pub static FAMILY: Family = Family {
    name: "montgomery",
    trials: &[
        &MontgomeryMul,
        &MontgomeryMulAdd,
        &ModularAdd,
        &ModularSub,
        &ToMontgomery,
        &FromMontgomery,
    ],
    ceilings: &[],
    jobs: &[],
};

/// Residues, with the edges among them.
fn residues(inputs: &mut Inputs, len: usize, q: Modulus) -> Vec<u32> {
    inputs.residues(len, q.get())
}

/// Any words, with the edges among them.
fn words(inputs: &mut Inputs, len: usize, _: Modulus) -> Vec<u32> {
    inputs.words(len)
}

/// A modulus of the parameter sets, the largest, or a small one.
fn modulus(inputs: &mut Inputs) -> Modulus {
    let small = [3, 5, 257, 12_289].map(Modulus::new).into_iter().flatten();
    let all: Vec<Modulus> = VIPIR
        .into_iter()
        .chain([Modulus::LARGEST])
        .chain(small)
        .collect();
    all[inputs.number_below(all.len() as u64) as usize]
}

/// Check and bench of `$kernel`: its inputs and how they are drawn, and the `IMAD.WIDE` of an
/// element.
macro_rules! vector_kernel {
    ($hook:ident, $kernel:ident, [$($input:ident),+], $values:path, imad_wide = $imad_wide:literal) => {
        struct $hook;

        impl Trial for $hook {
    type Variant = $kernel::Variant;

            fn check(&self, backend: &Backend, variant: Self::Variant, mut inputs: Inputs) -> Result<Digest, TrialError> {
                let n = 3000 + inputs.number_below(3000) as usize;
                let q = modulus(&mut inputs);
                let grid = Grid::x(1 + inputs.number_below(8) as u32);
                $(let $input = $values(&mut inputs, n, q);)+
                let expected = reference::$kernel($(&$input,)+ q.get());

                $(let $input = backend.upload(&$input)?;)+
                let mut out = backend.alloc(n)?;
                $kernel::launch(backend, variant, grid, $(&$input,)+ &mut out, n as u64, q)?;
                verify(backend, "out", &out, &expected)
            }

            fn cases(&self, backend: &Backend, variant: Self::Variant, mut inputs: Inputs) -> Result<Vec<Case>, TrialError> {
                let n: usize = match backend.kind() {
                    Kind::Cpu => 1 << 17,
                    Kind::Cuda => 1 << 26,
                };
                let q = VIPIR[0];
                let mut reads = 0;
                $(
                    let $input = tiled(backend, &residues(&mut inputs, n.min(1 << 20), q), n)?;
                    reads += 4 * n as u64;
                )+
                let mut out = backend.alloc(n)?;
                let work = Work {
                    bytes_read: reads,
                    bytes_written: 4 * n as u64,
                    imad_wide: $imad_wide * n as u64,
                    ..Work::default()
                };
                let grid = montgomery::grid(n as u64, variant.per_thread);
                Ok(vec![Case::new(format!("n={n}"), work, move |stream| {
                    $kernel::launch(stream, variant, grid, $(&$input,)+ &mut out, n as u64, q)
                })])
            }
        }
    };
}

vector_kernel!(
    MontgomeryMul,
    montgomery_mul,
    [a, b],
    residues,
    imad_wide = 2
);
vector_kernel!(
    MontgomeryMulAdd,
    montgomery_mul_add,
    [a, b, c],
    residues,
    imad_wide = 2
);
vector_kernel!(ModularAdd, modular_add, [a, b], residues, imad_wide = 0);
vector_kernel!(ModularSub, modular_sub, [a, b], residues, imad_wide = 0);
vector_kernel!(ToMontgomery, to_montgomery, [a], words, imad_wide = 2);
vector_kernel!(FromMontgomery, from_montgomery, [a], words, imad_wide = 1);

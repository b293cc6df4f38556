//! The checks of the ceiling kernels, and which ceiling each one measures.

use gpu_kernels::ceilings::{
    CLMAD_PER_ROUND, COPY_TILE, IMAD_WIDE_PER_ROUND, MMA_PER_ROUND, ceiling_clmad, ceiling_copy,
    ceiling_imad_wide, ceiling_mma, ceiling_read, reference,
};
use simt::launch::{Grid, Kernel, VariantInfo};
use simt::{U32x4, U64x2};

use super::{Check, CheckError, Digest, Inputs, compare, repeated};
use crate::backend::{Backend, Kind};
use crate::bench::{Bench, Case, Ceiling, Work};

/// The kernels of this family that are checked.
pub(super) static CHECKS: &[&dyn Check] = &[&Read, &Copy, &ImadWide, &Mma, &Clmad];

/// The kernels that measure a ceiling. Each case states its work in the unit of that ceiling.
pub(super) static CEILINGS: &[(Ceiling, &dyn Bench)] = &[
    (Ceiling::DramRead, &Read),
    (Ceiling::DramCopy, &Copy),
    (Ceiling::ImadWide, &ImadWide),
    (Ceiling::MmaInt8, &Mma),
    (Ceiling::Clmad, &Clmad),
];

struct Read;
struct Copy;
struct ImadWide;
struct Mma;
struct Clmad;

/// Vectors of 16 bytes, the edges of words among them.
fn vectors(inputs: &mut Inputs, len: usize) -> Vec<U32x4> {
    bytemuck::allocation::pod_collect_to_vec(&inputs.words(4 * len))
}

/// Blocks that fill a device for a bench: eight of 256 threads a multiprocessor.
fn full(backend: &Backend) -> u32 {
    match backend.kind() {
        Kind::Cpu => 1,
        Kind::Cuda => 8 * backend.info().multiprocessors.max(1),
    }
}

/// Rounds of a bench of arithmetic.
fn rounds(backend: &Backend) -> u32 {
    match backend.kind() {
        Kind::Cpu => 20,
        Kind::Cuda => 1000,
    }
}

/// 16-byte vectors of a bench of memory: 4 GiB, far more than any L2.
fn memory(backend: &Backend) -> usize {
    match backend.kind() {
        Kind::Cpu => 1 << 16,
        Kind::Cuda => 1 << 28,
    }
}

impl Check for Read {
    fn kernel(&self) -> &'static Kernel {
        &ceiling_read::KERNEL
    }

    fn run(
        &self,
        backend: &Backend,
        _: &'static VariantInfo,
        seed: u64,
    ) -> Result<Digest, CheckError> {
        let mut inputs = Inputs::new("ceiling_read", seed);
        let n = 5000 + inputs.number_below(5000) as usize;
        let source = vectors(&mut inputs, n);
        let grid = Grid::x(1 + inputs.number_below(4) as u32);
        let start = inputs.words(1);
        let mut sum = backend.upload(&start)?;
        let device = backend.upload(&source)?;
        ceiling_read::launch(
            backend,
            ceiling_read::Variant,
            grid,
            &device,
            &mut sum,
            n as u64,
        )?;
        let sum = backend.download(&sum)?;
        compare(
            "sum",
            &sum,
            &[start[0].wrapping_add(reference::read(&source))],
        )?;
        Ok(Digest::of(&sum))
    }
}

impl Bench for Read {
    fn kernel(&self) -> &'static Kernel {
        &ceiling_read::KERNEL
    }

    fn cases(
        &self,
        backend: &Backend,
        _: &'static VariantInfo,
        seed: u64,
    ) -> Result<Vec<Case>, CheckError> {
        let (n, grid) = (memory(backend), Grid::x(full(backend)));
        let source = repeated::<U32x4>(backend, &mut Inputs::new("ceiling_read", seed), n)?;
        let mut sum = backend.alloc_zeroed::<u32>(1)?;
        let work = Work {
            bytes_read: 16 * n as u64,
            ..Work::default()
        };
        Ok(vec![Case::new(format!("n={n}"), work, move |stream| {
            ceiling_read::launch(
                stream,
                ceiling_read::Variant,
                grid,
                &source,
                &mut sum,
                n as u64,
            )
        })])
    }
}

impl Check for Copy {
    fn kernel(&self) -> &'static Kernel {
        &ceiling_copy::KERNEL
    }

    fn run(
        &self,
        backend: &Backend,
        _: &'static VariantInfo,
        seed: u64,
    ) -> Result<Digest, CheckError> {
        let mut inputs = Inputs::new("ceiling_copy", seed);
        let n = 5000 + inputs.number_below(5000) as usize;
        let source = vectors(&mut inputs, n);
        let grid = Grid::x(1 + inputs.number_below(4) as u32);
        let device = backend.upload(&source)?;
        let mut target = backend.alloc(n)?;
        ceiling_copy::launch(
            backend,
            ceiling_copy::Variant,
            grid,
            &device,
            &mut target,
            n as u64,
        )?;
        let target = backend.download(&target)?;
        compare("target", &target, &source)?;
        Ok(Digest::of(&target))
    }
}

impl Bench for Copy {
    fn kernel(&self) -> &'static Kernel {
        &ceiling_copy::KERNEL
    }

    fn cases(
        &self,
        backend: &Backend,
        _: &'static VariantInfo,
        seed: u64,
    ) -> Result<Vec<Case>, CheckError> {
        let (n, blocks) = (memory(backend) / 2, full(backend));
        // On a GPU a tile a block copies faster than blocks that stay and go from tile to tile.
        let grid = Grid::x(if backend.kind() == Kind::Cuda {
            n.div_ceil(COPY_TILE) as u32
        } else {
            blocks
        });
        let source = repeated::<U32x4>(backend, &mut Inputs::new("ceiling_copy", seed), n)?;
        let mut target = backend.alloc::<U32x4>(n)?;
        let bytes = 16 * n as u64;
        let work = Work {
            bytes_read: bytes,
            bytes_written: bytes,
            ..Work::default()
        };
        Ok(vec![Case::new(format!("n={n}"), work, move |stream| {
            ceiling_copy::launch(
                stream,
                ceiling_copy::Variant,
                grid,
                &source,
                &mut target,
                n as u64,
            )
        })])
    }
}

/// Check and bench of a kernel of arithmetic: `$lanes` outputs of type `$output` an item, and
/// `$threads` threads.
macro_rules! arithmetic {
    ($hook:ident, $kernel:ident, $output:ty, $lanes:literal, $threads:literal, $per_round:expr, $work:ident,
        $reference:expr) => {
        impl Check for $hook {
            fn kernel(&self) -> &'static Kernel {
                &$kernel::KERNEL
            }

            fn run(
                &self,
                backend: &Backend,
                _: &'static VariantInfo,
                seed: u64,
            ) -> Result<Digest, CheckError> {
                let mut inputs = Inputs::new(stringify!($kernel), seed);
                let items = (300 + inputs.number_below(300) as u32).div_ceil($threads);
                let rounds = inputs.number_below(8) as u32;
                let grid = Grid::x(1 + inputs.number_below(3) as u32);
                let expected: Vec<$output> = (0..items)
                    .flat_map(|item| $reference(item, rounds))
                    .collect();
                let mut out = backend.alloc::<$output>($lanes * items as usize)?;
                $kernel::launch(backend, $kernel::Variant, grid, &mut out, items, rounds)?;
                let out = backend.download(&out)?;
                compare("out", &out, &expected)?;
                Ok(Digest::of(&out))
            }
        }

        impl Bench for $hook {
            fn kernel(&self) -> &'static Kernel {
                &$kernel::KERNEL
            }

            fn cases(
                &self,
                backend: &Backend,
                _: &'static VariantInfo,
                _: u64,
            ) -> Result<Vec<Case>, CheckError> {
                let (blocks, rounds) = (full(backend), rounds(backend));
                let items = blocks * 256 / $threads;
                let mut out = backend.alloc::<$output>($lanes * items as usize)?;
                let count = u64::from(items) * u64::from(rounds) * $per_round;
                let work = Work {
                    $work: count,
                    ..Work::default()
                };
                Ok(vec![Case::new(
                    format!("items={items} rounds={rounds}"),
                    work,
                    move |stream| {
                        $kernel::launch(
                            stream,
                            $kernel::Variant,
                            Grid::x(blocks),
                            &mut out,
                            items,
                            rounds,
                        )
                    },
                )])
            }
        }
    };
}
arithmetic!(
    ImadWide,
    ceiling_imad_wide,
    u64,
    1,
    1,
    IMAD_WIDE_PER_ROUND,
    imad_wide,
    |item, rounds| [reference::imad_wide(item, rounds)]
);
arithmetic!(
    Mma,
    ceiling_mma,
    u32,
    32,
    32,
    MMA_PER_ROUND,
    mma_int8,
    reference::mma
);
arithmetic!(
    Clmad,
    ceiling_clmad,
    U64x2,
    1,
    1,
    CLMAD_PER_ROUND,
    clmad,
    |item, rounds| [U64x2(reference::clmad(item, rounds))]
);

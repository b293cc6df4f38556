//! Checks of the `ceilings` kernels, and which ceiling each one measures.

use gpu_kernels::ceilings::{
    BLOCK, CLMAD_PER_ROUND, IMAD_WIDE_PER_ROUND, MMA_PER_ROUND, WGMMA_PER_ROUND, ceiling_clmad,
    ceiling_copy, ceiling_imad_wide, ceiling_l2_read, ceiling_mma, ceiling_read, ceiling_wgmma,
    reference,
};
use simt::launch::Grid;
use simt::{U32x4, U64x2};

use crate::backend::{Backend, Kind};
use crate::trial::{
    Case, Ceiling, Digest, Family, Inputs, Trial, TrialError, Work, compare, repeated, verify,
};

inventory::submit! { &FAMILY }

/// The family.
pub static FAMILY: Family = Family {
    name: "ceilings",
    trials: &[&Read, &L2Read, &Copy, &ImadWide, &Mma, &Wgmma, &Clmad],
    // Each case of these states its work in the unit of that ceiling.
    ceilings: &[
        (Ceiling::DramRead, &Read),
        (Ceiling::DramCopy, &Copy),
        (Ceiling::L2Read, &L2Read),
        (Ceiling::ImadWide, &ImadWide),
        (Ceiling::MmaInt8, &Mma),
        (Ceiling::WgmmaInt8, &Wgmma),
        (Ceiling::Clmad, &Clmad),
    ],
    jobs: &[],
};

struct Read;
struct Copy;
struct L2Read;
struct ImadWide;
struct Mma;
struct Wgmma;
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

impl Trial for Read {
    type Variant = ceiling_read::Variant;

    fn check(
        &self,
        backend: &Backend,
        _: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Digest, TrialError> {
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
        verify(
            backend,
            "sum",
            &sum,
            &[start[0].wrapping_add(reference::read(&source))],
        )
    }

    fn cases(
        &self,
        backend: &Backend,
        _: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Vec<Case>, TrialError> {
        let (n, grid) = (memory(backend), Grid::x(full(backend)));
        let source = repeated::<U32x4>(backend, &mut inputs, n)?;
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

impl Trial for L2Read {
    type Variant = ceiling_l2_read::Variant;

    fn check(
        &self,
        backend: &Backend,
        _: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Digest, TrialError> {
        let n = 5000 + inputs.number_below(5000) as usize;
        let source = vectors(&mut inputs, n);
        let passes = inputs.number_below(5) as u32;
        // More blocks than tiles too.
        let grid = Grid::x(1 + inputs.number_below(8) as u32);
        let start = inputs.words(1);
        let mut sum = backend.upload(&start)?;
        let device = backend.upload(&source)?;
        ceiling_l2_read::launch(
            backend,
            ceiling_l2_read::Variant,
            grid,
            &device,
            &mut sum,
            n as u64,
            passes,
        )?;
        let sum = backend.download(&sum)?;
        let added = reference::read(&source).wrapping_mul(passes);
        compare("sum", &sum, &[start[0].wrapping_add(added)])?;
        Ok(Digest::of(&sum))
    }

    fn cases(
        &self,
        backend: &Backend,
        _: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Vec<Case>, TrialError> {
        // Half of L2: all of it stays there.
        let (n, passes) = match backend.kind() {
            Kind::Cpu => (1 << 14, 4),
            Kind::Cuda => (backend.l2_bytes() as usize / 32, 100),
        };
        let grid = Grid::x(full(backend));
        let source = repeated::<U32x4>(backend, &mut inputs, n)?;
        let mut sum = backend.alloc_zeroed::<u32>(1)?;
        let work = Work {
            l2_read: 16 * n as u64 * u64::from(passes),
            ..Work::default()
        };
        let shape = format!("n={n} passes={passes}");
        Ok(vec![Case::new(shape, work, move |stream| {
            ceiling_l2_read::launch(
                stream,
                ceiling_l2_read::Variant,
                grid,
                &source,
                &mut sum,
                n as u64,
                passes,
            )
        })])
    }
}

impl Trial for Copy {
    type Variant = ceiling_copy::Variant;

    fn check(
        &self,
        backend: &Backend,
        _: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Digest, TrialError> {
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
        verify(backend, "target", &target, &source)
    }

    /// Buffers of 256 MiB, as most cases have, and of 2 GiB: the ceiling is the better of both.
    fn cases(
        &self,
        backend: &Backend,
        _: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Vec<Case>, TrialError> {
        let sizes: &[usize] = match backend.kind() {
            Kind::Cpu => &[1 << 15],
            Kind::Cuda => &[1 << 24, 1 << 27],
        };
        let case = |&n: &usize| {
            let grid = Grid::x(n.div_ceil(BLOCK) as u32);
            let source = repeated::<U32x4>(backend, &mut inputs, n)?;
            let mut target = backend.alloc::<U32x4>(n)?;
            let bytes = 16 * n as u64;
            let work = Work {
                bytes_read: bytes,
                bytes_written: bytes,
                ..Work::default()
            };
            Ok(Case::new(format!("n={n}"), work, move |stream| {
                ceiling_copy::launch(
                    stream,
                    ceiling_copy::Variant,
                    grid,
                    &source,
                    &mut target,
                    n as u64,
                )
            }))
        };
        sizes.iter().map(case).collect()
    }
}

/// Check and bench of a kernel of arithmetic: `$lanes` outputs of type `$output` an item, and
/// `$threads` threads.
macro_rules! arithmetic {
    ($hook:ident, $kernel:ident, $output:ty, $lanes:literal, $threads:literal, $per_round:expr, $work:ident,
        $reference:expr) => {
        impl Trial for $hook {
            type Variant = $kernel::Variant;

            fn check(
                &self,
                backend: &Backend,
                _: Self::Variant,
                mut inputs: Inputs,
            ) -> Result<Digest, TrialError> {
                let items = (300 + inputs.number_below(300) as u32).div_ceil($threads);
                let rounds = inputs.number_below(8) as u32;
                let grid = Grid::x(1 + inputs.number_below(3) as u32);
                let expected: Vec<$output> = (0..items)
                    .flat_map(|item| $reference(item, rounds))
                    .collect();
                let mut out = backend.alloc::<$output>($lanes * items as usize)?;
                $kernel::launch(backend, $kernel::Variant, grid, &mut out, items, rounds)?;
                verify(backend, "out", &out, &expected)
            }

            fn cases(
                &self,
                backend: &Backend,
                _: Self::Variant,
                _: Inputs,
            ) -> Result<Vec<Case>, TrialError> {
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
    Wgmma,
    ceiling_wgmma,
    u32,
    256,
    256,
    WGMMA_PER_ROUND,
    wgmma_int8,
    reference::wgmma
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

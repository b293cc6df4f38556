//! Arithmetic that clients run on a CPU, and one kernel of each cost on the emulator.

use std::error::Error;
use std::hint::black_box;

use criterion::{Criterion, Throughput};
use gpu_kernels::arith::prime::VIPIR;
use gpu_kernels::gf128::Ghash;
use gpu_kernels::montgomery::montgomery_mul;
use gpu_kernels::ntt::TwiddleTable;
use gristmill::backend::{Backend, Mode};
use simt::launch::Grid;

/// Residues below `q` that no compiler knows.
fn residues(q: u32, len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|i| black_box(i).wrapping_mul(0x9e37_79b9) % q)
        .collect()
}

fn arithmetic(criterion: &mut Criterion) -> Result<(), Box<dyn Error>> {
    let q = VIPIR[0];
    let words = residues(q.get(), 4096);

    let mut group = criterion.benchmark_group("arith");
    group.throughput(Throughput::Elements(words.len() as u64));
    group.bench_function("montgomery_mul", |bencher| {
        bencher.iter(|| {
            words
                .iter()
                .fold(q.r(), |product, &word| q.montgomery_mul(product, word))
        });
    });
    let factor = Ghash::from_u128(black_box(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210));
    group.bench_function("gf128_mul", |bencher| {
        bencher.iter(|| words.iter().fold(factor, |product, _| product * factor));
    });
    group.finish();

    let table = TwiddleTable::new(&VIPIR, 12)?;
    let mut polynomials: Vec<u32> = VIPIR.iter().flat_map(|q| residues(q.get(), 4096)).collect();
    table.transform_forward(&mut polynomials)?;
    let mut group = criterion.benchmark_group("ntt");
    group.throughput(Throughput::Elements(VIPIR.len() as u64));
    group.bench_function("forward and inverse, N = 4096, three primes", |bencher| {
        bencher.iter(|| {
            table.transform_forward(&mut polynomials).is_ok()
                && table.transform_inverse(&mut polynomials).is_ok()
        });
    });
    group.finish();
    Ok(())
}

fn emulator(criterion: &mut Criterion) -> Result<(), Box<dyn Error>> {
    let q = VIPIR[0];
    let backend = Backend::cpu(Mode::Fast);
    let n = 1 << 16;
    let (a, b) = (residues(q.get(), n), residues(q.get(), n));
    let (a, b) = (backend.upload(&a)?, backend.upload(&b)?);
    let mut c = backend.alloc_zeroed::<u32>(n)?;
    let stream = backend.stream()?;
    let mut group = criterion.benchmark_group("emulator");
    group.throughput(Throughput::Elements(n as u64));
    for variant in montgomery_mul::Variant::ALL {
        group.bench_function(variant.name(), |bencher| {
            bencher.iter(|| {
                montgomery_mul::launch(&stream, *variant, Grid::x(64), &a, &b, &mut c, n as u64, q)
                    .is_ok()
            });
        });
    }
    group.finish();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut criterion = Criterion::default().configure_from_args();
    arithmetic(&mut criterion)?;
    emulator(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

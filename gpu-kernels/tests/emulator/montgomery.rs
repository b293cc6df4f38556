//! The vector kernels modulo one prime on the emulator, against `%` on wide integers.

use crate::harness::{self, Buffer, Emulator, modes, refusal};
use gpu_kernels::arith::Modulus;
use gpu_kernels::arith::prime::VIPIR;
use gpu_kernels::montgomery::{
    from_montgomery, grid, modular_add, modular_sub, montgomery_mul, montgomery_mul_add, reference,
    to_montgomery,
};
use rand_chacha::rand_core::Rng;
use simt::emulator::Mode;
use simt::launch::{Grid, LaunchError};

/// Around a vector, a block, and a grid of several blocks.
const LENGTHS: [usize; 11] = [0, 1, 3, 4, 5, 255, 256, 257, 1023, 1027, 5000];

fn moduli() -> [Modulus; 4] {
    [
        VIPIR[0],
        Modulus::LARGEST,
        Modulus::new(12289).unwrap(),
        Modulus::new(3).unwrap(),
    ]
}

/// `len` residues, many of them 0, 1 and `q - 1`.
fn residues(seed: u64, len: usize, q: Modulus) -> Vec<u32> {
    let mut random = harness::random(seed);
    (0..len)
        .map(|_| match random.next_u32() % 8 {
            0 => 0,
            1 => 1,
            2 => q.get() - 1,
            _ => random.next_u32() % q.get(),
        })
        .collect()
}

/// Every mode, modulus, length and grid: the shape of a vector kernel's test.
fn everywhere(mut check: impl FnMut(&Emulator, Modulus, usize, Grid)) {
    for mode in modes() {
        for q in moduli() {
            for len in LENGTHS {
                for grid in [grid(len as u64, 1), Grid::x(1), Grid::x(3)] {
                    check(&Emulator(mode), q, len, grid);
                }
            }
        }
    }
}

/// The test of a kernel with `$inputs` inputs below `$bound` (a residue's bound, or 2^32).
macro_rules! against_reference {
    ($test:ident, $kernel:ident, [$($input:ident = $seed:literal),+], $values:expr) => {
        #[test]
        fn $test() {
            everywhere(|queue, q, len, grid| {
                for &variant in $kernel::Variant::ALL {
                    $(let $input = $values($seed, len, q);)+
                    let mut out: Buffer<u32> = queue.uninit(len);
                    $kernel::launch(queue, variant, grid, $(&queue.upload(&$input),)+ &mut out, len as u64, q).unwrap();
                    let expected = reference::$kernel($(&$input,)+ q.get());
                    assert_eq!(out.download(), expected, "{variant:?} {q} {len} {grid} {:?}", queue.0);
                }
            });
        }
    };
}

/// Any words, the largest among them.
fn words(seed: u64, len: usize, _: Modulus) -> Vec<u32> {
    harness::words(&mut harness::random(seed), len)
}

against_reference!(products, montgomery_mul, [a = 1, b = 2], residues);
against_reference!(
    products_and_sums,
    montgomery_mul_add,
    [a = 3, b = 4, c = 5],
    residues
);
against_reference!(sums, modular_add, [a = 6, b = 7], residues);
against_reference!(differences, modular_sub, [a = 8, b = 9], residues);
against_reference!(
    any_word_goes_into_montgomery_form,
    to_montgomery,
    [a = 10],
    words
);
against_reference!(
    any_word_comes_out_of_montgomery_form,
    from_montgomery,
    [a = 11],
    words
);

#[test]
fn one_operand_of_a_product_may_be_any_word() {
    let queue = Emulator(Mode::Fast);
    for q in moduli() {
        let (a, b) = (words(12, 1000, q), residues(13, 1000, q));
        for (a, b) in [(&a, &b), (&b, &a)] {
            let mut c: Buffer<u32> = queue.uninit(1000);
            let variant = montgomery_mul::Variant { per_thread: 4 };
            let (device_a, device_b) = (queue.upload(a), queue.upload(b));
            montgomery_mul::launch(
                &queue,
                variant,
                Grid::x(2),
                &device_a,
                &device_b,
                &mut c,
                1000,
                q,
            )
            .unwrap();
            assert_eq!(c.download(), reference::montgomery_mul(a, b, q.get()));
        }
    }
}

#[test]
fn words_past_n_stay_as_they_are() {
    for mode in modes() {
        let queue = Emulator(mode);
        for &variant in to_montgomery::Variant::ALL {
            let mut out = queue.upload(&[7u32; 40]);
            let input = queue.upload(&[1u32; 40]);
            to_montgomery::launch(&queue, variant, Grid::x(1), &input, &mut out, 30, VIPIR[0])
                .unwrap();
            let out = out.download();
            assert!(out[..30].iter().all(|&x| x == VIPIR[0].r()));
            assert_eq!(out[30..], [7; 10]);
        }
    }
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let queue = Emulator(Mode::Fast);
    let launch =
        |lengths: [usize; 3], n: u64, q: Modulus, per_thread: usize| -> Result<(), LaunchError> {
            let [a, b] = [0, 1].map(|i| queue.upload(&vec![1u32; lengths[i]]));
            let mut c = queue.upload(&vec![0u32; lengths[2]]);
            let variant = montgomery_mul::Variant { per_thread };
            montgomery_mul::launch(&queue, variant, Grid::x(1), &a, &b, &mut c, n, q)
        };
    let q = VIPIR[0];
    assert!(launch([10, 10, 10], 10, q, 4).is_ok());
    for short in 0..3 {
        let mut lengths = [10; 3];
        lengths[short] = 9;
        assert!(
            refusal(launch(lengths, 10, q, 4)).contains("len() = 9"),
            "{short}"
        );
    }
    assert!(refusal(launch([10, 10, 10], u64::MAX, q, 1)).contains("n <= a.len()"));
    assert!(refusal(launch([10, 10, 10], 10, q, 2)).contains("per_thread: 2"));
    for word in 0..8 {
        let mut words: [u32; 8] = bytemuck::cast(q);
        words[word] ^= 1;
        assert!(
            refusal(launch([10, 10, 10], 10, bytemuck::cast(words), 1)).contains("q.is_valid()"),
            "{word}"
        );
    }
}

#[test]
fn grids_cover_and_stay_launchable() {
    assert_eq!(grid(0, 1), Grid::x(1));
    assert_eq!(grid(256, 1), Grid::x(1));
    assert_eq!(grid(257, 1), Grid::x(2));
    assert_eq!(grid(1025, 4), Grid::x(2));
    assert_eq!(grid(u64::MAX, 1), Grid::x(1 << 20));
    assert_eq!(grid(5, 0), Grid::x(1));
}

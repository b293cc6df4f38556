//! The batched modular product on the emulator, against `u128` sums.

use crate::harness::{self, Buffer, Emulator, modes, refusal};
use gpu_kernels::arith::prime::VIPIR;
use gpu_kernels::arith::{LAZY_PRODUCTS, Modulus};
use gpu_kernels::gemm::{grid, modular_gemm, reference};
use proptest::prelude::*;
use rand_chacha::rand_core::Rng;
use simt::emulator::Mode;
use simt::launch::{Grid, LaunchError};

/// One product for each point; point `p` is modulo `moduli[p / per_modulus]`.
#[derive(Clone, Debug)]
struct Shape {
    points: u32,
    per_modulus: u32,
    m: u32,
    k: u32,
    n: u32,
}

impl Shape {
    fn one(m: u32, k: u32, n: u32) -> Self {
        Shape {
            points: 1,
            per_modulus: 1,
            m,
            k,
            n,
        }
    }

    /// `rows * columns` residues for each point, by `value`.
    fn matrices(
        &self,
        moduli: &[Modulus],
        rows: u32,
        columns: u32,
        mut value: impl FnMut(u32) -> u32,
    ) -> Vec<u32> {
        let of_point = |p: u32| moduli[(p / self.per_modulus) as usize].get();
        (0..self.points)
            .flat_map(|p| std::iter::repeat_n(of_point(p), rows as usize * columns as usize))
            .map(&mut value)
            .collect()
    }

    fn expected(&self, moduli: &[Modulus], a: &[u32], b: &[u32]) -> Vec<u32> {
        let (m, k, n) = (self.m as usize, self.k as usize, self.n as usize);
        (0..self.points as usize)
            .flat_map(|p| {
                let q = moduli[p / self.per_modulus as usize].get();
                reference::modular_product(
                    &a[p * m * k..][..m * k],
                    &b[p * k * n..][..k * n],
                    (m, k, n),
                    q,
                )
            })
            .collect()
    }

    /// Every variant of the kernel gives the reference's entries.
    fn check(&self, mode: Mode, moduli: &[Modulus], mut value: impl FnMut(u32) -> u32) {
        let a = self.matrices(moduli, self.m, self.k, &mut value);
        let b = self.matrices(moduli, self.k, self.n, &mut value);
        let expected = self.expected(moduli, &a, &b);
        let queue = Emulator(mode);
        for &variant in modular_gemm::Variant::ALL {
            let mut c: Buffer<u32> = queue.uninit(expected.len());
            modular_gemm::launch(
                &queue,
                variant,
                grid(self.points, self.m, self.n, variant.columns).unwrap(),
                &queue.upload(&a),
                &queue.upload(&b),
                &mut c,
                &queue.upload(moduli),
                self.per_modulus,
                self.m,
                self.k,
                self.n,
            )
            .unwrap();
            assert_eq!(c.download(), expected, "{variant:?} {self:?} {mode:?}");
        }
    }
}

fn random_residues(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut random = harness::random(seed);
    move |q| match random.next_u32() % 8 {
        0 => 0,
        1 => q - 1,
        _ => random.next_u32() % q,
    }
}

#[test]
fn shapes_around_the_tiles() {
    for mode in modes() {
        for (i, (m, k, n)) in [
            (1, 1, 1),
            (64, 8, 64),
            (63, 7, 15),
            (65, 9, 17),
            (3, 70, 65),
            (130, 57, 2),
            (64, 128, 16),
            (5, 0, 3),
        ]
        .into_iter()
        .enumerate()
        {
            Shape::one(m, k, n).check(mode, &VIPIR[..1], random_residues(i as u64));
        }
    }
}

#[test]
fn points_and_moduli_go_together() {
    let small = Modulus::new(12289).unwrap();
    let moduli = [VIPIR[0], small, Modulus::LARGEST];
    for mode in modes() {
        for (points, per_modulus) in [(6, 2), (5, 2), (3, 1), (4, 9)] {
            Shape {
                points,
                per_modulus,
                m: 20,
                k: 30,
                n: 18,
            }
            .check(mode, &moduli, random_residues(points.into()));
        }
    }
}

/// Sums that would wrap first: all residues are `q - 1`, and `K` lies around each fold.
#[test]
fn the_largest_residues_do_not_wrap() {
    let folds = (1..5).map(|folds| (folds * LAZY_PRODUCTS) as u32);
    let around: Vec<u32> = folds.flat_map(|at| [at - 1, at, at + 1]).collect();
    // The least modulus of quotient 8 has the largest 2^32 mod q of all, so the largest folded values.
    let largest_folds = (u32::MAX / 9..1 << 29).find_map(Modulus::new).unwrap();
    for q in [
        Modulus::LARGEST,
        largest_folds,
        VIPIR[0],
        Modulus::new(3).unwrap(),
    ] {
        for &k in &around {
            Shape::one(2, k, 3).check(Mode::Fast, &[q], |q| q - 1);
        }
        Shape::one(66, 200, 18).check(Mode::Checked { seed: 4 }, &[q], |q| q - 1);
        Shape::one(1, 20_000, 1).check(Mode::Fast, &[q], |q| q - 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shape(
        (points, per_modulus) in (1u32..4, 1u32..4),
        (m, k, n) in (1u32..140, 0u32..130, 1u32..80),
        seed: u64,
    ) {
        let moduli = [Modulus::LARGEST, VIPIR[1], VIPIR[2]];
        let shape = Shape { points, per_modulus, m, k, n };
        shape.check(Mode::Fast, &moduli, random_residues(seed));
    }
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let queue = Emulator(Mode::Fast);
    let moduli = queue.upload(&VIPIR);
    let launch = |words: [usize; 3],
                  grid: Grid,
                  per_modulus: u32,
                  (m, k, n): (u32, u32, u32)|
     -> Result<(), LaunchError> {
        let [a, b] = [0, 1].map(|i| queue.upload(&vec![0u32; words[i]]));
        let mut c: Buffer<u32> = queue.uninit(words[2]);
        let variant = modular_gemm::Variant { columns: 1 };
        modular_gemm::launch(
            &queue,
            variant,
            grid,
            &a,
            &b,
            &mut c,
            &moduli,
            per_modulus,
            m,
            k,
            n,
        )
    };
    // Two points of a 65 x 2 by 2 x 17 product: 2 x 2 tiles each.
    let words = [2 * 65 * 2, 2 * 2 * 17, 2 * 65 * 17];
    let shape = (65, 2, 17);
    assert!(launch(words, Grid::x(8), 1, shape).is_ok());
    for i in 0..3 {
        let mut wrong = words;
        wrong[i] -= 1;
        assert!(
            refusal(launch(wrong, Grid::x(8), 1, shape)).contains(&format!("len() = {}", wrong[i])),
            "{i}"
        );
    }
    assert!(
        refusal(launch(words, Grid::x(7), 1, shape)).contains("points(grid, m, n, COLUMNS) > 0")
    );
    assert!(refusal(launch(words, Grid::x(4), 1, shape)).contains("are(a.len()"));
    assert!(refusal(launch(words, Grid::xy(4, 2), 1, shape)).contains("grid = 4 x 2 x 1"));
    assert!(refusal(launch(words, Grid::x(8), 0, shape)).contains("points_per_modulus > 0"));
    assert!(refusal(launch([0, 0, 0], Grid::x(1), 1, (0, 2, 17))).contains("m = 0"));
    // Four points, three moduli.
    let four = words.map(|w| 2 * w);
    assert!(refusal(launch(four, Grid::x(16), 1, shape)).contains("moduli.len() = 3"));
    assert!(launch(four, Grid::x(16), 2, shape).is_ok());
    // Sizes whose product wraps a 64-bit word.
    let huge = (u32::MAX, u32::MAX, 1);
    assert!(launch([1, 1, 1], Grid::x(1 << 26), 1, huge).is_err());
}

#[test]
fn grids_cover_every_tile() {
    assert_eq!(grid(3, 64, 16, 1), Some(Grid::x(3)));
    assert_eq!(grid(3, 65, 17, 1), Some(Grid::x(12)));
    assert_eq!(grid(3, 65, 17, 4), Some(Grid::x(6)));
    for (points, m, n) in [
        (0, 1, 1),
        (1, 0, 1),
        (1, 1, 0),
        (u32::MAX, u32::MAX, u32::MAX),
    ] {
        assert_eq!(grid(points, m, n, 1), None);
    }
}

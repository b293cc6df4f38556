//! The butterflies of both directions, and the ranges of the values between them.
//!
//! Forward, stage `s` of `0, 1, ...` (by [`forward_bound`]): a stage takes values below `4q` (the input, and after a
//! correction) or `6q`, and its butterfly adds `2q`:
//!
//! ```text
//! s = 0: 4q -> 6q    s = 1: 6q -> 8q    s = 2: 8q, x corrected to 4q -> 6q    s = 3: 6q -> 8q    ...
//! ```
//!
//! Inverse: every stage takes values below `4q` and leaves values below `4q`.

use crate::arith::{Modulus, Shoup};

/// Every value that enters stage `stage` of the forward transform is below this many times `q`.
pub(super) const fn forward_bound(stage: usize) -> u32 {
    match stage {
        0 => 4,
        _ if stage % 2 == 1 => 6,
        _ => 8,
    }
}

/// Whether stage `stage` of the forward transform corrects its upper input before the butterfly.
#[inline(always)]
pub(super) const fn forward_corrects(stage: usize) -> bool {
    forward_bound(stage) > 6
}

/// `(x + w y, x - w y)` for `x < bound <= 6q` and any `y`; both below `bound + 2q`.
#[inline(always)]
pub(super) const fn cooley_tukey(q: Modulus, x: u32, y: u32, w: Shoup) -> (u32, u32) {
    let t = q.mul_shoup_lazy(y, w);
    (x.wrapping_add(t), q.sub_lazy_2q(x, t))
}

/// `(x + y, (x - y) w)` for `x, y < 4q`; below `4q` and `2q`.
#[inline(always)]
pub(super) const fn gentleman_sande(q: Modulus, x: u32, y: u32, w: Shoup) -> (u32, u32) {
    (
        q.below_4q(x.wrapping_add(y)),
        q.mul_shoup_lazy(q.sub_lazy_4q(x, y), w),
    )
}

/// `((x + y) v, (x - y) w)` for `x, y < 4q`, both residues: the last stage of the inverse, where `v = 1/N`.
#[inline(always)]
pub(super) const fn gentleman_sande_last(
    q: Modulus,
    x: u32,
    y: u32,
    v: Shoup,
    w: Shoup,
) -> (u32, u32) {
    (
        q.mul_shoup(x.wrapping_add(y), v),
        q.mul_shoup(q.sub_lazy_4q(x, y), w),
    )
}

/// A value of the forward transform after its last stage, below `8q`, as a residue.
#[inline(always)]
pub(super) const fn finish(q: Modulus, x: u32) -> u32 {
    q.below_q(q.below_2q(q.below_4q(x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::prime::{NTT_16384, VIPIR};

    fn moduli() -> impl Iterator<Item = Modulus> {
        VIPIR
            .into_iter()
            .chain(NTT_16384)
            .chain([Modulus::LARGEST])
            .chain([3, 17, 12289].map(|q| Modulus::new(q).unwrap()))
    }

    /// The bounds by induction over stages: what a stage leaves fits what the next one takes, and a word.
    #[test]
    fn forward_bounds_hold_from_stage_to_stage() {
        for stage in 0..20 {
            let enters = forward_bound(stage);
            let x = if forward_corrects(stage) { 4 } else { enters };
            assert!(enters <= 8 && x <= 6, "stage {stage}");
            assert!(x + 2 <= forward_bound(stage + 1), "stage {stage}");
        }
        assert!(u64::from(Modulus::MAX) * 8 < 1 << 32);
    }

    /// The butterflies at the corners of their ranges, against exact integers.
    #[test]
    fn butterflies_keep_their_ranges_at_the_corners() {
        for q in moduli() {
            let m = i128::from(q.get());
            let class = |x: i128| x.rem_euclid(m);
            for w in [0, 1, q.get() / 2, q.get() - 1].map(|w| q.shoup(w)) {
                let factor = i128::from(w.factor);
                for x in [0, 1, q.get(), 4 * q.get() - 1, 6 * q.get() - 1] {
                    for y in [0, 1, q.get(), 4 * q.get() - 1, 8 * q.get() - 1, u32::MAX] {
                        let (s, d) = cooley_tukey(q, x, y, w);
                        let (wide_x, wide_y) = (i128::from(x), i128::from(y));
                        for (value, exact) in
                            [(s, wide_x + factor * wide_y), (d, wide_x - factor * wide_y)]
                        {
                            assert!(i128::from(value) < wide_x + 2 * m + 1, "{q} {x} {y} {w:?}");
                            assert_eq!(class(value.into()), class(exact), "{q} {x} {y} {w:?}");
                        }
                    }
                }
                for x in [0, 1, q.get(), 4 * q.get() - 1] {
                    for y in [0, 1, q.get(), 4 * q.get() - 1] {
                        let (wide_x, wide_y) = (i128::from(x), i128::from(y));
                        let (s, d) = gentleman_sande(q, x, y, w);
                        assert!(s < 4 * q.get() && d < 2 * q.get(), "{q} {x} {y} {w:?}");
                        assert_eq!(class(s.into()), class(wide_x + wide_y));
                        assert_eq!(class(d.into()), class((wide_x - wide_y) * factor));
                        let v = q.shoup(q.get() - 2);
                        let (s, d) = gentleman_sande_last(q, x, y, v, w);
                        assert_eq!(i128::from(s), class((wide_x + wide_y) * (m - 2)));
                        assert_eq!(i128::from(d), class((wide_x - wide_y) * factor));
                    }
                }
            }
            for x in [0, q.get(), 2 * q.get(), 4 * q.get(), 8 * q.get() - 1] {
                assert_eq!(finish(q, x), x % q.get());
            }
        }
    }
}

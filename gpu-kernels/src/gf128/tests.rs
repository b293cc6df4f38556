//! Laws and vectors of both fields.

use proptest::prelude::*;

use super::{Field128, Ghash, Polyval, Unreduced, method, reference};

/// 16 bytes from hexadecimal, for vectors as the standards print them.
fn bytes(hex: &str) -> [u8; 16] {
    u128::from_str_radix(hex, 16)
        .expect("32 hexadecimal digits")
        .to_be_bytes()
}

/// Elements where carries and reductions begin or end, and random ones.
fn bits() -> impl Strategy<Value = u128> {
    prop_oneof![
        1 => prop::sample::select(vec![0, 1, 2, 0x87, u128::MAX, 1 << 63, 1 << 64, 1 << 127, u64::MAX as u128,
            (u64::MAX as u128) << 64, 0xC2 << 120 | 1, 0xAAAA_AAAA_AAAA_AAAA_AAAA_AAAA_AAAA_AAAA]),
        1 => (0..128u32).prop_map(|i| 1 << i),
        4 => any::<u128>(),
    ]
}

/// What every representation has to satisfy; instantiated for both.
macro_rules! field_suite {
    ($suite:ident, $field:ty, $reference:path) => {
        mod $suite {
            use super::*;

            fn element() -> impl Strategy<Value = $field> {
                bits().prop_map(<$field>::from_u128)
            }

            proptest! {
                #[test]
                fn every_method_gives_the_product_of_the_definition(a in element(), b in element()) {
                    let product = $reference(a, b);
                    prop_assert_eq!(a.mul_with::<{ method::SCHOOLBOOK }>(b), product);
                    prop_assert_eq!(a.mul_with::<{ method::KARATSUBA }>(b), product);
                    prop_assert_eq!(a.mul_with::<{ method::INTEGER }>(b), product);
                    prop_assert_eq!(a.mul_with::<{ method::SCHOOLBOOK_SHIFT }>(b), product);
                    prop_assert_eq!(a.mul_with::<{ method::KARATSUBA_SHIFT }>(b), product);
                    prop_assert_eq!(a * b, product);
                }

                #[test]
                fn constant_time_equality_is_equality(a in element(), b in element(), bit in 0..128u32) {
                    use subtle::ConstantTimeEq as _;
                    prop_assert!(bool::from(a.ct_eq(&a)));
                    prop_assert!(!bool::from(a.ct_eq(&(a + <$field>::from_u128(1 << bit)))));
                    prop_assert_eq!(bool::from(a.ct_eq(&b)), a == b);
                }

                #[test]
                fn addition_is_a_group_of_characteristic_two(a in element(), b in element(), c in element()) {
                    prop_assert_eq!((a + b) + c, a + (b + c));
                    prop_assert_eq!(a + b, b + a);
                    prop_assert_eq!(a + <$field>::ZERO, a);
                    prop_assert_eq!(a + a, <$field>::ZERO);
                    prop_assert_eq!(a - b, a + b);
                    prop_assert_eq!(-a, a);
                }

                #[test]
                fn multiplication_is_associative_and_commutative(a in element(), b in element(), c in element()) {
                    prop_assert_eq!((a * b) * c, a * (b * c));
                    prop_assert_eq!(a * b, b * a);
                    prop_assert_eq!(a * <$field>::ONE, a);
                    prop_assert_eq!(a * <$field>::ZERO, <$field>::ZERO);
                }

                #[test]
                fn multiplication_distributes(a in element(), b in element(), c in element()) {
                    prop_assert_eq!(a * (b + c), a * b + a * c);
                    prop_assert_eq!((a + b).square(), a.square() + b.square());
                }

                #[test]
                fn nonzero_elements_have_inverses(a in element()) {
                    let one = if a == <$field>::ZERO { <$field>::ZERO } else { <$field>::ONE };
                    prop_assert_eq!(a * a.invert(), one);
                }

                #[test]
                fn mul_x_multiplies_by_the_polynomial_x(a in element(), b in element()) {
                    prop_assert_eq!(a.mul_x() * b, (a * b).mul_x());
                    prop_assert_eq!(a.mul_x().div_x(), a);
                    prop_assert_eq!(a.div_x().mul_x(), a);
                    prop_assert_eq!(a.mul_x(), a * <$field>::ONE.mul_x());
                }

                #[test]
                fn one_reduction_serves_a_sum_of_products(
                    pairs in prop::collection::vec((element(), element()), 0..20),
                ) {
                    fn sum<const METHOD: u32>(pairs: &[($field, $field)]) -> $field {
                        let (front, back) = pairs.split_at(pairs.len() / 3);
                        let partial = |pairs: &[($field, $field)]| {
                            pairs.iter().fold(Unreduced::<_, METHOD>::ZERO, |sum, &(a, b)| sum.add_product(a, b))
                        };
                        (partial(front) + partial(back)).reduce()
                    }
                    let expected: $field = pairs.iter().map(|&(a, b)| a * b).sum();
                    prop_assert_eq!(sum::<{ method::SCHOOLBOOK }>(&pairs), expected);
                    prop_assert_eq!(sum::<{ method::KARATSUBA }>(&pairs), expected);
                    prop_assert_eq!(sum::<{ method::INTEGER }>(&pairs), expected);
                }
            }

            /// Every pair of basis elements, so that every carry and every reduction of a single
            /// bit is met.
            #[test]
            fn products_of_all_monomials() {
                for i in 0..128 {
                    for j in 0..128 {
                        let (a, b) = (<$field>::from_u128(1 << i), <$field>::from_u128(1 << j));
                        let product = $reference(a, b);
                        assert_eq!(a.mul_with::<{ method::SCHOOLBOOK }>(b), product, "x^{i} x^{j}");
                        assert_eq!(a.mul_with::<{ method::KARATSUBA }>(b), product, "x^{i} x^{j}");
                        assert_eq!(a.mul_with::<{ method::INTEGER }>(b), product, "x^{i} x^{j}");
                        assert_eq!(a.mul_with::<{ method::KARATSUBA_SHIFT }>(b), product, "x^{i} x^{j}");
                    }
                }
            }

            #[test]
            fn the_multiplicative_group_has_2_pow_128_minus_1_elements() {
                let a = <$field>::from_u128(0x0123_4567_89AB_CDEF_0011_2233_4455_6677);
                let frobenius = (0..128).fold(a, |power, _| power.square());
                assert_eq!(frobenius, a);
                // Not in the subfield of 2^64 elements, or the check above would be weaker than it
                // looks.
                assert_ne!((0..64).fold(a, |power, _| power.square()), a);
            }
        }
    };
}
field_suite!(ghash_field, Ghash, reference::ghash);
field_suite!(polyval_field, Polyval, reference::polyval);

proptest! {
    #[test]
    fn the_isomorphism_keeps_sums_and_products(a in bits(), b in bits()) {
        let (a, b) = (Ghash::from_u128(a), Ghash::from_u128(b));
        prop_assert_eq!(Polyval::from(a * b), Polyval::from(a) * Polyval::from(b));
        prop_assert_eq!(Polyval::from(a + b), Polyval::from(a) + Polyval::from(b));
        prop_assert_eq!(Ghash::from(Polyval::from(a)), a);
    }

    #[test]
    fn the_isomorphism_agrees_with_the_gcm_conversions(h in any::<[u8; 16]>(), x in any::<[u8; 16]>()) {
        prop_assert_eq!(Polyval::from_gcm_key(h), Polyval::from(Ghash::from_gcm_block(h)));
        let polyval = Polyval::from_gcm_block(x) * Polyval::from_gcm_key(h);
        let ghash = Ghash::from_gcm_block(x) * Ghash::from_gcm_block(h);
        prop_assert_eq!(polyval.to_gcm_block(), ghash.to_gcm_block());
    }

    #[test]
    fn blocks_go_there_and_back(block in any::<[u8; 16]>()) {
        prop_assert_eq!(Ghash::from_gcm_block(block).to_gcm_block(), block);
        prop_assert_eq!(Polyval::from_gcm_block(block).to_gcm_block(), block);
        prop_assert_eq!(Polyval::from_bytes(block).to_bytes(), block);
    }

    #[test]
    fn horner_agrees_with_the_ghash_and_polyval_crates(
        key in any::<[u8; 16]>(),
        blocks in prop::collection::vec(any::<[u8; 16]>(), 0..40),
    ) {
        use ::polyval::universal_hash::UniversalHash;

        let words: Vec<_> = blocks.iter().map(|&block| block.into()).collect();
        let mut oracle = ::polyval::Polyval::new(&key.into());
        oracle.update(&words);
        prop_assert_eq!(horner_polyval(key, &blocks), <[u8; 16]>::from(oracle.finalize()));

        let mut oracle = ::ghash::GHash::new(&key.into());
        oracle.update(&words);
        let oracle = <[u8; 16]>::from(oracle.finalize());
        prop_assert_eq!(horner_ghash(key, &blocks), oracle);
        prop_assert_eq!(horner_ghash_as_polyval(key, &blocks), oracle);
    }
}

fn horner_polyval(key: [u8; 16], blocks: &[[u8; 16]]) -> [u8; 16] {
    let key = Polyval::from_bytes(key);
    blocks
        .iter()
        .fold(Polyval::ZERO, |sum, &block| {
            (sum + Polyval::from_bytes(block)) * key
        })
        .to_bytes()
}

fn horner_ghash(key: [u8; 16], blocks: &[[u8; 16]]) -> [u8; 16] {
    let key = Ghash::from_gcm_block(key);
    blocks
        .iter()
        .fold(Ghash::ZERO, |sum, &block| {
            (sum + Ghash::from_gcm_block(block)) * key
        })
        .to_gcm_block()
}

fn horner_ghash_as_polyval(key: [u8; 16], blocks: &[[u8; 16]]) -> [u8; 16] {
    let key = Polyval::from_gcm_key(key);
    blocks
        .iter()
        .fold(Polyval::ZERO, |sum, &block| {
            (sum + Polyval::from_gcm_block(block)) * key
        })
        .to_gcm_block()
}

/// RFC 8452, section 3: the field operations.
#[test]
fn rfc_8452_section_3() {
    let a = Polyval::from_bytes(bytes("66e94bd4ef8a2c3b884cfa59ca342b2e"));
    let b = Polyval::from_bytes(bytes("ff000000000000000000000000000000"));
    assert_eq!(
        (a + b).to_bytes(),
        bytes("99e94bd4ef8a2c3b884cfa59ca342b2e")
    );
    assert_eq!(
        (a * b).to_bytes(),
        bytes("ebe563401e7e91ea3ad6426b8140c394")
    );
}

/// RFC 8452, appendix A: POLYVAL and GHASH of the same key and blocks, and mulX.
#[test]
fn rfc_8452_appendix_a() {
    let key = bytes("25629347589242761d31f826ba4b757b");
    let blocks = [
        bytes("4f4f95668c83dfb6401762bb2d01a262"),
        bytes("d1a24ddd2721d006bbe45f20d3c9f362"),
    ];
    assert_eq!(
        horner_polyval(key, &blocks),
        bytes("f7a3b47b846119fae5b7866cf5e5b77e")
    );
    assert_eq!(
        horner_ghash(key, &blocks),
        bytes("bd9b3997046731fb96251b91f9c99d7a")
    );
    assert_eq!(
        horner_ghash_as_polyval(key, &blocks),
        bytes("bd9b3997046731fb96251b91f9c99d7a")
    );

    let doubled = Polyval::from_bytes(bytes("01000000000000000000000000000000")).mul_x();
    assert_eq!(
        doubled.to_bytes(),
        bytes("02000000000000000000000000000000")
    );
    let reduced = Polyval::from_bytes(bytes("9c98c04df9387ded828175a92ba652d8")).mul_x();
    assert_eq!(
        reduced.to_bytes(),
        bytes("3931819bf271fada0503eb52574ca572")
    );

    // The other direction: POLYVAL(H, X) = ByteReverse(GHASH(mulX_GHASH(ByteReverse(H)),
    // ByteReverse(X))).
    let reversed = |mut block: [u8; 16]| {
        block.reverse();
        block
    };
    let ghash_key = Ghash::from_gcm_block(reversed(key)).mul_x().to_gcm_block();
    assert_eq!(ghash_key, bytes("dcbaa5dd137c188ebb21492c23c9b112"));
    assert_eq!(
        reversed(horner_ghash(ghash_key, &blocks.map(reversed))),
        horner_polyval(key, &blocks)
    );
}

/// In the flat field x (x + 1) = x^2 + x; the Fan-Paar tower has 2 * 3 = 1 instead.
#[test]
fn the_natural_order_is_the_flat_field() {
    assert_eq!(
        Ghash::from_u128(2) * Ghash::from_u128(3),
        Ghash::from_u128(6)
    );
    assert_eq!(
        Ghash::from_u128(1 << 127) * Ghash::from_u128(2),
        Ghash::from_u128(0x87)
    );
}

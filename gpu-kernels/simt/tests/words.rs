//! Each word's host body against plain arithmetic.

mod common;

use common::{kernel, launch, memory, values};
use proptest::prelude::*;
use simt::emulator::Mode;
use simt::launch::HostEntry;
use simt::prelude::*;
use simt::thread::{FULL_MASK, block_idx_x, thread_idx_x};

/// Product of polynomials over GF(2), bit by bit.
fn carry_less(a: u64, b: u64) -> u128 {
    (0..64)
        .filter(|i| b >> i & 1 == 1)
        .fold(0, |sum, i| sum ^ u128::from(a) << i)
}

/// Words that are dense, sparse, or full.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        Just(0),
        Just(u64::MAX),
        (0u32..64).prop_map(|i| 1 << i),
        any::<u8>().prop_map(u64::from)
    ]
}

proptest! {
    #[test]
    fn clmad_is_the_carry_less_product(a in word(), b in word(), c in word()) {
        let product = carry_less(a, b);
        let (lo, hi) = (product as u64 ^ c, (product >> 64) as u64 ^ c);
        prop_assert_eq!(simt::clmul::clmad_lo(a, b, c), lo);
        prop_assert_eq!(simt::clmul::clmad_hi(a, b, c), hi);
        prop_assert_eq!(simt::clmul::integer_lo(a, b, c), lo);
        prop_assert_eq!(simt::clmul::integer_hi(a, b, c), hi);
    }

    #[test]
    fn prmt_picks_bytes(a: u32, b: u32, selector: u32) {
        let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
        let expected = std::array::from_fn(|i| {
            let nibble = (selector >> (4 * i)) as usize & 15;
            let byte = bytes[nibble % 8];
            if nibble < 8 { byte } else if byte >= 0x80 { 0xff } else { 0 }
        });
        prop_assert_eq!(int::prmt(a, b, selector).to_le_bytes(), expected);
    }

    #[test]
    fn products_are_exact(a: u32, b: u32, c: u64) {
        let product = u128::from(a) * u128::from(b);
        prop_assert_eq!(u128::from(int::mul_hi(a, b)), product >> 32);
        prop_assert_eq!(u128::from(int::mul_wide(a, b)), product);
        prop_assert_eq!(int::mad_wide(a, b, c), (product + u128::from(c)) as u64);
    }

    #[test]
    fn funnel_shifts_take_a_window(low: u32, high: u32, shift: u32) {
        let bits: Vec<bool> = (0..64).map(|i| (if i < 32 { low } else { high }) >> (i % 32) & 1 == 1).collect();
        let window = |start: usize| (0..32).fold(0u32, |word, i| word | u32::from(bits[start + i]) << i);
        let shift_by = shift as usize % 32;
        prop_assert_eq!(int::funnel_shift_r(low, high, shift), window(shift_by));
        prop_assert_eq!(int::funnel_shift_l(low, high, shift), window(32 - shift_by));
    }

    #[test]
    fn dp4a_sums_four_products(a: [u8; 4], b: [u8; 4], c: u32) {
        let dot = |x: fn(u8) -> i64, y: fn(u8) -> i64| (0..4).map(|i| x(a[i]) * y(b[i])).sum::<i64>();
        let (unsigned, signed) = (|byte| i64::from(byte), |byte| i64::from(byte as i8));
        let (x, y) = (u32::from_le_bytes(a), u32::from_le_bytes(b));
        prop_assert_eq!(int::dp4a_u8u8(x, y, c), c.wrapping_add(dot(unsigned, unsigned) as u32));
        prop_assert_eq!(int::dp4a_s8u8(x, y, c as i32), (c as i32).wrapping_add(dot(signed, unsigned) as i32));
        prop_assert_eq!(int::dp4a_s8s8(x, y, c as i32), (c as i32).wrapping_add(dot(signed, signed) as i32));
    }

    #[test]
    fn byte_reverse_reverses(bytes: [u8; 4]) {
        let mut reversed = bytes;
        reversed.reverse();
        prop_assert_eq!(int::byte_reverse(u32::from_le_bytes(bytes)), u32::from_le_bytes(reversed));
    }
}

/// Runs `entry` for one warp over the bytes of `input`; gives what it left there.
fn warp_of<T: bytemuck::Pod>(input: &[T], entry: HostEntry) -> Vec<T> {
    let a = memory(input, Mode::Fast);
    launch(kernel("warp", 1, 32, 0, entry), 1, &[&a], Mode::Fast).expect("no fault");
    values(&a)
}

/// Applies `f` to a lane number and its value, in each lane of a warp.
macro_rules! in_each_lane {
    ($input:expr, $t:ty, $f:expr) => {
        warp_of::<$t>($input, |args, drive| {
            let a = args[0].global_mut::<$t>();
            drive(&|| {
                let i = thread_idx_x();
                let v = $f(i, a.read(i as usize));
                a.write(i as usize, v);
            });
        })
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn shuffles_read_other_lanes(input: [u64; 32]) {
        // Lane arguments differ from lane to lane where the instruction allows it.
        let expect = |source: fn(usize) -> usize| (0..32).map(|i| input[source(i)]).collect::<Vec<_>>();
        prop_assert_eq!(in_each_lane!(&input, u64, |i, v| warp::shuffle(FULL_MASK, v, 7 * i + 3)), expect(|i| (7 * i + 3) % 32));
        prop_assert_eq!(in_each_lane!(&input, u64, |_, v| warp::shuffle_up(FULL_MASK, v, 5)), expect(|i| if i < 5 { i } else { i - 5 }));
        prop_assert_eq!(in_each_lane!(&input, u64, |_, v| warp::shuffle_down(FULL_MASK, v, 9)), expect(|i| if i > 22 { i } else { i + 9 }));
        prop_assert_eq!(in_each_lane!(&input, u64, |_, v| warp::shuffle_xor(FULL_MASK, v, 0x15)), expect(|i| i ^ 0x15));
        let words = input.map(|v| v as u32);
        let halves = in_each_lane!(&words, u32, |_, v| warp::shuffle_xor(FULL_MASK, v as i32, 1) as u32);
        prop_assert_eq!(halves, (0..32).map(|i| words[i ^ 1]).collect::<Vec<_>>());
    }

    #[test]
    fn votes_see_every_lane(input: [bool; 32], mask_bits: u32) {
        let words = input.map(u32::from);
        let votes = (0..32).fold(0, |votes, i| votes | words[i] << i);
        prop_assert_eq!(in_each_lane!(&words, u32, |_, v| warp::ballot(FULL_MASK, v != 0)), vec![votes; 32]);
        prop_assert_eq!(in_each_lane!(&words, u32, |_, v| warp::any(FULL_MASK, v != 0) as u32), vec![u32::from(votes != 0); 32]);
        prop_assert_eq!(in_each_lane!(&words, u32, |_, v| warp::all(FULL_MASK, v != 0) as u32), vec![u32::from(votes == FULL_MASK); 32]);
        // Two sets of lanes vote apart; the lane's set is bit 1 of its word.
        let words: [u32; 32] = std::array::from_fn(|i| words[i] | (mask_bits >> i & 1) << 1);
        let apart = warp_of::<u32>(&[&words[..], &[mask_bits]].concat(), |args, drive| {
            let a = args[0].global_mut::<u32>();
            drive(&|| {
                let i = thread_idx_x() as usize;
                let (v, set) = (a.read(i), a.read(32));
                let result = if v & 2 != 0 { warp::ballot(set, v & 1 != 0) } else { warp::ballot(!set, v & 1 != 0) };
                a.write(i, result);
            });
        });
        for (i, vote) in apart.iter().take(32).enumerate() {
            prop_assert_eq!(*vote, votes & if mask_bits >> i & 1 == 1 { mask_bits } else { !mask_bits });
        }
    }

    #[test]
    fn reductions_join_every_lane(input: [u32; 32]) {
        prop_assert_eq!(in_each_lane!(&input, u32, |_, v| warp::reduce_add(FULL_MASK, v)), vec![input.iter().fold(0, |a: u32, b| a.wrapping_add(*b)); 32]);
        prop_assert_eq!(in_each_lane!(&input, u32, |_, v| warp::reduce_min(FULL_MASK, v)), vec![*input.iter().min().expect("32 lanes"); 32]);
        prop_assert_eq!(in_each_lane!(&input, u32, |_, v| warp::reduce_max(FULL_MASK, v)), vec![*input.iter().max().expect("32 lanes"); 32]);
        prop_assert_eq!(in_each_lane!(&input, u32, |_, v| warp::reduce_and(FULL_MASK, v)), vec![input.iter().fold(u32::MAX, |a, b| a & b); 32]);
        prop_assert_eq!(in_each_lane!(&input, u32, |_, v| warp::reduce_or(FULL_MASK, v)), vec![input.iter().fold(0, |a, b| a | b); 32]);
        prop_assert_eq!(in_each_lane!(&input, u32, |_, v| warp::reduce_xor(FULL_MASK, v)), vec![input.iter().fold(0, |a, b| a ^ b); 32]);
    }

    #[test]
    fn atomics_give_the_old_value(old in word(), v in word(), new in word()) {
        macro_rules! check {
            ($t:ty, $name:ident, $expected:expr) => {{
                let input = [old as $t, v as $t, new as $t, 0, 0, 0];
                let out = one_thread::<$t>(&input, |args, drive| {
                    let a = args[0].global_mut::<$t>();
                    drive(&|| {
                        if thread_idx_x() == 0 {
                            let shared = shared_array!($t, 1);
                            shared.write(0, a.read(0));
                            let v = a.read(1);
                            a.write(4, shared.$name(0, v, Order::Relaxed, Scope::Block));
                            a.write(5, shared.read(0));
                            a.write(3, a.$name(0, v, Order::AcqRel, Scope::Device));
                        }
                    });
                });
                let after = $expected(old as $t, v as $t);
                prop_assert_eq!(&out[..], &[after, v as $t, new as $t, old as $t, old as $t, after]);
            }};
        }
        macro_rules! check_all {
            ($t:ty) => {
                check!($t, atomic_add, |a: $t, b| a.wrapping_add(b));
                check!($t, atomic_min, |a: $t, b| a.min(b));
                check!($t, atomic_max, |a: $t, b| a.max(b));
                check!($t, atomic_and, |a: $t, b| a & b);
                check!($t, atomic_or, |a: $t, b| a | b);
                check!($t, atomic_xor, |a: $t, b| a ^ b);
                check!($t, atomic_exchange, |_, b| b);
            };
        }
        check_all!(u32);
        check_all!(u64);
        for expected in [old, v] {
            let out = one_thread::<u64>(&[old, expected, new, 0], |args, drive| {
                let a = args[0].global_mut::<u64>();
                drive(&|| {
                    if thread_idx_x() == 0 {
                        let was = a.atomic_compare_exchange(0, a.read(1), a.read(2), Order::AcqRel, Scope::System);
                        a.write(3, was);
                    }
                });
            });
            prop_assert_eq!(&out[..], &[if expected == old { new } else { old }, expected, new, old]);
        }
    }
}

fn one_thread<T: bytemuck::Pod>(input: &[T], entry: HostEntry) -> Vec<T> {
    let a = memory(input, Mode::Fast);
    launch(kernel("one_thread", 1, 1, 0, entry), 1, &[&a], Mode::Fast).expect("no fault");
    values(&a)
}

#[test]
fn every_way_to_read_and_write_moves_the_same_bits() {
    macro_rules! check {
        ($t:ty, $($method:ident, $write:ident),*) => { $({
            let input: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
            let copy = kernel("copy", 2, 1, 0, |args, drive| {
                let (a, b) = (args[0].global::<$t>(), args[1].global_mut::<$t>());
                drive(&|| {
                    let tile = shared_array!($t, 1);
                    for i in 0..64 / size_of::<$t>() {
                        tile.write(0, a.$method(i));
                        b.$write(i, tile.read(0));
                    }
                });
            });
            for mode in [Mode::Fast, Mode::Checked { seed: 0 }] {
                let (a, b) = (memory(&input, mode), memory(&[0u8; 64], mode));
                launch(copy, 1, &[&a, &b], mode).expect("no fault");
                assert_eq!(values::<u8>(&b), input);
            }
        })* };
    }
    macro_rules! check_types {
        ($($t:ty),*) => { $( check!($t, read, write, read_nc, write_stream, read_stream, write); )* };
    }
    check_types!(
        u8, i8, u16, i16, u32, i32, u64, i64, U32x2, U32x4, U64x2, U8x16
    );
}

#[test]
fn views_offset_and_cast() {
    let out = one_thread::<u32>(&[1, 2, 3, 4, 0, 0], |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            let words = Shared::<u32>::dynamic(0);
            let _ = words;
            let high = a.offset(2).cast::<u64>().as_const().read(0);
            a.write(4, (high >> 32) as u32);
            let tile = shared_array!(u32, 4);
            tile.offset(1).write(2, 9);
            let base = tile.address();
            assert_eq!(
                (
                    tile.offset(3).address(),
                    tile.cast::<u8>().offset(12).address()
                ),
                (base + 12, base + 12)
            );
            a.write(5, tile.cast::<u16>().read(6).into());
        });
    });
    assert_eq!(out, [1, 2, 3, 4, 4, 9]);
}

/// Every way through a stride visits the same items in the same order.
#[test]
fn stride_is_one_sequence() {
    let check = kernel("sequence", 0, 4, 0, |_, drive| {
        drive(&|| {
            for n in 0..70 {
                let items: Vec<usize> = grid::stride::<3>(n).by_ref().collect();
                for taken in 0..=items.len().min(4) {
                    let mut stride = grid::stride::<3>(n);
                    let mut seen: Vec<usize> = stride.by_ref().take(taken).collect();
                    stride.for_each(|i| seen.push(i));
                    assert_eq!(seen, items, "{n}, {taken}");
                }
                let next = |i: &usize| {
                    *i < n
                        && i / 4 / 3 % 2 == block_idx_x() as usize
                        && i % 4 == thread_idx_x() as usize
                };
                assert_eq!(items, (0..n).filter(next).collect::<Vec<_>>());
            }
        });
    });
    launch(check, 2, &[], Mode::Fast).expect("no fault");
}

#[test]
fn stride_gives_each_thread_its_tile() {
    // Three blocks of 4 threads, 2 a thread: tiles of 8 go round the blocks.
    let out = kernel("order", 1, 4, 0, |args, drive| {
        let a = args[0].global_mut::<u32>();
        drive(&|| {
            for (step, i) in grid::stride::<2>(50).enumerate() {
                a.write(i, 1000 * step as u32 + grid::global_id() as u32);
            }
        });
    });
    let a = memory(&[u32::MAX; 50], Mode::Fast);
    launch(out, 3, &[&a], Mode::Fast).expect("no fault");
    let expected = |i: u32| {
        let (tile, inside) = (i / 8, i % 8);
        1000 * (tile / 3 * 2 + inside / 4) + 4 * (tile % 3) + inside % 4
    };
    assert_eq!(values::<u32>(&a), (0..50).map(expected).collect::<Vec<_>>());
}

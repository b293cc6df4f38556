//! The product by bit planes: AND and XOR alone, 32 products a warp.
//!
//! What a GPU does without `clmad`, at its best, and the baseline that `clmad` is measured against. A
//! plane holds one coefficient of 32 elements, a bit each. Three levels of Karatsuba split a product of
//! 128 by 128 planes into 27 of 16 by 16, and each lane makes one of them: 256 fused AND-XORs in
//! registers.

use simt::kernel;
use simt::prelude::*;

use super::{Field128, Ghash};

/// All lanes of a warp.
const WARP: u32 = u32::MAX;
/// Planes of a factor of the innermost product.
const PLANES: usize = 16;
/// Innermost products: three levels of Karatsuba.
const BLOCKS: usize = 27;
/// Words from one innermost factor to the next in shared memory: eight lanes that read 16 bytes each
/// touch every bank once.
const FACTOR_STRIDE: usize = 20;
/// Words from one innermost product to the next.
const PRODUCT_STRIDE: usize = 36;
/// Words of shared memory of a warp: the factors of both sides, and then the products.
const ARENA: usize = 2 * BLOCKS * FACTOR_STRIDE;
/// Warps of a block.
const WARPS: usize = 4;

/// `c[i] = a[i] * b[i]` for `i` below `n`, in the natural order. Any grid covers any `n`.
#[kernel(
    block = 128,
    requires(n <= a.len() as u64, n <= b.len() as u64, n <= c.len() as u64)
)]
pub fn gf128_mul_bitsliced(a: Global<Ghash>, b: Global<Ghash>, c: GlobalMut<Ghash>, n: u64) {
    const { assert!(BLOCKS * PRODUCT_STRIDE <= ARENA) }
    let arena = shared_array!(u32, WARPS * ARENA);
    let arena = arena.offset(thread::warp_id() as usize * ARENA);
    let lane = thread::lane_id() as usize;
    let n = n as usize;
    // Whole warps go round together, as they meet in shuffles.
    let mut first = grid::global_id() - lane;
    while first < n {
        let i = first + lane;
        first += grid::global_size();
        let (mut x, mut y) = (Ghash::ZERO, Ghash::ZERO);
        if i < n {
            (x, y) = (a.read(i), b.read(i));
        }
        split(to_planes(x), arena);
        split(to_planes(y), arena.offset(BLOCKS * FACTOR_STRIDE));
        thread::sync_warp(WARP);
        // The lanes past the last product repeat it.
        let block = lane.min(BLOCKS - 1);
        let product = multiply(
            factor(arena.offset(block * FACTOR_STRIDE)),
            factor(arena.offset((BLOCKS + block) * FACTOR_STRIDE)),
        );
        thread::sync_warp(WARP);
        if lane < BLOCKS {
            let target = arena.offset(block * PRODUCT_STRIDE).cast::<U32x4>();
            for quad in 0..2 * PLANES / 4 {
                let mut words = [0; 4];
                for word in 0..4 {
                    words[word] = product[4 * quad + word];
                }
                target.write(quad, U32x4(words));
            }
        }
        thread::sync_warp(WARP);
        let product = from_planes(reduce(join(arena)));
        thread::sync_warp(WARP);
        if i < n {
            c.write(i, product);
        }
    }
}

/// Bit `j` of lane `i` goes to bit `i` of lane `j`.
#[inline(always)]
fn transpose(mut word: u32) -> u32 {
    const LOW: [u32; 5] = [
        0x0000_FFFF,
        0x00FF_00FF,
        0x0F0F_0F0F,
        0x3333_3333,
        0x5555_5555,
    ];
    let lane = thread::lane_id();
    for step in 0..5 {
        let distance = 16 >> step;
        let is_upper = lane & distance != 0;
        let keep = if is_upper { !LOW[step] } else { LOW[step] };
        let other = warp::shuffle_xor(WARP, word, distance);
        let shift = if is_upper { 32 - distance } else { distance };
        word = word & keep | int::funnel_shift_l(other, other, shift) & !keep;
    }
    word
}

/// The planes of the elements of a warp: lane `l` gets planes `l`, `32 + l`, `64 + l` and `96 + l`.
#[inline(always)]
fn to_planes(element: Ghash) -> [u32; 4] {
    let [low, high] = element.limbs();
    [low, low >> 32, high, high >> 32].map(|word| transpose(word as u32))
}

/// The element of this lane; the inverse of [`to_planes`].
#[inline(always)]
fn from_planes(planes: [u32; 4]) -> Ghash {
    let [w0, w1, w2, w3] = planes.map(|word| u64::from(transpose(word)));
    Ghash::from_limbs([w0 | w1 << 32, w2 | w3 << 32])
}

/// Low half, high half, and their sum.
#[inline(always)]
fn thirds<const N: usize>(low: [u32; N], high: [u32; N]) -> [[u32; N]; 3] {
    let mut sum = [0; N];
    for i in 0..N {
        sum[i] = low[i] ^ high[i];
    }
    [low, high, sum]
}

/// Writes the 27 innermost factors of 16 planes each. Two levels of Karatsuba split words, which a lane
/// holds; the third splits lanes.
#[inline(always)]
fn split(planes: [u32; 4], target: Shared<u32>) {
    let lane = thread::lane_id() as usize;
    let (half, place) = (lane / PLANES, lane % PLANES);
    let outer = thirds([planes[0], planes[1]], [planes[2], planes[3]]);
    for i in 0..3 {
        let inner = thirds([outer[i][0]], [outer[i][1]]);
        for j in 0..3 {
            let word = inner[j][0];
            let sum = word ^ warp::shuffle_xor(WARP, word, PLANES as u32);
            let block = 3 * (3 * i + j);
            target.write((block + half) * FACTOR_STRIDE + place, word);
            if half == 0 {
                target.write((block + 2) * FACTOR_STRIDE + place, sum);
            }
        }
    }
}

/// The 16 planes of an innermost factor.
#[inline(always)]
fn factor(source: Shared<u32>) -> [u32; PLANES] {
    let source = source.cast::<U32x4>();
    let mut planes = [0; PLANES];
    for quad in 0..PLANES / 4 {
        let words = source.read(quad).0;
        for word in 0..4 {
            planes[4 * quad + word] = words[word];
        }
    }
    planes
}

/// The product of 16 by 16 planes: 31 of them and a zero.
#[inline(always)]
fn multiply(a: [u32; PLANES], b: [u32; PLANES]) -> [u32; 2 * PLANES] {
    let mut product = [0; 2 * PLANES];
    for i in 0..PLANES {
        for j in 0..PLANES {
            product[i + j] ^= a[i] & b[j];
        }
    }
    product
}

/// The product of which `low`, `high` and `both` are the products of the low halves, the high halves
/// and the sums of the halves. `N` words each, `DOUBLE = 2 N`.
#[inline(always)]
fn combine<const N: usize, const DOUBLE: usize>(
    low: [u32; N],
    high: [u32; N],
    both: [u32; N],
) -> [u32; DOUBLE] {
    const { assert!(DOUBLE == 2 * N) }
    let mut product = [0; DOUBLE];
    for i in 0..N {
        product[i] ^= low[i];
        product[N + i] ^= high[i];
        product[N / 2 + i] ^= low[i] ^ high[i] ^ both[i];
    }
    product
}

/// The 256 planes of the product from the 27 innermost ones: lane `l` gets planes `32 w + l`.
#[inline(always)]
fn join(source: Shared<u32>) -> [u32; 8] {
    let lane = thread::lane_id() as usize;
    let is_upper = if lane < PLANES { 0 } else { u32::MAX };
    let mut outer = [[0; 4]; 3];
    for i in 0..3 {
        let mut inner = [[0; 2]; 3];
        for j in 0..3 {
            let block = 3 * (3 * i + j);
            let low = source.read(block * PRODUCT_STRIDE + lane);
            let high = source.read((block + 1) * PRODUCT_STRIDE + lane);
            let both = source.read((block + 2) * PRODUCT_STRIDE + lane);
            // The middle product begins 16 planes up: half a word.
            let middle = warp::shuffle_xor(WARP, low ^ high ^ both, PLANES as u32);
            inner[j] = [low ^ middle & is_upper, high ^ middle & !is_upper];
        }
        outer[i] = combine::<2, 4>(inner[0], inner[1], inner[2]);
    }
    combine::<4, 8>(outer[0], outer[1], outer[2])
}

/// x^128 = x^7 + x^2 + x + 1: the upper 128 planes come down to their place and 1, 2 and 7 above it.
#[inline(always)]
fn reduce(product: [u32; 8]) -> [u32; 4] {
    const SHIFTS: [u32; 3] = [1, 2, 7];
    let lane = thread::lane_id();
    let mut sum = [0; 5];
    for word in 0..4 {
        sum[word] = product[word] ^ product[4 + word];
    }
    for i in 0..3 {
        let stays = if lane >= SHIFTS[i] { u32::MAX } else { 0 };
        for word in 0..4 {
            let moved = warp::shuffle(WARP, product[4 + word], lane.wrapping_sub(SHIFTS[i]));
            sum[word] ^= moved & stays;
            sum[word + 1] ^= moved & !stays;
        }
    }
    // Planes 128 to 134 once more. What goes round the warp there is zero.
    let over = sum[4];
    let mut lowest = sum[0] ^ over;
    for i in 0..3 {
        lowest ^= warp::shuffle(WARP, over, lane.wrapping_sub(SHIFTS[i]));
    }
    [lowest, sum[1], sum[2], sum[3]]
}

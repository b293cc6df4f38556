//! Words to byte planes: four `prmt` make two, eight make four.

use simt::int::prmt;

/// The 4 x 4 byte transpose: byte `i` of word `j` of the result is byte `j` of word `i`.
///
/// So word `j` holds plane `j` of four consecutive words, in the order in which their bytes would
/// meet four bytes of `D`.
#[inline(always)]
#[must_use]
pub fn split(words: [u32; 4]) -> [u32; 4] {
    let [a, b, c, d] = words;
    // Bytes 0 and 1, then 2 and 3, of two words interleaved: a0 b0 a1 b1, a2 b2 a3 b3.
    let (ab_low, ab_high) = (prmt(a, b, 0x5140), prmt(a, b, 0x7362));
    let (cd_low, cd_high) = (prmt(c, d, 0x5140), prmt(c, d, 0x7362));
    [
        prmt(ab_low, cd_low, 0x5410),
        prmt(ab_low, cd_low, 0x7632),
        prmt(ab_high, cd_high, 0x5410),
        prmt(ab_high, cd_high, 0x7632),
    ]
}

/// `sum 2^(8 j) sums[j]` modulo 2^32: four products of planes to the product of words.
#[inline(always)]
#[must_use]
pub fn join(sums: [u32; 4]) -> u32 {
    let [s0, s1, s2, s3] = sums;
    s0.wrapping_add(s1 << 8)
        .wrapping_add(s2 << 16)
        .wrapping_add(s3 << 24)
}

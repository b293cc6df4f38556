//! Integer instructions that Rust has no operator for.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Four bytes picked from the eight of `a` (0 to 3) and `b` (4 to 7): `prmt.b32`.
///
/// Nibble `i` of `selector` picks byte `i` of the result; its top bit replicates the sign of the picked
/// byte over all eight bits. The upper 16 bits of `selector` are ignored.
#[inline(always)]
pub fn prmt(a: u32, b: u32, selector: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: registers only.
    unsafe {
        crate::ptx::prmt(a, b, selector)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let bytes = u64::from(a) | u64::from(b) << 32;
        let mut result = 0;
        for i in 0..4 {
            let pick = selector >> (4 * i);
            let byte = (bytes >> (8 * (pick & 7))) as u8;
            let byte = if pick & 8 == 0 {
                byte
            } else {
                ((byte as i8) >> 7) as u8
            };
            result |= u32::from(byte) << (8 * i);
        }
        result
    }
}

/// Upper half of the 64-bit product: `mul.hi.u32`.
#[inline(always)]
pub fn mul_hi(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// The 64-bit product: `mul.wide.u32`.
#[inline(always)]
pub fn mul_wide(a: u32, b: u32) -> u64 {
    u64::from(a) * u64::from(b)
}

/// `a * b + acc` modulo 2^64: one `IMAD.WIDE`.
///
/// Written as `mad.lo.cc` and `madc.hi` on one 64-bit accumulator, which ptxas joins; under register
/// pressure it takes `mad.wide.u32` apart.
#[inline(always)]
pub fn mad_wide(a: u32, b: u32, acc: u64) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let sum: u64;
        // SAFETY: registers only.
        unsafe {
            asm!(
                "{{ .reg .u32 lo, hi; mov.b64 {{lo, hi}}, {acc};",
                "mad.lo.cc.u32 lo, {a}, {b}, lo; madc.hi.u32 hi, {a}, {b}, hi; mov.b64 {sum}, {{lo, hi}}; }}",
                acc = in(reg64) acc, a = in(reg32) a, b = in(reg32) b, sum = lateout(reg64) sum,
                options(pure, nomem, nostack)
            );
        }
        sum
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        mul_wide(a, b).wrapping_add(acc)
    }
}

/// Upper word of `high:low << (shift % 32)`: `shf.l.wrap.b32`.
#[inline(always)]
pub fn funnel_shift_l(low: u32, high: u32, shift: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let word: u32;
        // SAFETY: registers only.
        unsafe {
            asm!("shf.l.wrap.b32 {}, {}, {}, {};", out(reg32) word, in(reg32) low, in(reg32) high, in(reg32) shift,
                options(pure, nomem, nostack));
        }
        word
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let pair = u64::from(high) << 32 | u64::from(low);
        (pair << (shift % 32) >> 32) as u32
    }
}

/// Lower word of `high:low >> (shift % 32)`: `shf.r.wrap.b32`.
#[inline(always)]
pub fn funnel_shift_r(low: u32, high: u32, shift: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let word: u32;
        // SAFETY: registers only.
        unsafe {
            asm!("shf.r.wrap.b32 {}, {}, {}, {};", out(reg32) word, in(reg32) low, in(reg32) high, in(reg32) shift,
                options(pure, nomem, nostack));
        }
        word
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let pair = u64::from(high) << 32 | u64::from(low);
        (pair >> (shift % 32)) as u32
    }
}

/// Dot products of four bytes.
macro_rules! dp4a {
    ($($(#[$doc:meta])* $name:ident, $a:ty, $b:ty, $acc:ty, $ptx:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(a: u32, b: u32, acc: $acc) -> $acc {
            #[cfg(target_arch = "nvptx64")]
            {
                let sum: $acc;
                // SAFETY: registers only.
                unsafe {
                    asm!(concat!("dp4a.", $ptx, " {}, {}, {}, {};"), out(reg32) sum, in(reg32) a, in(reg32) b,
                        in(reg32) acc, options(pure, nomem, nostack));
                }
                sum
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
                (0..4).fold(acc, |sum, i| {
                    sum.wrapping_add(<$acc>::from(a[i] as $a).wrapping_mul(<$acc>::from(b[i] as $b)))
                })
            }
        }
    )* };
}

dp4a! {
    /// `acc + sum a[i] b[i]` over four unsigned bytes, modulo 2^32.
    dp4a_u8u8, u8, u8, u32, "u32.u32";
    /// `acc + sum a[i] b[i]`, bytes of `a` signed and of `b` unsigned, modulo 2^32.
    dp4a_s8u8, i8, u8, i32, "s32.u32";
    /// `acc + sum a[i] b[i]` over four signed bytes, modulo 2^32.
    dp4a_s8s8, i8, i8, i32, "s32.s32";
}

/// The bytes in reverse order: one `prmt`.
#[inline(always)]
pub fn byte_reverse(v: u32) -> u32 {
    prmt(v, 0, 0x0123)
}

//! Plain transforms and products in `Z_q[X]/(X^N + 1)`: `%` on wide integers, textbook algorithms, no table.
//!
//! Nothing here is shared with the kernels or with [`TwiddleTable`](super::TwiddleTable): it is what they are checked
//! against. Lengths are powers of two, values residues, `psi` a root of unity of order `2N`, i.e. `psi^N = -1`.

/// `base^exponent mod q`.
fn power(base: u32, exponent: u64, q: u32) -> u32 {
    let mut result = 1;
    for bit in (0..64).rev() {
        result = product(result, result, q);
        if exponent >> bit & 1 == 1 {
            result = product(result, base, q);
        }
    }
    result % q
}

/// `a * b mod q`.
fn product(a: u32, b: u32, q: u32) -> u32 {
    (u64::from(a) * u64::from(b) % u64::from(q)) as u32
}

/// `a + b mod q`.
fn sum(a: u32, b: u32, q: u32) -> u32 {
    ((u64::from(a) + u64::from(b)) % u64::from(q)) as u32
}

/// The index of `bits` bits with its bits in the opposite order.
pub fn bit_reverse(index: usize, bits: u32) -> usize {
    (0..bits).fold(0, |reversed, bit| reversed << 1 | index >> bit & 1)
}

/// `a * b` in `Z_q[X]/(X^N + 1)` by definition, O(N^2): `X^N = -1`. Both have the same length.
pub fn negacyclic_convolution(a: &[u32], b: &[u32], q: u32) -> Vec<u32> {
    let n = a.len();
    let q = i128::from(q);
    let mut c = vec![0i128; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let term = i128::from(x) * i128::from(y);
            if i + j < n {
                c[i + j] += term;
            } else {
                c[i + j - n] -= term;
            }
        }
    }
    c.into_iter().map(|x| x.rem_euclid(q) as u32).collect()
}

/// `A[i] = a(psi^(2 brv(i) + 1))` by definition, O(N^2).
pub fn evaluate(a: &[u32], q: u32, psi: u32) -> Vec<u32> {
    let bits = a.len().ilog2();
    (0..a.len())
        .map(|i| {
            let point = power(psi, 2 * bit_reverse(i, bits) as u64 + 1, q);
            a.iter().rev().fold(0, |value, &coefficient| {
                sum(product(value, point, q), coefficient, q)
            })
        })
        .collect()
}

/// The cyclic transform `A[k] = sum_j a[j] omega^(j k)`, natural order in and out: the textbook's iteration with a
/// bit-reversal first (Cormen et al., *Introduction to Algorithms*, section 30.3).
fn cyclic(a: &[u32], q: u32, omega: u32) -> Vec<u32> {
    let n = a.len();
    let bits = n.ilog2();
    let mut values: Vec<u32> = (0..n).map(|i| a[bit_reverse(i, bits)]).collect();
    for stage in 1..=bits {
        let length = 1 << stage;
        let step = power(omega, (n / length) as u64, q);
        for block in values.chunks_exact_mut(length) {
            let mut factor = 1;
            for j in 0..length / 2 {
                let (x, y) = (block[j], product(block[j + length / 2], factor, q));
                block[j] = sum(x, y, q);
                block[j + length / 2] = sum(x, q - y, q);
                factor = product(factor, step, q);
            }
        }
    }
    values
}

/// The forward transform, O(N log N): twist by powers of `psi`, transform, reverse the bits of the order.
pub fn forward(a: &[u32], q: u32, psi: u32) -> Vec<u32> {
    let bits = a.len().ilog2();
    let twisted: Vec<u32> = a
        .iter()
        .enumerate()
        .map(|(j, &x)| product(x, power(psi, j as u64, q), q))
        .collect();
    let natural = cyclic(&twisted, q, product(psi, psi, q));
    (0..a.len())
        .map(|i| natural[bit_reverse(i, bits)])
        .collect()
}

/// The inverse of [`forward`], O(N log N), with the factor `1/N`.
pub fn inverse(values: &[u32], q: u32, psi: u32) -> Vec<u32> {
    let n = values.len();
    let bits = n.ilog2();
    let natural: Vec<u32> = (0..n).map(|i| values[bit_reverse(i, bits)]).collect();
    let psi_inverse = power(psi, u64::from(q) - 2, q);
    let n_inverse = power((n as u64 % u64::from(q)) as u32, u64::from(q) - 2, q);
    cyclic(&natural, q, product(psi_inverse, psi_inverse, q))
        .into_iter()
        .enumerate()
        .map(|(j, x)| product(product(x, n_inverse, q), power(psi_inverse, j as u64, q), q))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::Modulus;

    #[test]
    fn a_product_wraps_with_a_minus_sign() {
        // (1 + 2X)(3 + 4X) = 3 + 10 X + 8 X^2 = -5 + 10 X mod X^2 + 1.
        assert_eq!(negacyclic_convolution(&[1, 2], &[3, 4], 17), [12, 10]);
        // X^3 * X = -1 mod X^4 + 1.
        assert_eq!(
            negacyclic_convolution(&[0, 0, 0, 1], &[0, 1, 0, 0], 17),
            [16, 0, 0, 0]
        );
    }

    #[test]
    fn the_textbook_transform_is_the_definition() {
        for (q, log_n) in [
            (17, 1),
            (17, 2),
            (17, 3),
            (7681, 8),
            (536_641_537, 5),
            (536_641_537, 9),
        ] {
            let psi = Modulus::new(q).unwrap().root_of_unity(log_n + 1).unwrap();
            let a: Vec<u32> = (0..1u64 << log_n)
                .map(|i| ((i * i * i + 5 * i + q as u64 - 1) % q as u64) as u32)
                .collect();
            let values = evaluate(&a, q, psi);
            assert_eq!(forward(&a, q, psi), values, "{q} {log_n}");
            assert_eq!(inverse(&values, q, psi), a, "{q} {log_n}");
        }
    }

    #[test]
    fn values_multiply_to_the_convolution() {
        let (q, psi) = (17, Modulus::new(17).unwrap().root_of_unity(4).unwrap());
        let (a, b) = ([1, 2, 3, 4, 5, 6, 7, 16], [16, 0, 3, 9, 1, 1, 0, 2]);
        let values: Vec<u32> = evaluate(&a, q, psi)
            .into_iter()
            .zip(evaluate(&b, q, psi))
            .map(|(x, y)| x * y % q)
            .collect();
        assert_eq!(inverse(&values, q, psi), negacyclic_convolution(&a, &b, q));
    }
}

//! The product in exact 128-bit arithmetic, reduced at the end.

use super::Shape;

/// `Y = D X` modulo 2^32; `database`, `x` and the result are laid out by `shape`, zeros where the
/// result is fill.
///
/// # Panics
///
/// If a slice is shorter than `shape` says.
#[must_use]
pub fn product(signed: bool, database: &[u8], x: &[u32], shape: Shape) -> Vec<u32> {
    let Shape {
        rows,
        inner,
        columns,
        database_stride,
        x_stride,
        y_stride,
    } = shape;
    let mut y = vec![0; shape.y_len() as usize];
    for column in 0..columns as usize {
        for row in 0..rows as usize {
            let bytes = &database[row * database_stride as usize..][..inner as usize];
            let words = &x[column * x_stride as usize..][..inner as usize];
            let terms = bytes.iter().zip(words).map(|(&byte, &word)| {
                let byte = if signed {
                    i128::from(byte as i8)
                } else {
                    i128::from(byte)
                };
                byte * i128::from(word)
            });
            y[column * y_stride as usize + row] = terms.sum::<i128>().rem_euclid(1 << 32) as u32;
        }
    }
    y
}

use simt::prelude::*;

#[kernel(block = 32, variants(N = [1, 2]))]
pub fn parameter_type_of_const<const N: usize>(a: [u32; N]) {
    let _ = a;
}

fn main() {}

use simt::prelude::*;

#[kernel(block = 32, variants(M = [1, 2], N = [1]))]
pub fn misnamed<const N: u32>(a: GlobalMut<u32>) {
    a.write(0, N);
}

#[kernel(block = 32, variants(M = [1, 2]))]
pub fn not_generic(a: GlobalMut<u32>) {
    a.write(0, 1);
}

fn main() {}

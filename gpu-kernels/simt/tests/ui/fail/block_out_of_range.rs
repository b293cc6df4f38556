use simt::prelude::*;

#[kernel(block = 0)]
pub fn no_threads(a: GlobalMut<u32>) {
    a.write(0, 1);
}

#[kernel(block = 512 * N, variants(N = [1, 2, 3]))]
pub fn too_many_threads<const N: u32>(a: GlobalMut<u32>) {
    a.write(0, N);
}

#[kernel(block = 32, shared = 1 << 20, min_blocks = 0)]
pub fn other_bounds(a: GlobalMut<u32>) {
    a.write(0, 1);
}

fn main() {}

use simt::prelude::*;

#[kernel(block = 32, variants(N = [1, 2]))]
pub fn const_without_values<const N: u32, const SIGNED: bool>(a: GlobalMut<u32>) {
    a.write(0, N);
}

#[kernel(block = 32, variants(N = []))]
pub fn const_with_empty_list<const N: u32>(a: GlobalMut<u32>) {
    a.write(0, N);
}

fn main() {}

use simt::prelude::*;

#[kernel(block)]
pub fn key_without_value(a: GlobalMut<u32>) {
    a.write(0, 1);
}

#[kernel(block = 32, variants = [1, 2])]
pub fn variants_without_list<const N: u32>(a: GlobalMut<u32>) {
    a.write(0, N);
}

fn main() {}

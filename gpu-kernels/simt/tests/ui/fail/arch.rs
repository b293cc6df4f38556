use simt::prelude::*;

#[kernel(block = 32, arch = "hopper")]
pub fn misnamed(a: GlobalMut<u32>) {
    a.write(0, 1);
}

#[kernel(block = 32, arch = 90)]
pub fn number(a: GlobalMut<u32>) {
    a.write(0, 1);
}

fn main() {}

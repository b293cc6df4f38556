use simt::prelude::*;

#[kernel(block = 32, block = 64)]
pub fn key_twice(a: GlobalMut<u32>) {
    a.write(0, 1);
}

fn main() {}

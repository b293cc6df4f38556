use simt::prelude::*;

#[kernel(block = 32)]
pub fn return_type(a: Global<u32>) -> u32 {
    a.read(0)
}

fn main() {}

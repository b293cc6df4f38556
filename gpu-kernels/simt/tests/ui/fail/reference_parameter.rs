use simt::prelude::*;

#[kernel(block = 32)]
pub fn reference_parameter(a: &u32, b: &mut u32) {
    *b = *a;
}

fn main() {}

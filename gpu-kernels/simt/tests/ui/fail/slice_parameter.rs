use simt::prelude::*;

#[kernel(block = 32)]
pub fn slice_parameter(a: &[u32], b: &mut [U32x4]) {
    let _ = (a, b);
}

fn main() {}

use simt::prelude::*;

#[kernel(block = 32)]
pub fn pattern_parameter(U32x2([a, b]): U32x2, _: u32) {
    let _ = (a, b);
}

fn main() {}

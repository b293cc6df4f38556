use simt::prelude::*;

#[kernel(block = 32)]
pub fn pointer_parameter(a: *const u32, b: impl Fn(), n: usize, on: bool) {
    let _ = (a, b, n, on);
}

fn main() {}

use simt::prelude::*;

#[kernel(block = 32, requires(a.len()))]
pub fn requires_no_condition(a: GlobalMut<u32>) {
    a.write(0, 1);
}

fn main() {}

use simt::prelude::*;

#[kernel(block = 32, blocks_per_sm = 2, launch(x))]
pub fn unknown_key(a: GlobalMut<u32>) {
    a.write(0, 1);
}

fn main() {}

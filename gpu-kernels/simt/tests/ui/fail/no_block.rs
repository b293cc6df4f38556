use simt::prelude::*;

#[kernel]
pub fn empty(a: GlobalMut<u32>) {
    a.write(0, 1);
}

fn main() {}

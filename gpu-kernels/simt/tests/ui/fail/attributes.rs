use simt::prelude::*;

#[kernel(block = 32)]
#[inline(never)]
#[unsafe(no_mangle)]
pub fn attributes(a: GlobalMut<u32>) {
    a.write(0, 1);
}

fn main() {}

use simt::prelude::*;

// The macro cannot see the value: the compiler checks it.
const THREADS: u32 = 2048;

#[kernel(block = THREADS)]
pub fn too_many_threads(a: GlobalMut<u32>) {
    a.write(0, 1);
}

fn main() {}

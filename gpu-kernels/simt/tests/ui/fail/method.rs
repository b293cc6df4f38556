use simt::prelude::*;

struct Machine;

impl Machine {
    #[kernel(block = 32)]
    pub fn method(&self, a: GlobalMut<u32>) {
        a.write(0, 1);
    }
}

fn main() {}

use simt::prelude::*;

#[derive(Clone, Copy)]
pub struct Modulus(u32);

#[kernel(block = 32)]
pub fn scalar_not_an_element(a: GlobalMut<u32>, q: Modulus) {
    a.write(0, q.0);
}

fn main() {}

use simt::prelude::*;

const EIGHT: u32 = 8;

#[kernel(block = 32, variants(N = [1.5, "2", EIGHT, true], SIGNED = [0]))]
pub fn value_not_an_integer<const N: u32, const SIGNED: bool>(a: GlobalMut<u32>) {
    a.write(0, N);
}

#[kernel(block = 32, variants(N = [256, -1, 7, 7]))]
pub fn value_that_does_not_fit<const N: u8>(a: GlobalMut<u8>) {
    a.write(0, N);
}

fn main() {}

use simt::prelude::*;

const LIMIT: u32 = 8;

#[kernel(block = 32, variants(N = [1, 2]), when = N < LIMIT)]
pub fn not_literal<const N: u32>(a: GlobalMut<u32>) {
    a.write(0, N);
}

#[kernel(block = 32, variants(N = [1, 2]), when = N.is_power_of_two())]
pub fn method_call<const N: u32>(a: GlobalMut<u32>) {
    a.write(0, N);
}

#[kernel(block = 32, variants(N = [1, 2]), when = N > 2)]
pub fn keeps_nothing<const N: u32>(a: GlobalMut<u32>) {
    a.write(0, N);
}

#[kernel(block = 32, variants(N = [1, 2]), when = N + 1)]
pub fn no_condition<const N: u32>(a: GlobalMut<u32>) {
    a.write(0, N);
}

fn main() {}

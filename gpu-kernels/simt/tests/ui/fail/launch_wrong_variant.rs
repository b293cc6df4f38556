use simt::launch::{DeviceMut, Grid, Queue};
use simt::prelude::*;

#[kernel(block = 32, variants(N = [1, 2], SIGNED = [true]))]
pub fn fill<const N: u32, const SIGNED: bool>(a: GlobalMut<u32>) {
    a.write(0, N + SIGNED as u32);
}

fn launch(queue: &impl Queue, a: &mut impl DeviceMut<u32>) {
    let _ = fill::launch(queue, fill::Variant { n: 1 }, Grid::x(1), a);
    let _ = fill::launch(queue, fill::Variant { n: 1, signed: 1 }, Grid::x(1), a);
}

fn main() {}

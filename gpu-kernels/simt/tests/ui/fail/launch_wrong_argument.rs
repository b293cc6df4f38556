use simt::launch::{DeviceMut, DeviceRef, Grid, Queue};
use simt::prelude::*;

#[kernel(block = 32, variants(N = [1, 2]))]
pub fn copy<const N: u32>(a: Global<u32>, b: GlobalMut<u32>, n: u32) {
    b.write(0, a.read(0) * N + n);
}

fn wrong_element(queue: &impl Queue, a: &impl DeviceRef<u64>, b: &mut impl DeviceMut<u32>) {
    let _ = copy::launch(queue, copy::Variant { n: 1 }, Grid::x(1), a, b, 1);
}

fn wrong_scalar(queue: &impl Queue, a: &impl DeviceRef<u32>, b: &mut impl DeviceMut<u32>) {
    let _ = copy::launch(queue, copy::Variant { n: 1 }, Grid::x(1), a, b, 1i64);
}

fn scalar_for_buffer(queue: &impl Queue, b: &mut impl DeviceMut<u32>) {
    let _ = copy::launch(queue, copy::Variant { n: 1 }, Grid::x(1), 1, b, 1);
}

fn main() {}

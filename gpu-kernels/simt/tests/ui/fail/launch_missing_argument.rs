use simt::launch::{DeviceMut, DeviceRef, Grid, Queue};
use simt::prelude::*;

#[kernel(block = 32)]
pub fn copy(a: Global<u32>, b: GlobalMut<u32>, n: u32) {
    b.write(0, a.read(0) + n);
}

fn missing(queue: &impl Queue, a: &impl DeviceRef<u32>, b: &mut impl DeviceMut<u32>) {
    let _ = copy::launch(queue, copy::Variant, Grid::x(1), a, b);
}

fn main() {}

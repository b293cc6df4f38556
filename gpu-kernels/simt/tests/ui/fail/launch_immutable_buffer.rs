use simt::launch::{DeviceMut, DeviceRef, Grid, Queue};
use simt::prelude::*;

#[kernel(block = 32)]
pub fn fill(a: GlobalMut<u32>, value: u32) {
    a.write(0, value);
}

#[kernel(block = 32)]
pub fn copy(a: Global<u32>, b: GlobalMut<u32>) {
    b.write(0, a.read(0));
}

fn shared_reference(queue: &impl Queue, a: &impl DeviceMut<u32>) {
    let _ = fill::launch(queue, fill::Variant, Grid::x(1), a, 1);
}

fn read_only_buffer(queue: &impl Queue, a: &mut impl DeviceRef<u32>) {
    let _ = fill::launch(queue, fill::Variant, Grid::x(1), a, 1);
}

fn read_and_written(queue: &impl Queue, a: &mut impl DeviceMut<u32>) {
    let _ = copy::launch(queue, copy::Variant, Grid::x(1), a, a);
}

fn main() {}

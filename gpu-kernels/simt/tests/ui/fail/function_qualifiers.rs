use simt::prelude::*;

#[kernel(block = 32)]
pub async fn asynchronous(a: GlobalMut<u32>) {
    a.write(0, 1);
}

#[kernel(block = 32)]
pub unsafe fn not_safe(a: GlobalMut<u32>) {
    a.write(0, 1);
}

#[kernel(block = 32)]
pub extern "C" fn foreign(a: GlobalMut<u32>) {
    a.write(0, 1);
}

#[kernel(block = 32)]
pub const fn constant(a: GlobalMut<u32>) {
    let _ = a;
}

fn main() {}

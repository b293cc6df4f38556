use simt::prelude::*;

#[kernel(block = 32)]
pub fn shared_parameter(tile: Shared<u32>) {
    let _ = tile;
}

fn main() {}

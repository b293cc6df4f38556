use simt::prelude::*;

#[kernel(block = 32)]
pub struct NotAFunction;

fn main() {}

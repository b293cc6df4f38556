use simt::prelude::*;

#[kernel(block = 32)]
pub fn type_generics<'a, T: Element>(a: Global<u32>)
where
    T: Default,
{
    let _ = a;
}

fn main() {}

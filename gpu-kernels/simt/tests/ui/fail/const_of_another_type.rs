use simt::prelude::*;

#[kernel(block = 32, variants(C = ['a']))]
pub fn const_of_another_type<const C: char>(a: GlobalMut<u32>) {
    a.write(0, C as u32);
}

fn main() {}

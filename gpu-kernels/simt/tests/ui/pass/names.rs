//! Names that meet those of the expansion, or of the language.

#![deny(warnings)]
#![allow(dead_code)]

use simt::prelude::*;

// The expansion uses none of these.
type Result<T> = ::std::result::Result<T, ()>;
struct Option;
struct Ok;
struct Some;
struct Launch;
const FACTOR: &str = "not the const generic";
mod core {}
mod std {}

/// Parameters named like those of `launch`, keywords as names, a const generic that shadows a constant.
#[kernel(
    block = 32,
    variants(FACTOR = [1, 2], TYPE = [0]),
    requires(FACTOR <= 2, queue + variant + grid > 0, info.len() > 0, arguments == arguments, r#in > 0)
)]
pub fn r#loop<const FACTOR: u32, const TYPE: u8>(
    queue: u32,
    variant: u32,
    grid: u32,
    info: Global<u32>,
    arguments: u32,
    run: u32,
    holds: u32,
    reason: u32,
    r#in: u32,
    value: u32,
) {
    let _ = (queue, variant, grid, info, arguments, run, holds, reason, r#in, value);
}

macro_rules! kernels {
    ($($name:ident: $ty:ty, $threads:expr;)*) => { $(
        /// One for each type.
        #[kernel(block = $threads, requires(value > 0))]
        pub fn $name(a: GlobalMut<$ty>, value: $ty) {
            a.write(0, value);
        }
    )* };
}

kernels! {
    fill_u32: u32, 32;
    fill_u64: u64, 2 * 32;
}

fn main() {
    assert_eq!(r#loop::KERNEL.name, "loop");
    assert_eq!(r#loop::Variant { factor: 2, r#type: 0 }.name(), "loop__factor_2__type_0");
    assert_eq!(r#loop::KERNEL.params[8].name, "in");
    assert_eq!(fill_u64::KERNEL.variants[0].block, 64);
    assert_eq!(simt::launch::kernels().len(), 3);
}

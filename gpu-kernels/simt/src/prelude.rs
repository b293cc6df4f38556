//! What a kernel needs in scope: `use simt::prelude::*;`.

pub use crate::atomic::{self, Order, Scope};
pub use crate::element::{Element, U8x16, U32x2, U32x4, U64x2};
pub use crate::global::{Global, GlobalMut};
pub use crate::mbarrier::{self, Mbarrier};
pub use crate::shared::Shared;
pub use crate::{bulk, clmul, cp_async, grid, int, kernel, mma, shared_array, thread, warp, wgmma};

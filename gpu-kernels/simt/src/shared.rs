//! Views of the shared memory of a block.
//!
//! On the device a view is a 32-bit address of the shared window, and each access says `ld.shared` or
//! `st.shared`: through a generic pointer every access would be a slower generic one.

use core::marker::PhantomData;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::memory::Region;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::{access, block};
#[cfg(target_arch = "nvptx64")]
use crate::ptx;
use crate::{Element, Order, Scope, atomic};

/// An array in the shared memory of this block.
///
/// Valid while its kernel runs, for the threads of its block.
#[derive(Clone, Copy)]
pub struct Shared<T: Element> {
    /// Address in the shared window.
    #[cfg(target_arch = "nvptx64")]
    address: u32,
    /// Host address in the block's arena.
    #[cfg(not(target_arch = "nvptx64"))]
    address: usize,
    /// The array this view must stay in.
    #[cfg(not(target_arch = "nvptx64"))]
    region: *const Region,
    element: PhantomData<*mut T>,
}

impl<T: Element> core::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Shared").field(&self.address).finish()
    }
}

impl<T: Element> Shared<T> {
    /// The kernel's dynamic shared arena from byte `byte_offset` on.
    ///
    /// Its size is the kernel's `shared` expression; the arena is aligned to 1,024 bytes.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn dynamic(byte_offset: usize) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            Self {
                address: ptx::dynamic_shared().wrapping_add(byte_offset as u32),
                element: PhantomData,
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let region = block::dynamic_shared();
            // SAFETY: the region lives as long as the block.
            let base = unsafe { (*region).base() };
            Self {
                address: base.wrapping_add(byte_offset),
                region,
                element: PhantomData,
            }
        }
    }

    /// A view of an address that [`crate::shared_array!`] allocated.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    #[inline(always)]
    pub fn from_address(address: u32) -> Self {
        Self {
            address,
            element: PhantomData,
        }
    }

    /// The next static array of this block, for [`crate::shared_array!`].
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    #[track_caller]
    pub fn next_static(len: usize) -> Self {
        let region = block::static_shared(len * size_of::<T>());
        // SAFETY: the region lives as long as the block.
        let address = unsafe { (*region).base() };
        Self {
            address,
            region,
            element: PhantomData,
        }
    }

    /// The same memory seen as elements of type `U`. The address must suit `U`'s alignment.
    #[inline(always)]
    pub fn cast<U: Element>(self) -> Shared<U> {
        Shared {
            address: self.address,
            #[cfg(not(target_arch = "nvptx64"))]
            region: self.region,
            element: PhantomData,
        }
    }

    /// The view that starts `i` elements later.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, i: usize) -> Self {
        Self {
            address: self.at(i),
            #[cfg(not(target_arch = "nvptx64"))]
            region: self.region,
            element: PhantomData,
        }
    }

    /// Address in the shared window, for instructions that take one; on the host an offset in the
    /// block's arena.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn address(self) -> u32 {
        #[cfg(target_arch = "nvptx64")]
        {
            self.address
        }
        #[cfg(not(target_arch = "nvptx64"))]
        block::shared_offset(self.address)
    }

    /// Element `i`: `ld.shared`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn read(self, i: usize) -> T {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the kernel keeps `i` inside the array; the emulator proves it on its inputs.
        unsafe {
            ptx::load_shared(self.at(i))
        }
        #[cfg(not(target_arch = "nvptx64"))]
        access::read(self.at(i), self.region)
    }

    /// Writes element `i`: `st.shared`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn write(self, i: usize, value: T) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: as in `read`.
        unsafe {
            ptx::store_shared(self.at(i), value);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        access::write(self.at(i), self.region, value);
    }

    /// Device address of element `i`.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn at(self, i: usize) -> u32 {
        self.address
            .wrapping_add((i as u32).wrapping_mul(size_of::<T>() as u32))
    }

    /// Host address of element `i`.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    fn at(self, i: usize) -> usize {
        self.address.wrapping_add(i.wrapping_mul(size_of::<T>()))
    }

    /// Host address of element `i` and the region it must lie in.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    pub(crate) fn place(self, i: usize) -> (usize, *const Region) {
        (self.at(i), self.region)
    }
}

impl<T: atomic::Atomic> Shared<T> {
    atomic::atomic_methods! {}

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn read_modify_write(
        self,
        i: usize,
        operation: atomic::Operation<T>,
        order: Order,
        scope: Scope,
    ) -> T {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: as in `read`.
        unsafe {
            T::atom_shared(self.at(i), operation, order, scope)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        access::read_modify_write(self.at(i), self.region, operation, order, scope)
    }
}

/// The `ldmatrix` forms.
macro_rules! ldmatrix {
    ($($(#[$doc:meta])* $name:ident, $count:tt, $transposed:literal, $suffix:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name(self, i: usize) -> [u32; $count] {
            #[cfg(target_arch = "nvptx64")]
            {
                ldmatrix!(@device $count, $suffix, self.at(i))
            }
            #[cfg(not(target_arch = "nvptx64"))]
            block::ldmatrix::<$count>(self.at(i), self.region, $transposed)
        }
    )* };
    (@device 1, $suffix:literal, $address:expr) => {{
        let x: u32;
        // SAFETY: reads rows whose addresses the kernel gives; not `pure`, so it is not moved into a
        // branch that some lanes skip.
        unsafe {
            core::arch::asm!(concat!("ldmatrix.sync.aligned.m8n8.x1", $suffix, ".shared.b16 {{{}}}, [{}];"),
                out(reg32) x, in(reg32) $address, options(nostack, readonly));
        }
        [x]
    }};
    (@device 2, $suffix:literal, $address:expr) => {{
        let (x, y): (u32, u32);
        // SAFETY: as for one matrix.
        unsafe {
            core::arch::asm!(concat!("ldmatrix.sync.aligned.m8n8.x2", $suffix, ".shared.b16 {{{},{}}}, [{}];"),
                out(reg32) x, out(reg32) y, in(reg32) $address, options(nostack, readonly));
        }
        [x, y]
    }};
    (@device 4, $suffix:literal, $address:expr) => {{
        let (x, y, z, w): (u32, u32, u32, u32);
        // SAFETY: as for one matrix.
        unsafe {
            core::arch::asm!(concat!("ldmatrix.sync.aligned.m8n8.x4", $suffix, ".shared.b16 {{{},{},{},{}}}, [{}];"),
                out(reg32) x, out(reg32) y, out(reg32) z, out(reg32) w, in(reg32) $address,
                options(nostack, readonly));
        }
        [x, y, z, w]
    }};
}

/// Matrix loads. Lane `8 m + r` gives with its `i` the address of row `r` of matrix `m`: 8 two-byte
/// elements (16 bytes, aligned to 16). Register `m` of lane `l` then holds elements `2 (l % 4)` and
/// `2 (l % 4) + 1` of row `l / 4` of matrix `m`; in the `_trans` forms, of its column `l / 4`. For bytes
/// a row is 16 of them and a register holds four. Every lane of the warp must come.
impl<T: Element> Shared<T> {
    ldmatrix! {
        /// One 8 x 8 matrix; the addresses of lanes 0 to 7 count.
        ldmatrix_x1, 1, false, "";
        /// Two 8 x 8 matrices; the addresses of lanes 0 to 15 count.
        ldmatrix_x2, 2, false, "";
        /// Four 8 x 8 matrices.
        ldmatrix_x4, 4, false, "";
        /// One 8 x 8 matrix, transposed.
        ldmatrix_x1_trans, 1, true, ".trans";
        /// Two 8 x 8 matrices, transposed.
        ldmatrix_x2_trans, 2, true, ".trans";
        /// Four 8 x 8 matrices, transposed.
        ldmatrix_x4_trans, 4, true, ".trans";
    }
}

/// A static array of `$len` elements of type `$t` in shared memory: `let tile = shared_array!(u32, 1 << LOG_N);`.
///
/// `$len` may use the kernel's const generics. Call it once, unconditionally, at the top of the kernel:
/// each place in the source is its own array, and all threads must come to it in the same order. The
/// array is aligned to 16 bytes and nothing initialises it.
#[cfg(target_arch = "nvptx64")]
#[macro_export]
macro_rules! shared_array {
    ($t:ty, $len:expr) => {{
        let address: u32;
        // Not `pure`: two arrays of one size would be the same text, and LLVM would merge them.
        // SAFETY: declares memory and gives its address.
        unsafe {
            ::core::arch::asm!(
                "{{ .shared .align 16 .b8 tile[{bytes}]; mov.u32 {address}, tile; }}",
                bytes = const ($len) * ::core::mem::size_of::<$t>(),
                address = out(reg32) address,
                options(nomem, nostack)
            );
        }
        $crate::Shared::<$t>::from_address(address)
    }};
}

/// A static array of `$len` elements of type `$t` in shared memory: `let tile = shared_array!(u32, 1 << LOG_N);`.
///
/// `$len` may use the kernel's const generics. Call it once, unconditionally, at the top of the kernel:
/// each place in the source is its own array, and all threads must come to it in the same order. The
/// array is aligned to 16 bytes and nothing initialises it.
#[cfg(not(target_arch = "nvptx64"))]
#[macro_export]
macro_rules! shared_array {
    ($t:ty, $len:expr) => {
        $crate::Shared::<$t>::next_static(const { $len })
    };
}

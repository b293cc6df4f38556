//! Views of global memory.
//!
//! On the device a view is one pointer and nothing else: passed by value as a kernel argument it gives
//! `ld.global` and `st.global`, where a slice or a struct of pointers would give generic accesses.
//! Lengths travel as scalars of their own, and nothing on the device checks an index: on a GPU an
//! access out of bounds is undefined behaviour, as in CUDA C. The emulator checks each one.

use core::marker::PhantomData;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::access;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::memory::Region;
#[cfg(target_arch = "nvptx64")]
use crate::ptx;
use crate::{Element, Order, Scope, atomic};

/// Defines a view type with its pointer on the device, and its address and bounds on the host.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, $pointer:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[cfg_attr(target_arch = "nvptx64", repr(transparent))]
        pub struct $name<T: Element> {
            #[cfg(target_arch = "nvptx64")]
            pointer: $pointer,
            #[cfg(not(target_arch = "nvptx64"))]
            address: usize,
            #[cfg(not(target_arch = "nvptx64"))]
            region: *const Region,
            element: PhantomData<T>,
        }

        // SAFETY: all threads of a grid use the same view. On the host every access goes through
        // relaxed atomics inside the bounds of its region, which outlives the launch.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe impl<T: Element> Send for $name<T> {}
        // SAFETY: as above.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe impl<T: Element> Sync for $name<T> {}

        impl<T: Element> core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                #[cfg(target_arch = "nvptx64")]
                let address = self.pointer as usize;
                #[cfg(not(target_arch = "nvptx64"))]
                let address = self.address;
                f.debug_tuple(stringify!($name)).field(&address).finish()
            }
        }

        impl<T: Element> $name<T> {
            /// The same memory seen as elements of type `U`. The address must suit `U`'s alignment.
            #[inline(always)]
            pub fn cast<U: Element>(self) -> $name<U> {
                $name {
                    #[cfg(target_arch = "nvptx64")]
                    pointer: self.pointer.cast(),
                    #[cfg(not(target_arch = "nvptx64"))]
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
                    #[cfg(target_arch = "nvptx64")]
                    pointer: self.pointer.wrapping_add(i),
                    #[cfg(not(target_arch = "nvptx64"))]
                    address: self.at(i),
                    #[cfg(not(target_arch = "nvptx64"))]
                    region: self.region,
                    element: PhantomData,
                }
            }

            /// Element `i`: `ld.global`.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn read(self, i: usize) -> T {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: the kernel keeps `i` inside the buffer; the emulator proves it on its inputs.
                unsafe {
                    self.pointer.add(i).read()
                }
                #[cfg(not(target_arch = "nvptx64"))]
                access::read(self.at(i), self.region)
            }

            /// Element `i` through the read-only path (`ld.global.nc`); nobody may write it during the
            /// launch.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn read_nc(self, i: usize) -> T {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: as in `read`.
                unsafe {
                    ptx::load_global_nc(self.pointer.wrapping_add(i).cast_const())
                }
                #[cfg(not(target_arch = "nvptx64"))]
                access::read_only(self.at(i), self.region)
            }

            /// Element `i`, read once: it does not displace what L1 holds (`L1::no_allocate`).
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn read_stream(self, i: usize) -> T {
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: as in `read`.
                unsafe {
                    ptx::load_global_stream(self.pointer.wrapping_add(i).cast_const())
                }
                #[cfg(not(target_arch = "nvptx64"))]
                access::read(self.at(i), self.region)
            }

            /// Host address of element `i`.
            #[cfg(not(target_arch = "nvptx64"))]
            #[inline(always)]
            fn at(self, i: usize) -> usize {
                self.address.wrapping_add(i.wrapping_mul(size_of::<T>()))
            }
        }
    };
}

view! {
    /// A buffer in global memory that the kernel reads.
    Global, *const T
}
view! {
    /// A buffer in global memory that the kernel reads and writes.
    GlobalMut, *mut T
}

/// A `Global` has no `cast_const`; this gives both views' pointers one.
#[cfg(target_arch = "nvptx64")]
trait CastConst<T> {
    fn cast_const(self) -> *const T;
}
#[cfg(target_arch = "nvptx64")]
impl<T> CastConst<T> for *const T {
    #[inline(always)]
    fn cast_const(self) -> *const T {
        self
    }
}

impl<T: Element> Global<T> {
    /// Device address of element `i`, and on the host its address and region.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn pointer(self, i: usize) -> *const T {
        self.pointer.wrapping_add(i)
    }

    /// Host address of element `i` and the region it must lie in.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    pub(crate) fn place(self, i: usize) -> (usize, *const Region) {
        (self.at(i), self.region)
    }
}

impl<T: Element> GlobalMut<T> {
    /// The view of `region` that starts at `address`.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) fn new(address: usize, region: *const Region) -> Self {
        Self {
            address,
            region,
            element: PhantomData,
        }
    }

    /// Writes element `i`: `st.global`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn write(self, i: usize, value: T) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the kernel keeps `i` inside the buffer; the emulator proves it on its inputs.
        unsafe {
            self.pointer.add(i).write(value);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        access::write(self.at(i), self.region, value);
    }

    /// Writes element `i`, not to be read again soon (`st.global.cs`).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn write_stream(self, i: usize, value: T) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: as in `write`.
        unsafe {
            ptx::store_global_stream(self.pointer.wrapping_add(i), value);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        access::write(self.at(i), self.region, value);
    }

    /// The same memory, to read.
    #[inline(always)]
    pub fn as_const(self) -> Global<T> {
        Global {
            #[cfg(target_arch = "nvptx64")]
            pointer: self.pointer,
            #[cfg(not(target_arch = "nvptx64"))]
            address: self.address,
            #[cfg(not(target_arch = "nvptx64"))]
            region: self.region,
            element: PhantomData,
        }
    }
}

impl<T: atomic::Atomic> GlobalMut<T> {
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
        // SAFETY: as in `write`.
        unsafe {
            T::atom_global(self.pointer.wrapping_add(i), operation, order, scope)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        access::read_modify_write(self.at(i), self.region, operation, order, scope)
    }
}

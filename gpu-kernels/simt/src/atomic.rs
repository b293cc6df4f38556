//! Memory order and scope of atomics and fences.
//!
//! rustc's nvptx64 target drops the ordering of read-modify-writes, so these words write the PTX
//! qualifiers (`.acq_rel.gpu`) themselves. The accesses are methods of [`crate::GlobalMut`] and
//! [`crate::Shared`].

/// How an atomic orders the accesses around it (PTX ISA, memory consistency model).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Atomic, nothing more.
    Relaxed,
    /// Later accesses of this thread see what was released.
    Acquire,
    /// Earlier accesses of this thread are seen by whoever acquires.
    Release,
    /// Both.
    AcqRel,
}

/// Between which threads an atomic or fence holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Threads of the block (`.cta`).
    Block,
    /// Threads of the device (`.gpu`).
    Device,
    /// All threads of the system (`.sys`).
    System,
}

/// Types that have atomics: `u32` and `u64`.
pub trait Atomic: crate::Element + sealed::Sealed {}
impl Atomic for u32 {}
impl Atomic for u64 {}

/// One read-modify-write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation<T> {
    Add(T),
    Min(T),
    Max(T),
    And(T),
    Or(T),
    Xor(T),
    Exchange(T),
    CompareExchange(T, T),
}

/// Orders this thread's accesses before the fence with those after it, for the threads of `scope`.
///
/// PTX: `fence.acq_rel.scope` for every order but [`Order::Relaxed`], which is no fence.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence(order: Order, scope: Scope) {
    #[cfg(target_arch = "nvptx64")]
    if order != Order::Relaxed {
        crate::ptx::fence(scope);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    crate::emulator::access::fence(order, scope);
}

mod sealed {
    #[cfg(not(target_arch = "nvptx64"))]
    use core::sync::atomic::Ordering::SeqCst;

    use super::Operation;
    #[cfg(target_arch = "nvptx64")]
    use super::{Order, Scope};

    /// The two bodies of a read-modify-write.
    pub trait Sealed: Copy + Eq + Into<u64> {
        /// One `atom.global`. The address must be valid for this access.
        #[cfg(target_arch = "nvptx64")]
        #[allow(private_interfaces)]
        unsafe fn atom_global(
            address: *mut Self,
            operation: Operation<Self>,
            order: Order,
            scope: Scope,
        ) -> Self;
        /// One `atom.shared`. The address must be valid for this access.
        #[cfg(target_arch = "nvptx64")]
        #[allow(private_interfaces)]
        unsafe fn atom_shared(
            address: u32,
            operation: Operation<Self>,
            order: Order,
            scope: Scope,
        ) -> Self;
        /// One host atomic. The address must be valid for this access.
        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(private_interfaces)]
        unsafe fn update(address: usize, operation: Operation<Self>) -> Self;
        /// What `operation` makes of a word that is `self`.
        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(private_interfaces)]
        fn apply(self, operation: Operation<Self>) -> Self;
    }

    /// The instruction for one type in one state space, order and scope written out.
    #[cfg(target_arch = "nvptx64")]
    macro_rules! atom {
        ($space:literal, $address:ident: $ac:ident, $bits:literal, $reg:ident, $operation:ident, $order:ident, $scope:ident) => {
            match $order {
                Order::Relaxed => atom!(@scope "relaxed", $space, $address: $ac, $bits, $reg, $operation, $scope),
                Order::Acquire => atom!(@scope "acquire", $space, $address: $ac, $bits, $reg, $operation, $scope),
                Order::Release => atom!(@scope "release", $space, $address: $ac, $bits, $reg, $operation, $scope),
                Order::AcqRel => atom!(@scope "acq_rel", $space, $address: $ac, $bits, $reg, $operation, $scope),
            }
        };
        (@scope $sem:literal, $space:literal, $address:ident: $ac:ident, $bits:literal, $reg:ident, $operation:ident, $scope:ident) => {
            match $scope {
                Scope::Block => atom!(@op $sem, "cta", $space, $address: $ac, $bits, $reg, $operation),
                Scope::Device => atom!(@op $sem, "gpu", $space, $address: $ac, $bits, $reg, $operation),
                Scope::System => atom!(@op $sem, "sys", $space, $address: $ac, $bits, $reg, $operation),
            }
        };
        (@op $sem:literal, $scope:literal, $space:literal, $address:ident: $ac:ident, $bits:literal, $reg:ident, $operation:ident) => {
            match $operation {
                Operation::Add(v) => atom!(@asm $sem, $scope, $space, "add.u", $bits, $reg, $address: $ac, v),
                Operation::Min(v) => atom!(@asm $sem, $scope, $space, "min.u", $bits, $reg, $address: $ac, v),
                Operation::Max(v) => atom!(@asm $sem, $scope, $space, "max.u", $bits, $reg, $address: $ac, v),
                Operation::And(v) => atom!(@asm $sem, $scope, $space, "and.b", $bits, $reg, $address: $ac, v),
                Operation::Or(v) => atom!(@asm $sem, $scope, $space, "or.b", $bits, $reg, $address: $ac, v),
                Operation::Xor(v) => atom!(@asm $sem, $scope, $space, "xor.b", $bits, $reg, $address: $ac, v),
                Operation::Exchange(v) => atom!(@asm $sem, $scope, $space, "exch.b", $bits, $reg, $address: $ac, v),
                Operation::CompareExchange(expected, new) => {
                    let old;
                    core::arch::asm!(
                        concat!("atom.", $sem, ".", $scope, ".", $space, ".cas.b", $bits, " {}, [{}], {}, {};"),
                        out($reg) old, in($ac) $address, in($reg) expected, in($reg) new, options(nostack)
                    );
                    old
                }
            }
        };
        (@asm $sem:literal, $scope:literal, $space:literal, $op:literal, $bits:literal, $reg:ident, $address:ident: $ac:ident, $v:ident) => {{
            let old;
            core::arch::asm!(
                concat!("atom.", $sem, ".", $scope, ".", $space, ".", $op, $bits, " {}, [{}], {};"),
                out($reg) old, in($ac) $address, in($reg) $v, options(nostack)
            );
            old
        }};
    }

    macro_rules! implement {
        ($t:ty, $cell:ty, $bits:literal, $reg:ident) => {
            impl Sealed for $t {
                #[cfg(target_arch = "nvptx64")]
                #[inline(always)]
                #[allow(private_interfaces)]
                unsafe fn atom_global(
                    address: *mut Self,
                    operation: Operation<Self>,
                    order: Order,
                    scope: Scope,
                ) -> Self {
                    // SAFETY: the caller gives an address valid for this access.
                    unsafe { atom!("global", address: reg64, $bits, $reg, operation, order, scope) }
                }

                #[cfg(target_arch = "nvptx64")]
                #[inline(always)]
                #[allow(private_interfaces)]
                unsafe fn atom_shared(address: u32, operation: Operation<Self>, order: Order, scope: Scope) -> Self {
                    // SAFETY: the caller gives an address valid for this access.
                    unsafe { atom!("shared", address: reg32, $bits, $reg, operation, order, scope) }
                }

                #[cfg(not(target_arch = "nvptx64"))]
                #[inline]
                #[allow(private_interfaces)]
                unsafe fn update(address: usize, operation: Operation<Self>) -> Self {
                    // SAFETY: the caller gives an address valid for this access.
                    let cell = unsafe { <$cell>::from_ptr(address as *mut $t) };
                    match operation {
                        Operation::Add(v) => cell.fetch_add(v, SeqCst),
                        Operation::Min(v) => cell.fetch_min(v, SeqCst),
                        Operation::Max(v) => cell.fetch_max(v, SeqCst),
                        Operation::And(v) => cell.fetch_and(v, SeqCst),
                        Operation::Or(v) => cell.fetch_or(v, SeqCst),
                        Operation::Xor(v) => cell.fetch_xor(v, SeqCst),
                        Operation::Exchange(v) => cell.swap(v, SeqCst),
                        Operation::CompareExchange(expected, new) => {
                            cell.compare_exchange(expected, new, SeqCst, SeqCst).unwrap_or_else(|old| old)
                        }
                    }
                }

                #[cfg(not(target_arch = "nvptx64"))]
                #[inline(always)]
                #[allow(private_interfaces)]
                fn apply(self, operation: Operation<Self>) -> Self {
                    match operation {
                        Operation::Add(v) => self.wrapping_add(v),
                        Operation::Min(v) => self.min(v),
                        Operation::Max(v) => self.max(v),
                        Operation::And(v) => self & v,
                        Operation::Or(v) => self | v,
                        Operation::Xor(v) => self ^ v,
                        Operation::Exchange(v) => v,
                        Operation::CompareExchange(expected, new) if self == expected => new,
                        Operation::CompareExchange(..) => self,
                    }
                }
            }
        };
    }
    implement!(u32, core::sync::atomic::AtomicU32, "32", reg32);
    implement!(u64, core::sync::atomic::AtomicU64, "64", reg64);
}

/// The atomic methods of a view; `$access` turns an operation into a call of the right body.
macro_rules! atomic_methods {
    (@each $($(#[$doc:meta])* $name:ident = $operation:ident;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn $name(self, i: usize, value: T, order: crate::Order, scope: crate::Scope) -> T {
                self.read_modify_write(i, crate::atomic::Operation::$operation(value), order, scope)
            }
        )*

        /// Writes `new` if element `i` is `expected`; gives what it was.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn atomic_compare_exchange(
            self,
            i: usize,
            expected: T,
            new: T,
            order: crate::Order,
            scope: crate::Scope,
        ) -> T {
            self.read_modify_write(i, crate::atomic::Operation::CompareExchange(expected, new), order, scope)
        }
    };
    () => {
        crate::atomic::atomic_methods! { @each
            /// Adds to element `i` (wrapping); gives what it was.
            atomic_add = Add;
            /// Lowers element `i` to `value`; gives what it was.
            atomic_min = Min;
            /// Raises element `i` to `value`; gives what it was.
            atomic_max = Max;
            /// ANDs into element `i`; gives what it was.
            atomic_and = And;
            /// ORs into element `i`; gives what it was.
            atomic_or = Or;
            /// XORs into element `i`; gives what it was.
            atomic_xor = Xor;
            /// Replaces element `i`; gives what it was.
            atomic_exchange = Exchange;
        }
    };
}
pub(crate) use atomic_methods;

//! The choice between the two implementations, for each call.

use super::device::Device;
use super::{cpu, cuda};

/// One of a pair of handles, by backend.
pub(super) enum Either<A, B> {
    Cpu(A),
    Cuda(B),
}

pub(super) type AnyDevice = Either<cpu::Cpu, cuda::Cuda>;
pub(super) type AnyMemory = Either<<cpu::Cpu as Device>::Memory, <cuda::Cuda as Device>::Memory>;
pub(super) type AnyStream = Either<<cpu::Cpu as Device>::Stream, <cuda::Cuda as Device>::Stream>;
pub(super) type AnyEvent = Either<<cpu::Cpu as Device>::Event, <cuda::Cuda as Device>::Event>;
pub(super) type AnyGraph = Either<<cpu::Cpu as Device>::Graph, <cuda::Cuda as Device>::Graph>;
pub(super) type AnyPinned = Either<<cpu::Cpu as Device>::Pinned, <cuda::Cuda as Device>::Pinned>;

/// Runs `$body` with the handles of whichever backend all of them belong to.
macro_rules! on {
    ($call:literal: $device:ident = $from:expr $(, $name:ident = $handle:expr)*; $body:expr) => {
        match ($from, $($handle,)*) {
            (Either::Cpu($device), $(Either::Cpu($name),)*) => $body,
            (Either::Cuda($device), $(Either::Cuda($name),)*) => $body,
            #[allow(unreachable_patterns)]
            _ => Err(Error::OtherBackend { call: $call, what: "object" }.into()),
        }
    };
}

pub(super) use on;

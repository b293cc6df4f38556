//! What both implementations have in common.

use std::time::Duration;

use simt::launch::{Launch, LaunchError, RawBuffer};

use super::{DeviceInfo, Error, MemoryInfo};

/// What a backend implementation has; [`Backend`](super::Backend) is the typed and checked face
/// of it.
///
/// Offsets and lengths that reach these methods are already checked.
pub(super) trait Device {
    type Memory;
    type Stream;
    type Event;
    type Graph;
    type Pinned;

    fn info(&self) -> &DeviceInfo;
    fn memory(&self) -> Result<MemoryInfo, Error>;
    fn allocate(&self, bytes: usize, zeroed: bool) -> Result<Self::Memory, Error>;
    fn raw(&self, memory: &Self::Memory, backend: u64) -> RawBuffer;
    fn pin(&self, bytes: usize) -> Result<Self::Pinned, Error>;
    fn stream(&self) -> Result<Self::Stream, Error>;
    fn event(&self) -> Result<Self::Event, Error>;
    /// Waits for all work of all streams.
    fn idle(&self) -> Result<(), Error>;

    fn synchronize(&self, stream: &Self::Stream) -> Result<(), Error>;
    fn upload(
        &self,
        stream: &Self::Stream,
        target: (&Self::Memory, usize),
        data: &[u8],
    ) -> Result<(), Error>;
    fn download(
        &self,
        stream: &Self::Stream,
        source: (&Self::Memory, usize),
        data: &mut [u8],
    ) -> Result<(), Error>;
    fn copy(
        &self,
        stream: &Self::Stream,
        target: (&Self::Memory, usize),
        source: (&Self::Memory, usize),
        bytes: usize,
    ) -> Result<(), Error>;
    fn zero(
        &self,
        stream: &Self::Stream,
        target: (&Self::Memory, usize),
        bytes: usize,
    ) -> Result<(), Error>;
    fn launch(&self, stream: &Self::Stream, launch: &Launch<'_>) -> Result<(), LaunchError>;
    fn record(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), Error>;
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), Error>;
    fn synchronize_event(&self, event: &Self::Event) -> Result<(), Error>;
    fn elapsed(&self, start: &Self::Event, end: &Self::Event) -> Result<Duration, Error>;

    /// Makes one object of `launches`, in order.
    fn graph(&self, launches: &[Launch<'_>]) -> Result<Self::Graph, Error>;
}

//! Streams of work, and events in them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use simt::Element;
use simt::launch::{DeviceMut, DeviceRef, Launch, LaunchError, Queue};

use super::device::Device;
use super::either::{AnyEvent, AnyStream, Either, on};
use super::inner::{Inner, same_length};
use super::memory::zeroed_vec;
use super::{Backend, Error};

impl Backend {
    /// A new stream, ordered against nothing else.
    ///
    /// # Errors
    ///
    /// A call to the driver failed.
    pub fn stream(&self) -> Result<Stream, Error> {
        let lane = match &self.0.device {
            Either::Cpu(device) => Either::Cpu(device.stream()?),
            Either::Cuda(device) => Either::Cuda(device.stream()?),
        };
        Ok(Stream {
            backend: self.clone(),
            lane,
        })
    }

    /// A new event.
    ///
    /// # Errors
    ///
    /// A call to the driver failed.
    pub fn event(&self) -> Result<Event, Error> {
        let raw = match &self.0.device {
            Either::Cpu(device) => Either::Cpu(device.event()?),
            Either::Cuda(device) => Either::Cuda(device.event()?),
        };
        Ok(Event {
            backend: self.clone(),
            raw,
            recorded: AtomicBool::new(false),
        })
    }
}

/// An ordered queue of work. Work of different streams is not ordered, unless by an [`Event`].
///
/// On the `cpu` backend work is done when the call returns.
pub struct Stream {
    backend: Backend,
    pub(super) lane: AnyStream,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.backend.kind())
    }
}

impl Stream {
    /// The backend that it belongs to.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    fn inner(&self) -> &Inner {
        &self.backend.0
    }

    /// Waits for all work of this stream.
    ///
    /// # Errors
    ///
    /// A call to the driver failed: faults of earlier launches on a GPU show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        on!("synchronize": device = &self.inner().device, lane = &self.lane;
            device.synchronize(lane))
    }

    /// Overwrites a buffer or view, after the earlier work of this stream; returns when it is
    /// done.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::OtherBackend`], or a call to the driver failed.
    pub fn upload<T: Element>(
        &self,
        target: &mut impl DeviceMut<T>,
        data: &[T],
    ) -> Result<(), Error> {
        let len = target.len();
        self.inner()
            .upload(&self.lane, &target.raw_mut(), len, data)
    }

    /// The contents of a buffer or view after the earlier work of this stream.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed.
    pub fn download<T: Element>(&self, source: &impl DeviceRef<T>) -> Result<Vec<T>, Error> {
        let mut data = zeroed_vec(source.len());
        self.download_into(source, &mut data)?;
        Ok(data)
    }

    /// As [`download`](Self::download), into a slice of the same length.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::OtherBackend`], or a call to the driver failed.
    pub fn download_into<T: Element>(
        &self,
        source: &impl DeviceRef<T>,
        data: &mut [T],
    ) -> Result<(), Error> {
        self.inner()
            .download(&self.lane, &source.raw(), source.len(), data)
    }

    /// Enqueues a copy between two buffers or views of the same length.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::OtherBackend`], or a call to the driver failed.
    pub fn copy<T: Element>(
        &self,
        target: &mut impl DeviceMut<T>,
        source: &impl DeviceRef<T>,
    ) -> Result<(), Error> {
        same_length("copy", target.len(), source.len())?;
        let bytes = source.len() * size_of::<T>();
        let (to, to_offset) = self.inner().locate("copy", &target.raw_mut())?;
        let (from, from_offset) = self.inner().locate("copy", &source.raw())?;
        if bytes == 0 {
            return Ok(());
        }
        on!("copy": device = &self.inner().device, lane = &self.lane, to = &to.memory, from = &from.memory;
            device.copy(lane, (to, to_offset), (from, from_offset), bytes))
    }

    /// Enqueues a fill with zero bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed.
    pub fn zero<T: Element>(&self, target: &mut impl DeviceMut<T>) -> Result<(), Error> {
        let bytes = target.len() * size_of::<T>();
        let (to, offset) = self.inner().locate("zero", &target.raw_mut())?;
        if bytes == 0 {
            return Ok(());
        }
        on!("zero": device = &self.inner().device, lane = &self.lane, to = &to.memory;
            device.zero(lane, (to, offset), bytes))
    }

    /// Records `event` after the earlier work of this stream.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed.
    pub fn record(&self, event: &Event) -> Result<(), Error> {
        self.owns("record", "event", &event.backend)?;
        on!("record": device = &self.inner().device, lane = &self.lane, event = &event.raw;
            device.record(lane, event))?;
        event.recorded.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the later work of this stream wait for `event`.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        self.owns("wait", "event", &event.backend)?;
        on!("wait": device = &self.inner().device, lane = &self.lane, event = &event.raw;
            device.wait(lane, event))
    }

    pub(super) fn owns(
        &self,
        call: &'static str,
        what: &'static str,
        backend: &Backend,
    ) -> Result<(), Error> {
        if Arc::ptr_eq(&self.backend.0, &backend.0) {
            Ok(())
        } else {
            Err(Error::OtherBackend { call, what })
        }
    }
}

impl Queue for Stream {
    fn launch(&self, launch: &Launch<'_>) -> Result<(), LaunchError> {
        self.inner().launch(&self.lane, launch)
    }
}

/// A point in a stream, and when it was reached.
pub struct Event {
    backend: Backend,
    raw: AnyEvent,
    /// Whether a stream was ever given it: a driver asked about one that was not reports an error
    /// of ours as its own.
    recorded: AtomicBool,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.backend.kind())
    }
}

impl Event {
    /// Waits until the event is reached.
    ///
    /// # Errors
    ///
    /// A call to the driver failed: faults of earlier launches on a GPU show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        on!("synchronize": device = &self.backend.0.device, event = &self.raw;
            device.synchronize_event(event))
    }

    /// Time from `start` to this event, on the device's clock. Waits for both.
    ///
    /// # Errors
    ///
    /// [`Error::NotRecorded`], [`Error::OtherBackend`], or a call to the driver failed.
    pub fn elapsed_since(&self, start: &Event) -> Result<Duration, Error> {
        if !Arc::ptr_eq(&self.backend.0, &start.backend.0) {
            return Err(Error::OtherBackend {
                call: "elapsed_since",
                what: "event",
            });
        }
        if ![start, self]
            .iter()
            .all(|event| event.recorded.load(Ordering::Relaxed))
        {
            return Err(Error::NotRecorded);
        }
        start.synchronize()?;
        self.synchronize()?;
        on!("elapsed_since": device = &self.backend.0.device, from = &start.raw, to = &self.raw;
            device.elapsed(from, to))
    }
}

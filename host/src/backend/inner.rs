//! What the clones of a [`Backend`](super::Backend) share, and the checks of what reaches a device.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use simt::Element;
use simt::launch::{Launch, LaunchError, RawArg, RawBuffer};

use super::device::Device;
use super::either::{AnyDevice, AnyMemory, AnyStream, Either, on};
use super::{DeviceInfo, Error, lock};

pub(super) struct Inner {
    pub(super) id: u64,
    pub(super) device: AnyDevice,
    /// The backend's own queue.
    pub(super) lane: AnyStream,
    /// Live allocations by address.
    pub(super) live: Mutex<BTreeMap<u64, Weak<Allocation>>>,
    /// Why the GPU was not taken, where it was looked for.
    pub(super) passed_over: Option<Error>,
}

/// Memory and who owns it.
pub(super) struct Allocation {
    pub(super) memory: AnyMemory,
    pub(super) backend: Arc<Inner>,
    pub(super) address: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Before the memory itself goes, so that the address cannot be given out again first.
        lock(&self.backend.live).remove(&self.address);
    }
}

impl Allocation {
    pub(super) fn raw(&self) -> RawBuffer {
        self.backend.raw(&self.memory)
    }
}

impl Inner {
    pub(super) fn info(&self) -> &DeviceInfo {
        match &self.device {
            Either::Cpu(device) => device.info(),
            Either::Cuda(device) => device.info(),
        }
    }

    pub(super) fn raw(&self, memory: &AnyMemory) -> RawBuffer {
        match (&self.device, memory) {
            (Either::Cpu(device), Either::Cpu(memory)) => device.raw(memory, self.id),
            (Either::Cuda(device), Either::Cuda(memory)) => device.raw(memory, self.id),
            // An allocation keeps the backend that made it.
            _ => unreachable!("memory of another backend"),
        }
    }

    /// The allocation that holds all bytes of `buffer`, and the byte offset in it.
    pub(super) fn locate(
        &self,
        call: &'static str,
        buffer: &RawBuffer,
    ) -> Result<(Arc<Allocation>, usize), Error> {
        let other = Error::OtherBackend {
            call,
            what: "buffer",
        };
        if buffer.device != self.id {
            return Err(other);
        }
        let found = lock(&self.live)
            .range(..=buffer.address)
            .next_back()
            .and_then(|(_, allocation)| allocation.upgrade());
        let Some(allocation) = found else {
            return Err(other);
        };
        let whole = allocation.raw();
        let offset = buffer.address - whole.address;
        let inside = offset
            .checked_add(buffer.bytes)
            .is_some_and(|end| end <= whole.bytes);
        if inside {
            Ok((allocation, offset as usize))
        } else {
            Err(other)
        }
    }

    /// Refuses a launch that does not fit its kernel. Returns the allocations that it uses.
    pub(super) fn check(
        &self,
        launch: &Launch<'_>,
    ) -> Result<Vec<(Arc<Allocation>, usize)>, LaunchError> {
        let name = launch.variant.name;
        let refuse = |reason: String| {
            Err(LaunchError::Refused {
                kernel: name,
                reason,
            })
        };
        let kernel = launch.kernel;
        if !kernel
            .variants
            .iter()
            .any(|variant| std::ptr::eq(variant, launch.variant))
        {
            return refuse(format!("it is no variant of `{}`", kernel.name));
        }
        launch.validate()?;
        let mut used = Vec::new();
        for (parameter, argument) in kernel.params.iter().zip(launch.args) {
            if let RawArg::Buffer(buffer) = argument {
                match self.locate("launch", buffer) {
                    Ok(allocation) => used.push(allocation),
                    Err(_) => {
                        return refuse(format!(
                            "the buffer for `{}` is not of this backend",
                            parameter.name
                        ));
                    }
                }
            }
        }
        Ok(used)
    }

    pub(super) fn launch(&self, lane: &AnyStream, launch: &Launch<'_>) -> Result<(), LaunchError> {
        // Keeps the memory until the launch is enqueued; freeing waits for what is enqueued.
        let _used = self.check(launch)?;
        match (&self.device, lane) {
            (Either::Cpu(device), Either::Cpu(lane)) => device.launch(lane, launch),
            (Either::Cuda(device), Either::Cuda(lane)) => device.launch(lane, launch),
            _ => Err(LaunchError::Refused {
                kernel: launch.variant.name,
                reason: "the stream belongs to another backend".into(),
            }),
        }
    }

    pub(super) fn upload<T: Element>(
        &self,
        lane: &AnyStream,
        target: &RawBuffer,
        len: usize,
        data: &[T],
    ) -> Result<(), Error> {
        same_length("upload", len, data.len())?;
        let (allocation, offset) = self.locate("upload", target)?;
        if data.is_empty() {
            return Ok(());
        }
        on!("upload": device = &self.device, lane = lane, memory = &allocation.memory;
            device.upload(lane, (memory, offset), bytemuck::cast_slice(data)))
    }

    pub(super) fn download<T: Element>(
        &self,
        lane: &AnyStream,
        source: &RawBuffer,
        len: usize,
        data: &mut [T],
    ) -> Result<(), Error> {
        same_length("download", len, data.len())?;
        let (allocation, offset) = self.locate("download", source)?;
        if data.is_empty() {
            return Ok(());
        }
        on!("download": device = &self.device, lane = lane, memory = &allocation.memory;
            device.download(lane, (memory, offset), bytemuck::cast_slice_mut(data)))
    }
}

pub(super) fn same_length(call: &'static str, buffer: usize, slice: usize) -> Result<(), Error> {
    if buffer == slice {
        Ok(())
    } else {
        Err(Error::Length {
            call,
            buffer,
            slice,
        })
    }
}

//! Memory of a backend: buffers and views of them, and host memory to copy from.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use simt::Element;
use simt::launch::{DeviceMut, DeviceRef, RawBuffer};

use super::device::Device;
use super::either::{AnyPinned, Either};
use super::inner::Allocation;
use super::{Backend, Error, lock};

impl Backend {
    fn allocate<T: Element>(&self, len: usize, zeroed: bool) -> Result<Buffer<T>, Error> {
        let too_long = Error::TooLong {
            len,
            size: size_of::<T>(),
        };
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(too_long)?;
        let memory = match &self.0.device {
            Either::Cpu(device) => Either::Cpu(device.allocate(bytes, zeroed)?),
            Either::Cuda(device) => Either::Cuda(device.allocate(bytes, zeroed)?),
        };
        let address = self.0.raw(&memory).address;
        let allocation = Arc::new(Allocation {
            memory,
            backend: Arc::clone(&self.0),
            address,
        });
        lock(&self.0.live).insert(address, Arc::downgrade(&allocation));
        Ok(Buffer {
            allocation,
            len,
            element: PhantomData,
        })
    }

    /// A buffer of `len` elements with no particular contents. In checked mode, reading an
    /// element that nobody wrote is a fault.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], or a call to the driver failed.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        self.allocate(len, false)
    }

    /// A buffer of `len` zeroes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], or a call to the driver failed.
    pub fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        self.allocate(len, true)
    }

    /// A buffer holding `data`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], or a call to the driver failed.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, Error> {
        let mut buffer = self.alloc(data.len())?;
        self.0
            .upload(&self.0.lane, &buffer.raw_mut(), data.len(), data)?;
        Ok(buffer)
    }

    /// Overwrites a buffer or view, after all work of all streams.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] when `data` is not as long, [`Error::OtherBackend`], or a call to the
    /// driver failed.
    pub fn write<T: Element>(
        &self,
        target: &mut impl DeviceMut<T>,
        data: &[T],
    ) -> Result<(), Error> {
        self.synchronize()?;
        let len = target.len();
        self.0.upload(&self.0.lane, &target.raw_mut(), len, data)
    }

    /// The contents of a buffer or view, after all work of all streams.
    ///
    /// # Errors
    ///
    /// [`Error::OtherBackend`], or a call to the driver failed: faults of earlier launches on a
    /// GPU show here.
    pub fn download<T: Element>(&self, source: &impl DeviceRef<T>) -> Result<Vec<T>, Error> {
        self.synchronize()?;
        let mut data = zeroed_vec(source.len());
        self.0
            .download(&self.0.lane, &source.raw(), source.len(), &mut data)?;
        Ok(data)
    }

    /// `len` zeroes in host memory that a GPU copies from and to at full speed.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], or a call to the driver failed.
    pub fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T>, Error> {
        let too_long = Error::TooLong {
            len,
            size: size_of::<T>(),
        };
        let bytes = len.checked_mul(size_of::<T>()).ok_or(too_long)?;
        let raw = match &self.0.device {
            Either::Cpu(device) => Either::Cpu(device.pin(bytes)?),
            Either::Cuda(device) => Either::Cuda(device.pin(bytes)?),
        };
        Ok(Pinned {
            raw,
            len,
            element: PhantomData,
        })
    }
}

pub(super) fn zeroed_vec<T: Element>(len: usize) -> Vec<T> {
    bytemuck::zeroed_vec(len)
}

/// Typed memory of a backend, freed when it is dropped.
pub struct Buffer<T> {
    allocation: Arc<Allocation>,
    len: usize,
    element: PhantomData<T>,
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({})", std::any::type_name::<T>(), self.len)
    }
}

impl<T: Element> Buffer<T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The elements of `range`, to read.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] when `range` is not inside the buffer.
    pub fn view(&self, range: Range<usize>) -> Result<View<'_, T>, Error> {
        in_range(&range, self.len)?;
        Ok(View {
            buffer: self,
            range,
        })
    }

    /// The elements of `range`, to write.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] when `range` is not inside the buffer.
    pub fn view_mut(&mut self, range: Range<usize>) -> Result<ViewMut<'_, T>, Error> {
        in_range(&range, self.len)?;
        Ok(ViewMut {
            buffer: self,
            range,
        })
    }

    fn part(&self, range: &Range<usize>) -> RawBuffer {
        let mut raw = self.allocation.raw();
        raw.address += (range.start * size_of::<T>()) as u64;
        raw.bytes = (range.len() * size_of::<T>()) as u64;
        raw
    }
}

fn in_range(range: &Range<usize>, len: usize) -> Result<(), Error> {
    if range.start <= range.end && range.end <= len {
        Ok(())
    } else {
        Err(Error::Range {
            start: range.start,
            end: range.end,
            len,
        })
    }
}

impl<T: Element> DeviceRef<T> for Buffer<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn raw(&self) -> RawBuffer {
        self.part(&(0..self.len))
    }
}

impl<T: Element> DeviceMut<T> for Buffer<T> {
    fn raw_mut(&mut self) -> RawBuffer {
        self.part(&(0..self.len))
    }
}

/// A part of a [`Buffer`], to read.
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    buffer: &'a Buffer<T>,
    range: Range<usize>,
}

impl<T: Element> DeviceRef<T> for View<'_, T> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn raw(&self) -> RawBuffer {
        self.buffer.part(&self.range)
    }
}

/// A part of a [`Buffer`], to write.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    buffer: &'a mut Buffer<T>,
    range: Range<usize>,
}

impl<T: Element> DeviceRef<T> for ViewMut<'_, T> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn raw(&self) -> RawBuffer {
        self.buffer.part(&self.range)
    }
}

impl<T: Element> DeviceMut<T> for ViewMut<'_, T> {
    fn raw_mut(&mut self) -> RawBuffer {
        self.buffer.part(&self.range)
    }
}

/// Host memory that a GPU copies from and to at full speed; plain memory on the `cpu` backend.
pub struct Pinned<T> {
    raw: AnyPinned,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned<{}>({})", std::any::type_name::<T>(), self.len)
    }
}

impl<T: Element> Pinned<T> {
    fn pointer(&self) -> *mut T {
        match &self.raw {
            Either::Cpu(raw) => raw.pointer(),
            Either::Cuda(raw) => raw.pointer(),
        }
        .as_ptr()
        .cast()
    }
}

impl<T: Element> std::ops::Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `pinned` allocated at least `len` elements, zeroed them (every bit pattern is
        // an element) and aligned them to 64 bytes or more; they live as long as `raw`.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len) }
    }
}

impl<T: Element> std::ops::DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.len) }
    }
}

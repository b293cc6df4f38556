//! Buffers and a queue on the emulator, for the kernel tests.

use std::marker::PhantomData;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use simt::Element;
use simt::emulator::{self, Memory, Mode};
use simt::launch::{DeviceMut, DeviceRef, Launch, LaunchError, Queue, RawBuffer};

/// Runs launches as `Mode` says.
pub(crate) struct Emulator(pub(crate) Mode);

impl Queue for Emulator {
    fn launch(&self, launch: &Launch<'_>) -> Result<(), LaunchError> {
        emulator::run(launch, self.0)
    }
}

impl Emulator {
    /// A buffer that holds `elements`, and ends where they end.
    pub(crate) fn upload<T: Element>(&self, elements: &[T]) -> Buffer<T> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        let memory = Memory::uninit(bytes.len(), self.0).unwrap();
        memory.copy_in(0, bytes);
        Buffer {
            memory,
            elements: PhantomData,
        }
    }

    /// A buffer that nobody has written.
    pub(crate) fn uninit<T: Element>(&self, len: usize) -> Buffer<T> {
        Buffer {
            memory: Memory::uninit(len * size_of::<T>(), self.0).unwrap(),
            elements: PhantomData,
        }
    }
}

/// A typed piece of the emulator's memory.
pub(crate) struct Buffer<T> {
    memory: Memory,
    elements: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    /// What it holds.
    pub(crate) fn download(&self) -> Vec<T> {
        let mut elements = vec![T::zeroed(); self.len()];
        self.memory
            .copy_out(0, bytemuck::cast_slice_mut(&mut elements));
        elements
    }
}

impl<T: Element> DeviceRef<T> for Buffer<T> {
    fn len(&self) -> usize {
        self.memory.len() / size_of::<T>()
    }
    fn raw(&self) -> RawBuffer {
        self.memory.raw(0)
    }
}

impl<T: Element> DeviceMut<T> for Buffer<T> {
    fn raw_mut(&mut self) -> RawBuffer {
        self.memory.raw(0)
    }
}

/// The modes that a kernel is tried in: fast, and checked under several schedules.
pub(crate) fn modes() -> impl Iterator<Item = Mode> {
    std::iter::once(Mode::Fast).chain((1..=3).map(|seed| Mode::Checked { seed }))
}

/// Reproducible random inputs.
pub(crate) fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// `len` bytes, every fourth an extreme one.
pub(crate) fn bytes(random: &mut impl Rng, len: usize) -> Vec<u8> {
    let pick = |word: u32| match word >> 8 & 15 {
        0 => 0,
        1 => 127,
        2 => 128,
        3 => 255,
        _ => word as u8,
    };
    (0..len).map(|_| pick(random.next_u32())).collect()
}

/// `len` words, every fourth an extreme one.
pub(crate) fn words(random: &mut impl Rng, len: usize) -> Vec<u32> {
    let mut pick = |choice: u32| match choice & 15 {
        0 => 0,
        1 => 255,
        2 => 1 << 31,
        3 => u32::MAX,
        _ => random.next_u32(),
    };
    let choices: Vec<u32> = (0..len as u32)
        .map(|i| i.wrapping_mul(0x9E37_79B9) >> 7)
        .collect();
    choices.into_iter().map(&mut pick).collect()
}

/// The reason of a launch that has to be refused.
pub(crate) fn refusal(result: Result<(), LaunchError>) -> String {
    match result {
        Err(LaunchError::Refused { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

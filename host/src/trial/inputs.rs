//! Inputs from a seed.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use sha2::{Digest as _, Sha256};
use simt::Element;

use super::TrialError;
use crate::backend::{Backend, Buffer};

/// Random inputs from a seed, the edge values of their range among them.
///
/// The stream is ChaCha20 under a key made from a label and the seed, so kernels that share a
/// seed do not share inputs, and a run can be repeated anywhere.
#[derive(Clone, Debug)]
pub struct Inputs {
    random: ChaCha20Rng,
}

impl Inputs {
    /// The inputs of `label` (the name of the kernel, say) for a seed.
    pub fn new(label: &str, seed: u64) -> Self {
        let key = Sha256::new()
            .chain_update(seed.to_le_bytes())
            .chain_update(label.as_bytes())
            .finalize();
        Self {
            random: ChaCha20Rng::from_seed(key.into()),
        }
    }

    /// The generator itself, for distributions of one's own.
    pub fn random(&mut self) -> &mut ChaCha20Rng {
        &mut self.random
    }

    /// A number below `bound`, which is not 0.
    pub fn number_below(&mut self, bound: u64) -> u64 {
        // The bias of one word modulo the bound is at most 2^-64 * bound: checks, not keys.
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// `len` elements of uniform bits.
    pub fn uniform<T: Element>(&mut self, len: usize) -> Vec<T> {
        let mut elements = bytemuck::zeroed_vec(len);
        self.random
            .fill_bytes(bytemuck::cast_slice_mut(&mut elements));
        elements
    }

    /// `len` bytes, with 0, 1, 127, 128 and 255 among them.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let elements = self.uniform(len);
        self.with_edges(elements, &[0, 255, 128, 127, 1])
    }

    /// `len` words, with the edges of bytes, halves and signs among them.
    pub fn words(&mut self, len: usize) -> Vec<u32> {
        let elements = self.uniform(len);
        let edges = [
            0,
            u32::MAX,
            1 << 31,
            (1 << 31) - 1,
            1,
            0xff,
            0x80,
            0xffff,
            0x1_0000,
            0x8080_8080,
            0x7f7f_7f7f,
        ];
        self.with_edges(elements, &edges)
    }

    /// `len` double words, with the edges of words and signs among them.
    pub fn double_words(&mut self, len: usize) -> Vec<u64> {
        let elements = self.uniform(len);
        let edges = [
            0,
            u64::MAX,
            1 << 63,
            (1 << 63) - 1,
            1,
            u64::from(u32::MAX),
            1 << 32,
        ];
        self.with_edges(elements, &edges)
    }

    /// `len` residues below `modulus`, which is not 0, with 0, 1, 2, `modulus - 1`, `modulus - 2` and the halves
    /// among them.
    pub fn residues(&mut self, len: usize, modulus: u32) -> Vec<u32> {
        let elements = (0..len)
            .map(|_| self.number_below(modulus.into()) as u32)
            .collect();
        let edges = [
            0,
            1,
            2,
            modulus - 1,
            modulus.saturating_sub(2),
            modulus / 2,
            modulus / 2 + 1,
        ]
        .map(|edge| edge % modulus);
        self.with_edges(elements, &edges)
    }

    /// Puts each of `edges` at a place of its own: the first and the last element, then
    /// anywhere. Where there are more edges than elements, the first ones win.
    pub fn with_edges<T: Copy>(&mut self, mut elements: Vec<T>, edges: &[T]) -> Vec<T> {
        let len = elements.len();
        let mut places: Vec<usize> = Vec::new();
        for (number, &edge) in edges.iter().take(len).enumerate() {
            let place = match number {
                0 => 0,
                1 => len - 1,
                _ => loop {
                    let place = self.number_below(len as u64) as usize;
                    if !places.contains(&place) {
                        break place;
                    }
                },
            };
            places.push(place);
            elements[place] = edge;
        }
        elements
    }
}

/// A buffer of `len` elements for a bench: random, but only the first 16 MiB of it are drawn and
/// the rest repeats them.
///
/// # Errors
///
/// The backend failed.
pub fn repeated<T: Element>(
    backend: &Backend,
    inputs: &mut Inputs,
    len: usize,
) -> Result<Buffer<T>, TrialError> {
    let part = ((16 << 20) / size_of::<T>()).min(len);
    tiled(backend, &inputs.uniform::<T>(part), len)
}

/// A buffer of `len` elements for a bench that repeats `part`, which is not empty unless `len` is 0.
///
/// # Errors
///
/// The backend failed.
pub fn tiled<T: Element>(
    backend: &Backend,
    part: &[T],
    len: usize,
) -> Result<Buffer<T>, TrialError> {
    let source = backend.upload(part)?;
    let mut buffer = backend.alloc::<T>(len)?;
    let stream = backend.stream()?;
    for start in (0..len).step_by(part.len().max(1)) {
        let end = len.min(start + part.len());
        stream.copy(
            &mut buffer.view_mut(start..end)?,
            &source.view(0..end - start)?,
        )?;
    }
    stream.synchronize()?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_label_others() {
        let words = |label, seed| Inputs::new(label, seed).words(100);
        assert_eq!(words("a", 1), words("a", 1));
        assert_ne!(words("a", 1), words("a", 2));
        assert_ne!(words("a", 1), words("b", 1));
    }

    #[test]
    fn every_edge_is_among_the_inputs_when_they_fit() {
        let mut inputs = Inputs::new("edges", 7);
        let q = 536_813_569;
        for len in [7, 8, 100] {
            let residues = inputs.residues(len, q);
            for edge in [0, 1, 2, q - 1, q - 2, q / 2, q / 2 + 1] {
                assert!(residues.contains(&edge), "{edge} of {len}");
            }
            assert!(residues.iter().all(|&x| x < q));
        }
        assert_eq!(inputs.residues(2, q), [0, 1]);
        assert_eq!(inputs.words(1), [0]);
        assert!(inputs.bytes(0).is_empty());
        let words = inputs.words(11);
        assert!(words.contains(&0x8080_8080) && words.contains(&u32::MAX));
    }
}

//! The image: every variant's PTX, cubin and SASS, with what they cost, in one run of bytes.
//!
//! Texts and cubins are deflated one by one, so that opening an image costs a copy and a checksum,
//! and only what is used is inflated. Equal pieces are stored once: the PTX of the base pass serves
//! five architectures.

use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};

use crate::arch::{Arch, Capability};

/// The first bytes of every image; the digit is the format's version.
const MAGIC: &[u8; 8] = b"GRSTIMG1";
/// Magic and checksum.
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u32>();
/// No piece of an image is larger than this once inflated. A length beyond it is damage.
const MAX_PIECE_BYTES: u64 = 1 << 30;

/// Why an image, or a piece of one, could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The bytes do not start as an image of this version does.
    #[error("these bytes are no kernel image of this version; rebuild with GRISTMILL_ARCH set")]
    NotAnImage,
    /// The checksum does not match the contents.
    #[error(
        "the kernel image is damaged: checksum {found:08x}, expected {expected:08x}; rebuild it"
    )]
    Checksum {
        /// The checksum of the contents.
        found: u32,
        /// The checksum in the header.
        expected: u32,
    },
    /// The contents do not decode, or name pieces that are not there.
    #[error("the kernel image is damaged: {detail}; rebuild it")]
    Malformed {
        /// What was met.
        detail: String,
    },
    /// A piece does not inflate to what its length says.
    #[error("the {piece} of {variant} for {arch} is damaged: {detail}; rebuild the image")]
    Piece {
        /// `PTX`, `cubin` or `SASS`.
        piece: &'static str,
        /// The variant it belongs to.
        variant: String,
        /// The architecture it belongs to.
        arch: Arch,
        /// What was met.
        detail: String,
    },
    /// The image could not be written.
    #[error("the kernel image could not be encoded: {detail}")]
    Encode {
        /// What was met.
        detail: String,
    },
}

/// What the machine code of one variant holds, counted in instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SassFacts {
    /// All instructions, padding `NOP`s after the end left out.
    pub instructions: u32,
    /// Instructions in the largest innermost loop (the span of a backward branch that holds no
    /// other such span); 0 where there is no loop.
    pub inner_loop: u32,
    /// Carry-less multiply-adds (`CLMAD`).
    pub clmad: u32,
    /// Integer tensor instructions (`IMMA`, and `IGMMA` of a warp group).
    pub imma: u32,
    /// Loads from shared memory (`LDS`).
    pub lds: u32,
    /// Matrix loads from shared memory (`LDSM`, the `ldmatrix` of PTX).
    pub ldsm: u32,
    /// Stores to shared memory (`STS`).
    pub sts: u32,
    /// Loads from global memory (`LDG`).
    pub ldg: u32,
    /// Stores to global memory (`STG`).
    pub stg: u32,
    /// Block barriers (`BAR`). More than the source has means the compiler copied one.
    pub barriers: u32,
    /// Loads through a generic address (`LD`): the compiler lost track of the memory they read.
    pub generic_loads: u32,
    /// Stores and atomics through a generic address (`ST`, `ATOM`).
    pub generic_stores: u32,
    /// Accesses to local memory (`LDL`, `STL`): the stack frame and spills.
    pub local: u32,
}

/// A deflated run of bytes with its inflated length.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Blob {
    /// Inflated length in bytes.
    bytes: u64,
    deflated: Arc<[u8]>,
}

impl Blob {
    fn deflate(bytes: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        // Writing to a Vec reports no errors; were it ever to, the length check on the way back
        // would name the damage.
        let written = encoder.write_all(bytes);
        let deflated = written.and_then(|()| encoder.finish()).unwrap_or_default();
        Self {
            bytes: bytes.len() as u64,
            deflated: deflated.into(),
        }
    }

    fn inflate(&self) -> Result<Vec<u8>, String> {
        if self.bytes > MAX_PIECE_BYTES {
            return Err(format!(
                "its length of {} bytes cannot be right",
                self.bytes
            ));
        }
        let mut bytes = Vec::new();
        DeflateDecoder::new(&self.deflated[..])
            // One byte more than expected, so that a longer stream is noticed and not read whole.
            .take(self.bytes + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        if bytes.len() as u64 == self.bytes {
            Ok(bytes)
        } else {
            Err(format!(
                "it inflates to {} bytes instead of {}",
                bytes.len(),
                self.bytes
            ))
        }
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes ({} deflated)", self.bytes, self.deflated.len())
    }
}

/// What is known about a variant on an architecture beside its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryInfo {
    /// The name of the PTX entry point, which is the variant's name.
    pub variant: String,
    /// The architecture the cubin is for.
    pub arch: Arch,
    /// Registers a thread.
    pub registers: u32,
    /// Shared memory the code declares, in bytes a block.
    pub shared_bytes: u32,
    /// Shared memory the launch adds, in bytes a block.
    pub dynamic_shared: u32,
    /// Stack frame, in bytes a thread.
    pub stack_bytes: u32,
    /// Spill stores and loads, in bytes a thread.
    pub spill_bytes: u32,
    /// What the machine code holds.
    pub facts: SassFacts,
}

/// One variant on one architecture. The [`EntryInfo`] is reached by dereference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    info: EntryInfo,
    ptx: Blob,
    cubin: Blob,
    sass: Blob,
}

impl std::ops::Deref for Entry {
    type Target = EntryInfo;

    fn deref(&self) -> &EntryInfo {
        &self.info
    }
}

impl Entry {
    /// Packs a variant: `ptx` and `sass` as text, `cubin` as ptxas wrote it.
    pub fn new(info: EntryInfo, ptx: &str, cubin: &[u8], sass: &str) -> Self {
        Self {
            info,
            ptx: Blob::deflate(ptx.as_bytes()),
            cubin: Blob::deflate(cubin),
            sass: Blob::deflate(sass.as_bytes()),
        }
    }

    /// The finished PTX of this entry point alone.
    ///
    /// # Errors
    ///
    /// [`ImageError::Piece`] when the stored text is damaged.
    pub fn ptx(&self) -> Result<String, ImageError> {
        self.text("PTX", &self.ptx)
    }

    /// The cubin, which a driver loads.
    ///
    /// # Errors
    ///
    /// [`ImageError::Piece`] when the stored bytes are damaged.
    pub fn cubin(&self) -> Result<Vec<u8>, ImageError> {
        self.cubin
            .inflate()
            .map_err(|detail| self.damaged("cubin", detail))
    }

    /// The machine code as text.
    ///
    /// # Errors
    ///
    /// [`ImageError::Piece`] when the stored text is damaged.
    pub fn sass(&self) -> Result<String, ImageError> {
        self.text("SASS", &self.sass)
    }

    fn text(&self, piece: &'static str, blob: &Blob) -> Result<String, ImageError> {
        let bytes = blob
            .inflate()
            .map_err(|detail| self.damaged(piece, detail))?;
        String::from_utf8(bytes).map_err(|error| self.damaged(piece, error.to_string()))
    }

    fn damaged(&self, piece: &'static str, detail: String) -> ImageError {
        ImageError::Piece {
            piece,
            variant: self.variant.clone(),
            arch: self.arch,
            detail,
        }
    }
}

/// What a device can load of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match<'a> {
    /// A cubin that the device runs as it is.
    Cubin(&'a Entry),
    /// PTX that the driver has to translate first, which takes a recent enough driver.
    Ptx(&'a Entry),
}

/// All variants for all architectures of a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    rustc: String,
    ptxas: String,
    commit: String,
    /// Sorted by variant, then architecture.
    entries: Vec<Entry>,
}

/// The stored form: pieces once each, entries by index.
#[derive(Serialize, Deserialize)]
struct Stored {
    rustc: String,
    ptxas: String,
    commit: String,
    /// Inflated length and deflated bytes.
    blobs: Vec<(u64, Vec<u8>)>,
    entries: Vec<StoredEntry>,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    info: EntryInfo,
    ptx: u32,
    cubin: u32,
    sass: u32,
}

impl Image {
    /// The image of a build that asked for no architecture.
    pub fn empty() -> Self {
        Self::default()
    }

    /// An image of `entries`, made by compiler `rustc` and assembler `ptxas` (their versions) from
    /// the sources of `commit`. Of entries with equal variant and architecture the last one stays.
    pub fn new(rustc: &str, ptxas: &str, commit: &str, entries: Vec<Entry>) -> Self {
        let mut entries = entries;
        entries.reverse();
        entries.sort_by(|a, b| key(a).cmp(&key(b)));
        entries.dedup_by(|a, b| key(a) == key(b));
        Self {
            rustc: rustc.to_owned(),
            ptxas: ptxas.to_owned(),
            commit: commit.to_owned(),
            entries,
        }
    }

    /// The version of the compiler, such as `1.96.0`; empty for an empty image.
    pub fn rustc(&self) -> &str {
        &self.rustc
    }

    /// The version of ptxas, such as `13.5.37`; empty for an empty image.
    pub fn ptxas(&self) -> &str {
        &self.ptxas
    }

    /// The commit the sources stood at, with `-dirty` where they differed from it.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// All entries, sorted by variant, then architecture.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether there is no device code at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The architectures the image holds anything for, oldest first.
    pub fn archs(&self) -> Vec<Arch> {
        let mut archs: Vec<_> = self.entries.iter().map(|entry| entry.arch).collect();
        archs.sort_unstable();
        archs.dedup();
        archs
    }

    /// The entry of a variant for exactly this architecture.
    pub fn find(&self, variant: &str, arch: Arch) -> Option<&Entry> {
        let at = self
            .entries
            .binary_search_by(|entry| key(entry).cmp(&(variant, arch)))
            .ok()?;
        self.entries.get(at)
    }

    /// All architectures' entries of a variant, oldest architecture first.
    pub fn variant(&self, variant: &str) -> &[Entry] {
        let first = self
            .entries
            .partition_point(|entry| entry.variant.as_str() < variant);
        let rest = &self.entries[first..];
        &rest[..rest.partition_point(|entry| entry.variant == variant)]
    }

    /// The best that a device of compute capability `device` can load: its own
    /// architecture-specific cubin, then the newest cubin that runs on it, then the newest PTX that
    /// a driver can translate for it.
    pub fn select(&self, variant: &str, device: Capability) -> Option<Match<'_>> {
        let entries = self.variant(variant);
        let cubin = entries
            .iter()
            .filter(|entry| entry.arch.cubin_runs_on(device))
            .max_by_key(|entry| (entry.arch.is_specific(), entry.arch));
        let ptx = || {
            entries
                .iter()
                .filter(|entry| entry.arch.ptx_runs_on(device))
                .max_by_key(|entry| entry.arch)
        };
        cubin.map(Match::Cubin).or_else(|| ptx().map(Match::Ptx))
    }

    /// The image as bytes, for [`from_bytes`](Self::from_bytes).
    ///
    /// # Errors
    ///
    /// [`ImageError::Encode`] if the encoder refuses, which no image made by this crate makes it do.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ImageError> {
        let mut blobs = Vec::new();
        let mut seen: HashMap<&Blob, u32> = HashMap::new();
        let mut store = |blob| {
            *seen.entry(blob).or_insert_with(|| {
                blobs.push((blob.bytes, blob.deflated.to_vec()));
                (blobs.len() - 1) as u32
            })
        };
        let entries = self
            .entries
            .iter()
            .map(|entry| StoredEntry {
                info: entry.info.clone(),
                ptx: store(&entry.ptx),
                cubin: store(&entry.cubin),
                sass: store(&entry.sass),
            })
            .collect();
        let stored = Stored {
            rustc: self.rustc.clone(),
            ptxas: self.ptxas.clone(),
            commit: self.commit.clone(),
            blobs,
            entries,
        };
        let encode = |error: postcard::Error| ImageError::Encode {
            detail: error.to_string(),
        };
        let payload = postcard::to_stdvec(&stored).map_err(encode)?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&checksum(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        Ok(bytes)
    }

    /// Reads an image back. Pieces stay deflated until they are asked for.
    ///
    /// # Errors
    ///
    /// [`ImageError::NotAnImage`], [`ImageError::Checksum`] or [`ImageError::Malformed`]: these
    /// bytes are not what [`to_bytes`](Self::to_bytes) of this version wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ImageError> {
        let (magic, rest) = bytes.split_first_chunk().ok_or(ImageError::NotAnImage)?;
        if magic != MAGIC {
            return Err(ImageError::NotAnImage);
        }
        let (sum, payload) = rest.split_first_chunk().ok_or(ImageError::NotAnImage)?;
        let (found, expected) = (checksum(payload), u32::from_le_bytes(*sum));
        if found != expected {
            return Err(ImageError::Checksum { found, expected });
        }
        let stored: Stored =
            postcard::from_bytes(payload).map_err(|error| ImageError::Malformed {
                detail: error.to_string(),
            })?;
        let blobs: Vec<Blob> = stored
            .blobs
            .into_iter()
            .map(|(bytes, deflated)| Blob {
                bytes,
                deflated: deflated.into(),
            })
            .collect();
        let blob = |index: u32| {
            blobs
                .get(index as usize)
                .cloned()
                .ok_or_else(|| ImageError::Malformed {
                    detail: format!("piece {index} of {} is missing", blobs.len()),
                })
        };
        let mut entries = Vec::with_capacity(stored.entries.len());
        for entry in stored.entries {
            entries.push(Entry {
                info: entry.info,
                ptx: blob(entry.ptx)?,
                cubin: blob(entry.cubin)?,
                sass: blob(entry.sass)?,
            });
        }
        Ok(Self::new(
            &stored.rustc,
            &stored.ptxas,
            &stored.commit,
            entries,
        ))
    }
}

fn key(entry: &Entry) -> (&str, Arch) {
    (&entry.variant, entry.arch)
}

fn checksum(payload: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(payload);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(variant: &str, arch: Arch) -> Entry {
        let info = EntryInfo {
            variant: variant.to_owned(),
            arch,
            registers: 32,
            shared_bytes: 1024,
            dynamic_shared: 4096,
            stack_bytes: 0,
            spill_bytes: 0,
            facts: SassFacts {
                instructions: 120,
                clmad: 4,
                ..SassFacts::default()
            },
        };
        let ptx = ".version 9.3\n".repeat(400);
        Entry::new(
            info,
            &ptx,
            arch.name().as_bytes(),
            "CLMAD R0, R1, R2, R3 ;\n",
        )
    }

    fn image() -> Image {
        let entries = vec![
            entry("mul__per_thread_4", Arch::Sm90a),
            entry("mul__per_thread_4", Arch::Sm80),
            entry("mul__per_thread_1", Arch::Sm86),
            entry("add", Arch::Sm80),
        ];
        Image::new("1.96.0", "13.5.37", "0123abc", entries)
    }

    #[test]
    fn an_image_comes_back_as_it_was_written() {
        let image = image();
        let bytes = image.to_bytes().unwrap();
        let back = Image::from_bytes(&bytes).unwrap();
        assert_eq!(back, image);
        assert_eq!(
            (back.rustc(), back.ptxas(), back.commit()),
            ("1.96.0", "13.5.37", "0123abc")
        );
        let entry = back.find("mul__per_thread_4", Arch::Sm90a).unwrap();
        assert_eq!(entry.ptx().unwrap(), ".version 9.3\n".repeat(400));
        assert_eq!(entry.cubin().unwrap(), b"sm_90a");
        assert_eq!(entry.sass().unwrap(), "CLMAD R0, R1, R2, R3 ;\n");
        assert_eq!((entry.registers, entry.facts.clmad), (32, 4));
        assert_eq!(back.archs(), [Arch::Sm80, Arch::Sm86, Arch::Sm90a]);
    }

    #[test]
    fn the_empty_image_round_trips_and_finds_nothing() {
        let back = Image::from_bytes(&Image::empty().to_bytes().unwrap()).unwrap();
        assert!(back.is_empty());
        assert_eq!(back.find("add", Arch::Sm80), None);
        assert_eq!(back.select("add", Arch::Sm80.capability()), None);
        assert_eq!(back.variant("add"), []);
    }

    #[test]
    fn equal_pieces_are_stored_once_and_deflated() {
        let one = Image::new("", "", "", vec![entry("a", Arch::Sm80)])
            .to_bytes()
            .unwrap()
            .len();
        let six: Vec<_> = Arch::ALL.iter().map(|&arch| entry("a", arch)).collect();
        let six = Image::new("", "", "", six).to_bytes().unwrap().len();
        assert!(one < 400, "{one} bytes");
        assert!(
            six < one + 5 * 60,
            "{six} bytes for six architectures, {one} for one"
        );
    }

    #[test]
    fn any_damaged_byte_is_a_typed_error_and_never_another_image() {
        let image = image();
        let bytes = image.to_bytes().unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            assert!(
                Image::from_bytes(&damaged).is_err(),
                "byte {at} of {}",
                bytes.len()
            );
        }
        for length in 0..bytes.len() {
            assert!(
                Image::from_bytes(&bytes[..length]).is_err(),
                "cut to {length}"
            );
        }
        assert_eq!(Image::from_bytes(b""), Err(ImageError::NotAnImage));
        assert_eq!(
            Image::from_bytes(b"\x7fELF and more of it"),
            Err(ImageError::NotAnImage)
        );
    }

    #[test]
    fn contents_that_pass_the_checksum_but_make_no_sense_are_malformed() {
        let seal = |payload: &[u8]| {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&checksum(payload).to_le_bytes());
            bytes.extend_from_slice(payload);
            bytes
        };
        assert!(matches!(
            Image::from_bytes(&seal(&[0xff; 40])),
            Err(ImageError::Malformed { .. })
        ));
        let missing = Stored {
            rustc: String::new(),
            ptxas: String::new(),
            commit: String::new(),
            blobs: vec![],
            entries: vec![StoredEntry {
                info: entry("a", Arch::Sm80).info,
                ptx: 0,
                cubin: 1,
                sass: 2,
            }],
        };
        let bytes = seal(&postcard::to_stdvec(&missing).unwrap());
        assert!(matches!(
            Image::from_bytes(&bytes),
            Err(ImageError::Malformed { .. })
        ));
    }

    #[test]
    fn a_damaged_piece_names_its_variant_and_architecture() {
        let mut entry = entry("mul", Arch::Sm80);
        entry.sass.bytes += 1;
        entry.cubin.deflated = Arc::from(&b"\xff\xff\xff"[..]);
        entry.ptx.bytes = u64::MAX;
        for error in [
            entry.sass().unwrap_err(),
            entry.cubin().unwrap_err(),
            entry.ptx().unwrap_err(),
        ] {
            let message = error.to_string();
            assert!(message.contains("of mul for sm_80"), "{message}");
        }
    }

    #[test]
    fn a_device_gets_its_own_cubin_then_a_compatible_one_then_ptx() {
        let entries = vec![
            entry("k", Arch::Sm80),
            entry("k", Arch::Sm86),
            entry("k", Arch::Sm90a),
            entry("hopper", Arch::Sm90a),
        ];
        let image = Image::new("", "", "", entries);
        let select =
            |variant, major, minor| match image.select(variant, Capability { major, minor }) {
                Some(Match::Cubin(entry)) => format!("cubin {}", entry.arch),
                Some(Match::Ptx(entry)) => format!("ptx {}", entry.arch),
                None => "nothing".to_owned(),
            };
        assert_eq!(select("k", 8, 0), "cubin sm_80");
        assert_eq!(select("k", 8, 9), "cubin sm_86");
        assert_eq!(select("k", 9, 0), "cubin sm_90a");
        assert_eq!(select("k", 10, 0), "ptx sm_86");
        assert_eq!(select("k", 7, 5), "nothing");
        assert_eq!(select("hopper", 12, 0), "nothing");
        assert_eq!(select("absent", 9, 0), "nothing");
    }
}

//! Assembling: one entry point's PTX to a cubin, its costs and its machine code as text.
//!
//! Results are kept in a folder by content: the key covers the text, the architecture and the
//! version of the tools. An entry that is damaged, or of another format, is made anew.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::arch::Arch;
use crate::ptx::Split;
use crate::toolchain::Toolchain;

/// Changes with what is stored and how ptxas is called.
const CACHE_FORMAT: &str = "gristmill-ptxas-2";
/// Entries nobody asked for in this time are removed.
const CACHE_AGE: Duration = Duration::from_hours(14 * 24);

/// Why a variant could not be assembled. Each message names variant and architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// ptxas refused the text.
    #[error("ptxas refuses {variant} for {arch}: {message}")]
    Refused {
        /// The variant.
        variant: String,
        /// The architecture.
        arch: Arch,
        /// The first lines ptxas printed about it.
        message: String,
    },
    /// ptxas or nvdisasm printed something that is not understood.
    #[error("{tool} printed nothing about {what} of {variant} for {arch}")]
    Silent {
        /// `ptxas` or `nvdisasm`.
        tool: &'static str,
        /// What was looked for.
        what: &'static str,
        /// The variant.
        variant: String,
        /// The architecture.
        arch: Arch,
    },
    /// A file could not be read or written, or a tool not started.
    #[error("assembling {variant} for {arch}: {path}: {detail}")]
    Io {
        /// The variant.
        variant: String,
        /// The architecture.
        arch: Arch,
        /// The file or tool.
        path: String,
        /// What the system said.
        detail: String,
    },
}

/// What `ptxas -v` says about an entry point, device functions it calls included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Registers a thread.
    pub registers: u32,
    /// Static shared memory, in bytes a block.
    pub shared_bytes: u32,
    /// Stack, in bytes a thread, over the deepest call.
    pub stack_bytes: u32,
    /// Spill stores and loads, in bytes a thread.
    pub spill_bytes: u32,
    /// Warnings, such as a serialised `wgmma`.
    pub warnings: Vec<String>,
}

impl Report {
    /// Reads what ptxas printed; `None` where it holds no resource usage.
    pub fn parse(text: &str) -> Option<Self> {
        let mut report = Self::default();
        let mut used = false;
        for line in text.lines() {
            if let Some((_, warning)) = line.split_once("warning :") {
                report.warnings.push(warning.trim().to_owned());
            }
            for part in line.split(',') {
                let part = part.trim();
                if let Some(registers) = between(part, "Used ", " registers") {
                    report.registers = report.registers.max(registers);
                    used = true;
                } else if let Some(bytes) = number(part, " bytes smem") {
                    report.shared_bytes = report.shared_bytes.max(bytes);
                } else if let Some(bytes) = number(part, " bytes stack frame")
                    .or_else(|| number(part, " bytes cumulative stack size"))
                {
                    report.stack_bytes = report.stack_bytes.max(bytes);
                } else if let Some(bytes) = number(part, " bytes spill stores")
                    .or_else(|| number(part, " bytes spill loads"))
                {
                    report.spill_bytes += bytes;
                }
            }
        }
        used.then_some(report)
    }
}

/// The number before `suffix`, which ends `part`.
fn number(part: &str, suffix: &str) -> Option<u32> {
    part.strip_suffix(suffix)?.rsplit(' ').next()?.parse().ok()
}

/// The number between two texts of `part`.
fn between(part: &str, before: &str, after: &str) -> Option<u32> {
    let (_, rest) = part.split_once(before)?;
    rest.split_once(after)?.0.trim().parse().ok()
}

/// One entry point, assembled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assembled {
    /// What a driver loads.
    pub cubin: Vec<u8>,
    /// What it costs.
    pub report: Report,
    /// The machine code, as `nvdisasm -c` prints it.
    pub sass: String,
}

/// Runs ptxas and nvdisasm, and remembers what came of it.
#[derive(Debug)]
pub struct Assembler {
    ptxas: PathBuf,
    nvdisasm: PathBuf,
    version: String,
    cache: PathBuf,
    hits: AtomicU64,
    runs: AtomicU64,
}

impl Assembler {
    /// An assembler that keeps its results in folder `cache`.
    pub fn new(toolchain: &Toolchain, cache: &Path) -> Self {
        Self {
            ptxas: toolchain.ptxas.clone(),
            nvdisasm: toolchain.nvdisasm.clone(),
            version: toolchain.ptxas_version.clone(),
            cache: cache.to_owned(),
            hits: AtomicU64::new(0),
            runs: AtomicU64::new(0),
        }
    }

    /// How many results came from the cache, and how many were made.
    pub fn counts(&self) -> (u64, u64) {
        (
            self.hits.load(Ordering::Relaxed),
            self.runs.load(Ordering::Relaxed),
        )
    }

    /// Assembles one entry point for one architecture.
    ///
    /// # Errors
    ///
    /// [`AssembleError`], with variant and architecture.
    pub fn assemble(&self, split: &Split, arch: Arch) -> Result<Assembled, AssembleError> {
        let key = self.key(&split.text, arch);
        let kept = self.cache.join(&key);
        if let Some(assembled) = load(&kept) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(assembled);
        }
        self.runs.fetch_add(1, Ordering::Relaxed);
        // Assemblers of one process may share a cache: the name is no other call's.
        let work = self.cache.join(format!("work-{}", serial()));
        let io = |path: &Path, error: io::Error| AssembleError::Io {
            variant: split.name.clone(),
            arch,
            path: path.display().to_string(),
            detail: error.to_string(),
        };
        fs::create_dir_all(&work).map_err(|error| io(&work, error))?;
        let result = self.run(split, arch, &work, &io);
        // What is left over is removed by its age when this fails.
        let _ = fs::remove_dir_all(&work);
        let assembled = result?;
        store(&kept, &assembled).map_err(|error| io(&kept, error))?;
        Ok(assembled)
    }

    fn run(
        &self,
        split: &Split,
        arch: Arch,
        work: &Path,
        io: &dyn Fn(&Path, io::Error) -> AssembleError,
    ) -> Result<Assembled, AssembleError> {
        // ptxas puts the name of its input into messages; that of the variant helps there.
        let ptx = work.join("kernel.ptx");
        let out = work.join("kernel.cubin");
        fs::write(&ptx, &split.text).map_err(|error| io(&ptx, error))?;
        let output = Command::new(&self.ptxas)
            .args([
                "-v",
                "-lineinfo",
                "-arch",
                arch.name(),
                "kernel.ptx",
                "-o",
                "kernel.cubin",
            ])
            .current_dir(work)
            .output()
            .map_err(|error| io(&self.ptxas, error))?;
        let said =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(AssembleError::Refused {
                variant: split.name.clone(),
                arch,
                message: complaint(&said).unwrap_or_else(|| output.status.to_string()),
            });
        }
        let silent = |tool, what| AssembleError::Silent {
            tool,
            what,
            variant: split.name.clone(),
            arch,
        };
        let report = Report::parse(&said).ok_or_else(|| silent("ptxas", "the registers"))?;
        let cubin = fs::read(&out).map_err(|error| io(&out, error))?;
        let output = Command::new(&self.nvdisasm)
            .arg("-c")
            .arg(&out)
            .output()
            .map_err(|error| io(&self.nvdisasm, error))?;
        let sass = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() || !sass.contains("EXIT") {
            return Err(silent("nvdisasm", "the machine code"));
        }
        Ok(Assembled {
            cubin,
            report,
            sass,
        })
    }

    /// The name of a result in the cache.
    fn key(&self, text: &str, arch: Arch) -> String {
        let mut hash = Sha256::new();
        for part in [CACHE_FORMAT, &self.version, arch.name(), text] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut name = String::new();
        for byte in hash.finalize().iter().take(20) {
            // Writing to a String does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    /// Removes results that nobody asked for in a fortnight, and work left by a build that died.
    pub fn prune(&self) {
        let Ok(entries) = fs::read_dir(&self.cache) else {
            return;
        };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let age = modified
                .ok()
                .and_then(|then| SystemTime::now().duration_since(then).ok());
            if age.is_some_and(|age| age > CACHE_AGE) {
                // Another build may be removing it too.
                let _ = fs::remove_file(entry.path());
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// The lines of ptxas that say what is wrong, without those that only say that it gave up.
fn complaint(said: &str) -> Option<String> {
    let wrong = |line: &&str| line.contains("error") || line.contains("fatal");
    let lines: Vec<_> = said
        .lines()
        .filter(wrong)
        .filter(|line| !line.contains("aborted due to errors"))
        .map(|line| line.trim_start_matches("ptxas ").trim())
        .take(3)
        .collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Reads a result, and marks it as used.
fn load(path: &Path) -> Option<Assembled> {
    let bytes = fs::read(path).ok()?;
    let (sum, payload) = bytes.split_first_chunk::<32>()?;
    if Sha256::digest(payload)[..] != sum[..] {
        return None;
    }
    let assembled = postcard::from_bytes(payload).ok()?;
    if let Ok(file) = fs::File::options().append(true).open(path) {
        // Only the age of the entry suffers when this fails.
        let _ = file.set_modified(SystemTime::now());
    }
    Some(assembled)
}

/// Writes a result so that another process sees all of it or nothing.
fn store(path: &Path, assembled: &Assembled) -> io::Result<()> {
    let payload = postcard::to_stdvec(assembled).map_err(io::Error::other)?;
    let mut bytes = Sha256::digest(&payload).to_vec();
    bytes.extend_from_slice(&payload);
    write_atomically(path, &bytes)
}

/// A name that no other process and no other call uses.
fn serial() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(
        "{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Writes a file beside `path` and renames it.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let staged = path.with_extension(format!("{}.part", serial()));
    fs::write(&staged, bytes)?;
    fs::rename(&staged, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_report_of_an_entry_with_a_call_is_read() {
        let text = "\
ptxas info    : 0 bytes gmem, 256 bytes cmem[3]
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    64 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 96 bytes cumulative stack size, 4096 bytes smem, 360 bytes cmem[0]
ptxas info    : Compile time = 21.607 ms
ptxas info    : Function properties for helper
    32 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
";
        let expected = Report {
            registers: 24,
            shared_bytes: 4096,
            stack_bytes: 96,
            spill_bytes: 36,
            warnings: vec![],
        };
        assert_eq!(Report::parse(text), Some(expected));
    }

    #[test]
    fn a_report_without_shared_memory_and_with_a_warning_is_read() {
        let text = "\
ptxas warning : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
";
        let report = Report::parse(text).unwrap();
        assert_eq!(
            (report.registers, report.shared_bytes, report.stack_bytes),
            (10, 0, 0)
        );
        assert_eq!(report.warnings.len(), 1);
        assert!(
            report.warnings[0].starts_with("(C7510)"),
            "{:?}",
            report.warnings
        );
    }

    #[test]
    fn text_without_resource_usage_is_no_report() {
        assert_eq!(Report::parse(""), None);
        assert_eq!(
            Report::parse("ptxas info    : 0 bytes gmem\nUsed many registers"),
            None
        );
    }

    #[test]
    fn a_complaint_is_what_went_wrong_without_the_rest() {
        let said = "\
ptxas kernel.ptx, line 21; error   : Unknown modifier '.bad'
ptxas kernel.ptx, line 21; error   : Unexpected instruction types specified for 'mul'
ptxas fatal   : Ptx assembly aborted due to errors
";
        let found = complaint(said).unwrap();
        assert_eq!(
            found,
            "kernel.ptx, line 21; error   : Unknown modifier '.bad'; kernel.ptx, line 21; error   \
             : Unexpected instruction types specified for 'mul'"
        );
        assert_eq!(complaint("all is well"), None);
    }

    #[cfg(unix)]
    mod with_stand_ins {
        use super::*;
        use crate::ptx::Bounds;
        use crate::toolchain::make_executable;

        /// An assembler whose tools are scripts, in a folder of its own.
        fn assembler(name: &str, ptxas: &str, nvdisasm: &str) -> (Assembler, PathBuf) {
            let name = format!("gristmill-assembler-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            let script = |tool: &str, text: &str| {
                let path = folder.join(tool);
                fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
                make_executable(&path).unwrap();
                path
            };
            let assembler = Assembler {
                ptxas: script("ptxas", ptxas),
                nvdisasm: script("nvdisasm", nvdisasm),
                version: "13.5.37".to_owned(),
                cache: folder.join("cache"),
                hits: AtomicU64::new(0),
                runs: AtomicU64::new(0),
            };
            (assembler, folder)
        }

        fn split(text: &str) -> Split {
            Split {
                name: "mul__4".to_owned(),
                bounds: Bounds::default(),
                text: text.to_owned(),
            }
        }

        const GOOD: &str = "echo 'ptxas info    : Used 8 registers' >&2; echo code > kernel.cubin";

        #[test]
        fn assemblers_that_share_a_cache_do_not_share_a_work_folder() {
            let _alone = crate::one_with_scripts();
            // Slow enough that the first is inside its folder while the second makes and removes its own.
            let slow = "sleep 0.3; test -f kernel.ptx || exit 1; sleep 0.3; \
                        echo 'ptxas info    : Used 8 registers' >&2; echo code > kernel.cubin";
            let (slow, folder) = assembler("shared", slow, "echo EXIT");
            let (fast, other) = assembler("shared-fast", GOOD, "echo EXIT");
            let fast = Assembler {
                cache: slow.cache.clone(),
                ..fast
            };
            std::thread::scope(|scope| {
                let first = scope.spawn(|| slow.assemble(&split("one"), Arch::Sm80));
                std::thread::sleep(std::time::Duration::from_millis(150));
                fast.assemble(&split("two"), Arch::Sm80).unwrap();
                first.join().unwrap().unwrap();
            });
            fs::remove_dir_all(folder).unwrap();
            fs::remove_dir_all(other).unwrap();
        }

        #[test]
        fn a_result_is_made_once_and_made_again_when_the_kept_one_is_damaged() {
            let _alone = crate::one_with_scripts();
            let (assembler, folder) = assembler("cache", GOOD, "echo EXIT");
            let first = assembler.assemble(&split("text"), Arch::Sm80).unwrap();
            assert_eq!((first.report.registers, &*first.cubin), (8, &b"code\n"[..]));
            assert_eq!(
                assembler.assemble(&split("text"), Arch::Sm80),
                Ok(first.clone())
            );
            assert_eq!(assembler.counts(), (1, 1));
            assembler.assemble(&split("text"), Arch::Sm86).unwrap();
            assembler.assemble(&split("other"), Arch::Sm80).unwrap();
            assert_eq!(assembler.counts(), (1, 3));

            let kept = assembler.cache.join(assembler.key("text", Arch::Sm80));
            let mut bytes = fs::read(&kept).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(&kept, bytes).unwrap();
            assert_eq!(assembler.assemble(&split("text"), Arch::Sm80), Ok(first));
            assert_eq!(assembler.counts(), (1, 4));
            assembler.prune();
            assert_eq!(
                fs::read_dir(&assembler.cache).unwrap().count(),
                3,
                "no work is left"
            );
            fs::remove_dir_all(folder).unwrap();
        }

        #[test]
        fn a_refusal_names_variant_architecture_and_reason() {
            let _alone = crate::one_with_scripts();
            let refusing = "echo 'ptxas kernel.ptx, line 3; error   : Unknown word' >&2; exit 255";
            let (assembler, folder) = assembler("refused", refusing, "echo EXIT");
            let error = assembler
                .assemble(&split("text"), Arch::Sm90a)
                .unwrap_err()
                .to_string();
            for part in ["mul__4", "sm_90a", "Unknown word"] {
                assert!(error.contains(part), "{error}");
            }
            fs::remove_dir_all(folder).unwrap();
        }

        #[test]
        fn silent_or_absent_tools_are_typed_errors() {
            let _alone = crate::one_with_scripts();
            let (mut assembler, folder) = assembler("silent", "echo > kernel.cubin", "echo EXIT");
            let error = assembler.assemble(&split("a"), Arch::Sm80).unwrap_err();
            assert!(
                matches!(error, AssembleError::Silent { tool: "ptxas", .. }),
                "{error}"
            );
            assembler.ptxas = folder.join("absent");
            let error = assembler.assemble(&split("a"), Arch::Sm80).unwrap_err();
            assert!(matches!(error, AssembleError::Io { .. }), "{error}");
            fs::remove_dir_all(&folder).unwrap();

            let (assembler, folder) = self::assembler("mute", GOOD, "exit 1");
            let error = assembler.assemble(&split("a"), Arch::Sm80).unwrap_err();
            assert!(
                matches!(
                    error,
                    AssembleError::Silent {
                        tool: "nvdisasm",
                        ..
                    }
                ),
                "{error}"
            );
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

//! Which variant does a job: the table of a device.
//!
//! Each [`Job`] carries built-in defaults. `gristmill kernels tune` measures the candidates on the device at hand and writes
//! what it found to a file, [`Table::path`]; where that file is present, its rows for the device win. Every candidate gives
//! the same bits, so a choice changes speed and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use simt::launch::VariantInfo;

use crate::backend::{Backend, DeviceInfo};
use crate::trial::Job;

/// The variable that names the file.
pub const VARIABLE: &str = "GRISTMILL_TUNING";

/// The format of the file.
const VERSION: u32 = 1;

/// Why a table could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct TableError {
    path: PathBuf,
    reason: String,
}

/// What was measured for jobs on devices; empty where nothing was.
#[derive(Clone, Debug, Default)]
pub struct Table {
    path: Option<PathBuf>,
    content: Content,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// Device, then job.
    devices: BTreeMap<String, BTreeMap<String, Tuned>>,
}

/// What was found for one job on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// The fastest variant.
    pub variant: String,
    /// Its median time for the job's shape.
    pub median_ns: f64,
    /// The shape.
    pub shape: String,
    /// The commit of the binary that measured.
    pub commit: String,
    /// When, UTC.
    pub date: String,
}

/// Where a choice comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The built-in table.
    BuiltIn,
    /// The file.
    Tuned(PathBuf),
    /// The built-in table, because the file names a variant that this binary or device does not have.
    Outdated {
        /// The file.
        path: PathBuf,
        /// That variant.
        variant: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in default"),
            Self::Tuned(path) => write!(f, "tuned, {}", path.display()),
            Self::Outdated { path, variant } => write!(
                f,
                "built-in default: {} names `{variant}`, which cannot run here",
                path.display()
            ),
        }
    }
}

/// A job, and the variant that takes it.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The job.
    pub job: &'static Job,
    /// The variant.
    pub variant: &'static VariantInfo,
    /// Where it comes from.
    pub source: Source,
}

impl Table {
    /// The file that is used: the one that [`VARIABLE`] names, or `gristmill/tuning.json` in the user's configuration
    /// folder; none where there is no such folder.
    pub fn path() -> Option<PathBuf> {
        let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        named(VARIABLE).map(PathBuf::from).or_else(|| {
            let folder = named("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".config")))?;
            Some(folder.join("gristmill/tuning.json"))
        })
    }

    /// The table that is used. Only where [`VARIABLE`] names a file does it have to be readable: a configuration folder that
    /// is none, or is another's, holds no table.
    ///
    /// # Errors
    ///
    /// As [`Table::read`].
    pub fn load() -> Result<Self, TableError> {
        use std::io::ErrorKind::{NotADirectory, PermissionDenied};
        let path = Self::path();
        let named = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
        let opened = path.as_ref().map(std::fs::File::open);
        match opened {
            Some(Err(error))
                if !named && matches!(error.kind(), NotADirectory | PermissionDenied) =>
            {
                Ok(Self::default())
            }
            _ => Self::read(path),
        }
    }

    /// The table in a file; an empty one where there is no file.
    ///
    /// # Errors
    ///
    /// [`TableError`] where the file is there and cannot be read, or is no table.
    pub fn read(path: Option<PathBuf>) -> Result<Self, TableError> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let failed = |reason: String| TableError {
            path: path.clone(),
            reason,
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self {
                    path: Some(path),
                    ..Self::default()
                });
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let content: Content = serde_json::from_str(&text).map_err(|error| {
            failed(format!(
                "not a table of `kernels tune` ({error}): remove it"
            ))
        })?;
        if content.version != VERSION {
            return Err(failed(format!(
                "a table of version {}, not {VERSION}: remove it",
                content.version
            )));
        }
        Ok(Self {
            path: Some(path),
            content,
        })
    }

    /// Puts a row in the place of what was known of a job on a device.
    pub fn insert(&mut self, device: &DeviceInfo, job: &Job, tuned: Tuned) {
        let rows = self.content.devices.entry(device.name.clone()).or_default();
        rows.insert(job.name.to_owned(), tuned);
    }

    /// Changes the table in a file, whole or not at all; nobody else's change is lost.
    ///
    /// # Errors
    ///
    /// As [`Table::read`], and where the file is no regular file or cannot be written.
    pub fn update(path: &Path, change: impl FnOnce(&mut Self)) -> Result<(), TableError> {
        let failed = |reason: String| TableError {
            path: path.to_owned(),
            reason,
        };
        let prepare = || -> std::io::Result<(PathBuf, std::fs::File)> {
            if let Some(folder) = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
            {
                std::fs::create_dir_all(folder)?;
            }
            // Through a link to the file itself, which is to be replaced.
            let target = match path.canonicalize() {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => path.to_owned(),
                found => found?,
            };
            let lock = std::fs::File::create(beside(&target, "lock"))?;
            lock.lock()?;
            Ok((target, lock))
        };
        if std::fs::metadata(path).is_ok_and(|data| !data.is_file()) {
            return Err(failed("not a regular file".to_owned()));
        }
        let (target, _lock) = prepare().map_err(|error| failed(error.to_string()))?;
        let mut table = Self::read(Some(target.clone()))?;
        change(&mut table);
        table
            .write(&target)
            .map_err(|error| failed(error.to_string()))
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        let content = Content {
            version: VERSION,
            ..self.content.clone()
        };
        let text = serde_json::to_string_pretty(&content)? + "\n";
        // Beside the file, so that it takes its place in one step.
        let new = beside(path, "new");
        let done = std::fs::File::create(&new)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&new, path));
        if done.is_err() {
            // What is left of it is of no use; the first error is the one to tell.
            let _ = std::fs::remove_file(&new);
        }
        done
    }

    /// The variant that does `job` on `backend`; none where no candidate can run there.
    pub fn choose(&self, backend: &Backend, job: &'static Job) -> Option<Choice> {
        let rows = self.content.devices.get(backend.name());
        let tuned = rows.and_then(|rows| rows.get(job.name));
        let runs = |variant: &&'static VariantInfo| backend.supports(variant).is_ok();
        let path = || self.path.clone().unwrap_or_default();
        let source = match tuned {
            None => Source::BuiltIn,
            Some(tuned) => {
                if let Some(variant) = job.candidate(&tuned.variant).filter(runs) {
                    return Some(Choice {
                        job,
                        variant,
                        source: Source::Tuned(path()),
                    });
                }
                Source::Outdated {
                    path: path(),
                    variant: tuned.variant.clone(),
                }
            }
        };
        let variant = job
            .default_for(backend.info())
            .filter(runs)
            .or_else(|| job.candidates().find(runs))?;
        Some(Choice {
            job,
            variant,
            source,
        })
    }
}

/// `path` with an extension more.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Mode;
    use crate::trial::families;

    fn jobs() -> impl Iterator<Item = &'static Job> {
        families()
            .into_iter()
            .flat_map(|family| family.jobs)
            .copied()
    }

    fn tuned(variant: &str) -> Tuned {
        Tuned {
            variant: variant.to_owned(),
            median_ns: 1.5,
            shape: "n=1".to_owned(),
            commit: "0123".to_owned(),
            date: "2026-12-07T00:00:00Z".to_owned(),
        }
    }

    #[test]
    fn every_default_is_a_candidate_and_the_last_fits_any_device() {
        assert!(jobs().count() > 0);
        for job in jobs() {
            for (_, name) in job.defaults {
                assert!(job.candidate(name).is_some(), "{}: {name}", job.name);
            }
            assert_eq!(
                job.defaults.last().map(|row| row.0),
                Some(""),
                "{}",
                job.name
            );
        }
    }

    #[test]
    fn a_file_wins_over_the_defaults_on_its_device_alone() {
        let folder = std::env::temp_dir().join(format!("tuning-{}", std::process::id()));
        let path = folder.join("a/tuning.json");
        let backend = Backend::cpu(Mode::Fast);
        for job in jobs() {
            let default = Table::default().choose(&backend, job).unwrap();
            assert_eq!(default.source, Source::BuiltIn);
            let other = job
                .candidates()
                .find(|variant| variant.name != default.variant.name)
                .unwrap();
            Table::update(&path, |table| {
                table.insert(backend.info(), job, tuned(other.name));
            })
            .unwrap();
            let table = Table::read(Some(path.clone())).unwrap();
            let choice = table.choose(&backend, job).unwrap();
            assert_eq!(choice.variant.name, other.name);
            assert_eq!(choice.source, Source::Tuned(path.clone()));

            let mut table = Table::default();
            let elsewhere = DeviceInfo {
                name: "another".into(),
                ..backend.info().clone()
            };
            table.insert(&elsewhere, job, tuned(other.name));
            let choice = table.choose(&backend, job).unwrap();
            assert_eq!(choice.variant.name, default.variant.name);

            table.insert(backend.info(), job, tuned("gone"));
            let choice = table.choose(&backend, job).unwrap();
            assert_eq!(choice.variant.name, default.variant.name);
            assert!(choice.source.to_string().contains("names `gone`"));
        }
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_damaged_file_is_named() {
        let path = std::env::temp_dir().join(format!("damaged-{}.json", std::process::id()));
        for (text, says) in [
            ("{", "not a table of `kernels tune`"),
            (r#"{"version": 9, "devices": {}}"#, "version 9, not 1"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Table::read(Some(path.clone())).unwrap_err().to_string();
            assert!(error.starts_with(&path.display().to_string()), "{error}");
            assert!(error.contains(says), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Table::read(Some(path)).is_ok());
    }

    #[test]
    fn changes_at_once_all_stay_and_a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (
            folder.path().join("real.json"),
            folder.path().join("link.json"),
        );
        Table::update(&real, |_| ()).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let info = Backend::cpu(Mode::Fast).info().clone();
        let job = jobs().next().unwrap();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (link, info) = (&link, &info);
                scope.spawn(move || {
                    let device = DeviceInfo {
                        name: format!("device {number}"),
                        ..info.clone()
                    };
                    Table::update(link, |table| table.insert(&device, job, tuned("x"))).unwrap();
                });
            }
        });
        assert!(link.is_symlink());
        let table = Table::read(Some(real)).unwrap();
        assert_eq!(table.content.devices.len(), 8);
        let error = Table::update(folder.path(), |_| ()).unwrap_err();
        assert!(error.to_string().ends_with("not a regular file"), "{error}");
    }
}

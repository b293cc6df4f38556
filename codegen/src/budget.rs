//! What each variant may cost: the performance test that needs no GPU.
//!
//! A table in the repository holds registers, memory and machine code facts of every variant on
//! every architecture. It belongs to one version of rustc and one of ptxas. With those, anything
//! that got worse fails. With others the numbers shift, and only what is wrong with any compiler
//! fails: spills, stack frames and generic accesses beyond the table's.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::arch::Arch;
use crate::image::{EntryInfo, Image, SassFacts};
use crate::ptxas::write_atomically;

/// Why a table could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// The file system said no.
    #[error("the budget table {path}: {detail}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        detail: String,
    },
    /// A line does not read as a row.
    #[error("the budget table {path}, line {line}: {detail}")]
    Malformed {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        detail: String,
    },
    /// There is no table at all.
    #[error("there is no budget table in {folder}: run `cargo xtask budget --bless` and commit it")]
    None {
        /// The folder.
        folder: String,
    },
}

/// How a number may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// More is worse.
    AtMost,
    /// More is worse, with any compiler.
    AtMostAlways,
    /// None where there were some is worse: the instruction is the point of the kernel.
    Present,
    /// Told, never judged.
    Free,
}

/// One number of a row.
struct Column {
    name: &'static str,
    rule: Rule,
    get: fn(&EntryInfo) -> u32,
    set: fn(&mut EntryInfo) -> &mut u32,
}

macro_rules! column {
    ($name:literal, $rule:ident, $($field:ident).+) => {
        Column {
            name: $name,
            rule: Rule::$rule,
            get: |info| info.$($field).+,
            set: |info| &mut info.$($field).+,
        }
    };
}

/// The columns behind `variant` and `arch`.
const COLUMNS: &[Column] = &[
    column!("registers", AtMost, registers),
    column!("shared", AtMost, shared_bytes),
    column!("dynamic", AtMost, dynamic_shared),
    column!("stack", AtMostAlways, stack_bytes),
    column!("spills", AtMostAlways, spill_bytes),
    column!("instructions", Free, facts.instructions),
    column!("inner_loop", AtMost, facts.inner_loop),
    column!("clmad", Present, facts.clmad),
    column!("imma", Present, facts.imma),
    column!("lds", Present, facts.lds),
    column!("ldsm", Present, facts.ldsm),
    column!("sts", Free, facts.sts),
    column!("ldg", Free, facts.ldg),
    column!("stg", Free, facts.stg),
    column!("barriers", AtMost, facts.barriers),
    column!("generic_loads", AtMostAlways, facts.generic_loads),
    column!("generic_stores", AtMostAlways, facts.generic_stores),
    column!("local", AtMostAlways, facts.local),
];

/// A table of what variants cost, sorted by variant, then architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    rows: BTreeMap<(String, Arch), EntryInfo>,
}

/// One thing that got worse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The variant.
    pub variant: String,
    /// The architecture.
    pub arch: Arch,
    /// What is wrong with it.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}: {}", self.variant, self.arch, self.detail)
    }
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// What got worse. Any of these fails the check.
    pub worse: Vec<Finding>,
    /// What got better, or is new under another compiler: worth a new table.
    pub better: Vec<Finding>,
}

impl Table {
    /// The table of an image.
    pub fn of(image: &Image) -> Self {
        let row = |info: &EntryInfo| ((info.variant.clone(), info.arch), info.clone());
        Self {
            rows: image.entries().iter().map(|entry| row(entry)).collect(),
        }
    }

    /// Adds the rows of `other`, in place of equal ones.
    pub fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }

    /// Drops the rows of the architectures in `archs`.
    pub fn forget(&mut self, archs: &[Arch]) {
        self.rows.retain(|(_, arch), _| !archs.contains(arch));
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as tab-separated text with a line of column names.
    pub fn to_tsv(&self) -> String {
        let mut text = String::from("variant\tarch");
        for column in COLUMNS {
            text += "\t";
            text += column.name;
        }
        text.push('\n');
        for info in self.rows.values() {
            // Writing to a String does not fail.
            let _ = write!(text, "{}\t{}", info.variant, info.arch);
            for column in COLUMNS {
                let _ = write!(text, "\t{}", (column.get)(info));
            }
            text.push('\n');
        }
        text
    }

    /// Reads what [`to_tsv`](Self::to_tsv) wrote. Columns are found by name: one that is absent is
    /// zero, one that is not known an error.
    ///
    /// # Errors
    ///
    /// [`BudgetError::Malformed`], which names `path` and the line.
    pub fn from_tsv(text: &str, path: &Path) -> Result<Self, BudgetError> {
        let bad = |line: usize, detail: String| BudgetError::Malformed {
            path: path.display().to_string(),
            line: line + 1,
            detail,
        };
        let mut lines = text.lines().enumerate();
        let head = lines.next().map_or("", |(_, head)| head);
        let names = head
            .strip_prefix("variant\tarch")
            .ok_or_else(|| bad(0, "it does not start with variant and arch".to_owned()))?;
        let mut columns = Vec::new();
        for name in names.split('\t').skip(1) {
            let column = COLUMNS.iter().find(|column| column.name == name);
            columns.push(column.ok_or_else(|| bad(0, format!("unknown column '{name}'")))?);
        }
        let mut table = Self::default();
        for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let mut fields = line.split('\t');
            let (Some(variant), Some(arch)) = (fields.next(), fields.next()) else {
                return Err(bad(
                    at,
                    "a row needs a variant and an architecture".to_owned(),
                ));
            };
            let arch: Arch = arch.parse().map_err(|error| bad(at, format!("{error}")))?;
            let mut info = blank(variant, arch);
            let values: Vec<_> = fields.collect();
            if values.len() != columns.len() {
                let (found, needed) = (values.len(), columns.len());
                return Err(bad(at, format!("{found} numbers, expected {needed}")));
            }
            for (column, value) in columns.iter().zip(values) {
                let number = value.parse();
                *(column.set)(&mut info) =
                    number.map_err(|_| bad(at, format!("{} is '{value}'", column.name)))?;
            }
            if table
                .rows
                .insert((variant.to_owned(), arch), info)
                .is_some()
            {
                return Err(bad(at, format!("{variant} for {arch} stands there twice")));
            }
        }
        Ok(table)
    }

    /// Compares `found` with this table, over the architectures in `archs`. With `same_tools` the
    /// table was made by the same versions of rustc and ptxas.
    pub fn compare(&self, found: &Self, archs: &[Arch], same_tools: bool) -> Comparison {
        let mut comparison = Comparison::default();
        for ((variant, arch), info) in &found.rows {
            let finding = |detail| Finding {
                variant: variant.clone(),
                arch: *arch,
                detail,
            };
            let held = self.rows.get(&(variant.clone(), *arch));
            if held.is_none() && same_tools {
                let detail = "it is not in the table: bless it".to_owned();
                comparison.worse.push(finding(detail));
                continue;
            }
            // With other tools, a variant that the table does not know is held to zero where zero
            // is what every variant should have.
            let none = blank(variant, *arch);
            let held = held.unwrap_or(&none);
            for column in COLUMNS {
                let (was, is) = ((column.get)(held), (column.get)(info));
                let judged = same_tools || column.rule == Rule::AtMostAlways;
                let (worse, better) = match column.rule {
                    Rule::AtMost | Rule::AtMostAlways => (is > was, is < was),
                    Rule::Present => (is == 0 && was > 0, is > 0 && was == 0),
                    Rule::Free => (false, false),
                };
                let detail = || format!("{} was {was}, is {is}", column.name);
                if judged && worse {
                    comparison.worse.push(finding(detail()));
                } else if judged && better {
                    comparison.better.push(finding(detail()));
                }
            }
        }
        for (variant, arch) in self.rows.keys() {
            if archs.contains(arch) && !found.rows.contains_key(&(variant.clone(), *arch)) {
                let detail = "it is in the table and was not built: bless the table".to_owned();
                let finding = Finding {
                    variant: variant.clone(),
                    arch: *arch,
                    detail,
                };
                comparison.worse.push(finding);
            }
        }
        comparison
    }
}

/// A row of zeros.
fn blank(variant: &str, arch: Arch) -> EntryInfo {
    EntryInfo {
        variant: variant.to_owned(),
        arch,
        registers: 0,
        shared_bytes: 0,
        dynamic_shared: 0,
        stack_bytes: 0,
        spill_bytes: 0,
        facts: SassFacts::default(),
    }
}

/// The tables of a workspace, one file for each pair of tool versions.
#[derive(Debug, Clone)]
pub struct Budgets {
    folder: PathBuf,
}

impl Budgets {
    /// The tables of the workspace in `workspace`.
    pub fn of(workspace: &Path) -> Self {
        Self {
            folder: workspace.join("gpu-kernels").join("budgets"),
        }
    }

    /// The file of a pair of versions.
    pub fn path(&self, rustc: &str, ptxas: &str) -> PathBuf {
        self.folder.join(format!("{rustc}_{ptxas}.tsv"))
    }

    /// The table of a pair of versions, if there is one.
    ///
    /// # Errors
    ///
    /// [`BudgetError`] when the file is there and cannot be read.
    pub fn load(&self, rustc: &str, ptxas: &str) -> Result<Option<Table>, BudgetError> {
        let path = self.path(rustc, ptxas);
        match fs::read_to_string(&path) {
            Ok(text) => Table::from_tsv(&text, &path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(&path, &error)),
        }
    }

    /// The table to hold a build against: that of its own tools, or else that of the newest ones; and
    /// whether it is that of its own tools.
    ///
    /// # Errors
    ///
    /// [`BudgetError`] when there is none, or it cannot be read.
    pub fn nearest(&self, rustc: &str, ptxas: &str) -> Result<(PathBuf, Table, bool), BudgetError> {
        if let Some(table) = self.load(rustc, ptxas)? {
            return Ok((self.path(rustc, ptxas), table, true));
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "tsv")
            {
                paths.push(entry.path());
            }
        }
        let newest = |path: &PathBuf| version_numbers(path);
        let path = paths
            .into_iter()
            .max_by_key(newest)
            .ok_or_else(|| BudgetError::None {
                folder: self.folder.display().to_string(),
            })?;
        let text = fs::read_to_string(&path).map_err(|error| io_error(&path, &error))?;
        let table = Table::from_tsv(&text, &path)?;
        Ok((path, table, false))
    }

    /// Writes the table of a pair of versions.
    ///
    /// # Errors
    ///
    /// [`BudgetError::Io`].
    pub fn store(&self, rustc: &str, ptxas: &str, table: &Table) -> Result<PathBuf, BudgetError> {
        let path = self.path(rustc, ptxas);
        let write = || {
            fs::create_dir_all(&self.folder)?;
            write_atomically(&path, table.to_tsv().as_bytes())
        };
        write().map_err(|error| io_error(&path, &error))?;
        Ok(path)
    }
}

/// The numbers in the name of a table, so that 1.100 comes after 1.96.
fn version_numbers(path: &Path) -> Vec<u32> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

fn io_error(path: &Path, error: &io::Error) -> BudgetError {
    BudgetError::Io {
        path: path.display().to_string(),
        detail: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(variant: &str, arch: Arch) -> EntryInfo {
        EntryInfo {
            registers: 40,
            shared_bytes: 4096,
            dynamic_shared: 8192,
            facts: SassFacts {
                instructions: 300,
                inner_loop: 48,
                clmad: 6,
                imma: 8,
                lds: 12,
                barriers: 2,
                ..SassFacts::default()
            },
            ..blank(variant, arch)
        }
    }

    fn table(infos: &[EntryInfo]) -> Table {
        let row = |info: &EntryInfo| ((info.variant.clone(), info.arch), info.clone());
        Table {
            rows: infos.iter().map(row).collect(),
        }
    }

    /// One row, changed.
    fn changed(change: fn(&mut EntryInfo)) -> Table {
        let mut info = info("mul", Arch::Sm80);
        change(&mut info);
        table(&[info])
    }

    fn worse(found: &Table, same_tools: bool) -> Vec<String> {
        let held = table(&[info("mul", Arch::Sm80)]);
        let comparison = held.compare(found, Arch::ALL, same_tools);
        comparison.worse.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_table_round_trips_sorted_one_row_a_variant_and_architecture() {
        let table = table(&[
            info("mul", Arch::Sm90a),
            info("add", Arch::Sm120),
            info("mul", Arch::Sm80),
        ]);
        let text = table.to_tsv();
        let keys: Vec<_> = text
            .lines()
            .map(|line| line.split('\t').take(2).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            keys,
            ["variant arch", "add sm_120", "mul sm_80", "mul sm_90a"]
        );
        assert_eq!(Table::from_tsv(&text, Path::new("t")), Ok(table));
    }

    #[test]
    fn the_same_numbers_pass() {
        assert_eq!(worse(&changed(|_| ()), true), [""; 0]);
    }

    #[test]
    fn every_number_that_gets_worse_fails_and_says_by_how_much() {
        type Change = fn(&mut EntryInfo);
        let changes: [(Change, &str); 12] = [
            (|info| info.registers = 41, "registers was 40, is 41"),
            (|info| info.shared_bytes = 4100, "shared was 4096, is 4100"),
            (
                |info| info.dynamic_shared = 8196,
                "dynamic was 8192, is 8196",
            ),
            (|info| info.stack_bytes = 8, "stack was 0, is 8"),
            (|info| info.spill_bytes = 4, "spills was 0, is 4"),
            (
                |info| info.facts.inner_loop = 49,
                "inner_loop was 48, is 49",
            ),
            (|info| info.facts.clmad = 0, "clmad was 6, is 0"),
            (|info| info.facts.imma = 0, "imma was 8, is 0"),
            (|info| info.facts.lds = 0, "lds was 12, is 0"),
            (|info| info.facts.barriers = 3, "barriers was 2, is 3"),
            (
                |info| info.facts.generic_loads = 1,
                "generic_loads was 0, is 1",
            ),
            (|info| info.facts.local = 2, "local was 0, is 2"),
        ];
        for (change, text) in changes {
            assert_eq!(
                worse(&changed(change), true),
                [format!("mul for sm_80: {text}")]
            );
        }
    }

    #[test]
    fn more_instructions_outside_the_loop_are_told_and_not_judged() {
        assert_eq!(
            worse(&changed(|info| info.facts.instructions = 900), true),
            [""; 0]
        );
        assert_eq!(worse(&changed(|info| info.facts.clmad = 5), true), [""; 0]);
    }

    #[test]
    fn other_tools_fail_only_for_spills_stack_and_generic_accesses() {
        let shifted = changed(|info| {
            info.registers = 80;
            info.facts.inner_loop = 90;
            info.facts.lds = 0;
        });
        assert_eq!(worse(&shifted, false), [""; 0]);
        for change in [
            (|info| info.spill_bytes = 4) as fn(&mut EntryInfo),
            |info| info.stack_bytes = 16,
            |info| info.facts.generic_loads = 1,
            |info| info.facts.generic_stores = 1,
        ] {
            assert_eq!(worse(&changed(change), false).len(), 1);
        }
        let mut new = info("new", Arch::Sm80);
        new.spill_bytes = 8;
        let found = table(&[info("mul", Arch::Sm80), new]);
        assert_eq!(worse(&found, false), ["new for sm_80: spills was 0, is 8"]);
    }

    #[test]
    fn better_numbers_pass_and_are_told() {
        let held = table(&[info("mul", Arch::Sm80)]);
        let found = changed(|info| info.registers = 32);
        let comparison = held.compare(&found, Arch::ALL, true);
        assert_eq!(comparison.worse, []);
        assert_eq!(comparison.better[0].detail, "registers was 40, is 32");
    }

    #[test]
    fn rows_that_are_missing_on_either_side_fail_for_the_architectures_that_were_built() {
        let both = table(&[info("mul", Arch::Sm80), info("new", Arch::Sm80)]);
        assert_eq!(
            worse(&both, true),
            ["new for sm_80: it is not in the table: bless it"]
        );
        let held = table(&[info("mul", Arch::Sm80), info("mul", Arch::Sm120)]);
        let found = table(&[info("mul", Arch::Sm80)]);
        assert_eq!(held.compare(&found, &[Arch::Sm80], true).worse, []);
        let gone = held.compare(&found, Arch::ALL, true).worse;
        assert_eq!((gone.len(), gone[0].arch), (1, Arch::Sm120));
    }

    #[test]
    fn text_that_is_no_table_is_a_typed_error_with_the_line() {
        for (text, why) in [
            ("", "line 1: it does not start with"),
            ("variant\tarch\tspeed\n", "line 1: unknown column 'speed'"),
            ("variant\tarch\tregisters\nmul\n", "line 2: a row needs"),
            (
                "variant\tarch\tregisters\nmul\tsm_1\t3\n",
                "line 2: unknown architecture 'sm_1'",
            ),
            (
                "variant\tarch\tregisters\nmul\tsm_80\n",
                "line 2: 0 numbers, expected 1",
            ),
            (
                "variant\tarch\tregisters\nmul\tsm_80\tmany\n",
                "line 2: registers is 'many'",
            ),
            (
                "variant\tarch\nmul\tsm_80\nmul\tsm_80\n",
                "line 3: mul for sm_80 stands there twice",
            ),
        ] {
            let error = Table::from_tsv(text, Path::new("a.tsv"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(why) && error.contains("a.tsv"), "{error}");
        }
    }

    #[test]
    fn the_table_of_the_same_tools_is_taken_before_the_newest() {
        let workspace =
            std::env::temp_dir().join(format!("gristmill-budget-{}", std::process::id()));
        let budgets = Budgets::of(&workspace);
        let error = budgets.nearest("1.96.0", "13.5.37").unwrap_err();
        assert!(error.to_string().contains("--bless"), "{error}");
        let (one, two) = (
            table(&[info("one", Arch::Sm80)]),
            table(&[info("two", Arch::Sm80)]),
        );
        budgets.store("1.96.0", "13.5.37", &one).unwrap();
        budgets.store("1.97.0", "13.5.37", &two).unwrap();
        let (_, found, same) = budgets.nearest("1.96.0", "13.5.37").unwrap();
        assert_eq!((found, same), (one, true));
        let (path, found, same) = budgets.nearest("1.98.0", "13.6.1").unwrap();
        assert_eq!((found, same), (two, false));
        assert!(path.ends_with("1.97.0_13.5.37.tsv"));
        budgets
            .store("1.100.0", "13.5.37", &Table::default())
            .unwrap();
        let (newest, ..) = budgets.nearest("1.98.0", "13.6.1").unwrap();
        assert!(
            newest.ends_with("1.100.0_13.5.37.tsv"),
            "{}",
            newest.display()
        );
        fs::write(&path, "nonsense").unwrap();
        assert!(matches!(
            budgets.load("1.97.0", "13.5.37"),
            Err(BudgetError::Malformed { .. })
        ));
        fs::remove_dir_all(workspace).unwrap();
    }
}

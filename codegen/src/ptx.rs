//! PTX as text: reading what the compiler wrote, finishing it, and cutting it up.
//!
//! LLVM puts all entry points into one module. [`Module::split`] makes a module of each, with
//! exactly the functions, tables and shared arrays it reaches, so that they can be assembled in
//! parallel, cached one by one, and shown to a person. The parser knows the top level of PTX
//! (PTX ISA, "Directives") and treats function bodies as text.
//!
//! Two things are added on the way, and the line table is cut to what an entry point uses (`lines`):
//!
//! - **Launch bounds.** rustc writes none. `#[kernel]` leaves a comment for each entry point,
//!   `// @kernel <entry> maxntid=<block> minctas=<blocks> shared=<bytes>`, which becomes
//!   `.maxntid` and `.minnctapersm`.
//! - **The version.** LLVM writes the `.version` of its target features, and some instructions need
//!   a later one than it can write. Only modules that hold such an instruction are raised, so that
//!   a driver that is too old for one kernel can still translate the others.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use crate::lines::Lines;

/// What a marker comment starts with.
const MARKER: &str = "@kernel";

/// Instructions that need a later `.version` than LLVM writes, with that version.
const RAISED: &[(&str, Version)] = &[("clmad", Version { major: 9, minor: 3 })];

/// Why a PTX module could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PtxError {
    /// Something opened and never closed.
    #[error("PTX line {line}: {what} is not closed")]
    Unclosed {
        /// The line it opened on, from 1.
        line: usize,
        /// What opened.
        what: &'static str,
    },
    /// Text that starts no directive.
    #[error("PTX line {line}: expected a directive, found '{found}'")]
    Unexpected {
        /// The line, from 1.
        line: usize,
        /// What was found.
        found: String,
    },
    /// A directive that every module has is absent or cannot be read.
    #[error("the PTX has no readable {directive} directive")]
    Header {
        /// The directive.
        directive: &'static str,
    },
    /// A function or entry point without a name.
    #[error("PTX line {line}: a function without a name")]
    Nameless {
        /// The line, from 1.
        line: usize,
    },
    /// A marker comment that does not read as one.
    #[error("PTX line {line}: the launch bounds '{marker}' do not parse: {detail}")]
    Marker {
        /// The line, from 1.
        line: usize,
        /// The comment.
        marker: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Two markers name the same entry point.
    #[error("entry point {entry} has launch bounds twice")]
    Repeated {
        /// The entry point.
        entry: String,
    },
    /// A marker names an entry point that is not there.
    #[error("launch bounds name the entry point {entry}, which the PTX does not hold")]
    Orphan {
        /// The entry point.
        entry: String,
    },
    /// An entry point has no marker.
    #[error("entry point {entry} has no launch bounds; was it written without #[kernel]?")]
    Unbounded {
        /// The entry point.
        entry: String,
    },
}

/// A PTX ISA version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The number before the dot.
    pub major: u32,
    /// The number after the dot.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = PtxError;

    fn from_str(text: &str) -> Result<Self, PtxError> {
        text.split_once('.')
            .and_then(|(major, minor)| {
                Some(Self {
                    major: major.parse().ok()?,
                    minor: minor.parse().ok()?,
                })
            })
            .ok_or(PtxError::Header {
                directive: ".version",
            })
    }
}

/// The launch bounds of an entry point, as its marker states them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Threads a block.
    pub block: u32,
    /// Blocks that must fit on a multiprocessor; 0 leaves the choice to ptxas.
    pub min_blocks: u32,
    /// Shared memory that the launch adds, in bytes.
    pub dynamic_shared: u32,
    /// Registers a thread may use; 0 leaves the choice to ptxas.
    pub max_registers: u32,
}

impl Bounds {
    /// Reads `<entry> maxntid=<block> [minctas=<n>] [shared=<bytes>] [maxnreg=<n>]`.
    fn parse(text: &str) -> Result<(String, Self), String> {
        let mut words = text.split_ascii_whitespace();
        let entry = words.next().ok_or("the entry point is missing")?;
        let mut bounds = Self::default();
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or(format!("'{word}' has no value"))?;
            let value = value
                .parse()
                .map_err(|_| format!("'{word}' is no number"))?;
            match name {
                "maxntid" => bounds.block = value,
                "minctas" => bounds.min_blocks = value,
                "shared" => bounds.dynamic_shared = value,
                "maxnreg" => bounds.max_registers = value,
                _ => return Err(format!("'{name}' is not known")),
            }
        }
        if bounds.block == 0 || bounds.block > 1024 {
            return Err(format!(
                "a block of {} threads is outside 1..=1024",
                bounds.block
            ));
        }
        Ok((entry.to_owned(), bounds))
    }

    /// The directives that go between an entry point's parameters and its body.
    fn directives(self) -> String {
        let line = |name: &str, value| {
            if value > 0 {
                format!("{name} {value}\n")
            } else {
                String::new()
            }
        };
        format!("\n.maxntid {}, 1, 1\n", self.block)
            + &line(".minnctapersm", self.min_blocks)
            + &line(".maxnreg", self.max_registers)
    }
}

/// What a top-level item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Entry,
    Function,
    Variable,
    /// `.pragma`: kept in every split.
    Common,
}

/// A top-level item with the comments before it.
#[derive(Debug, Clone)]
struct Item {
    kind: Kind,
    /// What it defines or declares.
    names: Vec<String>,
    /// Every identifier in it.
    words: BTreeSet<String>,
    text: String,
    /// Of an entry point: where in `text` launch bounds go.
    bounds_at: usize,
}

/// A PTX module, taken apart.
#[derive(Debug, Clone)]
pub struct Module {
    version: Version,
    target: String,
    address_size: String,
    items: Vec<Item>,
    bounds: HashMap<String, Bounds>,
    lines: Lines,
}

/// One entry point as a module of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The name of the entry point.
    pub name: String,
    /// Its launch bounds.
    pub bounds: Bounds,
    /// The whole module, finished.
    pub text: String,
}

impl Module {
    /// Takes a module apart.
    ///
    /// # Errors
    ///
    /// [`PtxError`], with the line where it applies.
    pub fn parse(text: &str) -> Result<Self, PtxError> {
        Parser::new(text)?.module()
    }

    /// The `.version` the compiler wrote.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The `.target` the compiler wrote.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The names of the entry points, in the order of the text.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.items
            .iter()
            .filter(|item| item.kind == Kind::Entry)
            .flat_map(|item| item.names.iter().map(String::as_str))
    }

    /// A finished module for each entry point, in the order of the text.
    ///
    /// # Errors
    ///
    /// [`PtxError::Orphan`] or [`PtxError::Unbounded`] when markers and entry points do not match.
    pub fn split(&self) -> Result<Vec<Split>, PtxError> {
        let entries: HashSet<&str> = self.entries().collect();
        let mut orphans: Vec<_> = self
            .bounds
            .keys()
            .filter(|entry| !entries.contains(entry.as_str()))
            .collect();
        orphans.sort_unstable();
        if let Some(entry) = orphans.first() {
            return Err(PtxError::Orphan {
                entry: (*entry).clone(),
            });
        }
        let mut definitions: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, item) in self.items.iter().enumerate() {
            for name in &item.names {
                definitions.entry(name).or_default().push(at);
            }
        }
        let mut splits = Vec::new();
        for (at, item) in self.items.iter().enumerate() {
            if let (Kind::Entry, Some(name)) = (item.kind, item.names.first()) {
                splits.push(self.split_one(at, name, &definitions)?);
            }
        }
        Ok(splits)
    }

    fn split_one(
        &self,
        entry: usize,
        name: &str,
        definitions: &HashMap<&str, Vec<usize>>,
    ) -> Result<Split, PtxError> {
        let bounds = *self.bounds.get(name).ok_or_else(|| PtxError::Unbounded {
            entry: name.to_owned(),
        })?;
        let mut reached = BTreeSet::from([entry]);
        let mut open = vec![entry];
        while let Some(at) = open.pop() {
            for word in &self.items[at].words {
                for &next in definitions.get(word.as_str()).into_iter().flatten() {
                    // An entry point is never called; a word that names one is a coincidence.
                    if self.items[next].kind != Kind::Entry && reached.insert(next) {
                        open.push(next);
                    }
                }
            }
        }
        let kept = |at: &usize| reached.contains(at) || self.items[*at].kind == Kind::Common;
        let kept: Vec<_> = (0..self.items.len()).filter(kept).collect();
        let version = RAISED
            .iter()
            .filter(|(word, _)| kept.iter().any(|&at| self.items[at].words.contains(*word)))
            .map(|(_, version)| *version)
            .fold(self.version, Version::max);
        let mut text = format!(
            ".version {version}\n.target {}\n.address_size {}\n",
            self.target, self.address_size
        );
        for (ordinal, &at) in kept.iter().enumerate() {
            let item = &self.items[at];
            text.push('\n');
            if item.kind == Kind::Entry {
                let (head, body) = item.text.split_at(item.bounds_at);
                text += head.trim_end();
                text += &bounds.directives();
                text += &renumber(body.trim_start(), ordinal);
            } else {
                text += &renumber(&item.text, ordinal);
            }
            text.push('\n');
        }
        Ok(Split {
            name: name.to_owned(),
            bounds,
            text: self.lines.finish(&text),
        })
    }
}

/// Gives the labels `$L__BB<function>_<block>` the number of the function in its own module: LLVM
/// counts functions over everything it compiled, and then one kernel more would change the text,
/// and so the cache key, of every kernel after it.
fn renumber(text: &str, ordinal: usize) -> String {
    const PREFIX: &str = "$L__BB";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PREFIX) {
        let (before, label) = rest.split_at(at + PREFIX.len());
        out += before;
        let digits = label.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && label[digits..].starts_with('_') {
            out += &ordinal.to_string();
            rest = &label[digits..];
        } else {
            rest = label;
        }
    }
    out + rest
}

/// What a stretch of PTX is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Comment(&'a str),
    Text,
    /// `.name`, the dot included.
    Directive(&'a str),
    Word(&'a str),
    Number(&'a str),
    Sign(char),
}

/// A token with its place.
#[derive(Debug, Clone, Copy)]
struct Spanned<'a> {
    token: Token<'a>,
    start: usize,
    end: usize,
    line: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// Cuts PTX into tokens; white space falls away.
fn tokens(text: &str) -> Result<Vec<Spanned<'_>>, PtxError> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let run = |from: usize, accept: fn(u8) -> bool| {
            from + bytes[from..]
                .iter()
                .take_while(|&&byte| accept(byte))
                .count()
        };
        let token = match byte {
            b'\n' => {
                line += 1;
                at += 1;
                continue;
            }
            _ if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = run(at, |byte| byte != b'\n');
                Token::Comment(text[start + 2..at].trim())
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let close = text[at + 2..].find("*/");
                let close = close.ok_or(PtxError::Unclosed {
                    line,
                    what: "a comment",
                })?;
                at += 2 + close + 2;
                Token::Comment(text[start + 2..at - 2].trim())
            }
            b'"' => {
                at += 1;
                while bytes.get(at).is_some_and(|&byte| byte != b'"') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                if at >= bytes.len() {
                    return Err(PtxError::Unclosed {
                        line,
                        what: "a string",
                    });
                }
                at += 1;
                Token::Text
            }
            b'.' if bytes.get(at + 1).is_some_and(|&byte| is_word(byte)) => {
                at = run(at + 1, is_word);
                Token::Directive(&text[start..at])
            }
            b'0'..=b'9' => {
                at = run(at, |byte| is_word(byte) || byte == b'.');
                Token::Number(&text[start..at])
            }
            _ if is_word(byte) || byte == b'%' => {
                at = run(at + 1, is_word);
                Token::Word(&text[start..at])
            }
            _ => {
                let sign = text[at..].chars().next().unwrap_or('\u{fffd}');
                at += sign.len_utf8();
                Token::Sign(sign)
            }
        };
        tokens.push(Spanned {
            token,
            start,
            end: at,
            line,
        });
        line += text[start..at].matches('\n').count();
    }
    Ok(tokens)
}

/// Reads the top level of a module.
struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Spanned<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, PtxError> {
        Ok(Self {
            text,
            tokens: tokens(text)?,
            at: 0,
        })
    }

    fn module(mut self) -> Result<Module, PtxError> {
        let (mut version, mut target, mut address_size) = (None, None, None);
        let mut items = Vec::new();
        let mut bounds = HashMap::new();
        let mut comments = Vec::new();
        let mut lines = Lines::default();
        while let Some(&first) = self.tokens.get(self.at) {
            match first.token {
                Token::Comment(comment) => {
                    if let Some(marker) = comment.strip_prefix(MARKER) {
                        let (entry, found) = Bounds::parse(marker).map_err(|detail| {
                            let marker = comment.to_owned();
                            PtxError::Marker {
                                line: first.line,
                                marker,
                                detail,
                            }
                        })?;
                        if bounds.insert(entry.clone(), found).is_some() {
                            return Err(PtxError::Repeated { entry });
                        }
                    } else if !comment.starts_with(".globl") && !comment.is_empty() {
                        comments.push(&self.text[first.start..first.end]);
                    }
                    self.at += 1;
                }
                Token::Directive(".version") => {
                    version = Some(self.rest_of_line().parse()?);
                    comments.clear();
                }
                Token::Directive(".target") => {
                    // `, debug` promises sections that are dropped, and forbids a table of lines alone.
                    let options = self.rest_of_line().split(',').map(str::trim);
                    let options: Vec<_> = options.filter(|&option| option != "debug").collect();
                    target = Some(options.join(", "));
                }
                Token::Directive(".address_size") => {
                    address_size = Some(self.rest_of_line().to_owned());
                }
                Token::Directive(".file") => lines.add(self.rest_of_line()),
                // Debug sections, and the label behind them, describe the module as it was.
                Token::Directive(".section") => {
                    self.item(&mut comments)?;
                }
                Token::Word(label) if label.starts_with("$L__sec_end") => {
                    self.rest_of_line();
                }
                Token::Directive(_) => items.push(self.item(&mut comments)?),
                // An empty declaration.
                Token::Sign(';') => self.at += 1,
                _ => {
                    return Err(PtxError::Unexpected {
                        line: first.line,
                        found: self.text[first.start..first.end].to_owned(),
                    });
                }
            }
        }
        let missing = |directive| PtxError::Header { directive };
        Ok(Module {
            version: version.ok_or_else(|| missing(".version"))?,
            target: target.ok_or_else(|| missing(".target"))?,
            address_size: address_size.ok_or_else(|| missing(".address_size"))?,
            items,
            bounds,
            lines,
        })
    }

    /// Steps over a directive that ends with its line; returns what follows its name.
    fn rest_of_line(&mut self) -> &'a str {
        let first = self.tokens[self.at];
        self.at += 1;
        let mut end = first.end;
        while let Some(next) = self.tokens.get(self.at) {
            if next.line != first.line || matches!(next.token, Token::Comment(_)) {
                break;
            }
            end = next.end;
            self.at += 1;
        }
        self.text[first.end..end].trim()
    }

    /// Reads a declaration or definition: to `;`, or to the closing brace of a body.
    fn item(&mut self, comments: &mut Vec<&'a str>) -> Result<Item, PtxError> {
        let first = self.tokens[self.at];
        let mut kind = Kind::Variable;
        let mut names: Vec<String> = Vec::new();
        let mut words = BTreeSet::new();
        // A name stands outside of brackets, and a variable's before its initialiser.
        let (mut depth, mut initialiser) = (0_usize, false);
        let mut body = None;
        let end = loop {
            let next = *self.tokens.get(self.at).ok_or(PtxError::Unclosed {
                line: first.line,
                what: if depth > 0 {
                    "a bracket"
                } else {
                    "a declaration"
                },
            })?;
            self.at += 1;
            match next.token {
                Token::Directive(".entry") if depth == 0 => kind = Kind::Entry,
                Token::Directive(".func") if depth == 0 => kind = Kind::Function,
                Token::Directive(".section" | ".pragma") if depth == 0 => kind = Kind::Common,
                Token::Word(word) => {
                    words.insert(word.to_owned());
                    let function = matches!(kind, Kind::Entry | Kind::Function);
                    let wanted = match kind {
                        Kind::Common => false,
                        _ if function => names.is_empty(),
                        _ => !initialiser,
                    };
                    if depth == 0 && wanted {
                        names.push(word.to_owned());
                    }
                }
                Token::Sign('=') if depth == 0 => initialiser = true,
                Token::Sign(',') if depth == 0 => initialiser = false,
                Token::Sign('{') => {
                    if depth == 0 && body.is_none() {
                        body = Some(next.start);
                    }
                    depth += 1;
                }
                Token::Sign('(' | '[') => depth += 1,
                Token::Sign(sign @ (')' | ']' | '}')) => {
                    depth = depth.checked_sub(1).ok_or_else(|| PtxError::Unexpected {
                        line: next.line,
                        found: sign.to_string(),
                    })?;
                    if depth == 0 && sign == '}' && kind != Kind::Variable {
                        break next.end;
                    }
                }
                Token::Sign(';') if depth == 0 => break next.end,
                _ => {}
            }
        };
        if matches!(kind, Kind::Entry | Kind::Function) && names.is_empty() {
            return Err(PtxError::Nameless { line: first.line });
        }
        let text = with_comments(comments, &self.text[first.start..end]);
        let shift = text.len() - (end - first.start);
        let bounds_at = body.unwrap_or(end) - first.start + shift;
        Ok(Item {
            kind,
            names,
            words,
            text,
            bounds_at,
        })
    }
}

/// The text of an item under the comments that stood before it.
fn with_comments(comments: &mut Vec<&str>, text: &str) -> String {
    let mut out = String::new();
    for comment in comments.drain(..) {
        out += comment;
        out.push('\n');
    }
    out + text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As LLVM 22 writes it, with one of everything that has to survive.
    const MODULE: &str = include_str!("../testdata/module.ptx");

    fn splits() -> HashMap<String, Split> {
        let splits = Module::parse(MODULE).unwrap().split().unwrap();
        splits
            .into_iter()
            .map(|split| (split.name.clone(), split))
            .collect()
    }

    fn with_marker(body: &str) -> String {
        format!(
            ".version 7.8\n.target sm_80\n.address_size 64\n// @kernel k maxntid=64 minctas=0 \
             shared=0\n{body}"
        )
    }

    #[test]
    fn the_header_and_the_entry_points_are_read() {
        let module = Module::parse(MODULE).unwrap();
        assert_eq!(module.version(), Version { major: 7, minor: 8 });
        assert_eq!(module.target(), "sm_80");
        let entries: Vec<_> = module.entries().collect();
        assert_eq!(entries, ["first", "second__per_thread_4", "third"]);
    }

    #[test]
    fn a_split_holds_what_its_entry_reaches_and_nothing_else() {
        let splits = splits();
        let first = &splits["first"].text;
        // Through a call, from there through a table of addresses, to another function.
        for name in [
            "tile_static",
            "helper",
            "dispatch",
            "leaf",
            "TABLE",
            "outside",
        ] {
            assert!(first.contains(name), "{name} is missing from\n{first}");
        }
        for name in [
            "second__per_thread_4",
            "third",
            "dyn_smem",
            "ctab",
            "unused",
        ] {
            assert!(!first.contains(name), "{name} is in\n{first}");
        }
        let second = &splits["second__per_thread_4"].text;
        assert!(
            second.contains(".extern .shared .align 16 .b8 dyn_smem[];"),
            "{second}"
        );
        assert!(
            second.contains(".const .align 16 .b8 ctab[4] = {1, 2, 3, 4};"),
            "{second}"
        );
        assert!(!second.contains("helper"), "{second}");
        let third = &splits["third"].text;
        for name in ["tile_static", "helper", "dyn_smem", "ctab", "TABLE"] {
            assert!(!third.contains(name), "{name} is in\n{third}");
        }
    }

    #[test]
    fn prototypes_parameters_linkage_and_comments_survive() {
        let splits = splits();
        let first = &splits["first"].text;
        assert!(
            first.contains(".func  (.param .b32 func_retval0) helper\n(\n"),
            "{first}"
        );
        assert!(first.contains(".weak .func leaf"), "{first}");
        assert!(first.contains(".extern .func outside"), "{first}");
        assert!(
            first.contains(".param .u64 .ptr .align 1 first_param_0,"),
            "{first}"
        );
        assert!(
            first.contains("// a brace } and a quote \" in a comment"),
            "{first}"
        );
        assert!(
            first.contains("/* and one { of the\n\t   other kind */"),
            "{first}"
        );
        // Both declaration and definition of a function that is declared first.
        assert_eq!(first.matches("func_retval0) helper").count(), 2, "{first}");
    }

    #[test]
    fn launch_bounds_come_from_the_markers() {
        let splits = splits();
        let first = &splits["first"];
        let expected = Bounds {
            block: 256,
            min_blocks: 2,
            dynamic_shared: 0,
            max_registers: 0,
        };
        assert_eq!(first.bounds, expected);
        assert!(
            first
                .text
                .contains("\n)\n.maxntid 256, 1, 1\n.minnctapersm 2\n{\n"),
            "{}",
            first.text
        );
        let second = &splits["second__per_thread_4"];
        assert_eq!(second.bounds.dynamic_shared, 4096);
        assert!(
            second.text.contains(".maxntid 128, 1, 1\n{\n"),
            "{}",
            second.text
        );
        let third = &splits["third"];
        assert!(
            third
                .text
                .contains("third()\n.maxntid 32, 1, 1\n.maxnreg 64\n{"),
            "{}",
            third.text
        );
    }

    #[test]
    fn only_a_module_that_needs_it_is_raised_and_the_target_is_untouched() {
        let splits = splits();
        assert!(
            splits["first"]
                .text
                .starts_with(".version 7.8\n.target sm_80\n.address_size 64\n")
        );
        let second = &splits["second__per_thread_4"].text;
        assert!(
            second.starts_with(".version 9.3\n.target sm_80\n.address_size 64\n"),
            "{second}"
        );
    }

    #[test]
    fn the_line_table_of_a_split_holds_its_own_files_and_nothing_of_the_rest() {
        const LINES: &str = include_str!("../testdata/lines.ptx");
        let module = Module::parse(LINES).unwrap();
        assert_eq!(module.target(), "sm_80");
        let splits = module.split().unwrap();
        let expected = ".visible .entry second()\n.maxntid 32, 1, 1\n{\n\t.loc\t1 7 5\n\tbar.sync \t0;\n\
                        \t.loc\t2 90 9\n\tbar.sync \t0;\n\t.loc\t1 8 1\n\tret;\n}\n\n\
                        .file 1 \"gpu-kernels/src/second.rs\"\n.file 2 \"library/core/src/num.rs\"\n";
        assert!(splits[1].text.ends_with(expected), "{}", splits[1].text);
        for gone in ["debug", "$L__", "first.rs"] {
            assert!(
                !splits[1].text.contains(gone),
                "{gone} is in\n{}",
                splits[1].text
            );
        }
        // Numbers and places of other kernels are no part of it, so results stay in the cache.
        let moved = LINES.replace("1 3 1", "1 4 1");
        let moved = Module::parse(&moved).unwrap().split().unwrap();
        assert_ne!(moved[0].text, splits[0].text);
        assert_eq!(moved[1], splits[1]);
    }

    #[test]
    fn labels_do_not_depend_on_other_kernels() {
        let alone = MODULE.replace("$L__BB7_", "$L__BB0_");
        let alone = Module::parse(&alone).unwrap().split().unwrap();
        let together = splits();
        for split in alone {
            assert_eq!(split, together[&split.name]);
        }
        assert_eq!(
            renumber("$L__BB12_3: bra $L__BB12_3; $L__BBx $L__BB", 1),
            "$L__BB1_3: bra $L__BB1_3; $L__BBx $L__BB"
        );
    }

    #[test]
    fn a_split_parses_and_splits_to_itself() {
        for split in splits().values() {
            let marker = format!(
                "// @kernel {} maxntid={} minctas={} shared={} maxnreg={}\n",
                split.name,
                split.bounds.block,
                split.bounds.min_blocks,
                split.bounds.dynamic_shared,
                split.bounds.max_registers
            );
            let again = Module::parse(&(split.text.clone() + &marker)).unwrap();
            assert_eq!(again.entries().collect::<Vec<_>>(), [split.name.as_str()]);
            assert_eq!(
                again.items.len(),
                Module::parse(&split.text).unwrap().items.len()
            );
        }
    }

    #[test]
    fn several_names_in_one_declaration_are_all_defined_there() {
        let text = with_marker(
            ".global .u32 a = 1, b[2] = {3, 4}, c;\n.global .u64 p = generic(c);\n\
             .visible .entry k()\n{\n\tld.global.u64 %rd1, [p];\n\tld.global.u32 %r1, [b];\n}\n",
        );
        let split = &Module::parse(&text).unwrap().split().unwrap()[0];
        assert_eq!(split.text.matches("a = 1").count(), 1);
        assert!(split.text.contains("generic(c)"));
    }

    #[test]
    fn a_marker_without_its_entry_and_an_entry_without_its_marker_are_errors() {
        let orphan = with_marker(".visible .entry k()\n{\n}\n// @kernel gone maxntid=32\n");
        let error = Module::parse(&orphan).unwrap().split().unwrap_err();
        assert_eq!(
            error,
            PtxError::Orphan {
                entry: "gone".to_owned()
            }
        );
        let bare = with_marker(".visible .entry k()\n{\n}\n.visible .entry bare()\n{\n}\n");
        let error = Module::parse(&bare).unwrap().split().unwrap_err();
        assert_eq!(
            error,
            PtxError::Unbounded {
                entry: "bare".to_owned()
            }
        );
        let twice = with_marker("// @kernel k maxntid=32\n.visible .entry k()\n{\n}\n");
        let error = Module::parse(&twice).unwrap_err();
        assert_eq!(
            error,
            PtxError::Repeated {
                entry: "k".to_owned()
            }
        );
    }

    #[test]
    fn a_marker_that_does_not_parse_says_where_and_why() {
        for (marker, why) in [
            ("@kernel", "missing"),
            ("@kernel k maxntid", "no value"),
            ("@kernel k maxntid=many", "no number"),
            ("@kernel k maxntid=32 cluster=2", "not known"),
            ("@kernel k minctas=2", "0 threads"),
            ("@kernel k maxntid=1025", "1025 threads"),
        ] {
            let text = format!(".version 7.8\n// {marker}\n");
            let message = Module::parse(&text).unwrap_err().to_string();
            assert!(
                message.starts_with("PTX line 2:") && message.contains(why),
                "{message}"
            );
        }
    }

    #[test]
    fn text_that_is_no_ptx_is_a_typed_error() {
        for (text, why) in [
            ("", "no readable .version"),
            (".version 7.8\n.target sm_80\n", "no readable .address_size"),
            (".version seven\n", "no readable .version"),
            ("hello", "found 'hello'"),
            ("/* open", "line 1: a comment is not closed"),
            (
                ".version 7.8\n.file 1 \"open",
                "line 2: a string is not closed",
            ),
            (
                ".visible .entry k()\n{ add.u32 %r1",
                "line 1: a bracket is not closed",
            ),
            (".global .u32 x", "line 1: a declaration is not closed"),
            (
                ".global .u32 x];",
                "line 1: expected a directive, found ']'",
            ),
            (".visible .entry (.param .u32 x) {}", "without a name"),
            (".visible .entry \u{e9}", "not closed"),
            (".file 1 \"\\", "a string is not closed"),
        ] {
            let message = Module::parse(text).unwrap_err().to_string();
            assert!(message.contains(why), "{text:?} gave: {message}");
        }
    }
}

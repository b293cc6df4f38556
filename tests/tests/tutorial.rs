//! CONTRIBUTING.md's "A kernel in 15 minutes", followed to the letter in a copy of the workspace.
//!
//! A fenced block says in its first line what a reader does with it: `create=FILE`, `append=FILE`,
//! or `replace=FILE` with the old text, `---`, and the new. A block marked `sh` is run.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a fenced block asks for.
#[derive(Debug)]
enum Action {
    Create(String),
    Append(String),
    Replace(String),
    Run,
}

/// The blocks of a document that a reader acts on, in order.
fn blocks(text: &str) -> Vec<(Action, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let body: String = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .flat_map(|line| [line, "\n"])
            .collect();
        let action = info.split_whitespace().find_map(|word| {
            let (verb, file) = word.split_once('=').unwrap_or((word, ""));
            match verb {
                "create" => Some(Action::Create(file.to_owned())),
                "append" => Some(Action::Append(file.to_owned())),
                "replace" => Some(Action::Replace(file.to_owned())),
                "sh" => Some(Action::Run),
                _ => None,
            }
        });
        found.extend(action.map(|action| (action, body)));
    }
    found
}

/// Copies the sources of the workspace: no build output, no hidden folder but cargo's.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let (source, target) = (entry.path(), to.join(&name));
        let name = name.to_string_lossy();
        if name == "target" || name == "shared" || (name.starts_with('.') && name != ".cargo") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&source, &target)?;
        } else if fs::read(&target).ok() != Some(fs::read(&source)?) {
            // What has not changed keeps its time, so that a second run builds little.
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

fn run(line: &str, folder: &Path, target: &Path) -> Result<Output> {
    let mut words = line.split_whitespace();
    let program = words.next().ok_or("an empty command")?;
    let program = if program == "cargo" {
        env!("CARGO")
    } else {
        program
    };
    Ok(Command::new(program)
        .args(words)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target)
        .env_remove("GRISTMILL_ARCH")
        .output()?)
}

#[test]
fn the_steps_of_contributing_lead_to_a_checked_kernel() -> Result<()> {
    let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tutorial");
    let workspace = scratch.join("workspace");
    copy(&root, &workspace)?;

    let mut runs = Vec::new();
    for (action, body) in blocks(&fs::read_to_string(root.join("CONTRIBUTING.md"))?) {
        match action {
            Action::Create(file) => {
                let path = workspace.join(file);
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)?;
                }
                fs::write(path, body)?;
            }
            Action::Append(file) => {
                let path = workspace.join(file);
                let text = fs::read_to_string(&path)? + &body;
                fs::write(path, text)?;
            }
            Action::Replace(file) => {
                let path = workspace.join(&file);
                let (old, new) = body.split_once("---\n").ok_or("a replace without ---")?;
                let text = fs::read_to_string(&path)?;
                assert_eq!(
                    text.matches(old).count(),
                    1,
                    "CONTRIBUTING.md replaces this text of {file}:\n{old}"
                );
                fs::write(path, text.replace(old, new))?;
            }
            // The device's steps need its tool chain; the tests of codegen try those.
            Action::Run if body.contains("xtask") => {}
            Action::Run => runs.push(body),
        }
    }
    assert!(!runs.is_empty(), "CONTRIBUTING.md runs something");
    for body in runs {
        for line in body.lines() {
            let output = run(line, &workspace, &scratch.join("target"))?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "`{line}` failed:\n{text}");
            for variant in ["axpy__per_thread_1", "axpy__per_thread_4"] {
                let passed = text
                    .lines()
                    .any(|line| line.starts_with("ok") && line.contains(variant));
                assert!(passed, "`{line}` does not pass {variant}:\n{text}");
            }
        }
    }
    Ok(())
}

#[test]
fn blocks_are_read_in_order() {
    let text = "```rust create=a.rs\nx\n```\ntext\n```\nnot run\n```\n```sh\ncargo x\n```\n";
    let found = blocks(text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(matches!(&found[0], (Action::Create(file), body) if file == "a.rs" && body == "x\n"));
    assert!(matches!(&found[1], (Action::Run, body) if body == "cargo x\n"));
}

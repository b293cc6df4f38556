//! `cargo xtask owed`: the figures that were asked for and not measured yet, in `benches/results/OWED.md`.
//!
//! The file is a table: figure, shape, card, target, what asked for it. A figure is the name of a variant with a target of
//! `of_floor >= 0.95` or `median <= 7.5 ms`, or `ceiling NAME` with `-` for its shape and a target of `value >= 4.2e12`. The
//! card is part of a device's name: a run on another one says nothing.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Result;

/// A row of the table.
#[derive(Debug, PartialEq)]
struct Owed {
    figure: String,
    shape: String,
    card: String,
    target: Target,
}

/// What a figure is to reach.
#[derive(Debug, PartialEq)]
enum Target {
    OfFloor(f64),
    MedianNs(f64),
    Value(f64),
}

/// What a run says about a row.
#[derive(Debug, PartialEq)]
enum Verdict {
    Met(f64),
    Missed(f64),
    Unmeasured,
}

impl Target {
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["of_floor", ">=", ratio] => ratio.parse().ok().map(Self::OfFloor),
            ["value", ">=", value] => value.parse().ok().map(Self::Value),
            ["median", "<=", time, unit] => {
                let scale = match unit {
                    "ns" => 1.0,
                    "us" => 1e3,
                    "ms" => 1e6,
                    _ => return None,
                };
                Some(Self::MedianNs(time.parse::<f64>().ok()? * scale))
            }
            _ => None,
        }
    }
}

impl Owed {
    /// The row that a line of the file is; none where it is text or the table's head.
    fn parse(line: &str) -> Option<std::result::Result<Self, String>> {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let [figure, shape, card, target, ..] = cells[..] else {
            return None;
        };
        if figure == "figure" || figure.starts_with("---") {
            return None;
        }
        let figure = figure.trim_matches('`');
        let is_ceiling = figure.starts_with("ceiling ");
        let target = Target::parse(target)
            .filter(|target| matches!(target, Target::Value(_)) == is_ceiling)
            .ok_or_else(|| {
                format!(
                    "OWED.md: `{target}` is no target of {figure}: of_floor >= R or median <= T ns|us|ms of a variant, \
                     value >= V of a ceiling"
                )
            });
        Some(target.map(|target| Self {
            figure: figure.to_owned(),
            shape: shape.to_owned(),
            card: card.to_owned(),
            target,
        }))
    }

    /// What `run`, a file of `kernels bench --json`, says of it.
    fn judge(&self, run: &Value) -> Verdict {
        if !run["device"].as_str().unwrap_or("").contains(&self.card) {
            return Verdict::Unmeasured;
        }
        let number = match (self.figure.strip_prefix("ceiling "), &self.target) {
            (Some(name), _) => run["ceilings"][name]["value"].as_f64(),
            (None, target) => run["results"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|row| row["variant"] == *self.figure && row["shape"] == *self.shape)
                .and_then(|row| {
                    row[match target {
                        Target::OfFloor(_) => "of_floor",
                        Target::MedianNs(_) | Target::Value(_) => "median_ns",
                    }]
                    .as_f64()
                }),
        };
        let met = |number| match self.target {
            Target::OfFloor(least) | Target::Value(least) => number >= least,
            Target::MedianNs(most) => number <= most,
        };
        match number {
            Some(number) if met(number) => Verdict::Met(number),
            Some(number) => Verdict::Missed(number),
            None => Verdict::Unmeasured,
        }
    }
}

/// The file without the rows that `run` meets, and a line for each row that it speaks of.
fn strike(text: &str, run: &Value) -> Result<(String, Vec<String>)> {
    let (mut left, mut said) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(row) = Owed::parse(line).transpose()? {
            let Owed { figure, shape, .. } = &row;
            match row.judge(run) {
                Verdict::Met(number) => {
                    said.push(format!("met     {figure} {shape}: {number:.4e}"));
                    continue;
                }
                Verdict::Missed(number) => {
                    said.push(format!("missed  {figure} {shape}: {number:.4e}"));
                }
                Verdict::Unmeasured => said.push(format!("owed    {figure} {shape}")),
            }
        }
        left.push_str(line);
        left.push('\n');
    }
    Ok((left, said))
}

/// Strikes what the run in `results` meets; without one, lists what is owed.
pub(crate) fn run(workspace: &Path, results: Option<&Path>) -> Result<()> {
    let path = workspace.join("benches/results/OWED.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let Some(results) = results else {
        for line in text.lines() {
            if Owed::parse(line).transpose()?.is_some() {
                println!("{line}");
            }
        }
        return Ok(());
    };
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", results.display());
    let json = fs::read_to_string(results).map_err(|error| failed(&error))?;
    let json: Value = serde_json::from_str(&json).map_err(|error| failed(&error))?;
    if json["backend"] != "cuda" || !json["results"].is_array() {
        return Err(failed(&"not a run of `kernels bench --backend cuda --json`").into());
    }
    let (left, said) = strike(&text, &json)?;
    fs::write(&path, left)?;
    for line in said {
        println!("{line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_strikes_what_it_meets_and_nothing_else() {
        let text = "# Owed\n\n| figure | shape | card | target | asked for by |\n| --- | --- | --- | --- | --- |\n\
                    | `a` | n=1 | H200 | of_floor >= 0.9 | x |\n| `a` | n=2 | H200 | of_floor >= 0.9 | x |\n\
                    | `b` | n=1 | H200 | median <= 7.5 us | x |\n| ceiling l2_read | - | H200 | value >= 5e12 | x |\n| `c` | n=1 | H200 | median <= 1 ms | x |\n";
        let run = serde_json::json!({
            "device": "NVIDIA H200",
            "ceilings": {"l2_read": {"value": 6e12}},
            "results": [
                {"variant": "a", "shape": "n=1", "of_floor": 0.95, "median_ns": 1.0},
                {"variant": "a", "shape": "n=2", "of_floor": 0.85, "median_ns": 1.0},
                {"variant": "b", "shape": "n=1", "of_floor": 0.1, "median_ns": 7400.0},
            ],
        });
        let (left, said) = strike(text, &run).unwrap();
        let rows: Vec<&str> = left.lines().skip(4).collect();
        assert_eq!(
            rows,
            [
                "| `a` | n=2 | H200 | of_floor >= 0.9 | x |",
                "| `c` | n=1 | H200 | median <= 1 ms | x |"
            ]
        );
        assert_eq!(said.len(), 5);
        assert_eq!(said[4], "owed    c n=1");
        let mut elsewhere = run.clone();
        elsewhere["device"] = "NVIDIA A100".into();
        assert_eq!(strike(text, &elsewhere).unwrap().0, text);
        assert!(said[1].starts_with("missed  a n=2"), "{said:?}");
    }

    #[test]
    fn what_is_no_target_is_named() {
        for row in [
            "| `a` | n=1 | H200 | fast | x |",
            "| `a` | n=1 | H200 | value >= 1 | x |",
            "| ceiling l2_read | - | H200 | of_floor >= 1 | x |",
        ] {
            let error = strike(row, &Value::Null).unwrap_err();
            assert!(error.to_string().contains("is no target of"), "{error}");
        }
    }
}

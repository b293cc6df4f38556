//! Results as a picture: one bar a case, as long as its part of the floor.

use std::fmt::Write;

use super::Results;

const LABEL: usize = 520;
const BAR: usize = 480;
const ROW: usize = 22;
const TOP: usize = 64;
/// Bars are cut here: of its floor a kernel reaches 1, and more only by the ceiling's spread.
const FULL: f64 = 1.1;

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A time in the unit that reads best.
fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// An SVG of `results`: each case's part of its floor, with the time and the ceiling that bounds it.
pub fn svg(results: &Results) -> String {
    let height = TOP + ROW * results.results.len() + 40;
    let width = LABEL + BAR + 300;
    let mut svg = String::new();
    let mut line = |text: String| {
        // Writing to a string does not fail.
        let _ = writeln!(svg, "{text}");
    };
    line(format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">"#
    ));
    line(format!(
        r#"<rect width="{width}" height="{height}" fill="white"/>"#
    ));
    let driver = results
        .driver
        .as_deref()
        .map_or_else(String::new, |driver| format!(", driver {driver}"));
    line(format!(
        r#"<text x="10" y="24" font-size="16">{} ({}{}), {}, commit {}</text>"#,
        escape(&results.device),
        escape(&results.backend),
        escape(&driver),
        escape(&results.date),
        escape(results.commit)
    ));
    let scale = BAR as f64 / FULL;
    for tenth in [0, 2, 4, 6, 8, 10] {
        let x = LABEL as f64 + f64::from(tenth) / 10.0 * scale;
        line(format!(
            r##"<line x1="{x:.1}" y1="{}" x2="{x:.1}" y2="{}" stroke="#ccc"/><text x="{x:.1}" y="{}" text-anchor="middle">{} %</text>"##,
            TOP - 6,
            height - 30,
            height - 14,
            tenth * 10
        ));
    }
    for (row, case) in results.results.iter().enumerate() {
        let y = TOP + ROW * row;
        let text = y + 13;
        line(format!(
            r#"<text x="{}" y="{text}" text-anchor="end">{} {}</text>"#,
            LABEL - 8,
            escape(case.variant),
            escape(&case.shape)
        ));
        let part = case.of_floor.unwrap_or(0.0).clamp(0.0, FULL);
        line(format!(
            r##"<rect x="{LABEL}" y="{y}" width="{:.1}" height="{}" fill="#4477aa"/>"##,
            part * scale,
            ROW - 6
        ));
        let note = match (case.of_floor, case.floor) {
            (Some(of_floor), Some(floor)) => {
                format!(
                    "{}, {:.0} % of {floor}",
                    duration(case.median_ns),
                    of_floor * 100.0
                )
            }
            _ => duration(case.median_ns),
        };
        line(format!(
            r#"<text x="{:.1}" y="{text}">{}</text>"#,
            LABEL as f64 + part * scale + 6.0,
            escape(&note)
        ));
    }
    line("</svg>".into());
    svg
}

#[cfg(test)]
mod tests {
    use super::super::{Results, Timed};
    use super::*;

    #[test]
    fn a_plot_shows_every_case_and_escapes_what_it_is_given() {
        let timed = |variant, of_floor| Timed {
            variant,
            kernel: "k",
            shape: "n=8".into(),
            median_ns: 1234.0,
            spread: 0.0,
            runs: 31,
            floor_ns: Some(1000.0),
            floor: Some("dram_read"),
            of_floor,
        };
        let svg = svg(&Results {
            backend: "cpu".into(),
            device: "a <b> & c".into(),
            driver: None,
            commit: "0123",
            date: "2026-11-29T00:00:00Z".into(),
            ceilings: std::collections::BTreeMap::new(),
            results: vec![timed("first", Some(0.81)), timed("second", None)],
        });
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt;b&gt; &amp; c"));
        assert!(svg.contains("first n=8") && svg.contains("second n=8"));
        assert!(svg.contains("1.23 us, 81 % of dram_read"));
        assert_eq!(svg.matches("fill=\"#4477aa\"").count(), 2);
    }
}

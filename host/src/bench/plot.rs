//! Results as a picture: each case under the roof of its scarcest resource.

use plotters::prelude::{
    BLACK, ChartBuilder, Color, IntoDrawingArea, IntoFont, PathElement, RGBColor, Rectangle,
    SVGBackend, Text, WHITE,
};
use plotters::style::TextStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Results;

/// Pixels: of a row, of the names at its left and the figures at its right, of the bars.
const ROW: u32 = 22;
const LABEL: u32 = 520;
const BAR: u32 = 480;
const NOTE: u32 = 280;
/// Above the bars, and below.
const TOP: u32 = 48;
const BOTTOM: u32 = 40;
/// Bars are cut here: of its floor a kernel reaches 1, and more only by the ceiling's spread.
const FULL: f64 = 1.1;
const FILL: RGBColor = RGBColor(0x44, 0x77, 0xaa);

/// A time in the unit that reads best.
fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// An SVG of `results`: for each case, how near it comes to the roof that its scarcest resource sets, with the time and the
/// ceiling that sets it.
///
/// # Errors
///
/// What the plotting crate says.
pub fn svg(results: &Results) -> Result<String, String> {
    draw(results).map_err(|error| format!("the plot: {error}"))
}

fn draw(results: &Results) -> Result<String, Box<dyn std::error::Error>> {
    let rows = results.results.len() as u32;
    let size = (LABEL + BAR + NOTE, TOP + ROW * rows.max(1) + BOTTOM);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let driver = results.driver.as_deref();
        let driver = driver.map_or_else(String::new, |driver| format!(", driver {driver}"));
        let title = format!(
            "{} ({}{driver}), {}, commit {}: part of the roof",
            results.device, results.backend, results.date, results.commit
        );
        let font = ("sans-serif", 12).into_font();
        area.draw(&Text::new(title, (10, 10), ("sans-serif", 16).into_font()))?;
        let mut chart = ChartBuilder::on(&area)
            .margin_top(TOP)
            .margin_left(LABEL)
            .margin_right(NOTE)
            .x_label_area_size(BOTTOM)
            .build_cartesian_2d(0.0..FULL, f64::from(rows.max(1))..0.0)?;
        chart
            .configure_mesh()
            .disable_y_axis()
            .disable_y_mesh()
            .x_labels(12)
            .max_light_lines(0)
            .x_label_formatter(&|part| format!("{:.0} %", part * 100.0))
            .draw()?;
        let text =
            |horizontal| TextStyle::from(font.clone()).pos(Pos::new(horizontal, VPos::Center));
        for (row, case) in results.results.iter().enumerate() {
            let (top, middle) = (row as f64, row as f64 + 0.5);
            let part = case.of_floor.unwrap_or(0.0).clamp(0.0, FULL);
            let bar = [(0.0, top + 0.15), (part, top + 0.85)];
            chart.draw_series([Rectangle::new(bar, FILL.filled())])?;
            let name = format!("{} {}", case.variant, case.shape);
            let note = match (case.of_floor, case.floor) {
                (Some(of_floor), Some(floor)) => format!(
                    "{}, {:.0} % of {floor}",
                    duration(case.median_ns),
                    of_floor * 100.0
                ),
                _ => duration(case.median_ns),
            };
            let plane = chart.plotting_area();
            let (left, y) = plane.map_coordinate(&(0.0, middle));
            let (right, _) = plane.map_coordinate(&(part, middle));
            area.draw(&Text::new(name, (left - 8, y), text(HPos::Right)))?;
            area.draw(&Text::new(note, (right + 6, y), text(HPos::Left)))?;
        }
        // The roof.
        chart.draw_series([PathElement::new(
            [(1.0, 0.0), (1.0, f64::from(rows.max(1)))],
            BLACK.stroke_width(1),
        )])?;
        area.present()?;
    }
    Ok(svg)
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
        })
        .unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("a &lt;b&gt; &amp; c"));
        assert!(svg.contains("first n=8") && svg.contains("second n=8"));
        assert!(svg.contains("1.23 us, 81 % of dram_read"));
        assert_eq!(svg.matches("fill=\"#4477AA\"").count(), 2);
    }
}

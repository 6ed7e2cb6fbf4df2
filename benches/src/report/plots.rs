//! The plots of the report, as SVG that refers to no font file and loads nothing.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::bars::Unit;
use super::page::Page;
use crate::compare::Row;
use crate::lines::model::Band;
use crate::micro;

const SIZE: (u32, u32) = (400, 270);
const TEXT: (&str, u32) = ("sans-serif", 17);

/// How many colours the style sheet has for the lines of plots.
pub(super) const COLORS: usize = 14;

/// Returns what stands for the colour of the `place`th contestant in a drawing. [`colored`]
/// replaces it by a colour of the style sheet, which depends on the reader's scheme.
fn color(place: usize) -> RGBColor {
    RGBColor(1, 2, (place % COLORS) as u8)
}

/// Returns the place of a lock's colour, which is the same in all reports.
pub(super) fn place(lock: &str) -> usize {
    let all = micro::candidates();
    // `papers` and `lines` have one more lock.
    all.iter()
        .position(|it| it.name == lock)
        .unwrap_or(all.len())
        .min(COLORS - 1)
}

/// Appends the colours of the locks that have rows.
pub(super) fn lock_keys(page: &mut Page, has_rows: impl Fn(&str) -> bool) {
    let all = micro::candidates();
    let all = all.iter().enumerate().filter(|(_, it)| has_rows(it.name));
    page.keys(all.map(|(place, it)| (place, it.name, it.about)));
}

/// Replaces the colours of a drawing by those of the style sheet.
fn colored(mut svg: String) -> String {
    for place in 0..COLORS {
        svg = svg.replace(
            &format!("\"#0102{place:02X}\""),
            &format!("\"var(--c{place})\""),
        );
    }
    svg.replace("\"#000000\"", "\"currentColor\"")
}

/// Plots operations per second against threads, with a line for each lock. `rows` belong to one
/// workload.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn throughput(rows: &[&Row]) -> Result<String> {
    let mut lines = vec![Vec::new(); COLORS];
    for row in rows {
        lines[place(row.lock)].push((row.threads as f64, row.ops_per_s));
    }
    amounts("operations per second, by threads", &lines)
}

/// Plots lines on axes that begin at zero, each coloured by its index. All points must be finite.
/// A unit such as "million" is put before the caption.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn amounts(caption: &str, lines: &[Vec<(f64, f64)>]) -> Result<String> {
    let top = lines.iter().flatten().map(|it| it.1).fold(1.0, f64::max) * 1.1;
    let (unit, name) = unit(top);
    let scaled: Vec<Vec<_>> = lines
        .iter()
        .map(|line| line.iter().map(|&(x, y)| (x, y / unit)).collect())
        .collect();
    plotted(&format!("{name}{caption}"), top / unit, &scaled, None)
}

/// Plots medians by an `x`, each in its band, on a logarithmic scale. A line is coloured by its
/// index. All figures must be positive.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn bands(caption: &str, bands: &[Vec<(f64, Band)>]) -> Result<String> {
    let all = || bands.iter().flatten().map(|it| it.1);
    let top = all().map(|it| it.high).fold(1.0, f64::max) * 1.2;
    let least = all().map(|it| it.low).fold(top, f64::min) / 1.2;
    let (unit, name) = unit(top);
    draw(|root| {
        let most = bands.iter().flatten().map(|it| it.0).fold(1.0, f64::max);
        let mut chart = ChartBuilder::on(root)
            .caption(format!("{name}{caption}"), TEXT)
            .margin(10)
            .x_label_area_size(26)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..most * 1.08, (least / unit..top / unit).log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels((most as usize).min(9) + 1)
            .x_label_formatter(&|x| whole(*x))
            .y_labels(6)
            .label_style(TEXT)
            .draw()?;
        for (place, band) in bands.iter().enumerate().filter(|it| !it.1.is_empty()) {
            let back = band.iter().rev().map(|it| (it.0, it.1.low / unit));
            let there = band.iter().map(|it| (it.0, it.1.high / unit));
            let outline: Vec<_> = there.chain(back).collect();
            let filled = Polygon::new(outline, color(place).mix(0.2));
            chart.plotting_area().draw(&filled)?;
        }
        for (place, band) in bands.iter().enumerate() {
            let points = band.iter().map(|it| (it.0, it.1.median / unit));
            let style = color(place).stroke_width(2);
            chart.draw_series(LineSeries::new(points.clone(), style))?;
            let dots = points.map(|at| Circle::new(at, 4, color(place).filled()));
            chart.draw_series(dots)?;
        }
        Ok(())
    })
}

/// Plots ratios in the same way, with a line at one.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn ratio_lines(caption: &str, lines: &[Vec<(f64, f64)>]) -> Result<String> {
    let top = lines.iter().flatten().map(|it| it.1).fold(1.0, f64::max) * 1.1;
    plotted(caption, top, lines, Some(1.0))
}

fn plotted(
    caption: &str,
    top: f64,
    lines: &[Vec<(f64, f64)>],
    even: Option<f64>,
) -> Result<String> {
    draw(|root| {
        let most = lines.iter().flatten().map(|it| it.0).fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let mut chart = ChartBuilder::on(root)
            .caption(caption, TEXT)
            .margin(10)
            .x_label_area_size(26)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..most * 1.08, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels((most as usize).min(9) + 1)
            .x_label_formatter(&|x| whole(*x))
            .y_labels(6)
            .label_style(TEXT)
            .draw()?;
        for (place, points) in lines.iter().enumerate() {
            let style = color(place).stroke_width(2);
            chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
            let dots = points
                .iter()
                .map(|&at| Circle::new(at, 4, color(place).filled()));
            chart.draw_series(dots)?;
        }
        if let Some(even) = even {
            let line = PathElement::new([(0.0, even), (most * 1.08, even)], BLACK);
            chart.plotting_area().draw(&line)?;
        }
        Ok(())
    })
}

/// Plots which share of operations took no longer than a time, with a line for each of some
/// systems, coloured by its index. Times are in nanoseconds, on a logarithmic scale.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn cumulative(caption: &str, lines: &[Vec<(u64, f64)>]) -> Result<String> {
    let times = || lines.iter().flatten().map(|it| it.0.max(1) as f64);
    let least = times().fold(f64::MAX, f64::min);
    let most = times().fold(least, f64::max) * 1.1;
    draw(|root| {
        let mut chart = ChartBuilder::on(root)
            .caption(caption, TEXT)
            .margin(10)
            .x_label_area_size(48)
            .y_label_area_size(80)
            .build_cartesian_2d((least..most).log_scale(), 0.0..1.0)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(5)
            .x_label_formatter(&|ns| Unit::Time.tick(*ns))
            .y_labels(6)
            .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
            .x_desc("this time, or less")
            .y_desc("share of operations")
            .label_style(TEXT)
            .draw()?;
        for (place, points) in lines.iter().enumerate() {
            let points = points.iter().map(|&(ns, share)| (ns.max(1) as f64, share));
            let style = color(place).stroke_width(2);
            chart.draw_series(LineSeries::new(points, style))?;
        }
        Ok(())
    })
}

type Root<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// The error of drawing into a string, which is not expected.
type DrawingError = Box<dyn std::error::Error>;

fn draw(plot: impl FnOnce(&Root<'_>) -> Result<(), DrawingError>) -> Result<String> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let drawn = plot(&root).and_then(|()| Ok(root.present()?));
    drawn.map_err(|error| anyhow!("drawing a plot failed: {error}"))?;
    drop(root);
    Ok(colored(svg))
}

/// Returns a divisor for numbers up to `top`, and its name.
fn unit(top: f64) -> (f64, &'static str) {
    match top {
        top if top >= 1e6 => (1e6, "million "),
        top if top >= 1e3 => (1e3, "thousand "),
        _ => (1.0, ""),
    }
}

/// Returns a label only for whole numbers.
fn whole(x: f64) -> String {
    if x.fract() == 0.0 {
        format!("{x:.0}")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::html::STYLE;
    use super::*;
    use crate::failures::contestants;
    use crate::{journal, locks, node_log};

    /// The colours of the style sheet in one scheme, by name.
    fn colors(scheme: &str) -> Vec<(String, [f64; 3])> {
        let names = scheme.split("--").skip(1);
        let named = names.filter_map(|it| it.split_once(": #"));
        let all = named.map(|(name, hex)| {
            let part = |at: usize| {
                let value = u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                let value = f64::from(value) / 255.0;
                match value <= 0.040_45 {
                    true => value / 12.92,
                    false => ((value + 0.055) / 1.055).powf(2.4),
                }
            };
            (name.to_owned(), [0, 2, 4].map(part))
        });
        all.collect()
    }

    /// Returns the contrast of two colours as WCAG 2 defines it.
    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let light = |it: [f64; 3]| 0.2126 * it[0] + 0.7152 * it[1] + 0.0722 * it[2] + 0.05;
        let (a, b) = (light(a), light(b));
        a.max(b) / a.min(b)
    }

    /// Returns a colour as it is perceived, in Oklab.
    fn lab([r, g, b]: [f64; 3]) -> [f64; 3] {
        let l = (0.412_221_5 * r + 0.536_332_5 * g + 0.051_446 * b).cbrt();
        let m = (0.211_903_5 * r + 0.680_699_5 * g + 0.107_397 * b).cbrt();
        let s = (0.088_302_5 * r + 0.281_718_8 * g + 0.629_978_7 * b).cbrt();
        [
            0.210_454_3 * l + 0.793_617_8 * m - 0.004_072_0 * s,
            1.977_998_5 * l - 2.428_592_2 * m + 0.450_593_7 * s,
            0.025_904_0 * l + 0.782_771_8 * m - 0.808_675_8 * s,
        ]
    }

    /// Returns the distance of two colours as they are perceived.
    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        let (a, b) = (lab(a), lab(b));
        let squares = (0..3).map(|it| (a[it] - b[it]).powi(2));
        squares.sum::<f64>().sqrt()
    }

    #[test]
    fn colours_differ_and_are_seen_on_both_grounds() {
        let (light, dark) = STYLE
            .split_once("@media (prefers-color-scheme: dark)")
            .unwrap();
        for scheme in [light, dark] {
            let all = colors(scheme);
            let ground = all.iter().find(|it| it.0 == "ground").unwrap().1;
            let is_ground = |name: &str| ["ground", "line", "track"].contains(&name);
            for (name, color) in all.iter().filter(|it| !is_ground(&it.0)) {
                assert!(contrast(*color, ground) >= 3.0, "{name} on the ground");
            }
            let places = (0..COLORS).map(|it| format!("c{it}"));
            let places: Vec<_> = places
                .map(|name| all.iter().find(|it| it.0 == name).unwrap())
                .collect();
            for (nth, a) in places.iter().enumerate() {
                for b in &places[..nth] {
                    assert!(distance(a.1, b.1) > 0.15, "{} is like {}", a.0, b.0);
                }
            }
            // Those of bars are no colours of lines.
            let [ours, other] =
                ["ours", "other"].map(|name| all.iter().find(|it| it.0 == name).unwrap().1);
            assert!(distance(ours, other) > 0.1);
            for place in &places {
                assert!(distance(ours, place.1) > 0.1, "{} is like ours", place.0);
                assert!(distance(other, place.1) > 0.07, "{} is like other", place.0);
            }
        }
    }

    #[test]
    fn a_line_has_the_same_hue_in_both_schemes() {
        let (light, dark) = STYLE
            .split_once("@media (prefers-color-scheme: dark)")
            .unwrap();
        let hue = |color: [f64; 3]| {
            let [_, a, b] = lab(color);
            b.atan2(a)
        };
        let [light, dark] = [light, dark].map(colors);
        for place in 0..COLORS {
            let name = format!("c{place}");
            let [a, b] =
                [&light, &dark].map(|all| hue(all.iter().find(|it| it.0 == name).unwrap().1));
            let turn = (a - b).abs();
            let turn = turn.min(std::f64::consts::TAU - turn);
            assert!(turn < 0.1, "{name}: {a} and {b}");
        }
    }

    #[test]
    fn no_two_contestants_of_a_report_have_the_same_colour() {
        for contestants in [
            locks::contestants().len(),
            // With the additional lock of `papers`.
            micro::candidates().len() + 1,
            journal::contestants::CONTESTANTS.len(),
            contestants::all().len(),
            node_log::systems::SYSTEMS.len(),
        ] {
            assert!(contestants <= COLORS, "{contestants}");
        }
    }

    #[test]
    fn a_drawing_names_colours_of_the_style_sheet() {
        let lines: Vec<_> = (0..COLORS)
            .map(|it| vec![(1.0, 1.0), (2.0, it as f64)])
            .collect();
        let svg = amounts("x", &lines).unwrap();
        for place in 0..COLORS {
            assert!(svg.contains(&format!("\"var(--c{place})\"")), "{place}");
        }
        assert!(!svg.contains("\"#0"), "{svg}");
    }
}

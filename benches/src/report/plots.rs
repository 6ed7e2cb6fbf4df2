//! The plots of the report, as SVG that refers to no font file and loads nothing.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::text::time;
use crate::compare::Row;
use crate::lines::model::Band;

const SIZE: (u32, u32) = (400, 270);
const TEXT: (&str, u32) = ("sans-serif", 17);

/// How many colours the style sheet has for the lines of plots.
pub(super) const COLORS: usize = 14;

/// Returns what stands for the colour of the `place`th contestant in a drawing. [`colored`]
/// replaces it by a colour of the style sheet, which depends on the reader's scheme.
fn color(place: usize) -> RGBColor {
    RGBColor(1, 2, (place % COLORS) as u8)
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

/// Plots operations per second against threads, with a line for each of `locks`. `rows` belong to
/// one workload.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn throughput(rows: &[&Row], locks: &[&str]) -> Result<String> {
    let line = |lock: &&str| {
        let of_lock = rows.iter().filter(|row| row.lock == *lock);
        of_lock
            .map(|row| (row.threads as f64, row.ops_per_s))
            .collect()
    };
    let lines: Vec<Vec<_>> = locks.iter().map(line).collect();
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
    plotted(&format!("{name}{caption}"), top / unit, &scaled, &[], None)
}

/// Plots medians in the same way, each in its band. A point is an `x`, and what it has there.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn bands(caption: &str, bands: &[Vec<(f64, Band)>]) -> Result<String> {
    let top = bands
        .iter()
        .flatten()
        .map(|it| it.1.high)
        .fold(1.0, f64::max)
        * 1.1;
    let (unit, name) = unit(top);
    let line = |band: &Vec<(f64, Band)>| band.iter().map(|it| (it.0, it.1.median / unit)).collect();
    let lines: Vec<Vec<_>> = bands.iter().map(line).collect();
    let outline = |band: &Vec<(f64, Band)>| {
        let back = band.iter().rev().map(|it| (it.0, it.1.low / unit));
        let there = band.iter().map(|it| (it.0, it.1.high / unit));
        there.chain(back).collect()
    };
    let outlines: Vec<Vec<_>> = bands.iter().map(outline).collect();
    plotted(
        &format!("{name}{caption}"),
        top / unit,
        &lines,
        &outlines,
        None,
    )
}

/// Plots ratios in the same way, with a line at one.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn ratio_lines(caption: &str, lines: &[Vec<(f64, f64)>]) -> Result<String> {
    let top = lines.iter().flatten().map(|it| it.1).fold(1.0, f64::max) * 1.1;
    plotted(caption, top, lines, &[], Some(1.0))
}

fn plotted(
    caption: &str,
    top: f64,
    lines: &[Vec<(f64, f64)>],
    outlines: &[Vec<(f64, f64)>],
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
        for (place, outline) in outlines.iter().enumerate() {
            let band = Polygon::new(outline.clone(), color(place).mix(0.2));
            chart.plotting_area().draw(&band)?;
        }
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
            .x_label_area_size(26)
            .y_label_area_size(56)
            .build_cartesian_2d((least..most).log_scale(), 0.0..1.0)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(5)
            .x_label_formatter(&|ns| time(*ns))
            .y_labels(6)
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
    use crate::{journal, locks, micro, node_log};

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

    /// Returns the distance of two colours as they are perceived, in Oklab.
    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        let lab = |[r, g, b]: [f64; 3]| {
            let l = (0.412_221_5 * r + 0.536_332_5 * g + 0.051_446 * b).cbrt();
            let m = (0.211_903_5 * r + 0.680_699_5 * g + 0.107_397 * b).cbrt();
            let s = (0.088_302_5 * r + 0.281_718_8 * g + 0.629_978_7 * b).cbrt();
            [
                0.210_454_3 * l + 0.793_617_8 * m - 0.004_072_0 * s,
                1.977_998_5 * l - 2.428_592_2 * m + 0.450_593_7 * s,
                0.025_904_0 * l + 0.782_771_8 * m - 0.808_675_8 * s,
            ]
        };
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
            let [ours, other] =
                ["ours", "other"].map(|name| all.iter().find(|it| it.0 == name).unwrap().1);
            assert!(distance(ours, other) > 0.1);
        }
    }

    #[test]
    fn no_two_contestants_of_a_report_have_the_same_colour() {
        for contestants in [
            locks::contestants().len(),
            micro::candidates().len(),
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

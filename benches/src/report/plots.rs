//! The plots of the report, as SVG that refers to no font file and loads nothing.

use std::ops::Range;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::text::{LOSS_MARK, time};
use crate::compare::Row;
use crate::lines::model::Band;
use crate::measure::thread_count;
use crate::micro;

const SIZE: (u32, u32) = (460, 300);
const TEXT: (&str, u32) = ("sans-serif", 15);

/// Distinguishable for colour-blind readers (Okabe and Ito); the first is grey. The last four are
/// darker.
const COLORS: [RGBColor; 11] = [
    RGBColor(110, 110, 110),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(0, 0, 0),
    RGBColor(120, 70, 0),
    RGBColor(90, 0, 110),
    RGBColor(0, 90, 90),
];

/// Returns the colour of the `place`th lock.
fn color(place: usize) -> RGBColor {
    COLORS[place % COLORS.len()]
}

/// Returns the same colour for HTML.
pub(super) fn html_color(place: usize) -> String {
    let RGBColor(red, green, blue) = color(place);
    format!("#{red:02x}{green:02x}{blue:02x}")
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
            .y_label_area_size(52)
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
            .y_label_area_size(52)
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

/// Plots ratios to the baseline as bars, grouped by number of threads. `rows` belong to one
/// workload. Returns `None` if there are no ratios.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn ratios(rows: &[&Row], locks: &[&str]) -> Result<Option<String>> {
    let highest = rows.iter().filter_map(|row| row.ratio).reduce(f64::max);
    let Some(highest) = highest else {
        return Ok(None);
    };
    let mut threads: Vec<usize> = rows.iter().map(|row| row.threads).collect();
    threads.dedup();
    let svg = draw(|root| {
        let groups = -0.5..threads.len() as f64 - 0.5;
        let mut chart = ChartBuilder::on(root)
            .caption("ratio to the fastest whole-file lock", TEXT)
            .margin(10)
            .x_label_area_size(26)
            .y_label_area_size(52)
            .build_cartesian_2d(groups.clone(), 0.0..highest.max(1.0) * 1.2)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(0)
            .y_labels(6)
            .label_style(TEXT)
            .draw()?;
        let text = |vertical| {
            let at = Pos::new(HPos::Center, vertical);
            TextStyle::from(TEXT.into_font()).pos(at)
        };
        for (group, &number) in threads.iter().enumerate() {
            let told = thread_count(number);
            let label =
                EmptyElement::at((group as f64, 0.0)) + Text::new(told, (0, 8), text(VPos::Top));
            chart.plotting_area().draw(&label)?;
        }
        for row in rows {
            let place = locks.iter().position(|it| *it == row.lock);
            let group = threads.iter().position(|it| *it == row.threads);
            let (Some(place), Some(group), Some(ratio)) = (place, group, row.ratio) else {
                continue;
            };
            let Range { start, end } = bar(group, place, locks.len());
            let shape = Rectangle::new([(start, 0.0), (end, ratio)], color(place).filled());
            chart.plotting_area().draw(&shape)?;
            let mark = if row.is_loss() { LOSS_MARK } else { "" };
            let label = EmptyElement::at(((start + end) / 2.0, ratio))
                + Text::new(format!("{mark}{ratio:.3}"), (0, -3), text(VPos::Bottom));
            chart.plotting_area().draw(&label)?;
        }
        let even = PathElement::new([(groups.start, 1.0), (groups.end, 1.0)], BLACK);
        chart.plotting_area().draw(&even)?;
        Ok(())
    })?;
    Ok(Some(svg))
}

/// Plots medians as bars on a logarithmic scale, one lock per line, with a mark from quartile to
/// quartile. `rows` belong to one case. The bars of `ours` are coloured.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn durations(rows: &[&micro::Row], ours: &[&str]) -> Result<String> {
    let least = rows.iter().map(|row| row.q1_ns).fold(f64::MAX, f64::min) / 2.0;
    let most = rows.iter().map(|row| row.q3_ns).fold(least, f64::max);
    // Leave room for the longest bar's label.
    let most = most * (most / least).powf(0.35);
    let lines = rows.len() as f64;
    draw(|root| {
        let mut chart = ChartBuilder::on(root)
            .margin(10)
            .x_label_area_size(26)
            .y_label_area_size(110)
            .build_cartesian_2d((least..most).log_scale(), -0.5..lines - 0.5)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(5)
            .x_label_formatter(&|ns| time(*ns))
            .y_labels(0)
            .label_style(TEXT)
            .draw()?;
        let text = |horizontal| {
            let at = Pos::new(horizontal, VPos::Center);
            TextStyle::from(TEXT.into_font()).pos(at)
        };
        for (place, row) in rows.iter().enumerate() {
            // The first row is at the top.
            let line = lines - 1.0 - place as f64;
            let color = if ours.contains(&row.lock) {
                COLORS[2]
            } else {
                COLORS[0]
            };
            let shape = [(least, line - 0.35), (row.ns, line + 0.35)];
            let spread = vec![(row.q1_ns, line), (row.q3_ns, line)];
            let name = Text::new(row.lock.to_owned(), (-6, 0), text(HPos::Right));
            let value = Text::new(time(row.ns), (6, 0), text(HPos::Left));
            let area = chart.plotting_area();
            area.draw(&Rectangle::new(shape, color.filled()))?;
            area.draw(&PathElement::new(spread, BLACK))?;
            area.draw(&(EmptyElement::at((least, line)) + name))?;
            area.draw(&(EmptyElement::at((row.ns.max(row.q3_ns), line)) + value))?;
        }
        Ok(())
    })
}

/// Plots figures as pairs of bars on a logarithmic scale, one name per line: the first of a pair
/// above the second. Either may be missing; all are positive. There is a line at one.
///
/// # Errors
/// The plot cannot be drawn.
pub(super) fn pairs(caption: &str, rows: &[(String, [Option<f64>; 2])]) -> Result<String> {
    let all = || rows.iter().flat_map(|it| it.1).flatten();
    let least = all().fold(1.0, f64::min) / 2.0;
    let most = all().fold(1.0, f64::max) * 2.0;
    // Leave room for the longest bar's label.
    let most = most * (most / least).powf(0.2);
    let lines = rows.len() as f64;
    let longest = rows.iter().map(|it| it.0.chars().count()).max();
    let names = longest.unwrap_or(0) as u32 * 8;
    let size = (names + 340, 70 + 36 * rows.len() as u32);
    draw_at(size, |root| {
        let mut chart = ChartBuilder::on(root)
            .caption(caption, TEXT)
            .margin(10)
            .x_label_area_size(26)
            .y_label_area_size(names)
            .build_cartesian_2d((least..most).log_scale(), -0.5..lines - 0.5)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(5)
            .y_labels(0)
            .label_style(TEXT)
            .draw()?;
        let text = |horizontal| {
            let at = Pos::new(horizontal, VPos::Center);
            TextStyle::from(TEXT.into_font()).pos(at)
        };
        let area = chart.plotting_area();
        for (place, (name, pair)) in rows.iter().enumerate() {
            // The first row is at the top.
            let line = lines - 1.0 - place as f64;
            let name = Text::new(name.clone(), (-6, 0), text(HPos::Right));
            area.draw(&(EmptyElement::at((least, line)) + name))?;
            for (nth, figure) in pair.iter().enumerate() {
                let Some(figure) = *figure else { continue };
                let middle = line + 0.2 - 0.4 * nth as f64;
                let shape = [(least, middle - 0.17), (figure, middle + 0.17)];
                area.draw(&Rectangle::new(shape, color(PAIR[nth]).filled()))?;
                let value = Text::new(short(figure), (6, 0), text(HPos::Left));
                area.draw(&(EmptyElement::at((figure, middle)) + value))?;
            }
        }
        let even = PathElement::new([(1.0, -0.5), (1.0, lines - 0.5)], BLACK);
        area.draw(&even)?;
        Ok(())
    })
}

/// The colours of a pair.
pub(super) const PAIR: [usize; 2] = [0, 2];

/// Formats a number with three digits or as a whole one.
fn short(figure: f64) -> String {
    match figure {
        it if it < 10.0 => format!("{it:.2}"),
        it if it < 100.0 => format!("{it:.1}"),
        it => format!("{it:.0}"),
    }
}

type Root<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// The error of drawing into a string, which is not expected.
type DrawingError = Box<dyn std::error::Error>;

fn draw(plot: impl FnOnce(&Root<'_>) -> Result<(), DrawingError>) -> Result<String> {
    draw_at(SIZE, plot)
}

fn draw_at(
    size: (u32, u32),
    plot: impl FnOnce(&Root<'_>) -> Result<(), DrawingError>,
) -> Result<String> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let drawn = plot(&root).and_then(|()| Ok(root.present()?));
    drawn.map_err(|error| anyhow!("drawing a plot failed: {error}"))?;
    drop(root);
    Ok(svg)
}

/// Returns the position of the bar of the `place`th of `locks` locks in a group.
fn bar(group: usize, place: usize, locks: usize) -> Range<f64> {
    let width = 0.8 / locks as f64;
    let start = group as f64 - 0.4 + place as f64 * width;
    start..start + width * 0.9
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

//! The output of `compare journal`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::html::{END, begun, escaped, html_table};
use super::plots;
use super::text::{LOSS_MARK, drawn, grouped};
use crate::journal::Outcome;
use crate::journal::devices::DIRECT;
use crate::journal::rows::{BLOCKS, Bound, COMMIT, COUNTS, Place, Row, Target, find};
use crate::journal::targets::{Coalesced, EVERYWHERE};
use crate::journal::thesis::{Comparison, Measure, comparisons};

const COLUMNS: [&str; 11] = [
    "device",
    "threads",
    "think",
    "blocks",
    "contestant",
    "commits/s",
    "commits/flush",
    "p50",
    "p99",
    "p50 in flushes",
    "flush",
];

const TARGET_COLUMNS: [&str; 5] = ["device", "contestant", "asked", "measured", ""];

/// Returns the whole result as tables and sentences.
pub fn told(outcome: &Outcome) -> String {
    let mut told = String::new();
    for (title, columns, lines) in grids(outcome) {
        let _ = writeln!(told, "{title}\n{}", drawn(columns, 2, lines.into_iter()));
    }
    let comparisons = comparisons(&outcome.rows, &outcome.plan.devices);
    if !comparisons.is_empty() {
        let cells = comparisons.iter().map(thesis_cells);
        let table = drawn(thesis_columns(outcome), 4, cells);
        let _ = writeln!(told, "{THESIS}.\n{table}");
    }
    if !outcome.targets.is_empty() {
        let cells = told_targets(outcome).into_iter().map(|(_, cells)| cells);
        let _ = writeln!(told, "Targets\n{}", drawn(TARGET_COLUMNS, 2, cells));
    }
    told.push_str(&sentences(outcome).join("\n"));
    told
}

const THESIS: &str = "Numbers of the thesis next to this run: ratios to its existing system (our serial), and the start-up delay in percent of a transaction's time. \
     The thesis flushed to an Optane disk behind a network";

/// A table: its title, column names and lines.
type Grid = (String, Vec<String>, Vec<Vec<String>>);

/// Returns tables for each device: of small commits, with a line for each think time and
/// contestant, and of larger ones, with a line for each number of blocks and contestant. There is a
/// column for each number of threads.
fn grids(outcome: &Outcome) -> Vec<Grid> {
    let plan = &outcome.plan;
    let mut all = Vec::new();
    for &device in &plan.devices {
        let thinks = plan
            .think
            .iter()
            .map(|&think| (think.to_string(), think, 1));
        all.extend(grid(
            outcome,
            (COMMIT, device),
            "think",
            &Vec::from_iter(thinks),
        ));
        let counts = COUNTS
            .iter()
            .map(|&blocks| (blocks.to_string(), 0.0, blocks));
        all.extend(grid(
            outcome,
            (BLOCKS, device),
            "blocks",
            &Vec::from_iter(counts),
        ));
    }
    all
}

/// Returns the table of a workload on a device, if it was measured. Each of `loops` has a name, a
/// think time, and a number of blocks.
fn grid(
    outcome: &Outcome,
    (workload, device): (&'static str, &'static str),
    first: &str,
    loops: &[(String, f64, u64)],
) -> Option<Grid> {
    let plan = &outcome.plan;
    let mut columns = vec![first.to_owned(), "contestant".to_owned()];
    columns.extend(plan.threads.iter().map(|&it| super::thread_count(it)));
    let mut lines = Vec::new();
    for (name, think, blocks) in loops {
        for contestant in &plan.contestants {
            let found = plan.threads.iter().map(|&threads| {
                let place = Place {
                    workload,
                    contestant: contestant.name,
                    device,
                    threads,
                    think: *think,
                    blocks: *blocks,
                };
                find(&outcome.rows, place).map(short)
            });
            let found: Option<Vec<_>> = found.collect();
            lines.extend(found.map(|cells| {
                let mut line = vec![name.clone(), contestant.name.to_owned()];
                line.extend(cells);
                line
            }));
        }
    }
    let title = format!("{device}: commits per second | commits per flush | p50 in flushes");
    (!lines.is_empty()).then_some((title, columns, lines))
}

/// Formats a row in a few characters.
fn short(row: &Row) -> String {
    format!(
        "{} | {} | {}",
        grouped(row.commits_per_s.round() as u64),
        number(row.commits_per_flush, 2),
        number(row.p50_flushes(), 1)
    )
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |it| format!("{it:.digits$}"))
}

/// Formats microseconds as milliseconds.
fn millis(micros: Option<f64>) -> String {
    micros.map_or_else(|| "–".to_owned(), |it| format!("{:.3} ms", it / 1e3))
}

fn cells(row: &Row) -> [String; 11] {
    [
        row.device.to_owned(),
        row.threads.to_string(),
        row.think.unwrap_or_default().to_string(),
        row.blocks.unwrap_or_default().to_string(),
        row.contestant.to_owned(),
        grouped(row.commits_per_s.round() as u64),
        number(row.commits_per_flush, 2),
        millis(row.p50_us),
        millis(row.p99_us),
        number(row.p50_flushes(), 2),
        millis(row.flush_us),
    ]
}

/// Returns all targets, each with a CSS class. Targets that apply to every cell are combined into
/// one.
fn told_targets(outcome: &Outcome) -> Vec<(String, [String; 5])> {
    let single = outcome.targets.iter().filter(|it| !it.everywhere);
    let mut all: Vec<_> = single.map(target_cells).collect();
    for &device in &outcome.plan.devices {
        for (_, contestant, ..) in EVERYWHERE {
            let each = of_every_cell(outcome, device, contestant);
            let worst = each
                .filter_map(|it| Some((it.measured?, it)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, worst)) = worst {
                let (class, mut cells) = target_cells(worst);
                cells[1] = format!("{contestant}, every cell");
                cells[3].push_str(" at worst");
                all.push((class, cells));
            }
        }
    }
    all
}

fn of_every_cell<'a>(
    outcome: &'a Outcome,
    device: &'static str,
    contestant: &'static str,
) -> impl Iterator<Item = &'a Target> {
    let all = outcome.targets.iter();
    let of = move |it: &&Target| (it.of.device, it.of.contestant) == (device, contestant);
    all.filter(move |it| it.everywhere && of(it))
}

fn target_cells(target: &Target) -> (String, [String; 5]) {
    let sign = match target.bound {
        Bound::AtLeast => "≥",
        Bound::AtMost => "≤",
    };
    let (class, verdict) = match target.met {
        Some(true) => ("", "met".to_owned()),
        Some(false) => ("loss", "MISSED".to_owned()),
        None => ("", format!("not measured: {}", target.missing.join(", "))),
    };
    let threads = super::thread_count(target.of.threads);
    let cells = [
        target.of.device.to_owned(),
        format!("{}, {threads}", target.of.contestant),
        format!("{} {sign} {}", target.what, target.asked),
        number(target.measured, 3),
        verdict,
    ];
    (class.to_owned(), cells)
}

/// Reports, for each device, where the rendezvous is slower and whether coalesced writes are
/// faster.
fn sentences(outcome: &Outcome) -> Vec<String> {
    let mut all = Vec::new();
    for &device in &outcome.plan.devices {
        all.extend(losses(outcome, device));
        all.extend(Coalesced::on(&outcome.rows, device).map(|it| coalesced(&it)));
    }
    all
}

fn losses(outcome: &Outcome, device: &'static str) -> Option<String> {
    let each: Vec<_> = of_every_cell(outcome, device, "compact-rendezvous")
        .filter(|it| it.met.is_some())
        .collect();
    let lost: Vec<_> = each
        .iter()
        .filter(|it| it.met == Some(false))
        .map(|it| {
            let percent = 100.0 * (1.0 - it.measured.unwrap_or_default());
            let threads = super::thread_count(it.of.threads);
            format!("{threads}, think {} ({percent:.1} %)", it.of.think)
        })
        .collect();
    let told = match (each.len(), lost.len()) {
        (0, _) => return None,
        (cells, 0) => format!(
            "{device}: in none of {cells} cells is the rendezvous more than 2 % slower than plain group commit."
        ),
        (cells, some) => format!(
            "{LOSS_MARK} {device}: in {some} of {cells} cells the rendezvous is more than 2 % slower than plain group commit: {}.",
            lost.join("; ")
        ),
    };
    Some(told)
}

fn coalesced(it: &Coalesced) -> String {
    let (device, mean, cells) = (it.device, it.mean(), it.ratios.len());
    let verdict = if mean > 1.0 { "beat" } else { "do not beat" };
    format!(
        "{device}: coalesced writes {verdict} cooperative submission: {mean:.3} times its commits per second (geometric mean), faster in {} of {cells} cells.",
        it.wins()
    )
}

fn thesis_columns(outcome: &Outcome) -> Vec<String> {
    let mut columns = ["", "load", "contestant", "what", "thesis"]
        .map(str::to_owned)
        .to_vec();
    columns.extend(outcome.plan.devices.iter().map(|&it| it.to_owned()));
    columns
}

fn thesis_cells(comparison: &Comparison) -> Vec<String> {
    let pattern = comparison.pattern;
    let (what, digits) = match comparison.measure {
        Measure::Throughput => ("throughput", 3),
        Measure::Transactions => ("transactions for equally many writes", 3),
        Measure::StartupDelay => ("start-up delay, %", 1),
    };
    let mut cells = vec![
        comparison.place.to_owned(),
        format!(
            "{}, {} clients, {} KiB",
            pattern.workload,
            pattern.clients,
            pattern.block_bytes >> 10
        ),
        comparison.contestant.to_owned(),
        what.to_owned(),
        number(comparison.thesis, digits),
    ];
    cells.extend(comparison.ours.iter().map(|&it| number(it, digits)));
    cells
}

/// Returns the page. `command` is the command line that produced it.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(outcome: &Outcome, command: &str) -> Result<String> {
    let peers = outcome.plan.contestants.iter();
    let peers: Vec<_> = peers.filter_map(|it| it.of_others()).collect();
    let own = [
        ("devices", outcome.devices.join("; ")),
        ("logs of other projects", peers.join(", ")),
    ];
    let title = "Spanlock: durable commits compared";
    let mut page = begun(title, command, outcome.others, &own)?;
    reading(&mut page, outcome)?;
    let targets = told_targets(outcome).into_iter();
    html_table(&mut page, "Targets", TARGET_COLUMNS, targets)?;
    contestants(&mut page, outcome)?;
    all_plots(&mut page, outcome)?;
    thesis(&mut page, outcome)?;
    let rows = outcome.rows.iter().filter(|row| row.place().is_some());
    let mut last = None;
    let rows = rows.map(|row| {
        let cell = (row.device, row.threads, row.think, row.blocks);
        let first = last.replace(cell).is_some_and(|it| it != cell);
        (if first { "first" } else { "" }.to_owned(), cells(row))
    });
    html_table(&mut page, "Figures", COLUMNS, rows)?;
    page.push_str(END);
    Ok(page)
}

/// Explains the figures.
fn reading(page: &mut String, outcome: &Outcome) -> Result<()> {
    writeln!(
        page,
        "<p>Each thread commits 256 bytes (in a block journal, a changed block; where the table says so, 16 or 64 blocks), waits until they are durable, thinks, and repeats. The contestants take \
         turns in rounds; each row is measured for {} s in total. Flushes include the contestant's durable writes. Think times are in units of the flush duration just before \
         the cell was measured; medians are in units of the row's own flushes. Latencies cover all commits.</p>",
        outcome.plan.seconds
    )?;
    for sentence in sentences(outcome) {
        writeln!(page, "<p>{}</p>", escaped(&sentence))?;
    }
    Ok(())
}

fn contestants(page: &mut String, outcome: &Outcome) -> Result<()> {
    page.push_str("<h2>Contestants</h2>\n<ul>\n");
    for (place, contestant) in outcome.plan.contestants.iter().enumerate() {
        let (color, name) = (plots::html_color(place), contestant.name);
        writeln!(
            page,
            "<li><span class=\"key\" style=\"background: {color}\"></span><code>{name}</code>: {}</li>",
            escaped(contestant.about)
        )?;
    }
    page.push_str("</ul>\n");
    Ok(())
}

/// Draws commits per second and per flush by threads, for each device and think time, and the
/// effect of the rendezvous.
fn all_plots(page: &mut String, outcome: &Outcome) -> Result<()> {
    let (rows, plan) = (&outcome.rows, &outcome.plan);
    for &device in &plan.devices {
        let of_cell = |contestant, threads, think| {
            let place = Place {
                workload: COMMIT,
                contestant,
                device,
                threads,
                think,
                blocks: 1,
            };
            find(rows, place)
        };
        if !rows
            .iter()
            .any(|it| it.device == device && it.workload == COMMIT)
        {
            continue;
        }
        writeln!(page, "<h2>{device}</h2>\n<div class=\"plots\">")?;
        for &think in &plan.think {
            let lines = |value: fn(&Row) -> Option<f64>| -> Vec<Vec<(f64, f64)>> {
                let line = |name| {
                    let points = plan.threads.iter().filter_map(move |&threads| {
                        Some((threads as f64, value(of_cell(name, threads, think)?)?))
                    });
                    points.collect()
                };
                plan.contestants.iter().map(|it| line(it.name)).collect()
            };
            let caption = format!("commits per second, by threads; think {think}");
            page.push_str(&plots::amounts(
                &caption,
                &lines(|it| Some(it.commits_per_s)),
            )?);
            let caption = format!("commits per flush, by threads; think {think}");
            page.push_str(&plots::amounts(
                &caption,
                &lines(|it| it.commits_per_flush),
            )?);
        }
        let gain = |&think: &f64| {
            let points = plan.threads.iter().filter_map(move |&threads| {
                let [with, without] = ["compact-rendezvous", "compact"]
                    .map(|name| of_cell(name, threads, think).map(|it| it.commits_per_s));
                let ratio = with? / without.filter(|&it| it > 0.0)?;
                Some((threads as f64, ratio))
            });
            points.collect::<Vec<_>>()
        };
        let lines: Vec<_> = plan.think.iter().map(gain).collect();
        let is_there = |name| plan.contestants.iter().any(|it| it.name == name);
        if is_there("compact-rendezvous") && is_there("compact") && device != DIRECT {
            let caption = "rendezvous / plain, by threads; one line per think time";
            page.push_str(&plots::ratio_lines(caption, &lines)?);
        }
        page.push_str("</div>\n");
    }
    Ok(())
}

fn thesis(page: &mut String, outcome: &Outcome) -> Result<()> {
    let comparisons = comparisons(&outcome.rows, &outcome.plan.devices);
    if comparisons.is_empty() {
        return Ok(());
    }
    let cells = comparisons
        .iter()
        .map(|it| (String::new(), thesis_cells(it)));
    html_table(page, "The thesis", thesis_columns(outcome), cells)?;
    writeln!(page, "<p>{THESIS}.</p>")?;
    Ok(())
}

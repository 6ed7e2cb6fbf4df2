//! The output of `compare journal`, on the terminal and as a page.

mod answer;

use anyhow::Result;

use super::findings::Findings;
use super::html_table::Line;
use super::losses::Losses;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::plots;
use super::table::{Column, drawn, fits, left_out_told};
use super::text::{grouped, millis, number};
use crate::journal::Outcome;
use crate::journal::contestants::CONTESTANTS;
use crate::journal::devices::DIRECT;
use crate::journal::rows::{BLOCKS, COMMIT, COUNTS, Place, Row, find};
use crate::journal::targets::{Coalesced, RENDEZVOUS, rendezvous};
use crate::journal::thesis::{Comparison, Measure, comparisons};
use crate::load::Others;
use crate::measure::thread_count;
use crate::target::Target;
use crate::terminal::Width;

/// The columns of the page.
const COLUMNS: [Column; 11] = [
    Column::name("device"),
    Column::figure("threads", 0),
    Column::figure("think", 0),
    Column::figure("blocks", 0),
    Column::name("contestant"),
    Column::figure("commits/s", 0),
    Column::figure("commits/flush", 0),
    Column::figure("p50", 0),
    Column::figure("p99", 0),
    Column::figure("p50 in flushes", 0),
    Column::figure("flush", 0),
];

impl Findings for Outcome {
    type Row = Row;

    const TITLE: &str = "durable commits compared";

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn others(&self) -> Option<Others> {
        Some(self.others)
    }

    fn media(&self) -> Vec<String> {
        self.devices.clone()
    }

    fn figures(&self, width: Width) -> Vec<String> {
        let mut all: Vec<_> = grids(self).into_iter().map(|it| it.drawn(width)).collect();
        let comparisons = comparisons(&self.rows, &self.plan.devices);
        if !comparisons.is_empty() {
            all.push(width.wrapped(&format!("{THESIS}.")));
            let cells = comparisons.iter().map(thesis_cells);
            all.push(drawn(&thesis_columns(self), cells, width));
        }
        all
    }

    fn targets(&self) -> Option<Vec<Target>> {
        Some(self.targets.clone())
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        let devices = self.plan.devices.iter();
        let of_device = devices.flat_map(|&device| {
            let losses = losses(self, device).map(|it| it.told(width));
            let coalesced = Coalesced::on(&self.rows, device);
            let coalesced = coalesced.map(|it| width.wrapped(&coalesced_told(&it)));
            losses.into_iter().chain(coalesced)
        });
        of_device.collect()
    }

    fn answer(&self, _: &Origin) -> Answer {
        answer::answer(self)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        page.heading("Contestants");
        page.keys(CONTESTANTS.iter().enumerate().filter_map(|(place, it)| {
            let is_there = self.plan.contestants.iter().any(|own| own.name == it.name);
            is_there.then_some((place, it.name, it.about))
        }));
        all_plots(page, self)?;
        let rows = self.rows.iter().filter(|row| row.place().is_some());
        page.figures(&COLUMNS, rows.map(|row| Line::new(cells(row))));
        thesis(page, self);
        reading(page, self);
        Ok(())
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let peers = self.plan.contestants.iter();
        let peers: Vec<_> = peers.filter_map(|it| it.of_others()).collect();
        vec![("logs of other projects", peers.join(", "))]
    }

    fn losses(&self, page: &mut Page) {
        for &device in &self.plan.devices {
            if let Some(losses) = losses(self, device) {
                losses.append(page);
            }
            if let Some(coalesced) = Coalesced::on(&self.rows, device) {
                page.said(&coalesced_told(&coalesced));
            }
        }
    }
}

const THESIS: &str = "Numbers of the thesis next to this run: ratios to its existing system (our serial), the start-up delay in percent of a transaction's time, and transactions for equally many writes. \
     The thesis flushed to an Optane disk behind a network";

/// The figures that a cell of a grid can have, the most important first.
const PARTS: [&str; 3] = ["commits per second", "commits per flush", "p50 in flushes"];

/// The rows of a workload on a device: a line for each load and contestant, and a column for each
/// number of threads.
struct Grid {
    device: &'static str,
    columns: Vec<Column>,
    /// Two names, and the cells with all [`PARTS`].
    lines: Vec<(String, &'static str, Vec<[String; 3]>)>,
}

impl Grid {
    /// Draws the table with as many parts of the cells as fit, but at least one.
    fn drawn(&self, width: Width) -> String {
        let lines = |parts: usize| -> Vec<Vec<String>> {
            let line = |(first, contestant, cells): &(String, &str, Vec<[String; 3]>)| {
                let names = [first.clone(), (*contestant).to_owned()].into_iter();
                let cells = cells.iter().map(|it| it[..parts].join(" | "));
                names.chain(cells).collect()
            };
            self.lines.iter().map(line).collect()
        };
        let parts = (2..=PARTS.len()).rev();
        let parts = parts
            .filter(|&it| fits(&self.columns, &lines(it), width))
            .max();
        let parts = parts.unwrap_or(1);
        let title = format!("{}: {}", self.device, PARTS[..parts].join(" | "));
        let table = drawn(&self.columns, lines(parts), width);
        let mut told = format!("{}\n{table}", width.wrapped(&title));
        if parts < PARTS.len() {
            told.push('\n');
            told.push_str(&left_out_told(&PARTS[parts..], width));
        }
        told
    }
}

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
    first: &'static str,
    loops: &[(String, f64, u64)],
) -> Option<Grid> {
    let plan = &outcome.plan;
    let mut columns = vec![Column::name(first), Column::name("contestant")];
    let last = plan.threads.len() - 1;
    // The fewest and the most threads tell most.
    columns.extend(plan.threads.iter().enumerate().map(|(nth, &it)| {
        let rank = if nth == 0 || nth == last {
            0
        } else {
            nth as u8
        };
        Column::of_run(thread_count(it), rank)
    }));
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
                find(&outcome.rows, place).map(parts)
            });
            let found: Option<Vec<_>> = found.collect();
            lines.extend(found.map(|cells| (name.clone(), contestant.name, cells)));
        }
    }
    (!lines.is_empty()).then_some(Grid {
        device,
        columns,
        lines,
    })
}

/// Returns the [`PARTS`] of a row as text.
fn parts(row: &Row) -> [String; 3] {
    [
        grouped(row.commits_per_s.round() as u64),
        number(row.commits_per_flush, 2),
        number(row.p50_flushes(), 1),
    ]
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

/// Returns the cells on a device in which the rendezvous is slower than plain group commit.
fn losses(outcome: &Outcome, device: &'static str) -> Option<Losses> {
    let all = rendezvous(&outcome.rows, device);
    let lost = all.iter().filter(|it| it.1 < RENDEZVOUS);
    let lost = lost.map(|&(row, ratio)| {
        let think = row.think.unwrap_or_default().to_string();
        let cells = [row.threads.to_string(), think, format!("{ratio:.3}")];
        (ratio, cells.to_vec())
    });
    let rows = Losses::sorted(lost.collect());
    let (cells, lost) = (all.len(), rows.len());
    let said = format!(
        "{device}: in {lost} of {cells} cells the rendezvous is more than 2 % slower than plain group commit."
    );
    let columns = vec![
        Column::figure("threads", 0),
        Column::figure("think", 0),
        Column::figure("times plain", 0),
    ];
    (cells > 0).then_some(Losses {
        said,
        columns,
        rows,
    })
}

fn coalesced_told(it: &Coalesced) -> String {
    let (device, mean, cells) = (it.device, it.mean(), it.ratios.len());
    let verdict = if mean > 1.0 { "beat" } else { "do not beat" };
    format!(
        "{device}: coalesced writes {verdict} cooperative submission: {mean:.3} times its commits per second (geometric mean), faster in {} of {cells} cells.",
        it.wins()
    )
}

fn thesis_columns(outcome: &Outcome) -> Vec<Column> {
    let mut columns = vec![
        Column::figure("place", 9),
        Column::name("load"),
        Column::name("contestant"),
        Column::name("figure"),
        Column::figure("thesis", 0),
    ];
    let devices = outcome.plan.devices.iter().enumerate();
    columns.extend(devices.map(|(nth, &it)| Column::of_run(it.to_owned(), nth as u8)));
    columns
}

fn thesis_cells(comparison: &Comparison) -> Vec<String> {
    let pattern = comparison.pattern;
    let (what, digits) = match comparison.measure {
        Measure::Throughput => ("throughput", 3),
        Measure::Transactions => ("transactions", 3),
        Measure::StartupDelay => ("start-up delay", 1),
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

/// Explains the figures.
fn reading(page: &mut Page, outcome: &Outcome) {
    page.said(&format!(
        "Each thread commits 256 bytes (in a block journal, a changed block; where the table says so, 16 or 64 blocks), waits until they are durable, thinks, and repeats. The contestants take \
         turns in rounds; each row is measured for {} s in total. Flushes include the contestant's durable writes. Think times are in units of the flush duration just before \
         the cell was measured; medians are in units of the row's own flushes. Latencies cover all commits.",
        outcome.plan.seconds
    ));
}

/// Draws commits per second and per flush by threads, for each device and think time, and the
/// effect of the rendezvous.
fn all_plots(page: &mut Page, outcome: &Outcome) -> Result<()> {
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
        page.heading(device);
        page.put("<div class=\"plots\">");
        for &think in &plan.think {
            let lines = |value: fn(&Row) -> Option<f64>| -> Vec<Vec<(f64, f64)>> {
                let line = |name| {
                    let points = plan.threads.iter().filter_map(move |&threads| {
                        Some((threads as f64, value(of_cell(name, threads, think)?)?))
                    });
                    points.collect()
                };
                CONTESTANTS.iter().map(|it| line(it.name)).collect()
            };
            let caption = format!("commits per second, by threads; think {think}");
            page.put(&plots::amounts(
                &caption,
                &lines(|it| Some(it.commits_per_s)),
            )?);
            let caption = format!("commits per flush, by threads; think {think}");
            page.put(&plots::amounts(
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
            page.put(&plots::ratio_lines(caption, &lines)?);
        }
        page.put("</div>\n");
    }
    Ok(())
}

fn thesis(page: &mut Page, outcome: &Outcome) {
    let comparisons = comparisons(&outcome.rows, &outcome.plan.devices);
    if comparisons.is_empty() {
        return;
    }
    let lines = comparisons.iter().map(|it| Line::new(thesis_cells(it)));
    page.table("The thesis", &thesis_columns(outcome), lines);
    page.said(&format!("{THESIS}."));
}

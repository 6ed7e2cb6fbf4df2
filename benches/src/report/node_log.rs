//! The output of `compare node-log`, on the terminal and as a page.

use anyhow::Result;

use super::bars::Bar;
use super::findings::Findings;
use super::html_table::Line;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::plots;
use super::table::{Column, drawn};
use super::text::{duration, grouped, is_tie, listed, mean, ratio_or_dash, times};
use crate::load::Others;
use crate::measure::thread_count;
use crate::node_log::systems::{BASELINE, FILES, SYSTEMS};
use crate::node_log::work::{CASES, LOOKUP};
use crate::node_log::{Beside, Outcome, ROUNDS, Row, Times};
use crate::target::Target;
use crate::terminal::Width;

const COLUMNS: [Column; 20] = [
    Column::name("case"),
    Column::name("system"),
    Column::figure("device", 18),
    Column::figure("threads", 0),
    Column::figure("/s", 0),
    Column::figure("ratio", 0),
    Column::figure("paper", 2),
    Column::figure("write, average", 10),
    Column::figure("p99", 14),
    Column::figure("max", 8),
    Column::figure("fsync, average", 6),
    Column::figure("p99", 13),
    Column::figure("max", 9),
    Column::figure("checkpoint, average", 11),
    Column::figure("p99", 16),
    Column::figure("max", 12),
    Column::figure("longest stall", 5),
    Column::figure("to baseline", 15),
    Column::figure("bytes/fsync", 7),
    Column::figure("lookup's share", 17),
];

const PAPER_COLUMNS: [Column; 7] = [
    Column::name("paper"),
    Column::name("what"),
    Column::name("system"),
    Column::figure("says", 0),
    Column::figure("here", 0),
    Column::figure("threads here", 1),
    Column::figure("differs because", 0),
];

/// The meaning of the columns.
const READING: &str = "ratio: /s divided by that of baseline, or of exclusive latches; paper: the paper's ratio on its machine with 10 cores; \
longest stall: the longest write that a checkpoint overlapped, and the same divided by that of baseline; bytes/fsync: of nodes and their address table; \
lookup's share: the time of a lookup divided by that of a write";

impl Findings for Outcome {
    type Row = Row;

    const TITLE: &str = "node logging: throughput";

    fn title(&self) -> &'static str {
        // A result file has no distributions.
        let times = |it: &Row| [&it.write, &it.read, &it.fsync, &it.checkpoint].map(Clone::clone);
        let has_shares = |it: &Row| times(it).iter().flatten().any(|it| !it.shares.is_empty());
        match self.rows.iter().any(has_shares) {
            true => "node logging: throughput and latencies",
            false => Self::TITLE,
        }
    }

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn others(&self) -> Option<Others> {
        Some(self.others)
    }

    fn media(&self) -> Vec<String> {
        self.media.clone()
    }

    fn figures(&self, width: Width) -> Vec<String> {
        let table = drawn(&COLUMNS, self.rows.iter().map(cells), width);
        vec![table, width.wrapped(READING)]
    }

    fn targets(&self) -> Option<Vec<Target>> {
        Some(self.all_targets())
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        let (rows, reasons) = besides(&self.rows);
        if rows.is_empty() {
            return Vec::new();
        }
        let title = "Beside the papers, which measured other machines, as ratios to the baseline, or as shares:";
        let mut told = vec![
            width.wrapped(title),
            drawn(&PAPER_COLUMNS, rows, width),
            width.wrapped("They differ because:"),
        ];
        let reasons = (1..).zip(reasons);
        told.extend(reasons.map(|(nth, why)| width.wrapped(&format!("{nth}: {why}."))));
        told
    }

    fn answer(&self, origin: &Origin) -> Answer {
        answer(&self.rows, origin)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        append_plots(page, &self.rows)?;
        page.figures(&COLUMNS, self.rows.iter().map(|row| Line::new(cells(row))));
        page.said(&format!(
            "{READING}. The rows of a case take turns, for {} s per row, in {ROUNDS} rounds, of which the median counts. Every write, read, \
             fsync and checkpoint is timed.",
            self.seconds,
        ));
        page.heading("Cases and systems");
        let cases = CASES.iter().map(|it| (it.name, it.about));
        let systems = SYSTEMS.iter().map(|it| (it.name, it.about));
        page.list(cases.chain(systems));
        append_besides(page, &self.rows);
        Ok(())
    }
}

/// Compares the systems' mean ratios with the most threads.
fn answer(rows: &[Row], _: &Origin) -> Answer {
    let threads = rows.iter().map(|it| it.threads).max().unwrap_or(1);
    let is_shown = |it: &&Row| it.threads == threads && it.case != LOOKUP && it.system != BASELINE;
    let of = |system: &'static str| {
        rows.iter()
            .filter(is_shown)
            .filter(move |it| it.system == system)
    };
    let systems = SYSTEMS.iter().map(|it| it.name);
    let mut all: Vec<_> = systems
        .filter_map(|it| Some((mean(of(it).filter_map(|it| it.ratio))?, it)))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((best, system)) = all.first() else {
        return Answer {
            said: format!("No ratios: they need `{BASELINE}` and another system."),
            ..Answer::default()
        };
    };
    let about = SYSTEMS.iter().find(|it| it.name == *system);
    let about = about.map_or("", |it| it.about);
    let cases = || of(system).filter_map(|it| Some((it.ratio?, it.case)));
    let told = |found: Option<(f64, &str)>| {
        found.map_or_else(String::new, |(ratio, case)| {
            format!("{} in `{case}`", times(ratio))
        })
    };
    let low = told(cases().min_by(|a, b| a.0.total_cmp(&b.0)));
    let high = told(cases().max_by(|a, b| a.0.total_cmp(&b.0)));
    let cost = cases().min_by(|a, b| a.0.total_cmp(&b.0));
    let cost = cost.map(|(ratio, case)| match ratio < 1.0 && !is_tie(ratio) {
        true => format!(
            "It costs: at worst, it does **{}** the operations of `{BASELINE}`, in `{case}`. ",
            times(ratio)
        ),
        false => format!("It loses to `{BASELINE}` in no case. "),
    });
    // Where files are faster than every system of ours.
    let fastest = |case: &str| {
        let of_case = rows
            .iter()
            .filter(is_shown)
            .filter(move |it| it.case == case);
        let ratios = of_case
            .filter(|it| it.system != FILES)
            .filter_map(|it| it.ratio);
        ratios.fold(0.0, f64::max)
    };
    let ahead = of(FILES).filter(|it| it.ratio.is_some_and(|ratio| ratio > fastest(it.case)));
    let ahead: Vec<_> = ahead.map(|it| format!("`{}`", it.case)).collect();
    let files = SYSTEMS.iter().find(|it| it.name == FILES);
    let files = files.filter(|_| of(FILES).next().is_some()).map(|it| {
        let wins = match ahead.is_empty() {
            true => "They win in no case. ".to_owned(),
            false => format!("They are the fastest in {}. ", listed(&ahead)),
        };
        format!("`{FILES}` are {}. {wins}", it.about)
    });
    let stall = of(system).find_map(|it| it.stall_ns.zip(it.stall_ratio));
    let stall = stall.map(|(ns, ratio)| {
        format!("A checkpoint stalls a write of `{system}` for **{}** at most, {} that of `{BASELINE}`.", duration(ns), times(ratio))
    });
    // The baseline is the yardstick, and has a bar of its own.
    let mut shown = all.clone();
    shown.push((1.0, BASELINE));
    shown.sort_by(|a, b| b.0.total_cmp(&a.0));
    Answer {
        said: format!(
            "`{system}` ({about}) wins: with {}, it does **{}** the operations of `{BASELINE}`, the way of native F2FS, on average \
             over {} cases ({low}, {high}).",
            thread_count(threads),
            times(*best),
            cases().count()
        ),
        cost: [cost, files, stall].into_iter().flatten().collect(),
        caption: format!(
            "Operations per second with {}, as a ratio to {BASELINE} (the line): geometric mean over all cases",
            thread_count(threads)
        ),
        bars: shown
            .iter()
            .map(|(ratio, it)| Bar::new(*it != FILES, *it, *ratio, format!("{ratio:.2}")))
            .collect(),
        even: Some(1.0),
        ..Answer::default()
    }
}

fn cells(row: &Row) -> [String; 20] {
    let dash = || "–".to_owned();
    let times = |times: &Option<Times>| match times {
        None => [dash(), dash(), dash()],
        Some(it) => [it.mean_ns as u64, it.p99_ns, it.max_ns].map(duration),
    };
    let [write, write_p99, write_max] = times(&row.write);
    let [fsync, fsync_p99, fsync_max] = times(&row.fsync);
    let [checkpoint, checkpoint_p99, checkpoint_max] = times(&row.checkpoint);
    [
        row.case.to_owned(),
        row.system.to_owned(),
        row.device.to_owned(),
        row.threads.to_string(),
        grouped(row.per_s.round() as u64),
        ratio_or_dash(row.ratio),
        ratio_or_dash(row.paper_ratio),
        write,
        write_p99,
        write_max,
        fsync,
        fsync_p99,
        fsync_max,
        checkpoint,
        checkpoint_p99,
        checkpoint_max,
        row.stall_ns.map_or_else(dash, duration),
        ratio_or_dash(row.stall_ratio),
        row.bytes_per_fsync
            .map_or_else(dash, |it| grouped(it.round() as u64)),
        row.lookup_share
            .map_or_else(dash, |it| format!("{:.1} %", it * 100.0)),
    ]
}

/// Returns the rows of the table of the papers' figures, each with the number of its reason, and
/// the reasons.
fn besides(rows: &[Row]) -> (Vec<[String; 7]>, Vec<&'static str>) {
    let mut reasons = Vec::new();
    let all = rows.iter().flat_map(|row| {
        let of_row = row.paper.iter().map(move |it| (row, it));
        of_row.collect::<Vec<_>>()
    });
    let rows = all.map(|(row, it)| {
        let known = reasons.iter().position(|&why| why == it.differs_because);
        let nth = known.unwrap_or_else(|| {
            reasons.push(it.differs_because);
            reasons.len() - 1
        });
        beside(row, it, (nth + 1).to_string())
    });
    let rows = rows.collect();
    (rows, reasons)
}

fn beside(row: &Row, it: &Beside, why: String) -> [String; 7] {
    let figure =
        |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), |it| format!("{it:.3}"));
    [
        it.source.clone(),
        it.about.to_owned(),
        row.system.to_owned(),
        figure(it.said),
        figure(it.here),
        row.threads.to_string(),
        why,
    ]
}

/// Appends the papers' figures.
fn append_besides(page: &mut Page, rows: &[Row]) {
    let all = rows.iter().flat_map(|row| {
        let of_row = row.paper.iter();
        of_row.map(move |it| Line::new(beside(row, it, it.differs_because.to_owned())))
    });
    page.table("Beside the papers", &PAPER_COLUMNS, all);
}

/// Returns the place of a row's colour. Lookups have systems of their own, of which this is the
/// `nth`.
fn place(row: &Row, nth: usize) -> usize {
    let known = SYSTEMS.iter().position(|it| it.name == row.system);
    known.unwrap_or(nth)
}

/// Returns some times of a row.
type Of = fn(&Row) -> &Option<Times>;

/// Appends the distributions of each case with the most threads, and the colours of the systems.
fn append_plots(page: &mut Page, rows: &[Row]) -> Result<()> {
    let Some(threads) = rows.iter().map(|it| it.threads).max() else {
        return Ok(());
    };
    let kinds: [(&str, Of); 4] = [
        ("write", |it| &it.write),
        ("read", |it| &it.read),
        ("fsync", |it| &it.fsync),
        ("checkpoint", |it| &it.checkpoint),
    ];
    for case in &CASES {
        let of_case = |it: &&Row| (it.case, it.threads) == (case.name, threads);
        let of_case: Vec<_> = rows.iter().filter(of_case).collect();
        let mut drawn = Vec::new();
        for (kind, of) in kinds {
            let shares = |row: &&Row| {
                of(row)
                    .as_ref()
                    .map_or_else(Vec::new, |it| it.shares.clone())
            };
            let mut lines = vec![Vec::new(); plots::COLORS];
            for (nth, row) in of_case.iter().enumerate() {
                lines[place(row, nth)] = shares(row);
            }
            if lines.iter().any(|it| !it.is_empty()) {
                let caption = format!("{kind}, {}", thread_count(threads));
                drawn.push(plots::cumulative(&caption, &lines)?);
            }
        }
        // A result file has no distributions.
        if !drawn.is_empty() {
            page.heading(&format!("Shares of times in {}", case.name));
            let keys = of_case.iter().enumerate();
            page.keys(keys.map(|(nth, row)| (place(row, nth), row.system, "")));
            page.put("<div class=\"plots\">\n");
            drawn.iter().for_each(|it| page.put(it));
            page.put("</div>\n");
        }
    }
    Ok(())
}

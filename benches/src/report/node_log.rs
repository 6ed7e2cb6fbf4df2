//! The output of `compare node-log`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::findings::Findings;
use super::html::{END, begun, escaped, html_table};
use super::plots;
use super::table::{Column, drawn, titles};
use super::targets;
use super::text::{duration, grouped, ratio_or_dash};
use crate::load::Others;
use crate::measure::thread_count;
use crate::node_log::systems::SYSTEMS;
use crate::node_log::work::CASES;
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

    fn page(&self, command: &str) -> Result<String> {
        let own = [("media", self.media.join("; "))];
        let title = "Spanlock: node logging in persistent memory and in blocks, and files";
        let mut page = begun(title, command, self.others, &own)?;
        writeln!(
            page,
            "<p>{}. The rows of a case take turns, for {} s per row, in {ROUNDS} rounds, of which the median counts. Every write, read, \
             fsync and checkpoint is timed.</p>",
            escaped(READING),
            self.seconds,
        )?;
        targets::append(&mut page, &self.all_targets())?;
        append_besides(&mut page, &self.rows)?;
        append_plots(&mut page, &self.rows)?;
        let mut last = None;
        let of_row = self.rows.iter().map(|row| {
            let case = (row.case, row.threads);
            let first = last.replace(case).is_some_and(|it| it != case);
            let class = if first { "first" } else { "" };
            (class.to_owned(), cells(row))
        });
        html_table(&mut page, "Figures", titles(&COLUMNS), of_row)?;
        page.push_str("<h2>Cases and systems</h2>\n<ul>\n");
        let cases = CASES.iter().map(|it| (it.name, it.about));
        let systems = SYSTEMS.iter().map(|it| (it.name, it.about));
        for (name, about) in cases.chain(systems) {
            writeln!(page, "<li><code>{name}</code>: {}</li>", escaped(about))?;
        }
        page.push_str("</ul>\n");
        page.push_str(END);
        Ok(page)
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
    [
        it.source.to_owned(),
        it.about.to_owned(),
        row.system.to_owned(),
        format!("{:.3}", it.said),
        it.here
            .map_or_else(|| "–".to_owned(), |it| format!("{it:.3}")),
        row.threads.to_string(),
        why,
    ]
}

/// Appends the papers' figures.
fn append_besides(page: &mut String, rows: &[Row]) -> Result<()> {
    let all = rows.iter().flat_map(|row| {
        let of_row = row.paper.iter();
        of_row.map(move |it| {
            (
                String::new(),
                beside(row, it, it.differs_because.to_owned()),
            )
        })
    });
    html_table(page, "Beside the papers", titles(&PAPER_COLUMNS), all)
}

/// Returns some times of a row.
type Of = fn(&Row) -> &Option<Times>;

/// Appends the distributions of each case with the most threads, and the colours of the systems.
fn append_plots(page: &mut String, rows: &[Row]) -> Result<()> {
    page.push_str("<h2>Distributions of times</h2>\n");
    let Some(threads) = rows.iter().map(|it| it.threads).max() else {
        return Ok(());
    };
    for case in &CASES {
        let of_case = |it: &&Row| (it.case, it.threads) == (case.name, threads);
        let of_case: Vec<_> = rows.iter().filter(of_case).collect();
        if of_case.is_empty() {
            continue;
        }
        write!(page, "<p><code>{}</code>:", case.name)?;
        for (place, row) in of_case.iter().enumerate() {
            let (color, name) = (plots::html_color(place), row.system);
            write!(
                page,
                "<span class=\"key\" style=\"background:{color}\"></span>{name}"
            )?;
        }
        page.push_str("</p>\n<div class=\"plots\">\n");
        let kinds: [(&str, Of); 4] = [
            ("write", |it| &it.write),
            ("read", |it| &it.read),
            ("fsync", |it| &it.fsync),
            ("checkpoint", |it| &it.checkpoint),
        ];
        for (kind, of) in kinds {
            let shares = |row: &&Row| {
                of(row)
                    .as_ref()
                    .map_or_else(Vec::new, |it| it.shares.clone())
            };
            let lines: Vec<_> = of_case.iter().map(shares).collect();
            if lines.iter().any(|it| !it.is_empty()) {
                let caption = format!("{}: {kind}, {}", case.name, thread_count(threads));
                page.push_str(&plots::cumulative(&caption, &lines)?);
            }
        }
        page.push_str("</div>\n");
    }
    Ok(())
}

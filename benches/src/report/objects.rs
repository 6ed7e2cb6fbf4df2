//! The output of `compare objects`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::findings::Findings;
use super::html::{END, begun, escaped, html_table};
use super::table::{Column, drawn, titles};
use super::targets;
use super::text::{duration, grouped, ratio_or_dash};
use crate::load::Others;
use crate::objects::paper::Beside;
use crate::objects::work::GROUPS;
use crate::objects::{Outcome, ROUNDS, Row};
use crate::target::Target;
use crate::terminal::Width;

const COLUMNS: [Column; 16] = [
    Column::name("case"),
    Column::name("layout"),
    Column::name("mode"),
    Column::name("device"),
    Column::figure("threads", 0),
    Column::figure("/s", 0),
    Column::figure("MiB/s", 7),
    Column::figure("ratio", 0),
    Column::figure("to not durable", 3),
    Column::figure("to off", 5),
    Column::figure("to region", 6),
    Column::figure("to raw", 1),
    Column::figure("paper", 4),
    Column::figure("p99", 8),
    Column::figure("max", 2),
    Column::figure("checkpoints", 9),
];

const PAPER_COLUMNS: [Column; 7] = [
    Column::name("paper"),
    Column::name("what"),
    Column::figure("says", 0),
    Column::name("device"),
    Column::figure("threads", 1),
    Column::figure("here", 0),
    Column::figure("here to paper", 2),
];

/// The meaning of the columns.
const READING: &str = "ratio: /s divided by that of durable files on the disk (creations, puts), or of batches with one vector; \
to not durable: by that of files that are not flushed, on the same device; to off: by that of creations without the optimisation; \
to region, to raw: by that of the layout region, and of raw bytes; paper: what the paper has for to off, to raw or, for vectors, ratio";

impl Findings for Outcome {
    type Row = Row;

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
        let table = drawn(&COLUMNS, self.rows.iter().map(cells), width);
        vec![table, width.wrapped(READING)]
    }

    fn targets(&self) -> Option<Vec<Target>> {
        Some(self.targets.clone())
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        if self.paper.is_empty() {
            return Vec::new();
        }
        let title =
            width.wrapped("Beside the paper, which measured another machine and another device:");
        let table = drawn(&PAPER_COLUMNS, self.paper.iter().map(beside), width);
        vec![title, table]
    }

    fn page(&self, command: &str) -> Result<String> {
        let own = [("devices", self.devices.join("; "))];
        let title = "Spanlock: the object store, files and raw bytes";
        let mut page = begun(title, command, self.others, &own)?;
        writeln!(
            page,
            "<p>{}. The rows of a case take turns, for {} s per row, in {ROUNDS} rounds, of which the median counts. Latencies on \
             <code>pmem</code> are sampled, except that <code>create/checkpoints</code> times every creation, until five checkpoints were made. Targets \
             name the worst of several rows.</p>",
            escaped(READING),
            self.seconds,
        )?;
        targets::append(&mut page, &self.targets)?;
        let of_paper = self.paper.iter().map(|it| (String::new(), beside(it)));
        html_table(
            &mut page,
            "Beside the paper",
            titles(&PAPER_COLUMNS),
            of_paper,
        )?;
        let mut last = None;
        let of_row = self.rows.iter().map(|row| {
            let case = (&row.case, row.device, row.threads);
            let first = last.replace(case).is_some_and(|it| it != case);
            let class = if first { "first" } else { "" };
            (class.to_owned(), cells(row))
        });
        html_table(&mut page, "Figures", titles(&COLUMNS), of_row)?;
        page.push_str("<h2>Cases</h2>\n<ul>\n");
        for (name, about) in GROUPS {
            writeln!(page, "<li><code>{name}</code>: {}</li>", escaped(about))?;
        }
        page.push_str("</ul>\n");
        page.push_str(END);
        Ok(page)
    }
}

fn cells(row: &Row) -> [String; 16] {
    let dash = || "–".to_owned();
    let whole = |figure: f64| grouped(figure.round() as u64);
    [
        row.case.clone(),
        row.layout.to_owned(),
        row.mode.map_or_else(dash, str::to_owned),
        row.device.to_owned(),
        row.threads.to_string(),
        whole(row.per_s),
        row.mib_per_s.map_or_else(dash, whole),
        ratio_or_dash(row.ratio),
        ratio_or_dash(row.to_not_durable),
        ratio_or_dash(row.to_off),
        ratio_or_dash(row.to_region),
        row.to_raw.map_or_else(dash, |it| format!("{it:.3}")),
        row.paper.map_or_else(dash, |it| it.to_string()),
        duration(row.p99_ns),
        duration(row.max_ns),
        match row.checkpoints {
            0 => dash(),
            some => grouped(some),
        },
    ]
}

fn beside(it: &Beside) -> [String; 7] {
    let figure = |figure: f64| match figure {
        it if it < 1000.0 => format!("{it:.3}"),
        it => grouped(it.round() as u64),
    };
    let said = it.paper.published;
    [
        it.paper.source(),
        it.paper.row.to_owned(),
        said.map_or_else(|| "–".to_owned(), figure),
        it.device.to_owned(),
        it.threads
            .map_or_else(|| "all".to_owned(), |it| it.to_string()),
        figure(it.here),
        ratio_or_dash(said.map(|said| it.here / said)),
    ]
}

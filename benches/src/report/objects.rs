//! The output of `compare objects`, on the terminal and as a page.

use anyhow::Result;

use super::bars::Bar;
use super::findings::Findings;
use super::html_table::Line;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::table::{Column, drawn};
use super::text::{duration, grouped, ratio_or_dash, times};
use crate::load::Others;
use crate::measure::thread_count;
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

    const TITLE: &str = "the object store, files and raw bytes";

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

    fn answer(&self, _: &Origin) -> Answer {
        answer(&self.rows)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        page.figures(
            &COLUMNS,
            self.rows.iter().map(|row| {
                let mut cells = cells(row);
                cells[0] = format!("{} on {}", row.case, row.device);
                Line::new(cells)
            }),
        );
        page.said(&format!(
            "{READING}. The rows of a case take turns, for {} s per row, in {ROUNDS} rounds, of which the median counts. Latencies on \
             `pmem` are sampled, except that `create/checkpoints` times every creation, until five checkpoints were made. Targets \
             name the worst of several rows.",
            self.seconds,
        ));
        page.heading("Cases");
        page.list(GROUPS);
        let of_paper = self.paper.iter().map(|it| Line::new(beside(it)));
        page.table("Beside the paper", &PAPER_COLUMNS, of_paper);
        Ok(())
    }
}

/// Returns the highest ratio of each case to what takes the place of the store: durable files, or
/// raw bytes. With the most threads, on the first device.
fn answer(rows: &[Row]) -> Answer {
    let Some(device) = rows.first().map(|it| it.device) else {
        return Answer::default();
    };
    let of_device = rows.iter().filter(|it| it.device == device);
    let threads = of_device.clone().map(|it| it.threads).max().unwrap_or(1);
    let of_device = of_device.filter(|it| it.threads == threads && STORES.contains(&it.layout));
    let mut best: Vec<(f64, &Row)> = Vec::new();
    for row in of_device {
        let Some(ratio) = row.ratio.or(row.to_raw) else {
            continue;
        };
        match best.iter_mut().find(|it| it.1.case == row.case) {
            Some(known) if known.0 < ratio => *known = (ratio, row),
            Some(_) => {}
            None => best.push((ratio, row)),
        }
    }
    let to = |row: &Row| {
        if row.ratio.is_some() {
            "durable files"
        } else {
            "raw bytes"
        }
    };
    let how = |row: &Row| match row.mode {
        Some(mode) => format!("{} {mode}", row.layout),
        None => row.layout.to_owned(),
    };
    let files = best.iter().filter(|it| it.1.ratio.is_some());
    let most = files.max_by(|a, b| a.0.total_cmp(&b.0));
    let raw = best.iter().filter(|it| it.1.ratio.is_none());
    let least = raw.min_by(|a, b| a.0.total_cmp(&b.0));
    let said = most.or(least).map(|(ratio, it)| {
        format!(
            "`{}` wins: on `{device}` with {}, it does **{} operations/s** of `{}`, **{}** those of {}.",
            how(it),
            thread_count(threads),
            grouped(it.per_s.round() as u64),
            it.case,
            times(*ratio),
            to(it),
        )
    });
    let cost = least.map(|(ratio, it)| {
        format!(
            "It costs: beside raw bytes, `{}` has **{}** their throughput in `{}`, the worst case.",
            how(it),
            times(*ratio),
            it.case
        )
    });
    Answer {
        said: said
            .unwrap_or_else(|| "No ratios: they need files or raw bytes, and a store.".to_owned()),
        cost: cost.unwrap_or_default(),
        caption: format!(
            "The fastest store on {device} with {}, as a ratio to durable files on the disk, or to raw bytes (the line)",
            thread_count(threads)
        ),
        bars: best
            .iter()
            .map(|(ratio, it)| {
                let to = if it.ratio.is_some() { "files" } else { "raw" };
                let told = format!("{} × {to}", times(*ratio).trim_end_matches(" times"));
                Bar::new(true, &it.case, *ratio, told)
            })
            .collect(),
        even: Some(1.0),
    }
}

/// The layouts of stores.
const STORES: [&str; 2] = ["packed", "region"];

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

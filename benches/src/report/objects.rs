//! The output of `compare objects`, on the terminal and as a page.

use anyhow::Result;

use super::bars::{Bar, Unit};
use super::findings::Findings;
use super::html_table::Line;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::table::{Column, drawn};
use super::text::{duration, grouped, ratio_or_dash, times};
use crate::load::Others;
use crate::measure::thread_count;
use crate::objects::devices::PMEM;
use crate::objects::paper::Beside;
use crate::objects::work::{GROUPS, PUT_CASE};
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
        let best = Best::of(&self.rows);
        // Without files, this is the first picture.
        if let Some(best) = best.filter(|it| !it.files.is_empty() && !it.raw.is_empty()) {
            let (caption, bars) = best.picture(&best.raw, TO_RAW);
            page.bars(&caption, &bars, Some(1.0), Unit::Number);
        }
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

/// The fastest store in each case, with its ratio to what it stands beside.
struct Best<'a> {
    device: &'static str,
    threads: usize,
    /// Beside durable files.
    files: Vec<(f64, &'a Row)>,
    /// Beside raw bytes.
    raw: Vec<(f64, &'a Row)>,
}

impl<'a> Best<'a> {
    /// Returns the fastest with the most threads, on the first device. `None` without rows.
    fn of(rows: &'a [Row]) -> Option<Self> {
        let device = rows.first()?.device;
        let of_device = rows.iter().filter(|it| it.device == device);
        let threads = of_device.clone().map(|it| it.threads).max().unwrap_or(1);
        let of_device = of_device.filter(|it| it.threads == threads && STORES.contains(&it.layout));
        let best = |ratio: fn(&Row) -> Option<f64>| {
            let mut best: Vec<(f64, &Row)> = Vec::new();
            for (ratio, row) in of_device.clone().filter_map(|it| Some((ratio(it)?, it))) {
                match best.iter_mut().find(|it| it.1.case == row.case) {
                    Some(known) if known.0 < ratio => *known = (ratio, row),
                    Some(_) => {}
                    None => best.push((ratio, row)),
                }
            }
            // Creations come first, and those that reserve fewer ids before others.
            best.sort_by_key(|it| {
                let skip = it.1.case.strip_prefix("create/skip-");
                skip.map_or(u64::MAX, |it| it.parse().unwrap_or(u64::MAX))
            });
            best
        };
        Some(Best {
            device,
            threads,
            files: best(|it| it.ratio),
            raw: best(|it| it.to_raw),
        })
    }

    /// Returns the caption and the bars of one of the lists.
    fn picture(&self, best: &[(f64, &Row)], to: &str) -> (String, Vec<Bar>) {
        let caption = format!(
            "The fastest store on {} with {}, as a ratio to {to} (the line)",
            self.device,
            thread_count(self.threads)
        );
        let bar = |&(ratio, it): &(f64, &Row)| {
            let told = times(ratio).replace(" times", "");
            Bar::new(true, &it.case, ratio, told)
        };
        (caption, best.iter().map(bar).collect())
    }
}

const TO_FILES: &str = "durable files on the disk";
const TO_RAW: &str = "raw bytes on the same device";

/// Says what a typical operation reaches, which is a put if there are any.
fn answer(rows: &[Row]) -> Answer {
    let Some(best) = Best::of(rows) else {
        return Answer::default();
    };
    let how = |row: &Row| match row.mode {
        Some(mode) => format!("{} {mode}", row.layout),
        None => row.layout.to_owned(),
    };
    let mut sorted = best.files.clone();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let put = sorted.iter().find(|it| it.1.case == PUT_CASE);
    let typical = put.or(sorted.get(sorted.len() / 2));
    let said = typical.map(|(ratio, it)| {
        let volatile = it.to_not_durable.map(|ratio| {
            let than = "those of files on the same device that are not flushed";
            format!(": **{}** {than}, and", times(ratio))
        });
        format!(
            "In {} with {}, the store (`{}`) does **{} durable operations/s** of `{}`{} **{}** those of {TO_FILES}.",
            match best.device {
                PMEM => "persistent memory (`pmem`)".to_owned(),
                device => format!("a volume on `{device}`"),
            },
            thread_count(best.threads),
            how(it),
            grouped(it.per_s.round() as u64),
            it.case,
            volatile.unwrap_or_else(|| ":".to_owned()),
            times(*ratio),
        )
    });
    let least = best.raw.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let cost = least.map(|(ratio, it)| {
        let costs = if *ratio < 0.995 { "It costs: beside" } else { "Beside" };
        format!(
            "{costs} raw bytes on the same device, `{}` has **{}** their throughput in `{}`, the worst case.",
            how(it),
            times(*ratio),
            it.case
        )
    });
    let (caption, bars) = match best.files.is_empty() {
        true => best.picture(&best.raw, TO_RAW),
        false => best.picture(&best.files, TO_FILES),
    };
    Answer {
        said: said
            .or(cost.clone())
            .unwrap_or_else(|| "No ratios: they need files or raw bytes, and a store.".to_owned()),
        cost: cost.unwrap_or_default(),
        caption,
        bars,
        even: Some(1.0),
        ..Answer::default()
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

//! The output of `compare file-core`, on the terminal and as a page.

use anyhow::Result;

use super::bars::{Bar, Kind};
use super::findings::Findings;
use super::html_table::Line;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::table::{Column, drawn};
use super::text::{amount, duration, grouped, is_tie, most_threads, ratio_or_dash, times};
use crate::file_core::args::cases;
use crate::file_core::operations::Pace;
use crate::file_core::{Outcome, Row};
use crate::load::Others;
use crate::locks;
use crate::measure::thread_count;
use crate::target::Target;
use crate::terminal::Width;

const COLUMNS: [Column; 13] = [
    Column::name("case"),
    Column::name("lock"),
    Column::figure("threads", 0),
    Column::figure("ops/s", 0),
    Column::figure("to limit", 1),
    Column::figure("to 1 thread", 3),
    Column::figure("to whole-file lock", 2),
    Column::figure("flushes (most)", 5),
    Column::figure("fences (most)", 6),
    Column::figure("p50", 7),
    Column::figure("p99", 8),
    Column::figure("max", 4),
    Column::figure("cleanings + pages unlinked", 9),
];

/// The meaning of the rows and columns.
const READING: &str = "limit: the bare copy, flushes and fences of the bytes that an overwrite stores; copy: of the data alone. \
to limit, to 1 thread, to whole-file lock: ops/s divided by the limit's, by one thread's with the same lock, and by the fastest whole-file lock's. \
flushes: lines of 64 bytes of a usual operation; most: of any operation";

impl Findings for Outcome {
    type Row = Row;

    const TITLE: &str = "the file core and its limit";

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn others(&self) -> Option<Others> {
        Some(self.others)
    }

    fn media(&self) -> Vec<String> {
        vec![self.volume.clone()]
    }

    fn figures(&self, width: Width) -> Vec<String> {
        let table = drawn(&COLUMNS, self.rows.iter().map(cells), width);
        vec![table, width.wrapped(READING)]
    }

    fn targets(&self) -> Option<Vec<Target>> {
        let targets = self.rows.iter().flat_map(|row| &row.targets);
        Some(targets.cloned().collect())
    }

    fn conclusions(&self, _: Width) -> Vec<String> {
        Vec::new()
    }

    fn answer(&self, origin: &Origin) -> Answer {
        answer(&self.rows, origin)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        page.figures(&COLUMNS, self.rows.iter().map(|row| Line::new(cells(row))));
        reading(page, self);
        page.heading("Cases");
        page.list(cases());
        Ok(())
    }
}

/// Compares the locks in the first case, with as many threads as there are cores.
fn answer(rows: &[Row], origin: &Origin) -> Answer {
    let Some(case) = rows.first().map(|it| it.case) else {
        return Answer::default();
    };
    let of_case = rows.iter().filter(|it| it.case == case);
    let threads = most_threads(of_case.clone().map(|it| it.threads), origin.machine.cores);
    let mut shown: Vec<&Row> = of_case.clone().filter(|it| it.threads == threads).collect();
    shown.sort_by(|a, b| b.ops_per_s.total_cmp(&a.ops_per_s));
    let Some(best) = shown.iter().find(|it| !it.is_bare()) else {
        return Answer::default();
    };
    let compared = best.to_whole_file.zip(best.whole_file);
    let compared = compared.map(|(ratio, lock)| {
        let is_ours = |name: &str| locks::all().iter().any(|lock| lock.0 == name);
        // If that is ours, name another project's as well.
        let other = shown
            .iter()
            .find(|it| !it.is_bare() && !is_ours(it.lock) && locks::contestant(it.lock).whole_file);
        let other = other.filter(|_| is_ours(lock));
        let other = other.map(|it| {
            format!(
                " (and {} `{}`)",
                times(best.ops_per_s / it.ops_per_s),
                it.lock
            )
        });
        format!(
            ": **{}** `{lock}`{}",
            times(ratio),
            other.unwrap_or_default()
        )
    });
    let limit = best.to_limit.map(|it| {
        format!(
            ", and **{:.0} %** of the limit (copy, flush and fence without a lock)",
            it * 100.0
        )
    });
    let alone = of_case
        .clone()
        .find(|it| it.threads == 1 && it.lock == best.lock && threads > 1);
    let alone = alone.and_then(|it| it.to_whole_file.zip(it.whole_file));
    let alone = alone.map(|(ratio, lock)| match is_tie(ratio) {
        true => format!("With one thread, it is as fast as `{lock}`. "),
        false => format!(
            "With one thread, it does **{}** the operations of `{lock}`. ",
            times(ratio)
        ),
    });
    let stall = rows
        .iter()
        .find(|it| it.case == "cleaning" && it.lock == best.lock);
    let stall = stall.map(|it| {
        format!(
            "Cleaning a log stalls a write for **{}** at most. ",
            duration(it.max_ns)
        )
    });
    let cost = format!(
        "It costs: each operation flushes **{} lines** of 64 bytes, which are its records in the log (the data goes past the \
         cache), and waits for **{} fences**. {}{}",
        best.flushes,
        best.fences,
        alone.unwrap_or_default(),
        stall.unwrap_or_default()
    );
    let rate = amount(best.ops_per_s);
    let does = match case {
        "overwrite-4k" => format!("overwrites **{rate} pages/s**"),
        case => format!("does **{rate} operations/s** of `{case}`"),
    };
    Answer {
        said: format!(
            "With {}, the file core under `{}` {does}{}{}.",
            thread_count(threads),
            best.lock,
            compared.unwrap_or_default(),
            limit.unwrap_or_default(),
        ),
        cost,
        caption: format!(
            "Operations per second of {case} with {}",
            thread_count(threads)
        ),
        bars: shown
            .iter()
            .map(|it| {
                let is_ours = locks::all().iter().any(|lock| lock.0 == it.lock);
                let told = grouped(it.ops_per_s.round() as u64);
                let name = match it.lock {
                    "limit" => "limit: copy, flush, fence",
                    "copy" => "the copy alone",
                    lock => lock,
                };
                let bar = Bar::new(is_ours, name, it.ops_per_s, told);
                match it.is_bare() {
                    true => Bar {
                        kind: Kind::Limit,
                        ..bar
                    },
                    false => bar,
                }
            })
            .collect(),
        ..Answer::default()
    }
}

fn cells(row: &Row) -> [String; 13] {
    let dash = || "–".to_owned();
    let whole_file = match row.whole_file {
        Some(lock) => format!("{} of {lock}", ratio_or_dash(row.to_whole_file)),
        None => dash(),
    };
    let cleanings = match (row.cleanings, row.unlinked_pages) {
        (0, 0) => dash(),
        (cleanings, pages) => format!("{} + {}", grouped(cleanings), grouped(pages)),
    };
    [
        row.case.to_owned(),
        row.lock.to_owned(),
        row.threads.to_string(),
        grouped(row.ops_per_s.round() as u64),
        ratio_or_dash(row.to_limit),
        ratio_or_dash(row.to_one_thread),
        whole_file,
        format!("{} ({})", row.flushes, row.most_flushes),
        format!("{} ({})", row.fences, row.most_fences),
        duration(row.p50_ns),
        duration(row.p99_ns),
        duration(row.max_ns),
        cleanings,
    ]
}

/// Explains the figures.
fn reading(page: &mut Page, outcome: &Outcome) {
    page.said(&format!(
        "{READING}. The rows of a case take turns, for {} s per row, in {} rounds, or in {} if the operation uses many pages. Ops/s are the median of the rounds. Flushes and \
         fences are counted in a separate pass that is not timed. Latencies are sampled, except that the case `cleaning` \
         times every write; there the row `limit` shows the longest stalls without a file core, which the scheduler \
         causes.",
        outcome.seconds,
        Pace::Repeated.rounds(),
        Pace::Batches.rounds()
    ));
}

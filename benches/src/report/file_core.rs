//! The output of `compare file-core`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::findings::Findings;
use super::html::{END, begun, escaped, html_table};
use super::table::{Column, drawn, titles};
use super::targets;
use super::text::{duration, grouped, ratio_or_dash};
use crate::file_core::args::cases;
use crate::file_core::operations::Pace;
use crate::file_core::{Outcome, Row};
use crate::load::Others;
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

    fn page(&self, command: &str) -> Result<String> {
        let own = [("volume", self.volume.clone())];
        let title = "Spanlock: the file core and its limit";
        let mut page = begun(title, command, self.others, &own)?;
        reading(&mut page, self)?;
        targets::append(&mut page, &self.targets().unwrap_or_default())?;
        let mut last = None;
        let of_row = self.rows.iter().map(|row| {
            let case = (row.case, row.threads);
            let first = last.replace(case).is_some_and(|it| it != case);
            let class = if first { "first" } else { "" };
            (class.to_owned(), cells(row))
        });
        html_table(&mut page, "Figures", titles(&COLUMNS), of_row)?;
        page.push_str("<h2>Cases</h2>\n<ul>\n");
        for (name, about) in cases() {
            writeln!(page, "<li><code>{name}</code>: {}</li>", escaped(about))?;
        }
        page.push_str("</ul>\n");
        page.push_str(END);
        Ok(page)
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
fn reading(page: &mut String, outcome: &Outcome) -> Result<()> {
    writeln!(
        page,
        "<p>{}. The rows of a case take turns, for {} s per row, in {} rounds, or in {} if the operation uses many pages. Ops/s are the median of the rounds. Flushes and \
         fences are counted in a separate pass that is not timed. Latencies are sampled, except that the case <code>cleaning</code> \
         times every write; there the row <code>limit</code> shows the longest stalls without a file core, which the scheduler \
         causes.</p>",
        escaped(READING),
        outcome.seconds,
        Pace::Repeated.rounds(),
        Pace::Batches.rounds()
    )?;
    Ok(())
}

//! The output of `compare recovery`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::findings::Findings;
use super::html::{END, begun, escaped, html_table};
use super::table::{Column, drawn, titles};
use super::targets;
use super::text::{duration, grouped, ratio_or_dash};
use crate::load::Others;
use crate::recovery::{Outcome, ROUNDS, Row};
use crate::target::Target;
use crate::terminal::Width;

const COLUMNS: [Column; 8] = [
    Column::name("case"),
    Column::figure("files", 3),
    Column::figure("threads", 0),
    Column::figure("time", 2),
    Column::figure("files/s", 0),
    Column::figure("to 1 thread", 1),
    Column::figure("peak heap", 4),
    Column::figure("bytes/file", 0),
];

/// The meaning of the columns.
const READING: &str = "time: of the call that opens the volume; to 1 thread: files/s divided by one thread's; peak heap: the most bytes that \
callers had from the allocator at a time during that call, without the mapped volume";

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
        let title = "Spanlock: recovery of large volumes";
        let mut page = begun(title, command, self.others, &own)?;
        writeln!(
            page,
            "<p>{}. Each recovery runs in a process of its own. Times are the median of {ROUNDS} recoveries; the numbers of threads \
             take turns. The heap is counted in another process than the one that is timed.</p>",
            escaped(READING)
        )?;
        targets::append(&mut page, &self.targets().unwrap_or_default())?;
        let of_row = self.rows.iter().map(|row| (String::new(), cells(row)));
        html_table(&mut page, "Figures", titles(&COLUMNS), of_row)?;
        page.push_str(END);
        Ok(page)
    }
}

fn cells(row: &Row) -> [String; 8] {
    [
        row.case.to_owned(),
        grouped(row.files),
        row.threads.to_string(),
        duration((row.seconds * 1e9) as u64),
        grouped(row.files_per_s.round() as u64),
        ratio_or_dash(row.to_one_thread),
        grouped(row.peak_bytes),
        grouped(row.peak_bytes_per_file.round() as u64),
    ]
}

//! The output of `compare recovery`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::html::{END, begun, escaped, html_table};
use super::text::{JUDGED_COLUMNS, drawn, duration, grouped, judged_cells, ratio_or_dash};
use super::thread_count;
use crate::recovery::{Outcome, ROUNDS, Row};

const COLUMNS: [&str; 8] = [
    "case",
    "files",
    "threads",
    "time",
    "files/s",
    "to 1 thread",
    "peak heap",
    "bytes/file",
];

/// The meaning of the columns.
const READING: &str = "time: of the call that opens the volume; to 1 thread: files/s divided by one thread's; peak heap: the most bytes that \
callers had from the allocator at a time during that call, without the mapped volume";

/// Returns everything for the terminal: the rows, and the targets.
pub fn told(outcome: &Outcome) -> String {
    let table = drawn(COLUMNS, 1, outcome.rows.iter().map(cells));
    let mut told = format!("{table}\n{READING}");
    let cells = targets(outcome).into_iter().map(|(_, cells)| cells);
    let _ = write!(told, "\nTargets\n{}", drawn(JUDGED_COLUMNS, 2, cells));
    told
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

/// Returns the targets of all rows, each with its CSS class.
fn targets(outcome: &Outcome) -> Vec<(String, [String; 5])> {
    let of_row = |row: &Row| {
        let name = format!("{}, {}", row.case, thread_count(row.threads));
        let targets = row.targets.iter().map(move |target| {
            let class = if target.met == Some(false) {
                "loss"
            } else {
                ""
            };
            (class.to_owned(), judged_cells(&name, target))
        });
        targets.collect::<Vec<_>>()
    };
    outcome.rows.iter().flat_map(of_row).collect()
}

/// Returns the page. `command` is the command line that produced it.
///
/// # Errors
/// None are expected: formatting into a string does not fail.
pub fn page(outcome: &Outcome, command: &str) -> Result<String> {
    let own = [("volume", outcome.volume.clone())];
    let title = "Spanlock: recovery of large volumes";
    let mut page = begun(title, command, outcome.others, &own)?;
    writeln!(
        page,
        "<p>{}. Each recovery runs in a process of its own. Times are the median of {ROUNDS} recoveries; the numbers of threads \
         take turns. The heap is counted in another process than the one that is timed.</p>",
        escaped(READING)
    )?;
    html_table(
        &mut page,
        "Targets",
        JUDGED_COLUMNS,
        targets(outcome).into_iter(),
    )?;
    let of_row = outcome.rows.iter().map(|row| (String::new(), cells(row)));
    html_table(&mut page, "Figures", COLUMNS, of_row)?;
    page.push_str(END);
    Ok(page)
}

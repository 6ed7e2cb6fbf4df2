//! The output of `compare file-core`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::html::{END, begun, escaped, html_table};
use super::text::{JUDGED_COLUMNS, drawn, duration, grouped, judged_cells, ratio_or_dash};
use super::thread_count;
use crate::file_core::operations::Pace;
use crate::file_core::{Outcome, Row};

const COLUMNS: [&str; 13] = [
    "case",
    "lock",
    "threads",
    "ops/s",
    "to limit",
    "to 1 thread",
    "to whole-file lock",
    "flushes (most)",
    "fences (most)",
    "p50",
    "p99",
    "max",
    "cleanings + pages unlinked",
];

/// The meaning of the rows and columns.
const READING: &str = "limit: the bare copy, flushes and fences of the bytes that an overwrite stores; copy: of the data alone. \
to limit, to 1 thread, to whole-file lock: ops/s divided by the limit's, by one thread's with the same lock, and by the fastest whole-file lock's. \
flushes: lines of 64 bytes of a usual operation; most: of any operation";

/// Returns everything for the terminal: the rows, and the targets.
pub fn told(outcome: &Outcome) -> String {
    let table = drawn(COLUMNS, 2, outcome.rows.iter().map(cells));
    let mut told = format!("{table}\n{READING}");
    let targets = targets(outcome);
    if !targets.is_empty() {
        let cells = targets.into_iter().map(|(_, cells)| cells);
        let _ = write!(told, "\nTargets\n{}", drawn(JUDGED_COLUMNS, 2, cells));
    }
    told
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

/// Returns the targets of all rows, each with its CSS class.
fn targets(outcome: &Outcome) -> Vec<(String, [String; 5])> {
    let of_row = |row: &Row| {
        let name = format!("{}, {}, {}", row.case, row.lock, thread_count(row.threads));
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
    let title = "Spanlock: the file core and its limit";
    let mut page = begun(title, command, outcome.others, &own)?;
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
    html_table(
        &mut page,
        "Targets",
        JUDGED_COLUMNS,
        targets(outcome).into_iter(),
    )?;
    let mut last = None;
    let of_row = outcome.rows.iter().map(|row| {
        let case = (row.case, row.threads);
        let first = last.replace(case).is_some_and(|it| it != case);
        let class = if first { "first" } else { "" };
        (class.to_owned(), cells(row))
    });
    html_table(&mut page, "Figures", COLUMNS, of_row)?;
    page.push_str("<h2>Cases</h2>\n<ul>\n");
    for (name, about) in crate::file_core::args::cases() {
        writeln!(page, "<li><code>{name}</code>: {}</li>", escaped(about))?;
    }
    page.push_str("</ul>\n");
    page.push_str(END);
    Ok(page)
}

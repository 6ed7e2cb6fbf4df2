//! The report in Markdown.

use std::fmt::Write;

use super::{blind_spots, circumstances, matrix, sections};
use crate::driver::evidence::Evidence;
use crate::driver::{pairs, table};
use crate::rows::row::Row;

/// Returns the page.
pub(super) fn page(rows: &[Row], evidence: &Evidence) -> String {
    let mut text = "# What was verified\n\nWritten by `cargo verify`.\n\n".to_owned();
    let bar = |text: &str| text.replace('|', "\\|");
    for (name, value) in circumstances(rows) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(text, "\n{}\n{}", table::summary(rows), table::drifts(rows));
    for remark in evidence.remarks() {
        let _ = writeln!(text, "**{remark}**\n");
    }
    let failures = table::failures(rows);
    if !failures.is_empty() {
        let _ = writeln!(
            text,
            "## What failed, was cut off, or skipped\n\n````text\n{failures}````\n"
        );
    }
    let _ = writeln!(text, "## Rows\n");
    text.push_str(&matrix::markdown(rows));
    if !evidence.tables.is_empty() {
        text.push_str(&pairs::markdown(&evidence.tables));
    }
    let _ = writeln!(text, "\n## What a mode cannot see\n");
    for ((checker, mode), spot) in blind_spots(rows) {
        let _ = writeln!(text, "- {checker}, {mode}: {spot}");
    }
    for section in sections(evidence) {
        let told = section.told.replace('\n', "  \n");
        let _ = writeln!(text, "\n## {}\n\n{told}\n", section.title);
        let (head, rule) = (section.head.join(" | "), "---|".repeat(section.head.len()));
        let _ = writeln!(text, "| {head} |\n|{rule}");
        for cells in section.rows {
            let cells = cells.map(|cell| bar(&cell));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    text
}

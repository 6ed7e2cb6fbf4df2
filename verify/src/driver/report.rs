//! The report: `verify.json`, a page in Markdown, and one in HTML that needs no other file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::evidence::Evidence;
use super::kill::{self, Change, Judged};
use super::output::Output;
use super::{pairs, table};
use crate::rows::row::{Agreement, Row};

/// The files of a report, in their order.
const FILES: [&str; 5] = [
    "verify.json",
    "verify.md",
    "verify.html",
    "mutants.json",
    "bugs.json",
];

/// Checks that a report can be written to `folder`, and returns its files.
pub(super) fn files(folder: &Path) -> Result<Vec<Output>> {
    let file = |name| {
        let path = folder.join(name);
        Output::check(&path).with_context(|| format!("--report: cannot write {}", path.display()))
    };
    FILES.into_iter().map(file).collect()
}

/// Writes a report into its files, with `mutants.json` and `bugs.json` if there are any.
pub(super) fn write(files: &[Output], rows: &[Row], evidence: &Evidence) -> Result<()> {
    let Evidence { mutants, bugs, .. } = evidence;
    let texts = [
        Some(json(rows)?),
        Some(markdown(rows, evidence)),
        Some(html(rows, evidence)),
        (!mutants.is_empty()).then(|| json(mutants)).transpose()?,
        (!bugs.is_empty()).then(|| json(bugs)).transpose()?,
    ];
    for (file, text) in files.iter().zip(texts) {
        let Some(text) = text else { continue };
        let path = file.path.display();
        (file.write(text.as_bytes())).with_context(|| format!("{path}: cannot write"))?;
        println!("Written: {path}");
    }
    Ok(())
}

fn json(rows: &[impl Serialize]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)? + "\n")
}

/// Returns the circumstances of the run, in lines.
fn circumstances(rows: &[Row]) -> Vec<(&'static str, String)> {
    let Some(Row { run, .. }) = rows.first() else {
        return Vec::new();
    };
    let each = |of: fn(&Row) -> String| {
        let all: BTreeSet<String> = rows.iter().map(of).collect();
        Vec::from_iter(all).join("; ")
    };
    let command = format!("cargo verify {}", run.selection);
    let checkers = each(|row| format!("{} {}", row.checker, row.checker_version));
    let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
    let time = format!("{:.0} min in {} rows", seconds / 60.0, rows.len());
    vec![
        ("command", command.trim_end().to_owned()),
        ("date", each(|row| row.run.date.clone())),
        ("version", format!("{}, commit {}", run.version, run.commit)),
        ("checkers", checkers),
        ("compiler", run.rustc.clone()),
        ("machine", each(|row| row.run.machine.clone())),
        ("processor time", time),
    ]
}

/// Returns what each mode cannot see. A litmus row that deviates has a blind spot of its own.
fn blind_spots(rows: &[Row]) -> BTreeMap<String, &str> {
    let of_the_mode = |row: &&Row| row.agreement != Some(Agreement::BlindSpot);
    let spot = |row: &'_ Row| format!("{}, {}", row.checker, row.mode);
    let spots = rows.iter().filter(of_the_mode);
    spots.map(|row| (spot(row), &*row.blind_spot)).collect()
}

/// Returns the page in HTML: a script in it makes the tables from the data.
fn html(rows: &[Row], evidence: &Evidence) -> String {
    let cells = evidence.tables.iter().flat_map(|table| &table.cells);
    let data = serde_json::json!({
        "circumstances": circumstances(rows),
        "summary": table::summary(rows),
        "remarks": evidence.remarks().collect::<Vec<_>>(),
        "rows": rows,
        "mutants": evidence.mutants,
        "mutants_told": kill::summary(&evidence.mutants),
        "bugs": evidence.bugs,
        "bugs_told": kill::summary(&evidence.bugs),
        "cells": cells.collect::<Vec<_>>(),
        "pairs_told": pairs::told(&evidence.tables),
        "blind_spots": Vec::from_iter(blind_spots(rows)),
    });
    // A `</script>` in a text would end the data.
    let data = data.to_string().replace("</", "<\\/");
    include_str!("../../assets/report.html").replace("/* DATA */", &data)
}

/// Returns the page in Markdown.
fn markdown(rows: &[Row], evidence: &Evidence) -> String {
    let mut text = "# What was verified\n\nWritten by `cargo verify`.\n\n".to_owned();
    for (name, value) in circumstances(rows) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    for remark in evidence.remarks() {
        let _ = writeln!(text, "\n**{remark}**");
    }
    let (summary, drifts) = (table::summary(rows), table::drifts(rows));
    let _ = writeln!(text, "\n{summary}\n{drifts}");
    let failures = table::failures(rows);
    if !failures.is_empty() {
        let _ = writeln!(text, "## What failed\n\n````text\n{failures}````\n");
    }
    let _ = writeln!(text, "## Rows\n\n{}", table::rows(rows).force_no_tty());
    section(&mut text, "Mutants", &evidence.mutants);
    section(&mut text, "Injected bugs", &evidence.bugs);
    if !evidence.tables.is_empty() {
        text.push_str(&pairs::markdown(&evidence.tables));
    }
    let _ = writeln!(text, "\n## What a mode cannot see\n");
    for (mode, spot) in blind_spots(rows) {
        let _ = writeln!(text, "- {mode}: {spot}");
    }
    text
}

fn section<T: Change>(text: &mut String, title: &str, all: &[Judged<T>]) {
    if !all.is_empty() {
        let (summary, mut table) = (kill::summary(all), kill::rows(all));
        let _ = writeln!(
            text,
            "\n## {title}\n\n{summary}\n\n{}",
            table.force_no_tty()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = r#""run": {"selection": "", "rows": 1, "partition": "1/1", "version": "",
        "commit": "", "rustc": "", "machine": "", "date": ""}"#;

    #[test]
    fn a_failure_is_shown_with_its_reason() {
        let row = format!(
            r#"[{{"name": "a/exclusion", "number": 1, "primitive": "a", "property": "exclusion",
            "claim": "ranges", "checker": "loom", "checker_version": "", "mode": "weak",
            "threads": 2, "operations": 2, "bound": null, "spin_cap": null, "faults": [],
            "executions": 1, "committed": 1, "seconds": 0.0, "verdict": "FAILED", "outcomes": 1,
            "outcome_hash": "", "agrees": false, "replay": "", "blind_spot": "",
            "failure": "two hold one range", {RUN}}}]"#
        );
        let rows: Vec<Row> = serde_json::from_str(&row).expect("a row");
        let page = markdown(&rows, &Evidence::default());
        let failure = "FAILED: a/exclusion: ranges\n  two hold one range\n  again";
        assert!(
            page.contains("## What failed") && page.contains(failure),
            "{page}"
        );
    }

    #[test]
    fn bugs_have_a_section() {
        let bug = format!(
            r#"[{{"bug": "no-aging", "what": "", "primitive": "word", "expected": [], {RUN},
            "verdict": "WRONG MODEL", "model": "a|b", "executions": 7, "failure": "1 < 2",
            "replay": null}}]"#
        );
        let evidence = Evidence {
            bugs: serde_json::from_str(&bug).expect("a row"),
            ..Evidence::default()
        };
        let (markdown, html) = (markdown(&[], &evidence), html(&[], &evidence));
        assert!(markdown.contains("## Injected bugs") && markdown.contains("WRONG MODEL"));
        assert!(html.contains("1 injected bugs: 0 KILLED") && html.contains("1 < 2"));
        assert!(!markdown.contains("## Mutants"));
    }
}

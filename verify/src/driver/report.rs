//! The report: `verify.json`, a page in Markdown, and one in HTML that needs no other file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::Table;
use serde::Serialize;

use super::evidence::{Evidence, judged};
use super::output::Output;
use super::partition::Partition;
use super::{bugs, mutants, pairs, table};
use crate::rows::row::{Agreement, Circumstances, Row};

/// The files of a report, in their order.
const FILES: [&str; 5] = [
    "verify.json",
    "verify.md",
    "verify.html",
    "mutants.json",
    "bugs.json",
];

/// Checks that a report can be written to `folder`.
///
/// # Errors
/// A file of it cannot be: which, and why.
pub(super) fn check(folder: &Path) -> Result<()> {
    FILES
        .iter()
        .try_for_each(|name| file(folder, name).map(drop))
}

fn file(folder: &Path, name: &str) -> Result<Output> {
    let path = folder.join(name);
    Output::check(&path).with_context(|| format!("--report: cannot write {}", path.display()))
}

/// Writes a report into `folder`, with `mutants.json` and `bugs.json` if there are any.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(folder: &Path, rows: &[Row], evidence: &Evidence) -> Result<()> {
    let Evidence { mutants, bugs, .. } = evidence;
    let texts = [
        Some(json(rows)?),
        Some(markdown(rows, evidence)),
        Some(html(rows, evidence)),
        beside(mutants, rows)?,
        beside(bugs, rows)?,
    ];
    for (name, text) in FILES.iter().zip(texts) {
        let Some(text) = text else { continue };
        let file = file(folder, name)?;
        let path = file.path().display();
        (file.write(text.as_bytes())).with_context(|| format!("{path}: cannot write"))?;
        println!("Written: {path}");
    }
    Ok(())
}

/// Returns the mutants or the bugs; nothing if there are none.
fn beside(all: &[impl Serialize], rows: &[Row]) -> Result<Option<String>> {
    let (false, Some(row)) = (all.is_empty(), rows.first()) else {
        return Ok(None);
    };
    let run = Circumstances {
        selection: String::new(),
        partition: Partition::WHOLE.to_string(),
        ..row.run.clone()
    };
    Ok(Some(json(&judged(all, &run))?))
}

fn json(rows: &[impl Serialize]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)? + "\n")
}

/// Returns the circumstances of the run, in lines.
fn circumstances(rows: &[Row]) -> Vec<(&'static str, String)> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let each = |of: fn(&Row) -> String| {
        let mut all: Vec<String> = rows.iter().map(of).collect();
        all.sort();
        all.dedup();
        all.join("; ")
    };
    let command = format!("cargo verify {}", first.run.selection);
    vec![
        ("command", command.trim_end().to_owned()),
        ("date", each(|row| row.run.date.clone())),
        (
            "version",
            format!("{}, commit {}", first.run.version, first.run.commit),
        ),
        (
            "checkers",
            each(|row| format!("{} {}", row.checker, row.checker_version)),
        ),
        ("compiler", first.run.rustc.clone()),
        ("machine", each(|row| row.run.machine.clone())),
        ("processor time", processor_time(rows)),
    ]
}

fn processor_time(rows: &[Row]) -> String {
    let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
    format!("{:.0} min in {} rows", seconds / 60.0, rows.len())
}

/// Returns what each mode cannot see. The blind spot of a litmus row that deviates is its own.
fn blind_spots(rows: &[Row]) -> BTreeMap<(&str, &str), &str> {
    let of_the_mode = |row: &&Row| row.agreement != Some(Agreement::BlindSpot);
    let spots = (rows.iter().filter(of_the_mode))
        .map(|row| ((&*row.checker, &*row.mode), &*row.blind_spot));
    spots.collect()
}

/// Returns the page in HTML: a script in it makes the tables from the data.
fn html(rows: &[Row], evidence: &Evidence) -> String {
    let cells = evidence.tables.iter().flat_map(|table| &table.cells);
    let blind_spots = blind_spots(rows).into_iter();
    let blind_spots =
        blind_spots.map(|((checker, mode), spot)| [format!("{checker}, {mode}"), spot.to_owned()]);
    let data = serde_json::json!({
        "circumstances": circumstances(rows),
        "summary": table::summary(rows),
        "remarks": evidence.remarks().collect::<Vec<_>>(),
        "rows": rows,
        "mutants": evidence.mutants,
        "mutants_told": mutants::told(&evidence.mutants),
        "bugs": evidence.bugs,
        "bugs_told": bugs::told(&evidence.bugs),
        "cells": cells.collect::<Vec<_>>(),
        "pairs_told": pairs::told(&evidence.tables),
        "blind_spots": blind_spots.collect::<Vec<_>>(),
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
    let Evidence { mutants, bugs, .. } = evidence;
    if !mutants.is_empty() {
        let (told, table) = (mutants::told(mutants), mutants::rows(mutants));
        section(&mut text, "Mutants", &told, table);
    }
    if !bugs.is_empty() {
        section(
            &mut text,
            "Injected bugs",
            &bugs::told(bugs),
            bugs::rows(bugs),
        );
    }
    if !evidence.tables.is_empty() {
        text.push_str(&pairs::markdown(&evidence.tables));
    }
    let _ = writeln!(text, "\n## What a mode cannot see\n");
    for ((checker, mode), spot) in blind_spots(rows) {
        let _ = writeln!(text, "- {checker}, {mode}: {spot}");
    }
    text
}

fn section(text: &mut String, title: &str, told: &str, mut table: Table) {
    let table = table.force_no_tty();
    let _ = writeln!(text, "\n## {title}\n\n{told}\n\n{table}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::row::Verdict;

    fn row(primitive: &str, claim: &str, more: &str) -> Row {
        let run = r#"{"selection": "", "rows": 1, "partition": "1/1", "version": "", "commit": "",
            "rustc": "", "machine": "", "date": ""}"#;
        let text = format!(
            r#"{{"name": "{primitive}/exclusion", "number": 1, "primitive": "{primitive}",
            "property": "exclusion", "claim": "{claim}", "checker": "loom", "checker_version": "",
            "mode": "weak", "threads": 2, "operations": 2, "bound": null, "spin_cap": null,
            "faults": [], "executions": 1, "committed": 1, "seconds": 0.0, "verdict": "EXHAUSTED",
            "outcomes": 1, "outcome_hash": "", "agrees": false, "replay": "", {more} "run": {run}}}"#
        );
        serde_json::from_str(&text).expect("a row")
    }

    #[test]
    fn a_failure_is_shown_with_its_reason() {
        let failed = r#""blind_spot": "", "failure": "two hold one range","#;
        let mut rows = [row("a", "ranges", failed)];
        rows[0].verdict = Verdict::Failed;
        let page = markdown(&rows, &Evidence::default());
        for words in [
            "## What failed",
            "FAILED: a/exclusion: ranges",
            "  two hold one range\n  again",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }

    #[test]
    fn bugs_have_a_section() {
        let fate = r#"{"bug": "no-aging", "what": "", "primitive": "word", "expected": [],
            "verdict": "WRONG MODEL", "model": "a|b", "executions": 7, "failure": "1 < 2",
            "replay": null}"#;
        let evidence = Evidence {
            bugs: vec![serde_json::from_str(fate).expect("a row")],
            ..Evidence::default()
        };
        let (markdown, html) = (markdown(&[], &evidence), html(&[], &evidence));
        assert!(markdown.contains("## Injected bugs") && markdown.contains("WRONG MODEL"));
        assert!(html.contains("1 injected bugs: 0 KILLED") && html.contains("1 < 2"));
        assert!(!markdown.contains("## Mutants"));
    }
}

//! The report: `verify.json`, a Markdown table, and one HTML page that needs no other file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::mutants::{self, Mutant};
use super::{Evidence, defects, matrix, pairs, table};
use crate::row::{Agreement, Row};

/// Writes all three into `folder`, and `mutants.json` and `defects.json` if there are any.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(folder: &Path, rows: &[Row], evidence: &Evidence) -> Result<()> {
    let json = serde_json::to_string_pretty(rows)? + "\n";
    let mut files = vec![
        ("verify.json", json),
        ("verify.md", markdown(rows, evidence)),
        ("verify.html", html(rows, evidence)),
    ];
    let Evidence {
        mutants, defects, ..
    } = evidence;
    if !mutants.is_empty() {
        let json = serde_json::to_string_pretty(mutants)? + "\n";
        files.push(("mutants.json", json));
    }
    if !defects.is_empty() {
        let json = serde_json::to_string_pretty(defects)? + "\n";
        files.push(("defects.json", json));
    }
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("{}: cannot write", path.display()))?;
        println!("Written: {}", path.display());
    }
    Ok(())
}

/// What one has to know of the run, in lines.
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

/// What each mode cannot see. (Of a litmus row that deviates it is of that program alone.)
fn blind_spots(rows: &[Row]) -> BTreeMap<(&str, &str), &str> {
    let of_the_mode = |row: &&Row| row.agreement != Some(Agreement::BlindSpot);
    let spots = (rows.iter().filter(of_the_mode))
        .map(|row| ((&*row.checker, &*row.mode), &*row.blind_spot));
    spots.collect()
}

/// What each property says: in lines, with the primitives where it says different things of different ones.
fn claims(rows: &[Row]) -> Vec<String> {
    let mut claims: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for row in rows {
        let of_it = claims.entry(&row.property).or_default();
        of_it.entry(&row.claim).or_default().insert(&row.primitive);
    }
    let lines = claims.iter().flat_map(|(property, of_it)| {
        of_it.iter().map(move |(claim, primitives)| {
            let primitives: Vec<_> = primitives.iter().copied().collect();
            match of_it.len() {
                1 => format!("{property}: {claim}"),
                _ => format!("{property} of {}: {claim}", primitives.join(", ")),
            }
        })
    });
    lines.collect()
}

fn markdown(rows: &[Row], evidence: &Evidence) -> String {
    let mut text =
        "# What was verified\n\nWritten by `cargo verify`; the verdicts are explained in \
                    [its README](../verify/README.md#what-a-row-says).\n\n"
            .to_owned();
    let bar = |text: &str| text.replace('|', "\\|");
    for (name, value) in circumstances(rows) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(text, "\n{}\n{}", table::summary(rows), table::drifts(rows));
    let _ = writeln!(text, "## Rows\n");
    text.push_str(&matrix::markdown(rows));
    if !evidence.tables.is_empty() {
        text.push_str(&pairs::markdown(&evidence.tables));
    }
    let _ = writeln!(text, "\n## What each property says\n");
    for line in claims(rows) {
        let _ = writeln!(text, "- {line}");
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

/// A table of what is wrong on purpose: the third column is the verdict, the fifth a number.
struct Section {
    title: &'static str,
    told: String,
    head: [&'static str; 6],
    rows: Vec<[String; 6]>,
}

fn sections(evidence: &Evidence) -> impl Iterator<Item = Section> {
    let Evidence {
        mutants, defects, ..
    } = evidence;
    let mutants = Section {
        title: "Mutants",
        told: mutants::told(mutants),
        head: [
            "site",
            "mutation",
            "verdict",
            "model",
            "execution",
            "reason",
        ],
        rows: mutants.iter().map(mutant_cells).collect(),
    };
    let defects = Section {
        title: "Seeded defects",
        told: defects::told(defects),
        head: defects::HEAD,
        rows: defects.iter().map(defects::cells).collect(),
    };
    let all = [mutants, defects].into_iter();
    all.filter(|section| !section.rows.is_empty())
}

/// A row's cells, but for its command.
fn cells(row: &Row) -> [String; 9] {
    [
        row.name.clone(),
        row.threads.to_string(),
        row.operations.to_string(),
        table::bound(row.bound, &row.mode),
        row.executions.to_string(),
        format!("{:.2}", row.seconds),
        row.outcomes.to_string(),
        table::progress(row),
        table::verdict(row),
    ]
}

fn mutant_cells(mutant: &Mutant) -> [String; 6] {
    [
        mutant.site.clone(),
        mutant.mutation.clone(),
        mutant.verdict.name().to_owned(),
        mutant.model.clone().unwrap_or_default(),
        mutant.executions.map_or(String::new(), |n| n.to_string()),
        mutant.reason.clone().unwrap_or_default(),
    ]
}

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Spanlock: what was verified</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; } dd { margin: 0; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { padding: .15em .6em; border-bottom: 1px solid #8884; text-align: left; vertical-align: top; }
th { position: sticky; top: 0; background: Canvas; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
code { font-size: 12px; } pre { white-space: pre-wrap; margin: 0; }
.EXHAUSTED, .KILLED { color: #18794e; } .BOUNDED, .EQUIVALENT { color: #8a5a00; }
.FAILED, .TRUNCATED, .DRIFT, .SURVIVED, .WRONG, .EMPTY { color: #c62828; font-weight: bold; }
table.pairs { width: auto; }
input { font: inherit; width: 30em; max-width: 100%; margin: .5em 0; }
</style></head><body>
"#;

/// Rows that do not contain the text typed are hidden.
const TAIL: &str = r#"<script>
for (const input of document.querySelectorAll("input")) {
  const rows = input.nextElementSibling.tBodies[0].rows;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  });
}
</script></body></html>
"#;

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn html(rows: &[Row], evidence: &Evidence) -> String {
    let mut text = HEAD.to_owned();
    let _ = writeln!(text, "<h1>What was verified</h1><dl>");
    for (name, value) in circumstances(rows) {
        let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", escaped(&value));
    }
    let _ = writeln!(text, "</dl><p>{}</p>", escaped(&table::summary(rows)));
    let head = [
        "row",
        "threads",
        "operations",
        "bound",
        "executions",
        "seconds",
        "outcomes",
        "progress",
        "verdict",
        "again",
    ];
    start_table(&mut text, "Rows", &head);
    for row in rows {
        let cells = cells(row);
        let _ = write!(text, "<tr title=\"{}\">", escaped(&row.claim));
        for (i, cell) in cells.iter().enumerate() {
            let class = match i {
                0 | 7 => "",
                8 => row.verdict.name(),
                _ => "n",
            };
            let _ = write!(text, "<td class=\"{class}\">{}", escaped(cell));
            if i == 8 && row.drifts() {
                let _ = write!(text, " <span class=\"DRIFT\">DRIFT</span>");
            }
        }
        let _ = write!(text, "<td><code>{}</code>", escaped(&row.replay));
        if let Some(failure) = &row.failure {
            let _ = write!(
                text,
                "<details><summary>what failed</summary><pre>{}</pre></details>",
                escaped(failure)
            );
        }
        let _ = writeln!(text, "</tr>");
    }
    let _ = writeln!(text, "</tbody></table>");
    for section in sections(evidence) {
        start_table(&mut text, section.title, &section.head);
        for cells in &section.rows {
            let _ = write!(text, "<tr>");
            for (i, cell) in cells.iter().enumerate() {
                let class = match i {
                    2 => cell,
                    4 => "n",
                    _ => "",
                };
                let _ = write!(text, "<td class=\"{class}\">{}", escaped(cell));
            }
            let _ = writeln!(text, "</tr>");
        }
        let _ = writeln!(text, "</tbody></table>");
    }
    if !evidence.tables.is_empty() {
        text.push_str(&pairs::html(&evidence.tables));
    }
    let _ = writeln!(text, "<h2>What a mode cannot see</h2><dl>");
    for ((checker, mode), spot) in blind_spots(rows) {
        let _ = writeln!(text, "<dt>{checker}, {mode}</dt><dd>{}</dd>", escaped(spot));
    }
    let _ = writeln!(text, "</dl>");
    text + TAIL
}

fn start_table(text: &mut String, name: &str, head: &[&str]) {
    let _ = write!(
        text,
        "<h2>{name}</h2>\n<input type=\"search\" placeholder=\"only those that contain\">"
    );
    let _ = writeln!(
        text,
        "<table><thead><tr><th>{}</tr></thead><tbody>",
        head.join("<th>")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(primitive: &str, claim: &str, more: &str) -> Row {
        let run = r#"{"selection": "", "rows": 1, "partition": "1/1", "version": "", "commit": "", "rustc": "", "machine": "", "date": ""}"#;
        let text = format!(
            r#"{{"name": "", "number": 1, "primitive": "{primitive}", "property": "exclusion", "claim": "{claim}", "checker": "loom",
            "checker_version": "", "mode": "weak", "threads": 2, "operations": 2, "bound": null, "spin_cap": null, "faults": [],
            "executions": 1, "committed": 1, "seconds": 0.0, "verdict": "EXHAUSTED", "outcomes": 1, "outcome_hash": "", "agrees": false,
            "replay": "", {more} "run": {run}}}"#
        );
        serde_json::from_str(&text).expect("a row")
    }

    #[test]
    fn what_is_said_of_one_is_not_said_of_all() {
        let of_mode = r#""blind_spot": "load buffering","#;
        let of_program = r#""blind_spot": "misses 10", "agreement": "blind-spot","#;
        let mut rows = vec![row("a", "ranges", of_mode), row("b", "ranges", of_program)];
        assert_eq!(claims(&rows), ["exclusion: ranges"]);
        rows.push(row("c", "lanes", of_mode));
        let claims = claims(&rows);
        assert_eq!(
            claims,
            ["exclusion of c: lanes", "exclusion of a, b: ranges"]
        );
        assert_eq!(blind_spots(&rows[..2])[&("loom", "weak")], "load buffering");
    }

    #[test]
    fn what_is_wrong_on_purpose_has_its_sections() {
        let fate = r#"{"defect": "no-aging", "what": "", "lock": "srl-array", "expected": [], "verdict": "WRONG MODEL",
            "model": "a|b", "executions": 7, "failure": "1 < 2", "replay": null}"#;
        let evidence = Evidence {
            defects: vec![serde_json::from_str(fate).expect("a row")],
            ..Evidence::default()
        };
        let (markdown, html) = (markdown(&[], &evidence), html(&[], &evidence));
        assert!(markdown.contains("## Seeded defects"), "{markdown}");
        let row = "| no-aging | srl-array | WRONG MODEL | a\\|b | 7 | 1 < 2 |";
        assert!(markdown.contains(row), "{markdown}");
        assert!(html.contains("<h2>Seeded defects</h2>"), "{html}");
        assert!(html.contains("<td class=\"WRONG MODEL\">WRONG MODEL<td class=\"\">a|b<td class=\"n\">7<td class=\"\">1 &lt; 2"), "{html}");
        // Nothing of what was not done.
        assert!(!markdown.contains("## Mutants") && !html.contains("<h2>Mutants"));
    }
}

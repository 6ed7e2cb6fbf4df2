//! The report: `verify.json`, a Markdown table, and one HTML page that needs no other file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use spanlock_result_file::ResultFile;

use super::evidence::{Evidence, judged};
use super::mutants::{self, Mutant};
use super::partition::Partition;
use super::{defects, matrix, pairs, table};
use crate::row::{Agreement, Circumstances, Row};

/// The files of a report, in their order.
const FILES: [&str; 5] = [
    "verify.json",
    "verify.md",
    "verify.html",
    "mutants.json",
    "defects.json",
];

/// Looks whether a report can be written to `folder`.
///
/// # Errors
/// A file of it cannot: which, and why.
pub(super) fn check(folder: &Path) -> Result<()> {
    FILES
        .iter()
        .try_for_each(|name| file(folder, name).map(drop))
}

fn file(folder: &Path, name: &str) -> Result<ResultFile> {
    let path = folder.join(name);
    ResultFile::check(&path).with_context(|| format!("--report: cannot write {}", path.display()))
}

/// Writes all three into `folder`, and `mutants.json` and `defects.json` if there are any.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(folder: &Path, rows: &[Row], evidence: &Evidence) -> Result<()> {
    let Evidence {
        mutants, defects, ..
    } = evidence;
    let texts = [
        Some(json(rows)?),
        Some(markdown(rows, evidence)),
        Some(html(rows, evidence)),
        beside(mutants, rows)?,
        beside(defects, rows)?,
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

/// The mutants or the defects; nothing if there are none.
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

/// What it is of each litmus row that deviates.
fn deviations(rows: &[Row]) -> impl Iterator<Item = (&str, &str)> {
    let deviating = |row: &&Row| row.agreement == Some(Agreement::BlindSpot);
    let deviating = rows.iter().filter(deviating);
    deviating.map(|row| (&*row.name, &*row.blind_spot))
}

/// Of each primitive the row of shuttle's that came nearest to its bound on steps, and the rows about overtaking without faults.
fn progress(rows: &[Row]) -> Vec<[String; 2]> {
    let share = |row: &Row| Some(row.longest? as f64 / row.step_bound? as f64);
    let mut nearest: Vec<&Row> = Vec::new();
    for row in rows.iter().filter(|row| share(row).is_some()) {
        match nearest.iter_mut().find(|it| it.primitive == row.primitive) {
            Some(it) if share(it) < share(row) => *it = row,
            Some(_) => {}
            None => nearest.push(row),
        }
    }
    let is_about = |row: &&Row| row.overtaken.is_some() && row.faults.is_empty();
    let overtaken = rows.iter().filter(is_about);
    let shown = nearest.into_iter().chain(overtaken);
    shown
        .map(|row| [row.name.clone(), table::progress(row)])
        .collect()
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
    let progress = progress(rows);
    if !progress.is_empty() {
        let _ = writeln!(
            text,
            "\n## Progress\n\nOf each primitive the row whose steps between two finished operations came nearest to what its bound allows; and the rows without faults that tell how many pass one that waits.\n\n| row | the most that there were |\n|---|---|"
        );
        for [name, most] in progress {
            let _ = writeln!(text, "| {name} | {most} |");
        }
    }
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
    for (name, spot) in deviations(rows) {
        let _ = writeln!(text, "- {name}: {spot}");
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
fn cells(row: &Row) -> [String; 10] {
    [
        row.name.clone(),
        row.threads.to_string(),
        row.operations.to_string(),
        table::bound(row.bound, &row.mode),
        row.faults.join(" "),
        row.executions.to_string(),
        format!("{:.2}", row.seconds),
        format!("{} ({})", row.outcomes, row.outcome_hash),
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
    for remark in evidence.remarks() {
        let _ = writeln!(text, "<p><strong>{}</strong></p>", escaped(remark));
    }
    let head = [
        "row",
        "threads",
        "operations",
        "bound",
        "faults",
        "executions",
        "seconds",
        "outcomes",
        "progress",
        "verdict",
        "again",
    ];
    let _ = writeln!(text, "<h2>Rows</h2>");
    start_table(&mut text, &head);
    for row in rows {
        let cells = cells(row);
        let _ = write!(text, "<tr title=\"{}\">", escaped(&row.claim));
        for (i, cell) in cells.iter().enumerate() {
            let class = match i {
                0 | 4 | 8 => "",
                9 => row.verdict.name(),
                _ => "n",
            };
            let _ = write!(text, "<td class=\"{class}\">{}", escaped(cell));
            if i == 9 && row.drifts() {
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
        let _ = write!(text, "<h2>{}</h2>", section.title);
        let _ = writeln!(
            text,
            "<p>{}</p>",
            escaped(&section.told).replace('\n', "<br>")
        );
        start_table(&mut text, &section.head);
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
    for (name, spot) in deviations(rows) {
        let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", escaped(spot));
    }
    let _ = writeln!(text, "</dl>");
    text + TAIL
}

fn start_table(text: &mut String, head: &[&str]) {
    let _ = write!(
        text,
        "<input type=\"search\" placeholder=\"only those that contain\">"
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
    use crate::row::Verdict;

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
        assert_eq!(deviations(&rows).collect::<Vec<_>>(), [("", "misses 10")]);
    }

    #[test]
    fn what_failed_is_told_with_its_reason() {
        let mut rows = [row(
            "a",
            "ranges",
            r#""blind_spot": "", "failure": "two hold one range","#,
        )];
        rows[0].verdict = Verdict::Failed;
        let markdown = markdown(&rows, &Evidence::default());
        assert!(markdown.contains("## What failed"), "{markdown}");
        assert!(
            markdown.contains("FAILED: a/exclusion: ranges"),
            "{markdown}"
        );
        assert!(
            markdown.contains("  two hold one range\n  again: "),
            "{markdown}"
        );
    }

    #[test]
    fn what_came_nearest_to_its_bound_is_told() {
        let steps =
            |n, bound| format!(r#""blind_spot": "", "longest": {n}, "step_bound": {bound},"#);
        let rows = [
            row("a", "", &steps(3, 10)),
            row("a", "", &steps(4, 100)),
            row("b", "", &steps(1, 10)),
            row(
                "b",
                "",
                r#""blind_spot": "", "overtakes": 1, "overtaken": 0,"#,
            ),
        ];
        let told: Vec<_> = progress(&rows).into_iter().map(|[_, most]| most).collect();
        assert_eq!(told, ["3 of 10 steps", "1 of 10 steps", "0 of 1 passes"]);
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
        assert!(
            html.contains("<h2>Seeded defects</h2><p>1 seeded defects: 0 KILLED"),
            "{html}"
        );
        assert!(html.contains("<td class=\"WRONG MODEL\">WRONG MODEL<td class=\"\">a|b<td class=\"n\">7<td class=\"\">1 &lt; 2"), "{html}");
        // Nothing of what was not done.
        assert!(!markdown.contains("## Mutants") && !html.contains("<h2>Mutants"));
    }
}

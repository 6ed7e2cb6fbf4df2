//! The report: `verify.json`, a page in Markdown, and one in HTML that needs no other file.

pub(super) mod html;
mod markdown;
mod matrix;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::evidence::{Evidence, judged};
use super::output::Output;
use super::partition::Partition;
use super::{bugs, mutants, table};
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
    let Evidence {
        mutants, bugs, ..
    } = evidence;
    let texts = [
        Some(json(rows)?),
        Some(markdown::page(rows, evidence)),
        Some(html::page(rows, evidence)),
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

/// Returns the litmus rows that deviate, and how.
fn deviations(rows: &[Row]) -> impl Iterator<Item = (&str, &str)> {
    let deviating = |row: &&Row| row.agreement == Some(Agreement::BlindSpot);
    let deviating = rows.iter().filter(deviating);
    deviating.map(|row| (&*row.name, &*row.blind_spot))
}

/// Returns for each primitive shuttle's row that came nearest to its bound on steps, and the rows
/// about overtaking without faults.
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

/// Returns what each property claims, with the primitives where its claims differ.
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

/// A table of mutants or bugs: the third column is the verdict, the fifth a number.
struct Section {
    title: &'static str,
    told: String,
    head: [&'static str; 6],
    rows: Vec<[String; 6]>,
}

fn sections(evidence: &Evidence) -> impl Iterator<Item = Section> {
    let Evidence { mutants, bugs, .. } = evidence;
    let mutants = Section {
        title: "Mutants",
        told: mutants::told(mutants),
        head: mutants::HEAD,
        rows: mutants.iter().map(mutants::cells).collect(),
    };
    let bugs = Section {
        title: "Injected bugs",
        told: bugs::told(bugs),
        head: bugs::HEAD,
        rows: bugs.iter().map(bugs::cells).collect(),
    };
    let all = [mutants, bugs].into_iter();
    all.filter(|section| !section.rows.is_empty())
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
    fn a_claim_names_its_primitives_where_claims_differ() {
        let of_mode = r#""blind_spot": "load buffering","#;
        let of_program = r#""blind_spot": "misses 10", "agreement": "blind-spot","#;
        let mut rows = vec![row("a", "ranges", of_mode), row("b", "ranges", of_program)];
        assert_eq!(claims(&rows), ["exclusion: ranges"]);
        rows.push(row("c", "lanes", of_mode));
        let expected = ["exclusion of c: lanes", "exclusion of a, b: ranges"];
        assert_eq!(claims(&rows), expected);
        assert_eq!(blind_spots(&rows[..2])[&("loom", "weak")], "load buffering");
        let deviating: Vec<_> = deviations(&rows).collect();
        assert_eq!(deviating, [("b/exclusion", "misses 10")]);
    }

    #[test]
    fn a_failure_is_shown_with_its_reason() {
        let failed = r#""blind_spot": "", "failure": "two hold one range","#;
        let mut rows = [row("a", "ranges", failed)];
        rows[0].verdict = Verdict::Failed;
        let page = markdown::page(&rows, &Evidence::default());
        for words in ["## What failed", "FAILED: a/exclusion: ranges", "  two hold one range\n  again"] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }

    #[test]
    fn the_row_nearest_to_its_bound_is_shown() {
        let steps =
            |n, bound| format!(r#""blind_spot": "", "longest": {n}, "step_bound": {bound},"#);
        let overtakes = r#""blind_spot": "", "overtakes": 1, "overtaken": 0,"#;
        let rows = [
            row("a", "", &steps(3, 10)),
            row("a", "", &steps(4, 100)),
            row("b", "", &steps(1, 10)),
            row("b", "", overtakes),
        ];
        let told: Vec<_> = progress(&rows).into_iter().map(|[_, most]| most).collect();
        assert_eq!(told, ["3 of 10 steps", "1 of 10 steps", "0 of 1 passes"]);
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
        let markdown = markdown::page(&[], &evidence);
        let html = html::page(&[], &evidence);
        assert!(markdown.contains("| no-aging | word | WRONG MODEL | a\\|b | 7 | 1 < 2 |"));
        assert!(html.contains("<h2>Injected bugs</h2><p>1 injected bugs: 0 KILLED"));
        assert!(html.contains("<td class=\"n\">7<td class=\"\">1 &lt; 2"), "{html}");
        assert!(!markdown.contains("## Mutants") && !html.contains("<h2>Mutants"));
    }
}

//! The report: one self-contained HTML page.

use std::fmt::Write;

use anyhow::Result;

use super::machine::{Machine, now};
use super::text::{COLUMNS, TARGET_COLUMNS, cells, losses, target_cells};
use super::{VERSIONS, plots};
use crate::compare::{Outcome, ROUNDS, Row};
use crate::load::Others;
use crate::locks;
use crate::workloads;

const STYLE: &str = "
body { font: 15px/1.5 sans-serif; color: #222; background: #fff; max-width: 62em; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15em .8em; border-bottom: 1px solid #ddd; text-align: right; }
th { border-bottom: 2px solid #888; }
th:nth-child(-n+2), td:nth-child(-n+2), .facts td, .facts th { text-align: left; }
.facts th { border-bottom: 1px solid #ddd; font-weight: normal; color: #666; vertical-align: top; }
tr.loss td:last-child { color: #b00020; font-weight: bold; }
tr.first td { border-top: 2px solid #bbb; }
.warning { color: #b00020; font-weight: bold; }
.plots { display: flex; flex-wrap: wrap; gap: 1em; }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .4em 0 1.2em; }
code { background: #f4f4f4; padding: 0 .3em; }
";

/// Returns the page. `command` is the command line that produced it.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(outcome: &Outcome, command: &str) -> Result<String> {
    let imported = outcome.imported.as_deref().unwrap_or("not run");
    let own = [
        ("volume", outcome.volume.clone()),
        ("import", imported.to_owned()),
    ];
    let mut page = begun("Spanlock: locks compared", command, outcome.others, &own)?;
    reading(&mut page, outcome)?;
    let of_target = outcome.targets.iter().map(|it| {
        let class = if it.met == Some(false) { "loss" } else { "" };
        (class.to_owned(), target_cells(it))
    });
    html_table(&mut page, "Targets", TARGET_COLUMNS, of_target)?;
    table(&mut page, &outcome.rows)?;
    all_plots(&mut page, &outcome.rows)?;
    page.push_str(END);
    Ok(page)
}

/// The end of every page.
pub(super) const END: &str = "</body>\n</html>\n";

/// Returns the start of a page: when, where and how the run was made, including its `own` facts.
pub(super) fn begun(
    title: &str,
    command: &str,
    others: Others,
    own: &[(&str, String)],
) -> Result<String> {
    let mut all: Vec<(&str, String)> = facts(command);
    all.push(("meanwhile", others.to_string()));
    all.extend_from_slice(own);
    let mut page = head(title, &all)?;
    if cfg!(debug_assertions) {
        page.push_str(
            "<p class=\"warning\">This build is not optimized, so its figures are meaningless.</p>\n",
        );
    }
    if others.too_much() {
        let told = escaped(&others.to_string());
        writeln!(page, "<p class=\"warning\">{told}.</p>")?;
    }
    Ok(page)
}

/// Returns where, when and how a run was made.
pub(super) fn facts(command: &str) -> Vec<(&'static str, String)> {
    let machine = Machine::this();
    let processor = format!("{}, {} cores", machine.processor, machine.cores);
    vec![
        ("processor", processor),
        ("system", machine.kernel),
        ("date", now()),
        ("versions", VERSIONS.to_owned()),
        ("command", command.to_owned()),
    ]
}

/// Returns the start of a page up to the table of facts.
pub(super) fn head(title: &str, facts: &[(&str, String)]) -> Result<String> {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n<table class=\"facts\">\n"
    );
    for (what, value) in facts {
        writeln!(page, "<tr><th>{what}</th><td>{}</td></tr>", escaped(value))?;
    }
    page.push_str("</table>\n");
    Ok(page)
}

/// Explains the figures.
fn reading(page: &mut String, outcome: &Outcome) -> Result<()> {
    writeln!(
        page,
        "<p>Every figure is the median of rounds ({ROUNDS} on the shared file, more for a short import). The locks take \
         turns, so that other load on the machine affects all locks equally. Nothing else should run during the measurement. \
         Each cell is measured for {} s in total. Latencies are those of sampled operations of all rounds; the longest are \
         caused by the scheduler. A ratio compares operations per second with the baseline: the fastest whole-file lock in the same \
         workload, with the same number of threads, in the same run; below 1 the lock is slower. Differences of a few \
         hundredths are noise.</p>\n\
         <p>{}</p>",
        outcome.seconds,
        escaped(&losses(&outcome.rows))
    )?;
    Ok(())
}

fn table(page: &mut String, rows: &[Row]) -> Result<()> {
    page.push_str("<h2>Figures</h2>\n<table>\n<tr>");
    for column in COLUMNS {
        write!(page, "<th>{column}</th>")?;
    }
    page.push_str("</tr>\n");
    let mut last = None;
    for row in rows {
        let mut classes = Vec::new();
        if last.is_some_and(|it| it != (row.workload, row.threads)) {
            classes.push("first");
        }
        if row.is_loss() {
            classes.push("loss");
        }
        last = Some((row.workload, row.threads));
        write!(page, "<tr class=\"{}\">", classes.join(" "))?;
        for cell in cells(row) {
            write!(page, "<td>{}</td>", escaped(&cell))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    Ok(())
}

fn all_plots(page: &mut String, rows: &[Row]) -> Result<()> {
    let locks: Vec<_> = locks::contestants()
        .into_iter()
        .filter(|it| rows.iter().any(|row| row.lock == it.name))
        .collect();
    page.push_str("<h2>Locks</h2>\n<ul>\n");
    for (place, it) in locks.iter().enumerate() {
        let (name, about) = (it.name, it.about);
        let color = plots::html_color(place);
        writeln!(
            page,
            "<li><span class=\"key\" style=\"background: {color}\"></span><code>{name}</code>: {}</li>",
            escaped(about)
        )?;
    }
    page.push_str("</ul>\n");
    let names: Vec<_> = locks.iter().map(|it| it.name).collect();
    for (workload, about) in workloads::all() {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.workload == workload).collect();
        if rows.is_empty() {
            continue;
        }
        writeln!(
            page,
            "<h2>{workload}: {}</h2>\n<div class=\"plots\">",
            escaped(about)
        )?;
        page.push_str(&plots::throughput(&rows, &names)?);
        page.push_str(&plots::ratios(&rows, &names)?.unwrap_or_default());
        page.push_str("</div>\n");
    }
    Ok(())
}

/// Appends a table with a title. Each row has a CSS class and its cells.
pub(super) fn html_table<C: AsRef<str>, R: IntoIterator<Item = String>>(
    page: &mut String,
    title: &str,
    columns: impl IntoIterator<Item = C>,
    rows: impl Iterator<Item = (String, R)>,
) -> Result<()> {
    writeln!(page, "<h2>{title}</h2>\n<table>\n<tr>")?;
    for column in columns {
        write!(page, "<th>{}</th>", column.as_ref())?;
    }
    page.push_str("</tr>\n");
    for (class, cells) in rows {
        write!(page, "<tr class=\"{}\">", class.trim_end())?;
        for cell in cells {
            write!(page, "<td>{}</td>", escaped(&cell))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    Ok(())
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

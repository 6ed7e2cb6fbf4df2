//! The report in HTML.

use std::fmt::Write;

use super::{blind_spots, circumstances, deviations, sections};
use crate::driver::evidence::Evidence;
use crate::driver::{pairs, table};
use crate::rows::row::Row;

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>cargo verify: what was verified</title>
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

/// Returns the page.
pub(super) fn page(rows: &[Row], evidence: &Evidence) -> String {
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

/// Returns a row's cells, without its command.
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

/// Returns text for HTML.
pub(in crate::driver) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}


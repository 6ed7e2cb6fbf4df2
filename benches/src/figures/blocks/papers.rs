//! Blocks about the figures of papers.

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::input::{Options, Source};
use crate::figures::table::{Table, code, count, ratio};
use crate::papers::args::is_figure;

/// A row of `papers`.
#[derive(Deserialize)]
struct Row {
    paper: String,
    figure: String,
    row: String,
    to: Option<String>,
    subject: Option<String>,
    here: String,
    published: Option<f64>,
    ours: Option<f64>,
    ratio: Option<f64>,
    winner: Option<String>,
}

/// The papers' numbers beside ours. Rows without a number of ours are left out.
pub(super) fn papers(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let mut rows: Vec<Row> = source.rows("papers")?;
    rows.retain(|it| it.ours.is_some());
    let papers = options.choose("papers", rows.iter().map(|it| it.paper.clone()))?;
    rows.retain(|it| papers.contains(&it.paper));
    if let Some(figures) = options.values("figures") {
        for wanted in figures {
            ensure!(
                rows.iter().any(|it| is_figure(wanted, &it.figure)),
                "`figures`: the results have no `{wanted}`"
            );
        }
        rows.retain(|it| figures.iter().any(|wanted| is_figure(wanted, &it.figure)));
    }
    let mut table = Table::new([
        "figure",
        "what",
        "to",
        "measured",
        "how",
        "paper",
        "ours",
        "ours/paper",
        "winner",
    ]);
    let dash = || "–".to_owned();
    let number = |it: f64| if it < 1000.0 { ratio(it) } else { count(it) };
    for row in &rows {
        let name = |it: &Option<String>| it.as_deref().map_or_else(dash, code);
        table.push([
            format!("{}, {}", row.paper, row.figure),
            row.row.clone(),
            name(&row.to),
            name(&row.subject),
            row.here.clone(),
            row.published.map_or_else(dash, number),
            row.ours.map_or_else(dash, number),
            row.ratio.map_or_else(dash, ratio),
            row.winner.clone().unwrap_or_else(dash),
        ]);
    }
    Ok(table)
}

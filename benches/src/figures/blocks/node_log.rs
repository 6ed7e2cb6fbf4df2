//! Blocks about node logging.

use anyhow::Result;
use serde::Deserialize;

use super::input::{Options, Source};
use crate::figures::table::{Grid, Table, code, count, ratio, time};
use crate::measure::thread_count;

/// A row of `node-log`.
#[derive(Deserialize)]
struct Row {
    case: String,
    system: String,
    threads: usize,
    per_s: f64,
    ratio: Option<f64>,
    write: Option<Times>,
    fsync: Option<Times>,
    checkpoint: Option<Times>,
    stall_ns: Option<f64>,
    bytes_per_fsync: Option<f64>,
}

#[derive(Deserialize)]
struct Times {
    mean_ns: f64,
    p99_ns: f64,
    max_ns: f64,
}

/// Returns the rows of the chosen cases and systems.
fn chosen(options: &Options<'_>, source: &Source<'_>) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = source.rows("node-log")?;
    let cases = options.choose("cases", rows.iter().map(|it| it.case.clone()))?;
    rows.retain(|it| cases.contains(&it.case));
    let systems = options.choose("systems", rows.iter().map(|it| it.system.clone()))?;
    rows.retain(|it| systems.contains(&it.system));
    Ok(rows)
}

/// Operations per second, with the ratio to the baseline.
pub(super) fn node_log(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let rows = chosen(options, source)?;
    let columns = options.choose("threads", rows.iter().map(|it| it.threads.to_string()))?;
    let mut grid = Grid::new(&["case", "system"], &columns);
    for row in &rows {
        let to = row.ratio.map(|it| format!(" ({})", ratio(it)));
        let cell = count(row.per_s) + &to.unwrap_or_default();
        let line = vec![code(&row.case), code(&row.system)];
        grid.set(line, &row.threads.to_string(), cell);
    }
    Ok(grid.table(|it| thread_count(it.parse().unwrap_or_default())))
}

/// The times of writes, fsyncs and checkpoints, the longest stall by a checkpoint, and the bytes
/// that an fsync makes durable.
pub(super) fn times(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let mut rows = chosen(options, source)?;
    let threads = options.choose("threads", rows.iter().map(|it| it.threads.to_string()))?;
    rows.retain(|it| threads.contains(&it.threads.to_string()));
    let mut table = Table::new([
        "case",
        "system",
        "threads",
        "write: average, p99, max",
        "fsync: average, p99, max",
        "checkpoint: average, p99, max",
        "longest stall",
        "bytes for each fsync",
    ]);
    let dash = || "–".to_owned();
    let told = |times: &Option<Times>| match times {
        None => dash(),
        Some(it) => [it.mean_ns, it.p99_ns, it.max_ns].map(time).join(", "),
    };
    for row in &rows {
        table.push([
            code(&row.case),
            code(&row.system),
            row.threads.to_string(),
            told(&row.write),
            told(&row.fsync),
            told(&row.checkpoint),
            row.stall_ns.map_or_else(dash, time),
            row.bytes_per_fsync.map_or_else(dash, count),
        ]);
    }
    Ok(table)
}

//! Blocks with a column for each lock.

use anyhow::Result;
use serde::Deserialize;

use super::input::{Options, Source};
use crate::figures::table::{Grid, Table, code, ratio, thousands, time};

/// A row of `compare`.
#[derive(Deserialize)]
pub(super) struct Shared {
    pub workload: String,
    pub lock: String,
    pub threads: usize,
    pub ops_per_s: f64,
    pub ours: bool,
    pub baseline: Option<String>,
    pub ratio: Option<f64>,
}

/// A row of `micro`.
#[derive(Deserialize)]
pub(super) struct Alone {
    pub case: String,
    pub lock: String,
    pub ns: f64,
    pub ratio: Option<f64>,
}

/// A row of `contention`.
#[derive(Deserialize)]
pub(super) struct Contended {
    pub name: String,
    pub section_ns: f64,
    pub overlap: u32,
    pub reads: u32,
    pub threads: usize,
    pub lock: String,
    pub ours: bool,
    pub ops_per_s: f64,
    pub baseline: Option<String>,
    pub ratio: Option<f64>,
}

/// Thousands of operations per second, with the ratio to the fastest whole-file lock, which is
/// bold.
pub(super) fn shared_file(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let rows: Vec<Shared> = source.rows("compare")?;
    let locks = options.choose("locks", rows.iter().map(|it| it.lock.clone()))?;
    let workloads = options.choose("workloads", rows.iter().map(|it| it.workload.clone()))?;
    let threads = options.choose("threads", rows.iter().map(|it| it.threads.to_string()))?;
    let mut grid = Grid::new(&["workload", "threads"], &locks);
    for row in &rows {
        let of = row.threads.to_string();
        if workloads.contains(&row.workload) && threads.contains(&of) {
            let cell = throughput(row.ops_per_s, &row.lock, row.baseline.as_deref(), row.ratio);
            grid.set(vec![code(&row.workload), of], &row.lock, cell);
        }
    }
    Ok(grid.table(code))
}

/// Times of lock and unlock, with the ratio to parking_lot's.
pub(super) fn micro(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let rows: Vec<Alone> = source.rows("micro")?;
    let locks = options.choose("locks", rows.iter().map(|it| it.lock.clone()))?;
    let cases = options.choose("cases", rows.iter().map(|it| it.case.clone()))?;
    let mut grid = Grid::new(&["case"], &locks);
    for row in rows.iter().filter(|it| cases.contains(&it.case)) {
        let times = row.ratio.map(|it| format!(" ({})", ratio(it)));
        let cell = time(row.ns) + &times.unwrap_or_default();
        grid.set(vec![code(&row.case)], &row.lock, cell);
    }
    Ok(grid.table(code))
}

/// Thousands of operations per second under contention, like [`shared_file`].
pub(super) fn contention(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let rows: Vec<Contended> = source.rows("contention")?;
    let locks = options.choose("locks", rows.iter().map(|it| it.lock.clone()))?;
    let mut chosen = Vec::new();
    for (nth, key) in ["sections", "overlaps", "reads", "threads"]
        .into_iter()
        .enumerate()
    {
        let all = rows.iter().map(|it| it.place()[nth].clone());
        chosen.push(options.choose(key, all)?);
    }
    let mut grid = Grid::new(&["section", "overlap", "reads", "threads"], &locks);
    for row in &rows {
        let place = row.place();
        if place.iter().zip(&chosen).all(|(it, all)| all.contains(it)) {
            let cell = throughput(row.ops_per_s, &row.lock, row.baseline.as_deref(), row.ratio);
            let [section, overlap, reads, threads] = place;
            let section = section.replace("us", " µs");
            let line = vec![section, overlap + " %", reads + " %", threads];
            grid.set(line, &row.lock, cell);
        }
    }
    Ok(grid.table(code))
}

impl Contended {
    /// Returns the case, as the options name it: section, overlap, reads and threads.
    fn place(&self) -> [String; 4] {
        let section = format!("{}us", self.section_ns / 1e3);
        let [overlap, reads] = [self.overlap, self.reads].map(|it| it.to_string());
        [section, overlap, reads, self.threads.to_string()]
    }
}

fn throughput(per_second: f64, lock: &str, baseline: Option<&str>, times: Option<f64>) -> String {
    let number = thousands(per_second);
    match times {
        _ if baseline == Some(lock) => format!("**{number}**"),
        Some(times) => format!("{number} ({})", ratio(times)),
        None => number,
    }
}

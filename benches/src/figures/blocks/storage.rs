//! Blocks about commits, volumes and failures.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::input::{Options, Source};
use crate::figures::table::{Grid, Table, code, count, ratio, thousands, time};
use crate::measure::thread_count;

/// A row of `journal`.
#[derive(Deserialize)]
pub(super) struct Commits {
    pub workload: String,
    pub contestant: String,
    /// The crate's name and version, if it is of another project.
    pub version: Option<String>,
    pub device: String,
    pub threads: usize,
    pub think: Option<f64>,
    pub commits_per_s: f64,
    pub commits_per_flush: Option<f64>,
}

/// A row of `file-core`.
#[derive(Deserialize)]
struct Operation {
    case: String,
    lock: String,
    threads: usize,
    ops_per_s: f64,
    to_limit: Option<f64>,
    flushes: u64,
    fences: u64,
    most_flushes: u64,
    most_fences: u64,
}

impl Operation {
    /// Returns whether the row is of the bare work, without a file core.
    fn is_bare(&self) -> bool {
        ["limit", "copy"].contains(&&*self.lock)
    }
}

/// A row of `recovery`.
#[derive(Deserialize)]
struct Recovery {
    case: String,
    files: u64,
    threads: usize,
    seconds: f64,
    files_per_s: f64,
    to_one_thread: Option<f64>,
    peak_bytes: f64,
    peak_bytes_per_file: f64,
}

/// A row of `objects`.
#[derive(Deserialize)]
struct Objects {
    case: String,
    layout: String,
    mode: Option<String>,
    device: String,
    threads: usize,
    per_s: f64,
    mib_per_s: Option<f64>,
    ratio: Option<f64>,
    to_raw: Option<f64>,
}

/// A row of `failures`.
#[derive(Deserialize)]
struct Failures {
    contestant: String,
    version: String,
    runs: u64,
    failed: u64,
    told: u64,
    false_acknowledgements: u64,
    false_runs: u64,
    foreign: u64,
    hangs: u64,
    panics: u64,
    cannot_reopen: u64,
}

/// Small commits per second on one device, with commits per flush.
pub(super) fn commits(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let mut rows: Vec<Commits> = source.rows("journal")?;
    rows.retain(|it| it.workload == "commit");
    let device = options.values("device").context("`device` is missing")?;
    options.choose("device", rows.iter().map(|it| it.device.clone()))?;
    rows.retain(|it| device == [&*it.device]);
    let think = options.one("think", "0")?;
    let think_of = |it: &Commits| it.think.unwrap_or_default().to_string();
    options.choose("think", rows.iter().map(think_of))?;
    rows.retain(|it| think_of(it) == think);
    let columns = options.choose("threads", rows.iter().map(|it| it.threads.to_string()))?;
    let all = rows.iter().map(|it| it.contestant.clone());
    let contestants = options.choose("contestants", all)?;
    let mut grid = Grid::new(&["contestant"], &columns);
    for row in rows
        .iter()
        .filter(|it| contestants.contains(&it.contestant))
    {
        let per_flush = row.commits_per_flush.map(|it| format!(" ({it:.1})"));
        let cell = count(row.commits_per_s) + &per_flush.unwrap_or_default();
        let name = match &row.version {
            Some(version) => version.clone(),
            None => code(&row.contestant),
        };
        grid.set(vec![name], &row.threads.to_string(), cell);
    }
    Ok(grid.table(|it| thread_count(it.parse().unwrap_or_default())))
}

/// Thousands of overwrites per second, with the ratio to the limit.
pub(super) fn overwrites(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let mut rows: Vec<Operation> = source.rows("file-core")?;
    rows.retain(|it| it.to_limit.is_some());
    let locks = options.choose("locks", rows.iter().map(|it| it.lock.clone()))?;
    let cases = options.choose("cases", rows.iter().map(|it| it.case.clone()))?;
    let threads = options.choose("threads", rows.iter().map(|it| it.threads.to_string()))?;
    let mut grid = Grid::new(&["case", "threads"], &locks);
    for row in &rows {
        let of = row.threads.to_string();
        if cases.contains(&row.case) && threads.contains(&of) {
            let to_limit = row.to_limit.filter(|_| row.lock != "limit");
            let to_limit = to_limit.map(|it| format!(" ({})", ratio(it)));
            let cell = thousands(row.ops_per_s) + &to_limit.unwrap_or_default();
            grid.set(vec![code(&row.case), of], &row.lock, cell);
        }
    }
    Ok(grid.table(code))
}

/// Thousands of operations per second of one thread, with the flushes and fences of a usual
/// operation and of the most expensive one.
pub(super) fn operations(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let mut rows: Vec<Operation> = source.rows("file-core")?;
    rows.retain(|it| it.threads == 1 && !it.is_bare());
    let mut columns = options.choose("locks", rows.iter().map(|it| it.lock.clone()))?;
    columns.extend(["flushes", "fences"].map(str::to_owned));
    let cases = options.choose("cases", rows.iter().map(|it| it.case.clone()))?;
    let mut grid = Grid::new(&["case"], &columns);
    for row in rows.iter().filter(|it| cases.contains(&it.case)) {
        let line = || vec![code(&row.case)];
        let exact = |usual, most| format!("{usual} ({most})");
        grid.set(line(), &row.lock, thousands(row.ops_per_s));
        grid.set(line(), "flushes", exact(row.flushes, row.most_flushes));
        grid.set(line(), "fences", exact(row.fences, row.most_fences));
    }
    Ok(grid.table(|it| match it {
        "flushes" | "fences" => it.to_owned(),
        lock => code(lock),
    }))
}

/// The time and the heap of recoveries.
pub(super) fn recovery(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let rows: Vec<Recovery> = source.rows("recovery")?;
    let cases = options.choose("cases", rows.iter().map(|it| it.case.clone()))?;
    let mut table = Table::new([
        "case",
        "files",
        "threads",
        "time",
        "files/s",
        "speed relative to one thread",
        "peak heap",
        "bytes of heap for each file",
    ]);
    for row in rows.iter().filter(|it| cases.contains(&it.case)) {
        table.push([
            code(&row.case),
            count(row.files as f64),
            row.threads.to_string(),
            time(row.seconds * 1e9),
            count(row.files_per_s),
            row.to_one_thread.map_or("–".to_owned(), ratio),
            format!("{:.1} MB", row.peak_bytes / 1e6),
            count(row.peak_bytes_per_file),
        ]);
    }
    Ok(table)
}

/// Operations of the object store per second on one device, with the ratio to durable files; or MiB
/// per second, with the ratio to raw bytes.
pub(super) fn objects(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let mut rows: Vec<Objects> = source.rows("objects")?;
    let device = options.values("device").context("`device` is missing")?;
    options.choose("device", rows.iter().map(|it| it.device.clone()))?;
    rows.retain(|it| device == [&*it.device]);
    let cases = options.choose("cases", rows.iter().map(|it| it.case.clone()))?;
    let layouts = options.choose("layouts", rows.iter().map(|it| it.layout.clone()))?;
    rows.retain(|it| cases.contains(&it.case) && layouts.contains(&it.layout));
    let columns = options.choose("threads", rows.iter().map(|it| it.threads.to_string()))?;
    let mut grid = Grid::new(&["case", "layout", "mode"], &columns);
    for row in &rows {
        let to = row.to_raw.or(row.ratio);
        let to = to.map(|it| format!(" ({})", ratio(it)));
        let cell = count(row.mib_per_s.unwrap_or(row.per_s)) + &to.unwrap_or_default();
        let mode = row.mode.as_deref().map_or_else(|| "–".to_owned(), code);
        let line = vec![code(&row.case), code(&row.layout), mode];
        grid.set(line, &row.threads.to_string(), cell);
    }
    Ok(grid.table(|it| thread_count(it.parse().unwrap_or_default())))
}

/// The behaviour of each contestant when writes and flushes fail.
pub(super) fn failures(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let rows: Vec<Failures> = source.rows("failures")?;
    let all = rows.iter().map(|it| it.contestant.clone());
    let contestants = options.choose("contestants", all)?;
    let mut table = Table::new([
        "contestant",
        "version",
        "runs",
        "with a failure",
        "with an error told",
        "false acknowledgements (runs)",
        "foreign records",
        "runs that hang",
        "that panic",
        "that cannot reopen",
    ]);
    for row in rows
        .iter()
        .filter(|it| contestants.contains(&it.contestant))
    {
        let acks = format!("{} ({})", row.false_acknowledgements, row.false_runs);
        let [runs, failed, told] = [row.runs, row.failed, row.told].map(|it| it.to_string());
        let last = [row.foreign, row.hangs, row.panics, row.cannot_reopen];
        let [foreign, hangs, panics, cannot_reopen] = last.map(|it| it.to_string());
        table.push([
            code(&row.contestant),
            row.version.clone(),
            runs,
            failed,
            told,
            acks,
            foreign,
            hangs,
            panics,
            cannot_reopen,
        ]);
    }
    Ok(table)
}

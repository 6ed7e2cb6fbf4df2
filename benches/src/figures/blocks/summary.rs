//! Blocks that summarize several comparisons.

use anyhow::{Context, Result, bail};

use super::input::{Options, Source};
use super::locks::{Alone, Contended, Shared};
use super::storage::Commits;
use crate::figures::table::{Table, code, count, ratio, time};
use crate::measure::thread_count;

/// Five figures: what locks and commits gain beside what programs use today, and where they lose.
pub(super) fn headline(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let lock = options.one("lock", "srl-array")?;
    let device = options.one("device", "modelled-1ms")?;
    let alone: Vec<Alone> = source.rows("micro")?;
    let page = "lock and unlock one page of 4 KiB, without contention";
    let same = "two threads that lock the same page: time for each acquisition";
    let wide = "lock and unlock 256 pages";
    let mut table = Table::new(["", "Spanlock", "the alternative", "Spanlock is"]);
    table.push(against_peer(&alone, page, "write/1-segment", lock)?);
    table.push(writers(&source.rows("compare")?, lock)?);
    table.push(against_peer(&alone, same, "contended/2-threads", lock)?);
    table.push(against_peer(&alone, wide, "write/256-segments", lock)?);
    table.push(durable(&source.rows("journal")?, device)?);
    Ok(table)
}

/// A case of a lock beside parking_lot's.
fn against_peer(rows: &[Alone], what: &str, case: &str, lock: &str) -> Result<[String; 4]> {
    let ns = |lock: &str| {
        let mut all = rows.iter();
        let found = all.find(|it| it.case == case && it.lock == lock);
        let found = found.with_context(|| format!("micro.json has no row {case} of `{lock}`"));
        found.map(|it| it.ns)
    };
    let peer = "parking_lot";
    let (own, other) = (ns(lock)?, ns(peer)?);
    let cell = |ns, lock| format!("{} ({})", time(ns), code(lock));
    Ok([
        what.to_owned(),
        cell(own, lock),
        cell(other, peer),
        speed(other / own),
    ])
}

/// Two writers of different pages, beside the fastest whole-file lock.
fn writers(rows: &[Shared], lock: &str) -> Result<[String; 4]> {
    let find = |lock: &str| {
        let place = |it: &&Shared| it.workload == "dwom" && it.threads == 2 && it.lock == lock;
        let found = rows.iter().find(place);
        found.with_context(|| format!("compare.json has no row dwom of `{lock}` with 2 threads"))
    };
    let own = find(lock)?;
    let baseline = own.baseline.as_deref();
    let baseline = find(baseline.context("compare.json has no whole-file lock")?)?;
    let cell = |it: &Shared| format!("{}/s ({})", count(it.ops_per_s), code(&it.lock));
    Ok([
        "two threads that overwrite different pages of one file".to_owned(),
        cell(own),
        cell(baseline),
        speed(own.ops_per_s / baseline.ops_per_s),
    ])
}

/// Durable commits of eight threads, beside the fastest log of another project.
fn durable(rows: &[Commits], device: &str) -> Result<[String; 4]> {
    let of_load = rows
        .iter()
        .filter(|it| (&*it.workload, &*it.device) == ("commit", device))
        .filter(|it| it.threads == 8 && it.think == Some(0.0));
    let ours = of_load
        .clone()
        .find(|it| it.contestant == "compact-rendezvous");
    let others = of_load.filter(|it| it.version.is_some());
    let best = others.max_by(|a, b| a.commits_per_s.total_cmp(&b.commits_per_s));
    let Some((ours, best)) = ours.zip(best) else {
        bail!(
            "journal.json lacks commits of 8 threads on `{device}` without think time, of the compact log or of others"
        );
    };
    let cell = |it: &Commits| format!("{}/s ({})", count(it.commits_per_s), code(&it.contestant));
    Ok([
        format!(
            "eight threads that commit 256 bytes durably ({})",
            code(device)
        ),
        cell(ours),
        cell(best),
        speed(ours.commits_per_s / best.commits_per_s),
    ])
}

/// Returns how fast something is, given its speed as a multiple of the alternative's.
fn speed(times: f64) -> String {
    match times >= 1.0 {
        true => format!("{} times as fast", ratio(times)),
        false => format!("**slower**: {} times as long", ratio(1.0 / times)),
    }
}

/// A comparison of one of our locks with the fastest whole-file lock, or with parking_lot.
struct Compared {
    lock: String,
    place: String,
    /// Our speed, as a multiple of the other lock's.
    speed: f64,
}

/// For each lock, how many ratios are losses, and the worst of them.
pub(super) fn losses(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let all = ["micro", "compare", "contention"].map(str::to_owned);
    let of = options.choose("of", all.into_iter())?;
    let mut columns = vec!["lock".to_owned()];
    columns.extend(of.iter().map(|it| code(it)));
    let mut table = Table::new(columns);
    let mut compared = Vec::new();
    for name in &of {
        compared.push(compare(source, name)?);
    }
    let mut locks: Vec<&String> = Vec::new();
    for one in compared.iter().flatten() {
        if !locks.contains(&&one.lock) {
            locks.push(&one.lock);
        }
    }
    for lock in locks {
        let cells = compared.iter().map(|all| {
            let of_lock: Vec<_> = all.iter().filter(|it| it.lock == *lock).collect();
            let lost = of_lock.iter().filter(|it| it.speed < 1.0);
            let worst = lost.clone().min_by(|a, b| a.speed.total_cmp(&b.speed));
            match worst {
                None => format!("none of {}", of_lock.len()),
                Some(worst) => format!(
                    "{} of {}, at worst {} ({})",
                    lost.count(),
                    of_lock.len(),
                    ratio(worst.speed),
                    worst.place
                ),
            }
        });
        table.push([code(lock)].into_iter().chain(cells));
    }
    Ok(table)
}

fn compare(source: &Source<'_>, name: &str) -> Result<Vec<Compared>> {
    let of = |lock: String, place, speed: Option<f64>| Some((lock, place, speed?));
    let all: Vec<_> = match name {
        "micro" => {
            let rows: Vec<Alone> = source.rows(name)?;
            let ours = crate::locks::all();
            let rows = rows.into_iter();
            let rows = rows.filter(|row| ours.iter().any(|it| it.0 == row.lock));
            rows.filter_map(|it| of(it.lock, code(&it.case), it.ratio.map(|it| 1.0 / it)))
                .collect()
        }
        "compare" => {
            let rows: Vec<Shared> = source.rows(name)?;
            let rows = rows.into_iter().filter(|it| it.ours && !it.is_baseline());
            rows.filter_map(|it| {
                let place = format!("{}, {}", code(&it.workload), thread_count(it.threads));
                of(it.lock, place, it.ratio)
            })
            .collect()
        }
        _ => {
            let rows: Vec<Contended> = source.rows(name)?;
            let rows = rows.into_iter().filter(|it| it.ours && !it.is_baseline());
            rows.filter_map(|it| of(it.lock, code(&it.name), it.ratio))
                .collect()
        }
    };
    let all = all.into_iter();
    Ok(all
        .map(|(lock, place, speed)| Compared { lock, place, speed })
        .collect())
}

impl Shared {
    fn is_baseline(&self) -> bool {
        self.baseline.as_ref() == Some(&self.lock)
    }
}

impl Contended {
    fn is_baseline(&self) -> bool {
        self.baseline.as_ref() == Some(&self.lock)
    }
}

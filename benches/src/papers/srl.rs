//! Measures what is shown of [SRL]: workloads on a shared file, acquisitions alone, and memory.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_srl::{SrlArray, SrlTree};

use super::plan::Plan;
use super::published::Said;
use super::rows::Ours;
use crate::compare;
use crate::locks::{self, Make, Task};
use crate::measure::{self, joined, median, pin, spawn, thread_count};
use crate::workloads::{OF_PAPERS, SHARED_FILE};

const SRL: [&str; 1] = ["SRL"];
/// The case in which every acquisition is the first of its segment.
const FIRST: &str = "lock-first";
/// The case in which a thread locks its segment again and again.
const AGAIN: &str = "lock-again";
/// How the cases about memory begin. The share of the largest file that is in use follows: a
/// divisor.
const MEMORY: &str = "memory/";
/// What [`Said::to`] has for a figure with one thread.
const ONE_CORE: &str = "1 core";

/// Bytes of a segment.
const SEGMENT: u64 = 4096;
/// Bytes of each thread's part of a file.
const PART: u64 = 8 << 20;
/// Bytes of the largest file in cases about memory.
const LARGEST: u64 = 1 << 30;
/// Rounds of acquisitions.
const ROUNDS: usize = 5;

/// The figure of a lock in a case with a number of threads.
type Figures = BTreeMap<(&'static str, &'static str, usize), f64>;

/// Measures all chosen rows.
///
/// # Errors
/// A lock or the volume cannot be created, or no thread can be started.
pub(super) fn measured(
    plan: &Plan,
    bar: &ProgressBar,
    media: &mut Vec<String>,
) -> Result<Vec<Ours>> {
    let most = measure::cores().max(2);
    let mut figures = Figures::new();
    for case in plan.distinct(&SRL, |it| it.case) {
        let mut locks: Vec<&'static str> = Vec::new();
        let mut threads = Vec::new();
        for said in plan.of(&SRL).filter(|it| it.case == Some(case)) {
            let to = said.to.filter(|it| *it != ONE_CORE);
            locks.extend([said.subject].into_iter().chain(to));
            threads.push(threads_of(said, most));
            threads.extend((said.to == Some(ONE_CORE)).then_some(1));
        }
        threads.sort_unstable();
        threads.dedup();
        locks.sort_unstable();
        locks.dedup();
        bar.set_message(case);
        if case.starts_with(MEMORY) {
            memory(case, &locks, &threads, &mut figures)?;
        } else if [FIRST, AGAIN].contains(&case) {
            acquisitions(plan, case, &locks, &threads, &mut figures)?;
        } else {
            media.push(shared_file(
                plan,
                bar,
                case,
                &locks,
                &threads,
                &mut figures,
            )?);
        }
    }
    let ours = plan.of(&SRL).filter_map(|said| {
        let threads = threads_of(said, most);
        Some(Ours {
            said,
            subject: said.subject,
            here: match said.case().starts_with(MEMORY) {
                true => "1 GiB at most".to_owned(),
                false => thread_count(threads),
            },
            ours: figure(&figures, said, threads)?,
        })
    });
    Ok(ours.collect())
}

/// Returns the threads here: one if the paper has one core, or else one for each core.
fn threads_of(said: &Said, most: usize) -> usize {
    match said.threads {
        Some(1) => 1,
        _ => most,
    }
}

/// Returns the figure of a row, relative to what the paper's is relative to.
fn figure(figures: &Figures, said: &Said, threads: usize) -> Option<f64> {
    let of = |lock: &'static str, threads| figures.get(&(said.case(), lock, threads)).copied();
    let its = of(said.subject, threads)?;
    match said.to {
        None => Some(its),
        Some(ONE_CORE) => Some(its / of(said.subject, 1)?),
        Some(other) => Some(its / of(other, threads)?),
    }
}

/// Measures a workload on a shared file. Returns a description of the volume.
fn shared_file(
    plan: &Plan,
    bar: &ProgressBar,
    case: &'static str,
    locks: &[&'static str],
    threads: &[usize],
    figures: &mut Figures,
) -> Result<String> {
    let workload = SHARED_FILE
        .into_iter()
        .chain(OF_PAPERS)
        .find(|it| it.name == case);
    let workload = workload.with_context(|| format!("there is no workload {case}"))?;
    let its = compare::Plan {
        threads: threads.to_vec(),
        seconds: plan.seconds,
        locks: locks.to_vec(),
        workloads: vec![workload.name],
        import: Default::default(),
        import_project: false,
        volume: None,
        size: None,
    };
    let outcome = compare::run(&its, bar, |_| ())?;
    for row in outcome.rows {
        figures.insert((case, row.lock, row.threads), row.ops_per_s);
    }
    Ok(outcome.volume)
}

/// Measures the nanoseconds of an acquisition and release. The locks take turns.
fn acquisitions(
    plan: &Plan,
    case: &'static str,
    locks: &[&'static str],
    threads: &[usize],
    figures: &mut Figures,
) -> Result<()> {
    let time = Duration::from_secs_f64(plan.seconds / ROUNDS as f64);
    for &threads in threads {
        let mut all = vec![Vec::new(); locks.len()];
        for first in 0..ROUNDS {
            for turn in 0..locks.len() {
                let place = (first + turn) % locks.len();
                let task = Acquisitions {
                    is_first: case == FIRST,
                    threads,
                    time,
                };
                all[place].push(locks::with(locks[place], task)?);
            }
        }
        for (lock, times) in locks.iter().zip(all) {
            figures.insert((case, lock, threads), median(&times));
        }
    }
    Ok(())
}

/// A round of acquisitions; its result is in nanoseconds.
struct Acquisitions {
    is_first: bool,
    threads: usize,
    time: Duration,
}

impl Task for Acquisitions {
    type Output = Result<f64>;

    fn run<L: RawRangeLock + 'static>(self, make: Make<L>) -> Result<f64> {
        let capacity = self.threads as u64 * PART;
        if !self.is_first {
            let lock = make(capacity)?;
            let round = measure::timed(self.threads, self.time, 0, |worker| {
                let (lock, start) = (&lock, worker as u64 * PART);
                move || lock.write(start..start + SEGMENT).map(drop)
            })?;
            return Ok(self.threads as f64 * 1e9 / round.ops_per_s);
        }
        let (began, mut all) = (Instant::now(), Vec::new());
        while all.is_empty() || began.elapsed() < self.time {
            all.push(first_acquisitions(&make(capacity)?, self.threads)?);
        }
        Ok(median(&all))
    }
}

/// Locks each segment of a lock that nobody has used once. Returns the mean time.
fn first_acquisitions<L: RawRangeLock>(lock: &L, threads: usize) -> Result<f64> {
    // The threads wait here until all are started. A barrier would hang if one could not be.
    let gate = RwLock::new(());
    let work = |worker: usize| -> Result<Duration> {
        pin(worker, threads);
        let start = worker as u64 * PART;
        drop(gate.read());
        let began = Instant::now();
        for at in (start..start + PART).step_by(SEGMENT as usize) {
            drop(lock.write(at..at + SEGMENT)?);
        }
        Ok(began.elapsed())
    };
    let took = std::thread::scope(|scope| {
        let work = &work;
        let closed = gate.write();
        let started = (0..threads).map(|it| spawn(scope, it, move || work(it)));
        let started = started.collect::<Result<Vec<_>>>()?;
        drop(closed);
        let took = started.into_iter().map(|it| Ok(joined(it)?.as_secs_f64()));
        took.collect::<Result<Vec<f64>>>()
    })?;
    let segments = PART / SEGMENT * threads as u64;
    Ok(took.iter().sum::<f64>() * 1e9 / segments as f64)
}

/// Finds how many bytes locks take for each segment of the largest file, when a part of it is in
/// use.
fn memory(
    case: &'static str,
    locks: &[&'static str],
    threads: &[usize],
    figures: &mut Figures,
) -> Result<()> {
    let share: u64 = case[MEMORY.len()..].parse().context(case)?;
    let segments = LARGEST / SEGMENT;
    for &lock in locks {
        let bytes = match lock {
            "srl-array" => {
                let lock = SrlArray::new(LARGEST)?;
                lock.try_reserve()?;
                lock.memory_usage()
            }
            _ => {
                let lock = SrlTree::new(LARGEST)?;
                for segment in 0..segments.div_ceil(share) {
                    drop(lock.write(segment * SEGMENT..(segment + 1) * SEGMENT)?);
                }
                lock.memory_usage()
            }
        };
        for &threads in threads {
            figures.insert((case, lock, threads), bytes as f64 / segments as f64);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::published;
    use super::*;

    #[test]
    fn each_row_names_a_case_and_locks() {
        for said in published::of("SRL") {
            let case = said.case();
            let mut shared = SHARED_FILE.into_iter().chain(OF_PAPERS);
            let is_known = shared.any(|it| it.name == case) || [FIRST, AGAIN].contains(&case);
            assert!(is_known || case.starts_with(MEMORY), "{said:?}");
            for lock in [Some(said.subject), said.to.filter(|it| *it != ONE_CORE)] {
                let name = lock.map(|it| locks::contestant(it).name);
                assert_eq!(name, lock);
            }
        }
    }

    #[test]
    fn a_figure_is_relative_to_another_lock_or_to_one_core() {
        let said = |figure: &str, subject: &str| {
            let mut of = published::of("SRL");
            of.find(|it| it.figure == figure && it.subject == subject)
                .unwrap()
        };
        let mut figures = Figures::new();
        for (lock, threads, its) in [
            ("rw-counter", 1, 4.0),
            ("rw-counter", 2, 3.0),
            ("srl-tree", 2, 6.0),
        ] {
            figures.insert(("roles", lock, threads), its);
        }
        assert_eq!(
            figure(&figures, said("Figure 3(c)", "rw-counter"), 2),
            Some(0.75)
        );
        assert_eq!(
            figure(&figures, said("Figure 3(c)", "srl-tree"), 2),
            Some(2.0)
        );
        assert_eq!(figure(&figures, said("Figure 3(a)", "rw-counter"), 2), None);
    }
}

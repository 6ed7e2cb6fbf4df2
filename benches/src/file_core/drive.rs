//! Repeats an operation and measures it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use spanlock_file_core::Volume;
use spanlock_pmem::{MappedFile, Pmem};
use spanlock_range_lock::{RawRangeLock, RwCounter};

use super::counting::{Counting, Counts};
use super::limit::{self, Bare};
use super::operations::{BATCH, Operation, Pace, Stage, Turn, format, operations};
use crate::locks::{Make, Task};
use crate::measure::{self, Latencies, SAMPLE_EVERY, joined, pin, record, spawn};
use crate::scratch::Scratch;

/// The figures of a round.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Operations per second of all threads together.
    pub ops_per_s: f64,
    /// Latencies of single operations.
    pub latencies: Latencies,
    /// Cleanings of logs that copied live groups.
    pub cleanings: u64,
    /// Log pages that cleanings unlinked.
    pub unlinked_pages: u64,
}

/// A round of the operation number `operation`, on a volume that lies in `scratch`.
#[derive(Clone, Copy, Debug)]
pub struct OneRound<'a> {
    /// The volume.
    pub scratch: &'a Scratch,
    /// The operation's place in [`operations`].
    pub operation: usize,
    /// The number of threads; 1 unless the operation is [repeated](Pace::Repeated).
    pub threads: usize,
    /// The time to measure, without preparations.
    pub duration: Duration,
}

impl Task for OneRound<'_> {
    type Output = Result<Measured>;

    fn run<L: RawRangeLock + 'static>(self, make: Make<L>) -> Result<Measured> {
        let (volume, _) = Volume::try_open(self.scratch.map()?, make)?;
        let stage = Stage::new(volume);
        let operation = &operations()[self.operation];
        let before = stage.volume.stats();
        let mut measured = match operation.pace {
            Pace::Repeated => repeated(&stage, operation, self.threads, self.duration)?,
            Pace::Batches => alone(|| batches(&stage, operation, self.duration))?,
            Pace::EachTimed => alone(|| {
                let file = (operation.begin)(&stage)?;
                each_timed(self.duration, |nth| {
                    let turn = Turn { worker: 0, nth };
                    Ok((operation.step)(&stage, &file, turn)?)
                })
            })?,
        };
        let after = stage.volume.stats();
        measured.cleanings = after.compactions - before.compactions;
        measured.unlinked_pages = after.unlinked_pages - before.unlinked_pages;
        Ok(measured)
    }
}

/// Runs a round of bare writes of `bytes` bytes in the region of `scratch`.
///
/// # Errors
/// The region cannot be mapped, or a thread cannot be started.
pub fn bare_round(
    scratch: &Scratch,
    kind: Bare,
    bytes: usize,
    pace: Pace,
    threads: usize,
    duration: Duration,
) -> Result<Measured> {
    let mut region = scratch.map()?;
    let data = &vec![0x5a; bytes];
    let mut writers = limit::writers(&mut region, kind, threads);
    if pace == Pace::EachTimed {
        let writer = &mut writers[0];
        return alone(|| {
            each_timed(duration, |_| {
                writer.write(data);
                Ok(())
            })
        });
    }
    let writers = Mutex::new(writers);
    let taken = || {
        let mut writers = writers.lock().unwrap_or_else(|it| it.into_inner());
        writers.pop().expect("there is a writer for each thread")
    };
    let round = measure::timed(threads, duration, bytes as u64, |_| {
        let mut writer = taken();
        move || {
            writer.write(data);
            anyhow::Ok(())
        }
    })?;
    Ok(Measured::new(round.ops_per_s, round.latencies))
}

impl Measured {
    fn new(ops_per_s: f64, latencies: Latencies) -> Self {
        Measured {
            ops_per_s,
            latencies,
            cleanings: 0,
            unlinked_pages: 0,
        }
    }
}

fn repeated<P: Pmem, L: RawRangeLock>(
    stage: &Stage<P, L>,
    operation: &Operation<P, L>,
    threads: usize,
    duration: Duration,
) -> Result<Measured> {
    let file = &(operation.begin)(stage)?;
    let round = measure::timed(threads, duration, 0, |worker| {
        let mut nth = 0;
        move || {
            let turn = Turn { worker, nth };
            nth += 1;
            (operation.step)(stage, file, turn)
        }
    })?;
    (operation.end)(stage)?;
    Ok(Measured::new(round.ops_per_s, round.latencies))
}

/// Runs `work` on a thread of its own that is bound to a core.
fn alone<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = spawn(scope, 0, || {
            pin(0, 1);
            work()
        })?;
        joined(thread)
    })
}

/// Runs whole batches until their steps have taken `duration`. The first batch is a warm-up.
fn batches<P: Pmem, L: RawRangeLock>(
    stage: &Stage<P, L>,
    operation: &Operation<P, L>,
    duration: Duration,
) -> Result<Measured> {
    let mut latencies = measure::latencies();
    let mut took = Duration::ZERO;
    let mut count = 0_u64;
    let mut is_warm = false;
    while took < duration {
        let file = (operation.begin)(stage)?;
        let started = Instant::now();
        for nth in 0..BATCH {
            let turn = Turn { worker: 0, nth };
            if is_warm && nth.is_multiple_of(SAMPLE_EVERY as usize) {
                let sampled = Instant::now();
                (operation.step)(stage, &file, turn)?;
                record(&mut latencies, sampled.elapsed());
            } else {
                (operation.step)(stage, &file, turn)?;
            }
        }
        if is_warm {
            took += started.elapsed();
            count += BATCH as u64;
        }
        is_warm = true;
        drop(file);
        (operation.end)(stage)?;
    }
    Ok(Measured::new(count as f64 / took.as_secs_f64(), latencies))
}

/// Repeats `step` for `duration` after a warm-up of a tenth of it. The end of an operation is the
/// start of the next, so that every moment belongs to one.
fn each_timed(duration: Duration, mut step: impl FnMut(usize) -> Result<()>) -> Result<Measured> {
    let (begun, mut nth) = (Instant::now(), 0);
    while begun.elapsed() < duration / 10 {
        step(nth)?;
        nth += 1;
    }
    let (started, first) = (Instant::now(), nth);
    let mut latencies = measure::latencies();
    let mut before = started;
    while before - started < duration {
        step(nth)?;
        nth += 1;
        let now = Instant::now();
        record(&mut latencies, now - before);
        before = now;
    }
    let per_second = (nth - first) as f64 / (before - started).as_secs_f64();
    Ok(Measured::new(per_second, latencies))
}

/// Flushes and fences of single operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// The median.
    pub usual: Counts,
    /// The most of one operation, for example of one that adds a page to a log or cleans it.
    pub most: Counts,
}

impl Exact {
    fn of(all: &[Counts]) -> Self {
        let of_figure = |figure: fn(&Counts) -> u64| {
            let mut sorted: Vec<u64> = all.iter().map(figure).collect();
            sorted.sort_unstable();
            let most = sorted.last().copied().unwrap_or_default();
            (sorted.get(sorted.len() / 2).copied().unwrap_or(most), most)
        };
        let (flushes, fences) = (of_figure(|it| it.flushes), of_figure(|it| it.fences));
        Exact {
            usual: Counts {
                flushes: flushes.0,
                fences: fences.0,
            },
            most: Counts {
                flushes: flushes.1,
                fences: fences.1,
            },
        }
    }
}

/// Counts the flushes and fences of [`BATCH`] operations, one by one, without timing them. They do
/// not depend on the lock. Uses and formats the region of `scratch`.
///
/// # Errors
/// The region is too small, or cannot be mapped.
pub fn exact(scratch: &Scratch, operation: usize) -> Result<Exact> {
    let region = Counting::new(scratch.map()?);
    let volume = Volume::format(region, &format(1), |_| RwCounter::new())?;
    let stage = Stage::new(volume);
    stage.fill(1).context("filling the file")?;
    let operation = &operations::<Counting<MappedFile>, RwCounter>()[operation];
    let file = (operation.begin)(&stage)?;
    let mut all = Vec::with_capacity(BATCH);
    for nth in 0..BATCH {
        let before = stage.volume.pmem().counts();
        (operation.step)(&stage, &file, Turn { worker: 0, nth })?;
        all.push(stage.volume.pmem().counts() - before);
    }
    Ok(Exact::of(&all))
}

/// Counts the flushes and fences of a bare write.
///
/// # Errors
/// The region cannot be mapped.
pub fn exact_bare(scratch: &Scratch, kind: Bare, bytes: usize) -> Result<Exact> {
    let mut region = Counting::new(scratch.map()?);
    limit::writers(&mut region, kind, 1)[0].write(&vec![0x5a; bytes]);
    Ok(Exact::of(&[region.counts()]))
}

#[cfg(test)]
mod tests {
    use super::super::operations::volume_bytes;
    use super::*;

    fn counts(flushes: u64, fences: u64) -> Counts {
        Counts { flushes, fences }
    }

    #[test]
    fn the_usual_counts_are_the_median() {
        let exact = Exact::of(&[counts(2, 2), counts(70, 4), counts(2, 2)]);
        assert_eq!((exact.usual, exact.most), (counts(2, 2), counts(70, 4)));
    }

    #[test]
    fn every_moment_belongs_to_an_operation() {
        let pause = Duration::from_millis(2);
        let measured = each_timed(20 * pause, |_| {
            std::thread::sleep(pause);
            Ok(())
        })
        .unwrap();
        assert!(measured.latencies.min() >= 2_000_000);
        assert!(measured.ops_per_s <= 500.0);
    }

    /// Every operation stores something and waits for it. An overwrite takes the flushes and fences
    /// of the limit, so that the two can be compared.
    #[test]
    fn counts_are_exact() {
        let volume = Scratch::new(None, volume_bytes(1)).unwrap();
        let region = Scratch::new(None, limit::region_bytes(1)).unwrap();
        for (place, operation) in operations::<MappedFile, RwCounter>().iter().enumerate() {
            let found = exact(&volume, place).unwrap();
            let (usual, most) = (found.usual, found.most);
            assert!(usual.fences > 0 && usual.flushes > 0, "{}", operation.name);
            assert!(most.fences >= usual.fences, "{}", operation.name);
            if let Some(bytes) = operation.bare_bytes {
                let bare = exact_bare(&region, Bare::Limit, bytes).unwrap();
                assert_eq!(usual, bare.usual, "{}", operation.name);
                assert!(
                    most.fences > usual.fences,
                    "the log grows in {}",
                    operation.name
                );
            }
        }
    }
}

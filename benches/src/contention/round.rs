//! A round of a case under a lock.

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::case::Case;
use crate::measure::{self, Latencies, Round, work};
use crate::micro::ranges::{SEGMENT, segments};
use crate::micro::subjects::{Need, Subject};

/// Segments from one thread's own range to the next: 8 MiB.
const APART: u64 = (8 << 20) / SEGMENT;

/// The result of a round.
pub struct Measured {
    /// The throughput and the processor time.
    pub round: Round,
    /// The waits, if acquisitions were timed.
    pub waits: Latencies,
}

/// Runs one round; `lock` is released when it ends. If `timed`, every acquisition is timed.
///
/// Each request locks the common segment or the thread's own. It locks the common one with a
/// probability of the square root of the case's overlap, so that two requests overlap with exactly
/// the probability that the case names. Exclusive locks serve reads exclusively.
pub(crate) fn round<S: Subject>(
    lock: &S,
    case: &Case,
    steps_per_us: f64,
    duration: Duration,
    timed: bool,
) -> Result<Measured> {
    let users: Vec<Option<S>> = (0..case.threads)
        .map(|_| lock.other_user())
        .collect::<Result<_>>()?;
    let all = All {
        case,
        steps: (f64::from(case.section_ns) / 1e3 * steps_per_us) as u64,
        timed,
        guarded: (0..=case.threads).map(|_| Guarded::default()).collect(),
        written: AtomicU64::new(0),
        torn: AtomicU64::new(0),
        waits: Mutex::new(measure::latencies()),
    };
    let round = measure::timed(case.threads, duration, 0, |worker| {
        let lock = users[worker].as_ref().unwrap_or(lock);
        let mut worker = Worker::new(worker, &all);
        move || worker.operation(lock)
    })?;
    // Relaxed, here and below: the threads have been joined.
    let guarded = all.guarded.iter().map(|it| it.0.load(Ordering::Relaxed));
    let (guarded, written) = (guarded.sum::<u64>(), all.written.into_inner());
    let torn = all.torn.into_inner();
    ensure!(
        guarded == written && torn == 0,
        "the lock admitted threads that it should have excluded: {written} writes were counted, {guarded} took effect, and {torn} reads saw a write"
    );
    let waits = all.waits.into_inner();
    Ok(Measured {
        round,
        waits: waits.unwrap_or_else(|it| it.into_inner()),
    })
}

/// A counter of the writes to one segment, on a cache line of its own. Only the lock under test
/// protects it.
#[derive(Default)]
#[repr(align(128))]
struct Guarded(AtomicU64);

/// The state shared by the threads of a round.
struct All<'a> {
    case: &'a Case,
    /// Steps of work under the lock, and equally many outside it.
    steps: u64,
    timed: bool,
    /// The common segment, then each thread's own.
    guarded: Vec<Guarded>,
    written: AtomicU64,
    /// Reads during which the segment was written.
    torn: AtomicU64,
    waits: Mutex<Latencies>,
}

/// A thread's state. Totals are added to the shared ones on drop.
struct Worker<'a> {
    all: &'a All<'a>,
    number: usize,
    random: fastrand::Rng,
    /// The probability of the common segment.
    common: f64,
    written: u64,
    torn: u64,
    waits: Latencies,
}

impl<'a> Worker<'a> {
    fn new(number: usize, all: &'a All<'a>) -> Self {
        Worker {
            all,
            number,
            random: fastrand::Rng::with_seed(number as u64),
            common: (f64::from(all.case.overlap) / 100.0).sqrt(),
            written: 0,
            torn: 0,
            waits: measure::latencies(),
        }
    }

    fn operation<S: Subject>(&mut self, lock: &S) -> Result<(), Infallible> {
        let is_common = self.random.f64() < self.common;
        let place = if is_common { 0 } else { self.number + 1 };
        let reads = self.random.u32(0..100) < self.all.case.reads;
        let range = segments(place as u64 * APART, 1);
        let called = self.all.timed.then(Instant::now);
        let guarded = &self.all.guarded[place].0;
        if reads && lock.lacks(Need::Sharing).is_none() {
            let hold = lock.read(range);
            self.waited(called);
            self.read(guarded);
            drop(hold);
        } else {
            let hold = lock.write(range);
            self.waited(called);
            if reads {
                self.read(guarded);
            } else {
                self.write(guarded);
            }
            drop(hold);
        }
        work(self.all.steps);
        Ok(())
    }

    fn waited(&mut self, called: Option<Instant>) {
        if let Some(called) = called {
            measure::record(&mut self.waits, called.elapsed());
        }
    }

    fn read(&mut self, guarded: &AtomicU64) {
        // Relaxed, here and below: a correct lock orders these accesses. If a broken one does not,
        // the checks at the end of the round may notice.
        let before = guarded.load(Ordering::Relaxed);
        work(self.all.steps);
        self.torn += u64::from(guarded.load(Ordering::Relaxed) != before);
    }

    fn write(&mut self, guarded: &AtomicU64) {
        let before = guarded.load(Ordering::Relaxed);
        work(self.all.steps);
        guarded.store(before + 1, Ordering::Relaxed);
        self.written += 1;
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        // Relaxed, both: read after the threads are joined.
        self.all.written.fetch_add(self.written, Ordering::Relaxed);
        self.all.torn.fetch_add(self.torn, Ordering::Relaxed);
        let mut all = self.all.waits.lock().unwrap_or_else(|it| it.into_inner());
        *all += &self.waits;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const CASE: Case = Case {
        section_ns: 3_000,
        overlap: 50,
        reads: 50,
        threads: 4,
    };

    /// A lock that excludes no thread.
    struct Open;

    impl Subject for Open {
        type Write<'a> = ();
        type Read<'a> = ();

        fn write(&self, _range: Range<u64>) {}

        fn read(&self, _range: Range<u64>) {}

        fn lacks(&self, _need: Need) -> Option<&'static str> {
            None
        }
    }

    #[test]
    fn a_lock_that_admits_conflicting_threads_is_caught() {
        let run = || round(&Open, &CASE, 300.0, Duration::from_millis(20), false);
        let mut rounds = (0..200).map(|_| run());
        let error = rounds.find_map(Result::err).expect("a conflict shows");
        assert!(error.to_string().contains("admitted threads"), "{error}");
    }

    #[test]
    fn a_round_reports_throughput_processor_time_and_waits() {
        let lock = std::sync::RwLock::new(());
        for timed in [false, true] {
            let run = round(&lock, &CASE, 300.0, Duration::from_millis(100), timed);
            let measured = run.unwrap();
            assert!(measured.round.ops_per_s > 0.0);
            assert!(measured.round.cpu_ns_per_op > 0.0);
            assert_eq!(measured.waits.is_empty(), !timed);
        }
    }
}

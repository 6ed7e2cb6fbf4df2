//! More threads than cores, all locking the same segment.
//!
//! A holder sometimes loses its time slice, by yielding or, with many threads on few cores, by
//! preemption. Spinning waiters then keep the core from the holder, while sleeping waiters free it.
//! So the throughput of many threads, relative to one thread per core, shows whether waiting works.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::ranges::segments;
use super::subjects::Subject;
use crate::measure::{self, Round, work};

/// Cores that the threads share.
pub const CORES: usize = 2;

/// The work under the lock, and as much outside it.
const SECTION: Duration = Duration::from_nanos(100);

/// A holder yields its time slice once in this many acquisitions.
const YIELD_EVERY: u64 = 64;

/// A number of threads, as a case.
#[derive(Clone, Copy, Debug)]
pub struct Contended {
    /// The name in reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// The number of threads.
    pub threads: usize,
}

/// The contended cases: one thread per core, and four threads per core.
pub const CONTENDED: [Contended; 2] = [
    Contended {
        name: "contended/2-threads",
        about: "2 threads on 2 cores lock the same segment, for 100 ns",
        threads: 2,
    },
    Contended {
        name: "contended/8-threads",
        about: "8 threads on 2 cores lock the same segment, for 100 ns",
        threads: 8,
    },
];

/// The result of a round.
pub struct Contention {
    /// Operations are acquisitions of all threads together.
    pub round: Round,
    /// The longest time from the call to the return of an acquisition, if acquisitions were timed.
    pub longest: Duration,
}

/// Runs one round; `lock` is released when it ends. `steps_per_us` steps of work take a
/// microsecond. If `timed`, every acquisition is timed, which costs two reads of the clock each, so
/// the throughput is then not comparable.
pub(super) fn round<S: Subject>(
    lock: &S,
    threads: usize,
    steps_per_us: f64,
    duration: Duration,
    timed: bool,
) -> Result<Contention> {
    let users: Vec<Option<S>> = (0..threads)
        .map(|_| lock.other_user())
        .collect::<Result<_>>()?;
    let (guarded, all) = (AtomicU64::new(0), All::default());
    let steps = (SECTION.as_secs_f64() * 1e6 * steps_per_us) as u64;
    // A separate thread, because the threads that it starts inherit its cores.
    let round = thread::scope(|scope| {
        let rounds = measure::spawn(scope, threads, || {
            measure::bind_to_first(CORES);
            measure::timed(threads, duration, 0, |worker| {
                let lock = users[worker].as_ref().unwrap_or(lock);
                holds(lock, &guarded, steps, Tally::new(&all), timed)
            })
        });
        measure::joined(rounds?)
    })?;
    // Relaxed: the threads have been joined.
    let (guarded, counted) = (guarded.into_inner(), all.count.into_inner());
    ensure!(
        guarded == counted,
        "{threads} threads counted {counted} times under the lock, but the counter is {guarded}: the lock admitted two threads at once"
    );
    Ok(Contention {
        round,
        longest: Duration::from_nanos(all.longest_ns.into_inner()),
    })
}

/// Returns the operation that a thread repeats.
fn holds<S: Subject>(
    lock: &S,
    guarded: &AtomicU64,
    steps: u64,
    mut tally: Tally<'_>,
    timed: bool,
) -> impl FnMut() -> Result<(), Infallible> {
    move || {
        let called = timed.then(Instant::now);
        let hold = lock.write(segments(512, 1));
        if let Some(called) = called {
            tally.waited(called.elapsed());
        }
        // Relaxed, and not a read-modify-write: a correct lock orders these accesses, and under a
        // broken one, counts are lost.
        let count = guarded.load(Ordering::Relaxed);
        work(steps);
        guarded.store(count + 1, Ordering::Relaxed);
        if tally.one_more().is_multiple_of(YIELD_EVERY) {
            thread::yield_now();
        }
        drop(hold);
        work(steps);
        Ok(())
    }
}

/// The totals of all threads.
#[derive(Default)]
struct All {
    count: AtomicU64,
    longest_ns: AtomicU64,
}

/// Counts locally and adds the count to a shared total on drop.
struct Tally<'a> {
    count: u64,
    longest_ns: u64,
    all: &'a All,
}

impl<'a> Tally<'a> {
    fn new(all: &'a All) -> Self {
        Tally {
            count: 0,
            longest_ns: 0,
            all,
        }
    }

    // A method, so that the closure captures the whole struct and not a copy of the count.
    fn one_more(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn waited(&mut self, wait: Duration) {
        self.longest_ns = self.longest_ns.max(wait.as_nanos() as u64);
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        // Relaxed, both: read after the threads are joined.
        self.all.count.fetch_add(self.count, Ordering::Relaxed);
        self.all
            .longest_ns
            .fetch_max(self.longest_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::subjects::Need;
    use super::*;

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
    fn a_lock_that_admits_two_threads_is_caught() {
        // The first round may not catch it: on one core, a thread must be interrupted at its work.
        let mut rounds = (0..200).map(|_| round(&Open, 4, 300.0, Duration::from_millis(20), false));
        let error = rounds.find_map(Result::err).expect("counts are lost");
        assert!(
            error.to_string().contains("admitted two threads at once"),
            "{error}"
        );
    }

    #[test]
    fn a_lock_that_excludes_others_passes() {
        let lock = std::sync::RwLock::new(());
        for timed in [false, true] {
            let done = round(&lock, 4, 300.0, Duration::from_millis(20), timed).unwrap();
            assert!(done.round.ops_per_s > 0.0);
            assert_eq!(done.longest.is_zero(), !timed);
        }
    }
}

//! Threads on cores, timed rounds, latencies, medians.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{RwLock, mpsc};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use rustix::thread::CpuSet;

/// One operation in this many is timed, because reading the clock costs about 40 ns. The number is
/// odd so that the four-operation pattern of a mix is sampled evenly.
pub const SAMPLE_EVERY: u32 = 17;

/// Latencies in nanoseconds, up to a minute, with three significant digits.
pub type Latencies = Histogram<u64>;

/// Returns an empty histogram.
pub fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds that are in order")
}

/// Records a latency.
pub fn record(latencies: &mut Latencies, took: Duration) {
    latencies.saturating_record(took.as_nanos() as u64);
}

/// The result of a lock in one round.
#[derive(Clone, Debug)]
pub struct Round {
    /// Operations per second of all threads together.
    pub ops_per_s: f64,
    /// The same over the whole round. `ops_per_s` is the sum of the threads' rates, each from when
    /// the thread first runs: with more threads than cores, that is more than this if they seldom
    /// wait.
    pub whole_ops_per_s: f64,
    /// Bytes read and written per second by all threads together.
    pub bytes_per_s: f64,
    /// Latencies of single operations.
    pub latencies: Latencies,
    /// Processor time of all threads per operation, in nanoseconds; 0 if it was not measured.
    pub cpu_ns_per_op: f64,
}

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Binds this thread to a core of its own, the `worker`th that the process may use. Does nothing if
/// the process may use fewer than `workers` cores.
pub fn pin(worker: usize, workers: usize) {
    let allowed = allowed();
    if workers <= allowed.len() {
        bind(&allowed[worker..=worker]);
    }
}

/// Binds this thread, and the threads it starts, to the first `cores` cores that it may use.
pub(crate) fn bind_to_first(cores: usize) {
    let allowed = allowed();
    if cores <= allowed.len() {
        bind(&allowed[..cores]);
    }
}

/// Formats a number of threads, with singular or plural.
pub(crate) fn thread_count(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// Returns the cores that this thread may use.
fn allowed() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect()
}

fn bind(cores: &[usize]) {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    // Binding may be refused, for example in a container. Then the scheduler chooses the cores,
    // which is no error.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// The phase of a round.
pub(crate) struct Phase(AtomicU8);

impl Phase {
    pub(crate) fn is_warm_up(&self) -> bool {
        // Relaxed, here and below: the threads learn only the phase from it.
        self.0.load(Ordering::Relaxed) == WARM_UP
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.0.load(Ordering::Relaxed) == MEASURE
    }

    fn set(&self, phase: u8) {
        self.0.store(phase, Ordering::Relaxed);
    }
}

/// Runs an operation on `workers` threads for `duration`, after a warm-up of a tenth of that time.
///
/// `prepare` is called on each thread with the thread's number and returns the operation that the
/// thread then repeats. An operation handles `bytes_per_op` bytes.
///
/// # Errors
/// A thread cannot be started, or an operation fails. A thread whose operation fails stops; the
/// others continue to the end of the round. If several fail, the error of the lowest-numbered one
/// is returned.
pub fn timed<Op, E>(
    workers: usize,
    duration: Duration,
    bytes_per_op: u64,
    prepare: impl Fn(usize) -> Op + Sync,
) -> Result<Round>
where
    Op: FnMut() -> Result<(), E>,
    E: Into<anyhow::Error> + Send,
{
    timed_every(SAMPLE_EVERY, workers, duration, bytes_per_op, prepare)
}

/// Does the same as [`timed`], and records the latency of one operation in `sample_every`.
///
/// # Errors
/// Same as [`timed`].
pub fn timed_every<Op, E>(
    sample_every: u32,
    workers: usize,
    duration: Duration,
    bytes_per_op: u64,
    prepare: impl Fn(usize) -> Op + Sync,
) -> Result<Round>
where
    Op: FnMut() -> Result<(), E>,
    E: Into<anyhow::Error> + Send,
{
    let (done, took) = in_phases(workers, duration, |worker| {
        let mut op = prepare(worker);
        move |phase: &Phase| measure(phase, sample_every, &mut op)
    })?;
    let mut round = Round {
        ops_per_s: 0.0,
        whole_ops_per_s: 0.0,
        bytes_per_s: 0.0,
        latencies: latencies(),
        cpu_ns_per_op: 0.0,
    };
    let (mut ops, mut cpu) = (0, Duration::ZERO);
    for thread in done {
        let share = thread.map_err(Into::into)?;
        round.ops_per_s += share.ops_per_s;
        round.latencies += share.latencies;
        ops += share.ops;
        cpu += share.cpu;
    }
    // On an overloaded machine the threads may not have run. Then report the rate of a single
    // operation, so that callers never divide by zero.
    round.ops_per_s = round.ops_per_s.max(1.0 / duration.as_secs_f64());
    round.whole_ops_per_s = ops.max(1) as f64 / took.as_secs_f64();
    round.cpu_ns_per_op = cpu.as_nanos() as f64 / ops.max(1) as f64;
    round.bytes_per_s = round.ops_per_s * bytes_per_op as f64;
    Ok(round)
}

/// Runs a work on each of `workers` threads, through a warm-up of a tenth of `duration` and then a
/// measurement of `duration`. `prepare` is called on each thread with its number, and returns the
/// work, which must return soon after the measurement is over. Returns the threads' results, and
/// how long the measurement took.
///
/// # Errors
/// A thread cannot be started.
pub(crate) fn in_phases<W, T>(
    workers: usize,
    duration: Duration,
    prepare: impl Fn(usize) -> W + Sync,
) -> Result<(Vec<T>, Duration)>
where
    W: FnOnce(&Phase) -> T,
    T: Send,
{
    let phase = Phase(AtomicU8::new(WARM_UP));
    // The threads wait here until all of them are ready. A barrier would hang if a thread could not
    // be started.
    let gate = RwLock::new(());
    let (ready, all_ready) = mpsc::channel();
    let work = |worker, ready: mpsc::Sender<()>| {
        pin(worker, workers);
        let work = prepare(worker);
        drop(ready);
        drop(gate.read());
        work(&phase)
    };
    let mut took = duration;
    let done = std::thread::scope(|scope| {
        let work = &work;
        let closed = gate.write();
        let threads: Result<Vec<_>> = (0..workers)
            .map(|it| {
                let ready = ready.clone();
                spawn(scope, it, move || work(it, ready))
            })
            .collect();
        drop(ready);
        if threads.is_ok() {
            // Returns once every thread has dropped its sender.
            let _ = all_ready.recv();
            drop(closed);
            std::thread::sleep(duration / 10);
            phase.set(MEASURE);
            let measured = Instant::now();
            std::thread::sleep(duration);
            took = measured.elapsed();
        }
        phase.set(STOP);
        let done: Vec<_> = threads?.into_iter().map(joined).collect();
        anyhow::Ok(done)
    })?;
    Ok((done, took))
}

/// Starts thread number `worker`.
///
/// # Errors
/// The system refuses to start it.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    worker: usize,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let started = std::thread::Builder::new().spawn_scoped(scope, work);
    started.with_context(|| {
        format!(
            "thread {} cannot be started: give fewer --threads (not with --micro), or raise the system's limits",
            worker + 1
        )
    })
}

/// Returns the thread's result, or propagates its panic.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the processor time that this thread has used.
fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: The pointer leads to a `timespec`, which the call fills in.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "every Linux has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The result of one thread in a round.
struct Share {
    ops: u64,
    ops_per_s: f64,
    latencies: Latencies,
    cpu: Duration,
}

/// Runs one thread's share.
fn measure<E>(
    phase: &Phase,
    sample_every: u32,
    op: &mut impl FnMut() -> Result<(), E>,
) -> Result<Share, E> {
    while phase.is_warm_up() {
        op()?;
    }
    let mut latencies = latencies();
    let (mut ops, mut until_sample) = (0_u64, sample_every);
    let (started, cpu) = (Instant::now(), thread_time());
    while phase.is_measured() {
        until_sample -= 1;
        if until_sample == 0 {
            until_sample = sample_every;
            let sampled = Instant::now();
            op()?;
            record(&mut latencies, sampled.elapsed());
        } else {
            op()?;
        }
        ops += 1;
    }
    // On an overloaded machine the thread may not have run at all.
    let elapsed = started.elapsed().max(Duration::from_nanos(1));
    Ok(Share {
        ops,
        ops_per_s: ops as f64 / elapsed.as_secs_f64(),
        latencies,
        cpu: thread_time().saturating_sub(cpu),
    })
}

/// Returns the median: the middle value, or the mean of the two middle values.
///
/// # Panics
/// Panics if `values` is empty.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// Computes for a fixed number of steps.
pub(crate) fn work(steps: u64) {
    let mut done = 0_u64;
    for _ in 0..steps {
        done = black_box(done + 1);
    }
}

/// Measures how many steps of work take a microsecond, undisturbed.
pub(crate) fn steps_per_us() -> f64 {
    const STEPS: u64 = 100_000;
    let trial = || {
        let begun = Instant::now();
        work(STEPS);
        begun.elapsed()
    };
    let least = (0..20).map(|_| trial()).min().unwrap_or_default();
    STEPS as f64 / (least.as_secs_f64() * 1e6).max(1.0)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn the_median_is_the_middle_value_or_a_mean_of_two() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 4.0]), 4.0);
        assert_eq!(median(&[9.0, 1.0, 4.0, 2.0]), 3.0);
    }

    #[test]
    fn a_round_counts_the_operations_of_all_threads() {
        let round = timed(2, Duration::from_millis(100), 10, |_| {
            || {
                std::thread::sleep(Duration::from_micros(100));
                anyhow::Ok(())
            }
        })
        .unwrap();
        assert!(round.ops_per_s > 10.0 && round.ops_per_s < 20_000.0);
        assert_eq!(round.bytes_per_s, round.ops_per_s * 10.0);
        assert!(round.latencies.min() >= 100_000);
        // Sleeping takes no processor time, but falling asleep does.
        assert!(round.cpu_ns_per_op > 0.0);
    }

    #[test]
    fn an_error_of_an_operation_is_returned() {
        let failed = timed(2, Duration::from_millis(5), 1, |worker| {
            move || if worker == 1 { bail!("no") } else { Ok(()) }
        });
        assert_eq!(failed.unwrap_err().to_string(), "no");
    }
}

//! Compares plain group commit with the rendezvous, on a storage in memory whose flush takes a
//! fixed time. Each thread repeatedly appends a record, waits until it is durable, and pauses (its
//! *think time*).
//!
//! ```text
//! cargo run --release -p spanlock-journal-commit --example group_commit -- \
//!     [--flush-us 1000] [--seconds 0.1] [--rounds 2] [--threads 1,2,4,8,16] \
//!     [--think 0,0.5,1,2,4] [--jitter 0.1]
//! ```
//!
//! Rounds with and without the rendezvous alternate, because a machine may be busy now and then.
//! The figures are sums over the rounds. Think times are multiples of a flush. With a jitter of
//! 0.1, a pause varies at random by up to 10 % around the think time.

use std::env;
use std::io;
use std::time::{Duration, Instant};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{GroupCommit, Log, Lsn, Options};

/// A storage in memory. A flush only sleeps.
struct Modelled {
    memory: std::sync::RwLock<Vec<u8>>,
    flush: Duration,
}

impl Storage for Modelled {
    fn len(&self) -> u64 {
        self.memory.read().unwrap().len() as u64
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let from = offset as usize;
        buf.copy_from_slice(&self.memory.read().unwrap()[from..from + buf.len()]);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let from = offset as usize;
        self.memory.write().unwrap()[from..from + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        std::thread::sleep(self.flush);
        Ok(())
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)
    }
}

/// The figures of plain group commit or of the rendezvous.
#[derive(Default)]
struct Figures {
    latencies: Vec<Duration>,
    flushes: u64,
    time: Duration,
}

impl Figures {
    fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.time.as_secs_f64()
    }

    /// Returns the time in microseconds within which `percent` % of the records became durable.
    fn percentile(&self, percent: usize) -> u128 {
        let at = (self.latencies.len() * percent / 100).min(self.latencies.len() - 1);
        self.latencies[at].as_micros()
    }
}

struct Arguments {
    flush: Duration,
    time: Duration,
    rounds: u32,
    threads: Vec<usize>,
    think: Vec<f64>,
    jitter: f64,
}

fn main() {
    let arguments = arguments();
    println!("threads  think  way         commits/s  per flush  p50 us  p99 us   of plain");
    for &threads in &arguments.threads {
        for &think in &arguments.think {
            row(&arguments, threads, think);
        }
    }
}

/// Measures plain group commit and the rendezvous in turn, and prints both.
fn row(arguments: &Arguments, threads: usize, think: f64) {
    const WAYS: [GroupCommit; 2] = [GroupCommit::Plain, GroupCommit::Rendezvous];
    let mut figures = [Figures::default(), Figures::default()];
    for _ in 0..arguments.rounds {
        for (way, figures) in WAYS.into_iter().zip(&mut figures) {
            round(arguments, threads, think, way, figures);
        }
    }
    let plain = figures[0].per_second();
    for (way, figures) in WAYS.into_iter().zip(&mut figures) {
        figures.latencies.sort();
        println!(
            "{threads:7}  {think:5}  {:10}  {:9.0}  {:9.2}  {:6}  {:6}  {:9.3}",
            format!("{way:?}"),
            figures.per_second(),
            figures.latencies.len() as f64 / figures.flushes as f64,
            figures.percentile(50),
            figures.percentile(99),
            figures.per_second() / plain,
        );
    }
}

fn round(
    arguments: &Arguments,
    threads: usize,
    think: f64,
    way: GroupCommit,
    figures: &mut Figures,
) {
    let storage = Modelled {
        memory: vec![0; 64 << 20].into(),
        flush: arguments.flush,
    };
    let log = Log::create(&storage, &Options::new().group_commit(way)).expect("an empty storage");
    let start = Instant::now();
    let end = start + arguments.time;
    let commits = || {
        let mut latencies = Vec::new();
        while Instant::now() < end {
            let begun = Instant::now();
            log.append_durable(&[7; 256]).expect("nothing fails");
            latencies.push(begun.elapsed());
            pause(arguments, think);
        }
        latencies
    };
    let before = figures.latencies.len();
    std::thread::scope(|scope| {
        let handles = Vec::from_iter((0..threads).map(|_| scope.spawn(commits)));
        for handle in handles {
            figures.latencies.extend(handle.join().expect("no panic"));
        }
    });
    figures.time += start.elapsed();
    let stats = log.stats();
    figures.flushes += stats.flushes;
    // Check that the log holds every acknowledged record.
    let commits = figures.latencies.len() - before;
    assert_eq!(log.durable(), Lsn::new(commits as u64));
    assert_eq!(log.records().count(), commits);
}

fn pause(arguments: &Arguments, think: f64) {
    if think > 0.0 {
        let part = 1.0 + arguments.jitter * (2.0 * fastrand::f64() - 1.0);
        std::thread::sleep(arguments.flush.mul_f64(think * part));
    }
}

fn arguments() -> Arguments {
    let mut arguments = Arguments {
        flush: Duration::from_millis(1),
        time: Duration::from_millis(100),
        rounds: 2,
        threads: vec![1, 2, 4, 8, 16],
        think: vec![0.0, 0.5, 1.0, 2.0, 4.0],
        jitter: 0.1,
    };
    let mut given = env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().unwrap_or_default();
        match &*name {
            "--flush-us" => arguments.flush = Duration::from_micros(number(&value) as u64),
            "--seconds" => arguments.time = Duration::from_secs_f64(number(&value)),
            "--rounds" => arguments.rounds = number(&value) as u32,
            "--threads" => {
                arguments.threads = Vec::from_iter(value.split(',').map(|n| number(n) as usize))
            }
            "--think" => arguments.think = Vec::from_iter(value.split(',').map(number)),
            "--jitter" => arguments.jitter = number(&value),
            other => panic!("unknown argument {other}"),
        }
    }
    arguments
}

fn number(text: &str) -> f64 {
    text.parse()
        .unwrap_or_else(|_| panic!("not a number: `{text}`"))
}

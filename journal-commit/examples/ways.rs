//! Measures the durable handles per second of each way to commit, on a simulated device in memory.
//! Its flushes and durable writes take one millisecond.
//!
//! `cargo run --release -p spanlock-journal-commit --example ways [SECONDS]` runs each row for that
//! many seconds (default 0.1).

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{
    CommitWay, Delay, Error, Flushes, FormatOptions, Journal, Options, Stats, format,
};

const BLOCK: u32 = 4096;
const FLUSH: Duration = Duration::from_millis(1);
/// JBD2's longest delay.
const PIGGYBACK: Delay = Delay::Piggyback(Duration::from_millis(15));

/// A storage in memory whose flushes and durable writes take one millisecond.
struct Modelled(Mutex<Vec<u8>>);

impl Modelled {
    fn new(len: usize) -> Arc<Self> {
        Arc::new(Modelled(Mutex::new(vec![0; len])))
    }
}

impl Storage for Modelled {
    fn len(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        buf.copy_from_slice(&self.0.lock().unwrap()[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        std::thread::sleep(FLUSH);
        Ok(())
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(data, offset)?;
        self.flush()
    }
}

fn run(
    flushes: Flushes,
    options: Options,
    threads: u64,
    time: Duration,
) -> Result<(Stats, f64), Error> {
    let (log, home) = (Modelled::new(32 << 20), Modelled::new(1 << 20));
    format(log.clone(), &FormatOptions::new(BLOCK).flushes(flushes))?;
    let journal = Journal::open(log.clone(), home.clone(), options.clone())?;
    let began = Instant::now();
    let counts = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let journal = &journal;
            move || -> Result<u64, Error> {
                let mut count = 0_u64;
                while began.elapsed() < time {
                    let handle = journal.begin(1)?;
                    let mut block = handle.get_write(thread)?;
                    count += 1;
                    block[..8].copy_from_slice(&count.to_le_bytes());
                    block.dirty()?;
                    handle.stop_durable()?;
                }
                Ok(count)
            }
        };
        let threads: Vec<_> = (0..threads).map(|it| scope.spawn(work(it))).collect();
        let joined = threads.into_iter().map(|it| it.join().expect("no panic"));
        joined.collect::<Result<Vec<u64>, Error>>()
    })?;
    let a_second = counts.iter().sum::<u64>() as f64 / began.elapsed().as_secs_f64();
    let stats = journal.stats();
    drop(journal);
    // Check that every acknowledged change is there.
    let journal = Journal::open(log, home, options)?;
    for (thread, count) in counts.iter().enumerate() {
        let mut block = vec![0; BLOCK as usize];
        journal.read(thread as u64, &mut block)?;
        assert_eq!(block[..8], count.to_le_bytes());
    }
    Ok((stats, a_second))
}

fn main() -> Result<(), Error> {
    let seconds = std::env::args().nth(1).and_then(|it| it.parse().ok());
    let time = Duration::from_secs_f64(seconds.unwrap_or(0.1));
    let options = |way| Options::new(BLOCK).way(way);
    let rows = [
        (
            "serial, piggyback",
            Flushes::Two,
            options(CommitWay::Serial).delay(PIGGYBACK),
        ),
        ("serial", Flushes::Two, options(CommitWay::Serial)),
        ("coalesced", Flushes::Two, options(CommitWay::Coalesced)),
        (
            "cooperative, piggyback",
            Flushes::Two,
            options(CommitWay::Cooperative).delay(PIGGYBACK),
        ),
        ("cooperative", Flushes::Two, options(CommitWay::Cooperative)),
        (
            "one flush, coalesced",
            Flushes::One,
            options(CommitWay::Coalesced),
        ),
        (
            "one flush, cooperative",
            Flushes::One,
            options(CommitWay::Cooperative),
        ),
        (
            "cooperative, rendezvous",
            Flushes::Two,
            options(CommitWay::Cooperative).delay(Delay::Rendezvous),
        ),
        (
            "one flush, rendezvous",
            Flushes::One,
            options(CommitWay::Coalesced).delay(Delay::Rendezvous),
        ),
    ];
    println!(
        "{:24} threads  handles/s  handles/commit  helped  start-up delay",
        ""
    );
    for (name, flushes, options) in rows {
        for threads in [1, 2, 4, 8, 16] {
            let (stats, a_second) = run(flushes, options.clone(), threads, time)?;
            let each = stats.handles as f64 / stats.commits as f64;
            let all = stats.draining + stats.committing;
            let delay = 100.0 * stats.draining.as_secs_f64() / all.as_secs_f64();
            println!(
                "{name:24} {threads:7}  {a_second:9.0}  {each:14.2}  {:6}  {delay:13.1} %",
                stats.helped
            );
        }
    }
    Ok(())
}

//! Prepares a case on a system, and measures a round of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::{Condvar, Mutex};

use super::media::Media;
use super::meter::{Meter, Op, TIMED, Timed, run};
use super::subjects::{Files, Opened};
use super::systems::System;
use super::work::{
    CHECKPOINT, Case, DWOM, DWOM_DIRECT, DWSL, OLTP, OLTP_BYTES, OLTP_IO, OLTP_LOG_IO, OLTP_READS,
    OLTP_WRITES_A_LOG, VARMAIL, VARMAIL_APPEND, VARMAIL_FILES, VARMAIL_IO, VARMAIL_OPS,
    oltp_threads,
};
use crate::aligned::PageAligned;
use crate::measure::Latencies;
use crate::workloads::{PAGE, SHARED_FILE, SharedFile, fill};

/// The pause between two checkpoints.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a thread of OLTP waits at a time for what it follows.
const PATIENCE: Duration = Duration::from_millis(5);

/// Threads that overwrite their own pages of a shared file.
const OVERWRITES: SharedFile = SHARED_FILE[0];
/// The names of files.
const SHARED: &str = "shared";
const DATABASE: &str = "database";
const LOG: &str = "log";

/// The figures of a round.
pub(super) struct Measured {
    /// Operations per second of all threads together.
    pub(super) per_s: f64,
    /// The seconds that the round took.
    pub(super) seconds: f64,
    pub(super) times: [Latencies; TIMED],
    /// The longest write that a checkpoint overlapped.
    pub(super) stall: Option<Duration>,
    /// Bytes of metadata that were made durable, for each `fsync`.
    pub(super) bytes_per_fsync: Option<f64>,
    /// The share of a write's time that its lookup takes.
    pub(super) lookup_share: Option<f64>,
}

/// Creates the files of a case for up to `threads` threads.
///
/// # Errors
/// There is not enough room.
pub(super) fn prepare(
    case: &Case,
    system: &System,
    media: &Media,
    threads: usize,
) -> Result<Box<dyn Files>> {
    let files = media.create(system.kind, case.data_bytes(threads), case.is_direct)?;
    match case.name {
        DWOM | DWOM_DIRECT => fill(&*files.create(SHARED)?, threads)?,
        DWSL | CHECKPOINT => {
            for worker in 0..threads {
                let mut page = PageAligned::new(PAGE);
                files.create(&private(worker))?.append(page.bytes())?;
            }
        }
        OLTP => {
            let mut data = PageAligned::new(1 << 20);
            for name in [DATABASE, LOG] {
                let file = files.create(name)?;
                for _ in 0..OLTP_BYTES >> 20 {
                    file.append(data.bytes())?;
                }
            }
        }
        VARMAIL => {
            for nth in 0..VARMAIL_FILES {
                files.create(&mail(nth))?.append(&letter())?;
            }
        }
        other => unreachable!("no case {other}"),
    }
    files.checkpoint()?;
    Ok(files)
}

/// Measures a round.
///
/// # Errors
/// An operation fails.
pub(super) fn round(
    case: &Case,
    files: &dyn Files,
    threads: usize,
    duration: Duration,
) -> Result<Measured> {
    let before = files.persisted();
    let (meter, took) = match case.name {
        DWOM | DWOM_DIRECT => overwrites(files, threads, duration),
        DWSL => run(threads, duration, |worker| synced(files, worker, None)),
        CHECKPOINT => checkpoints(files, threads, duration),
        OLTP => oltp(files, threads, duration),
        VARMAIL => varmail(files, threads, duration),
        other => unreachable!("no case {other}"),
    }?;
    let seconds = took.as_secs_f64();
    let persisted = before.zip(files.persisted()).map(|(from, to)| to - from);
    let persisted = persisted.filter(|_| case.name == DWSL);
    Ok(Measured {
        per_s: meter.ops as f64 / seconds,
        seconds,
        bytes_per_fsync: persisted.map(|it| it as f64 / meter.fsyncs as f64),
        lookup_share: None,
        stall: meter.stall,
        times: meter.times,
    })
}

fn overwrites(files: &dyn Files, threads: usize, duration: Duration) -> Result<(Meter, Duration)> {
    let file = files.open(SHARED)?;
    let done = run(threads, duration, |worker| {
        let mut write = OVERWRITES.operations(&*file, worker as u64);
        Ok(Box::new(move |meter: &mut Meter| {
            meter.ops += 1;
            meter.time(Timed::Write, &mut write)
        }))
    })?;
    OVERWRITES.check(&*file, SHARED, threads)?;
    Ok(done)
}

fn private(worker: usize) -> String {
    format!("private-{worker}")
}

/// Counts the begins and ends of checkpoints: it is odd during one.
type Turn = AtomicU64;

/// Returns the operation of DWSL: a write of a thread's own file, and an fsync.
fn synced<'a>(files: &'a dyn Files, worker: usize, turn: Option<&'a Turn>) -> Result<Op<'a>> {
    let file = files.open(&private(worker))?;
    let mut page = PageAligned::new(PAGE);
    Ok(Box::new(move |meter| {
        let page = page.bytes();
        page[0] = page[0].wrapping_add(1);
        // Relaxed: whether the write at an edge of a checkpoint counts does not matter.
        let now = || turn.map_or(0, |it| it.load(Ordering::Relaxed));
        let (before, began) = (now(), Instant::now());
        file.write_at(page, 0)?;
        let took = began.elapsed();
        meter.record(Timed::Write, took);
        if before % 2 == 1 || now() != before {
            meter.note_stall(took);
        }
        meter.ops += 1;
        meter.time(Timed::Fsync, || file.fsync())
    }))
}

/// DWSL, and one more thread that makes checkpoints.
fn checkpoints(files: &dyn Files, threads: usize, duration: Duration) -> Result<(Meter, Duration)> {
    let turn = Turn::new(0);
    run(threads + 1, duration, |worker| {
        if worker < threads {
            return synced(files, worker, Some(&turn));
        }
        let turn = &turn;
        Ok(Box::new(move |meter: &mut Meter| {
            turn.fetch_add(1, Ordering::Relaxed);
            meter.time(Timed::Checkpoint, || files.checkpoint())?;
            turn.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PAUSE);
            Ok(())
        }))
    })
}

/// Couples the threads of OLTP, as Filebench's semaphores do.
#[derive(Default)]
struct Coupling {
    owed: Mutex<Owed>,
    readers: Condvar,
    log: Condvar,
}

/// What may be done for the writes so far.
#[derive(Default)]
struct Owed {
    /// Thirds of reads.
    reads: u64,
    /// Writes since the last one of the log.
    writes: u64,
}

impl Coupling {
    /// Notes a write of the database.
    fn wrote(&self) {
        let mut owed = self.owed.lock();
        owed.reads += OLTP_READS;
        owed.writes += 1;
        if owed.reads >= 3 {
            self.readers.notify_one();
        }
        if owed.writes >= OLTP_WRITES_A_LOG {
            self.log.notify_one();
        }
    }

    /// Waits a little until there may be a read. Returns whether there may.
    fn reads(&self) -> bool {
        let mut owed = self.owed.lock();
        if owed.reads < 3 {
            self.readers.wait_for(&mut owed, PATIENCE);
        }
        let may = owed.reads >= 3;
        owed.reads -= if may { 3 } else { 0 };
        may
    }

    /// The same for a write of the log.
    fn logs(&self) -> bool {
        let mut owed = self.owed.lock();
        if owed.writes < OLTP_WRITES_A_LOG {
            self.log.wait_for(&mut owed, PATIENCE);
        }
        let may = owed.writes >= OLTP_WRITES_A_LOG;
        owed.writes -= if may { OLTP_WRITES_A_LOG } else { 0 };
        may
    }
}

fn oltp(files: &dyn Files, threads: usize, duration: Duration) -> Result<(Meter, Duration)> {
    let (writers, readers) = oltp_threads(threads);
    let coupling = &Coupling::default();
    run(writers + readers + 1, duration, |worker| {
        let is_log = worker == writers + readers;
        let file = files.open(if is_log { LOG } else { DATABASE })?;
        let bytes = if is_log { OLTP_LOG_IO } else { OLTP_IO };
        let mut data = PageAligned::new(bytes);
        let mut random = fastrand::Rng::new();
        let mut place = move || random.u64(0..OLTP_BYTES / bytes as u64) * bytes as u64;
        Ok(if worker < writers {
            Box::new(move |meter: &mut Meter| {
                let began = Instant::now();
                file.write_at(data.bytes(), place())?;
                meter.time(Timed::Fsync, || file.fsync())?;
                meter.record(Timed::Write, began.elapsed());
                meter.ops += 1;
                coupling.wrote();
                Ok(())
            }) as Op<'_>
        } else if is_log {
            Box::new(move |meter| {
                if coupling.logs() {
                    file.write_at(data.bytes(), place())?;
                    file.fsync()?;
                    meter.ops += 1;
                }
                Ok(())
            })
        } else {
            Box::new(move |meter| {
                if coupling.reads() {
                    let (at, into) = (place(), data.bytes());
                    meter.time(Timed::Read, || file.read_at(into, at).map(drop))?;
                    meter.ops += 1;
                }
                Ok(())
            })
        })
    })
}

fn mail(nth: u64) -> String {
    format!("mail-{nth}")
}

/// Returns what is appended at a time.
fn letter() -> Vec<u8> {
    vec![0x5a; fastrand::usize(1..=VARMAIL_APPEND)]
}

/// Varmail's files that no thread uses.
struct Mails {
    present: Vec<u64>,
    /// The number of the next file.
    next: u64,
}

impl Mails {
    /// Takes a file for the thread alone.
    fn take(&mut self) -> u64 {
        let nth = fastrand::usize(0..self.present.len());
        self.present.swap_remove(nth)
    }
}

fn varmail(files: &dyn Files, threads: usize, duration: Duration) -> Result<(Meter, Duration)> {
    let all = files.names()?;
    let present: Vec<u64> = all
        .iter()
        .filter_map(|it| it.strip_prefix("mail-")?.parse().ok())
        .collect();
    let next = present.iter().max().map_or(0, |it| it + 1);
    let mails = &Mutex::new(Mails { present, next });
    run(threads, duration, |_| {
        let mut into = vec![0; VARMAIL_IO];
        let append = |file: &dyn Opened, meter: &mut Meter| {
            let letter = letter();
            meter.time(Timed::Write, || file.append(&letter))?;
            meter.time(Timed::Fsync, || file.fsync())
        };
        let mut read = move |file: &dyn Opened, meter: &mut Meter| {
            meter.time(Timed::Read, || file.read_at(&mut into, 0).map(drop))
        };
        Ok(Box::new(move |meter: &mut Meter| {
            let (old, new) = {
                let mut mails = mails.lock();
                mails.next += 1;
                (mails.take(), mails.next - 1)
            };
            files.remove(&mail(old))?;
            append(&*files.create(&mail(new))?, meter)?;
            let taken = mails.lock().take();
            let file = files.open(&mail(taken))?;
            read(&*file, meter)?;
            append(&*file, meter)?;
            drop(file);
            mails.lock().present.extend([new, taken]);
            let taken = mails.lock().take();
            read(&*files.open(&mail(taken))?, meter)?;
            mails.lock().present.push(taken);
            meter.ops += VARMAIL_OPS;
            Ok(())
        }))
    })
}

//! Counts and times flushes, and on a modelled device makes them last the modelled time.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::FileStorage;

use super::calls::{FlushCall, Hook};
use super::over::{Below, Over};
use super::queued::QueuedStorage;
use crate::measure::{self, Latencies};

/// The flushes of one contestant.
#[derive(Debug)]
pub struct Meter {
    /// The duration of a modelled flush, which does not reach a disk.
    modelled: Option<Duration>,
    /// The duration of a modelled write.
    write: Option<Duration>,
    counted: Mutex<Counted>,
}

/// The flushes that end within the counted time, which is the same as for commits.
#[derive(Debug)]
struct Counted {
    time: Range<Instant>,
    took: Latencies,
}

impl Meter {
    /// Creates a meter without flushes. If `modelled` is set, a flush waits for that time and does
    /// nothing else. If `write` is set, a write also waits for that time.
    pub fn new(modelled: Option<Duration>, write: Option<Duration>) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Meter {
            modelled,
            write,
            counted: Mutex::new(Counted {
                time: now..now,
                took: measure::latencies(),
            }),
        })
    }

    /// From now on, counts only flushes that end within `time`.
    pub fn count(&self, time: Range<Instant>) {
        let took = measure::latencies();
        *self.counted.lock() = Counted { time, took };
    }

    /// Returns the durations of the counted flushes in nanoseconds.
    pub fn took(&self) -> Latencies {
        self.counted.lock().took.clone()
    }

    /// Performs a flush by calling `real`.
    fn flush(&self, real: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let began = Instant::now();
        match self.modelled {
            Some(takes) => std::thread::sleep(takes),
            None => real()?,
        }
        let now = Instant::now();
        let mut counted = self.counted.lock();
        if counted.time.contains(&now) {
            measure::record(&mut counted.took, now - began);
        }
        Ok(())
    }
}

impl Hook for Meter {
    fn sees_writes(&self) -> bool {
        false
    }

    fn flush(&self, call: &FlushCall<'_>) -> io::Result<()> {
        self.flush(|| call.make())
    }
}

/// One of our files, with metered flushes.
pub type Metered = Over<Meter>;

/// A durable write counts as a flush, because it takes as long.
impl Below for Meter {
    fn write_at(&self, file: &FileStorage, data: &[u8], offset: u64) -> io::Result<()> {
        if let Some(takes) = self.write {
            std::thread::sleep(takes);
        }
        file.write_at(data, offset)
    }

    fn flush(&self, file: &FileStorage) -> io::Result<()> {
        self.flush(|| file.flush())
    }

    fn write_fua(&self, file: &FileStorage, data: &[u8], offset: u64) -> io::Result<()> {
        if self.modelled.is_some() {
            file.write_at(data, offset)?;
        }
        self.flush(|| file.write_fua(data, offset))
    }
}

/// A file whose writes are queued in the kernel, with metered flushes.
#[derive(Debug)]
pub struct MeteredQueue {
    file: QueuedStorage,
    meter: Arc<Meter>,
}

impl MeteredQueue {
    /// Meters a file.
    pub fn new(file: QueuedStorage, meter: Arc<Meter>) -> Self {
        MeteredQueue { file, meter }
    }
}

impl Storage for MeteredQueue {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(data, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.meter.flush(|| self.file.flush())
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.meter.flush(|| self.file.write_fua(data, offset))
    }
}

//! Flushes: counted, timed, and on a modelled device as long as it says.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spanlock_journal::Storage;
use spanlock_journal::storage::FileStorage;

use super::calls::Hook;
use crate::measure::{self, Latencies};

/// The flushes of one contestant.
#[derive(Debug)]
pub struct Meter {
    /// How long each takes, instead of reaching a disk.
    modelled: Option<Duration>,
    /// How long those took that have ended.
    took: Mutex<Latencies>,
}

impl Meter {
    /// No flush yet. With `modelled`, a flush waits for so long and does nothing else.
    pub fn new(modelled: Option<Duration>) -> Arc<Self> {
        Arc::new(Meter {
            modelled,
            took: Mutex::new(measure::latencies()),
        })
    }

    /// How long those took, in nanoseconds, that have ended since this was called before.
    pub fn take(&self) -> Latencies {
        std::mem::replace(&mut self.took.lock(), measure::latencies())
    }

    /// A flush, which `real` makes.
    fn flush(&self, real: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let began = Instant::now();
        match self.modelled {
            Some(takes) => std::thread::sleep(takes),
            None => real()?,
        }
        measure::record(&mut self.took.lock(), began.elapsed());
        Ok(())
    }
}

impl Hook for Meter {
    fn sees_writes(&self) -> bool {
        false
    }

    fn flush(&self, _: BorrowedFd<'_>, flush: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        self.flush(flush)
    }
}

/// A file of ours whose flushes are metered. A durable write counts as a flush: it takes as long.
#[derive(Debug)]
pub struct Metered {
    file: FileStorage,
    meter: Arc<Meter>,
}

impl Metered {
    /// Puts the meter under a file.
    pub fn new(file: FileStorage, meter: Arc<Meter>) -> Self {
        Metered { file, meter }
    }
}

impl Storage for Metered {
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
        if self.meter.modelled.is_some() {
            self.file.write_at(data, offset)?;
        }
        self.meter.flush(|| self.file.write_fua(data, offset))
    }
}

//! A write-ahead log as SQLite and Turso have it, for the bugs in its checkpoints.
//!
//! A commit appends a *frame*, the new content of the only page. A checkpoint copies frames into
//! the database, and publishes how many of them it has *backfilled*. If all frames are, a commit
//! may *restart* the log: the next frame is the first one again. A reader looks for the page in the
//! frames that are not backfilled, and then in the database.

use spanlock_sync::Mutex;
use spanlock_sync::atomic::{AtomicUsize, Ordering::*};

/// What all connections share.
pub(crate) struct Log {
    pub(crate) header: Mutex<Header>,
    /// The number of frames that the database has.
    pub(crate) backfilled: AtomicUsize,
    frames: Mutex<[u8; 2]>,
    database: Mutex<u8>,
    /// Held by a checkpoint, and by a restart.
    pub(crate) checkpoint: Mutex<()>,
}

/// The header of the log, which connections read and write as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// How often the log was restarted.
    pub(crate) restarts: usize,
    /// The number of frames.
    pub(crate) last: usize,
}

impl Log {
    /// Creates a log of two frames, of which the database has the first `backfilled`.
    pub(crate) fn new(backfilled: u8) -> Self {
        Log {
            header: Mutex::new(Header {
                restarts: 0,
                last: 2,
            }),
            backfilled: AtomicUsize::new(backfilled.into()),
            frames: Mutex::new([1, 2]),
            database: Mutex::new(backfilled),
            checkpoint: Mutex::new(()),
        }
    }

    /// Copies the newest of the first `last` frames into the database.
    pub(crate) fn copy(&self, last: usize) {
        *self.database.lock() = self.frames.lock()[last - 1];
    }

    /// Begins the log anew. The caller has the lock, and the database has all frames.
    pub(crate) fn restart(&self) {
        let mut header = self.header.lock();
        header.restarts += 1;
        header.last = 0;
        drop(header);
        self.backfilled.store(0, Release);
    }

    /// Commits new content of the page.
    pub(crate) fn append(&self, content: u8) {
        let last = self.header.lock().last;
        self.frames.lock()[last] = content;
        self.header.lock().last = last + 1;
    }

    /// Reads the page.
    pub(crate) fn read(&self) -> u8 {
        let last = self.header.lock().last;
        match self.backfilled.load(Acquire) < last {
            true => self.frames.lock()[last - 1],
            false => *self.database.lock(),
        }
    }
}

//! SQLite 3.7.0 to 3.51.2: a checkpoint does not notice that the log was restarted.
//!
//! A checkpoint reads the header of the log, which says how many frames there are, and then takes
//! the lock that keeps commits from restarting the log. In between, a commit may restart it. The
//! checkpoint publishes the number of old frames as backfilled.
//!
//! | step | checkpoint | writer |
//! |---|---|---|
//! | 1 | reads the header: 2 frames, and all are backfilled | |
//! | 2 | | restarts the log and commits its first frame |
//! | 3 | finds 0 of 2 frames backfilled; publishes 2 | |
//! | 4 | | commits the second frame, which no reader and no checkpoint looks for |
//!
//! - Description: <https://sqlite.org/wal.html#walresetbug>
//! - Fix: 3.51.3, and also 3.50.7 and 3.44.6
//!
//! The lock stands for SQLite's `WAL_READ_LOCK(0)`. The fixed form looks at the header again when
//! it has the lock.
//!
//! This is an interleaving bug.

use spanlock_sync::atomic::Ordering::*;
use spanlock_verify::{Form, KnownBug, Program};

use crate::write_ahead_log::Log;

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "sqlite-wal-reset",
        "https://sqlite.org/wal.html#walresetbug",
    )
    .program(|form| {
        Program::new("restart", "readers see the last commit")
            .scene(|| Log::new(2))
            .thread(["checkpoint"], move |log| checkpoint(log, form))
            .thread(["commit"], |log| {
                commit(log, 3);
                commit(log, 4);
            })
            .at_end(|log| assert_eq!(log.read(), 4, "a commit is lost"))
    })
}

fn checkpoint(log: &Log, form: Form) {
    let header = *log.header.lock();
    let _held = log.checkpoint.lock();
    if form == Form::Fixed && *log.header.lock() != header {
        return;
    }
    if log.backfilled.load(Acquire) < header.last {
        log.copy(header.last);
        log.backfilled.store(header.last, Release);
    }
}

fn commit(log: &Log, content: u8) {
    let held = log.checkpoint.lock();
    let last = log.header.lock().last;
    if last > 0 && log.backfilled.load(Acquire) == last {
        log.restart();
    }
    drop(held);
    log.append(content);
}

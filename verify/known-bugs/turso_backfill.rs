//! Turso: a checkpoint publishes what it has backfilled after it has released its lock.
//!
//! A checkpoint that a reader keeps from copying all frames releases the lock of checkpoints when
//! it has copied the others. Then it waits for the database's flush, and publishes the number of
//! frames that it has copied. In between, another checkpoint may copy the rest and restart the log.
//!
//! | step | checkpoint A | connection B |
//! |---|---|---|
//! | 1 | copies 1 of 2 frames, unlocks | |
//! | 2 | | copies the rest, restarts the log, commits the first new frame |
//! | 3 | publishes that 1 frame is backfilled | |
//! | 4 | | reads the database, because all frames seem to be in it |
//!
//! - Issue: <https://github.com/tursodatabase/turso/issues/7744>
//! - Fix: <https://github.com/tursodatabase/turso/pull/7789>. The fixed form is as in
//!   <https://github.com/tursodatabase/turso/pull/7749>, which was proposed and closed.
//!
//! The fixed form holds the lock until it has published the number.
//!
//! This is an interleaving bug.

use spanlock_sync::atomic::Ordering::*;
use spanlock_verify::{Form, KnownBug, Program};

use crate::write_ahead_log::Log;

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "turso-backfill",
        "https://github.com/tursodatabase/turso/issues/7744",
    )
    .program(|form| {
        Program::new("publish", "readers see the last commit")
            .scene(|| Log::new(0))
            .thread(["checkpoint"], move |log| partial_checkpoint(log, form))
            .thread(["truncate", "commit"], |log| {
                let held = log.checkpoint.lock();
                log.copy(2);
                log.restart();
                drop(held);
                log.append(3);
            })
            .at_end(|log| assert_eq!(log.read(), 3, "a commit is not seen"))
    })
}

/// Copies the first frame only, because a reader needs the page as it was then.
fn partial_checkpoint(log: &Log, form: Form) {
    let mut held = Some(log.checkpoint.lock());
    let copied = log.header.lock().last.min(1);
    if copied == 0 {
        return;
    }
    log.copy(copied);
    if form == Form::Buggy {
        held = None;
    }
    log.backfilled.store(copied, Release);
    drop(held);
}

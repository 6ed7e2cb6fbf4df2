//! Turso: a checkpoint copies frames into the database before they are durable in the log.
//!
//! With `PRAGMA synchronous=NORMAL`, a commit does not flush the log, so a checkpoint must flush it
//! before it copies frames into the database. Otherwise a power failure may leave one page of a
//! transaction in the database, and nothing of it in the log.
//!
//! | step | checkpoint | power failure |
//! |---|---|---|
//! | 1 | copies page 0 into the database, and the disk stores it | |
//! | 2 | | keeps page 0; the log, never flushed, is lost |
//! | 3 | | recovery finds no log: page 0 is new, page 1 is old |
//!
//! - Described in: <https://github.com/tursodatabase/turso/pull/7781>
//! - Fix: <https://github.com/tursodatabase/turso/pull/8101>
//!
//! The fixed form flushes the log first. A thread that reads the medium at any moment stands for
//! the power failure.
//!
//! This is a bug of what a crash leaves.

use spanlock_sync::Mutex;
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "turso-unsynced",
        "https://github.com/tursodatabase/turso/pull/7781",
    )
    .program(|form| {
        Program::new("power-failure", "recovery finds whole transactions")
            .scene(Medium::new)
            .thread(["checkpoint"], move |medium| medium.checkpoint(form))
            .thread(["crash"], |medium| {
                let [first, second] = medium.recovered();
                assert_eq!(first, second, "half of a transaction");
            })
    })
}

/// What a power failure leaves.
struct Medium {
    /// Whether the log, which has new contents of both pages, is durable.
    log: Mutex<bool>,
    /// The two pages of the database.
    database: Mutex<[u8; 2]>,
}

impl Medium {
    fn new() -> Self {
        Medium {
            log: Mutex::new(false),
            database: Mutex::new([0; 2]),
        }
    }

    fn checkpoint(&self, form: Form) {
        if form == Form::Fixed {
            *self.log.lock() = true;
        }
        for page in 0..2 {
            // The disk may store a page that is written, although nothing flushes it.
            self.database.lock()[page] = 1;
        }
    }

    /// Returns what recovery makes of the medium as it is now.
    fn recovered(&self) -> [u8; 2] {
        // The database first: in the fixed form, the log is durable before any page is new.
        let database = *self.database.lock();
        match *self.log.lock() {
            true => [1; 2],
            false => database,
        }
    }
}

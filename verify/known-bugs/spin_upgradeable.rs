//! `spin`: `downgrade_to_upgradeable` assumes that no other thread changes the word.
//!
//! The word has a writer bit, an upgradeable bit and a count of readers. `try_upgradeable_read` and
//! `try_read` first change the word, and then check whether they have got the lock. A failed
//! `try_upgradeable_read` even leaves its bit set, and the writer clears the bit later.
//!
//! **The assertion (issue open).** The downgrade asserts that the upgradeable bit is clear.
//!
//! | step | writer | `try_upgradeable_read` |
//! |---|---|---|
//! | 1 | holds the lock | |
//! | 2 | | sets the bit, finds the writer, fails |
//! | 3 | downgrades: finds the bit, panics | |
//!
//! - Issue: <https://github.com/zesterer/spin-rs/issues/169>
//!
//! **The plain store.** The same function stores the upgradeable bit over the whole word, and so
//! loses the count of a failing `try_read`. We found this bug while we re-created the first one,
//! and have not reported it.
//!
//! | step | writer | `try_read` |
//! |---|---|---|
//! | 1 | holds the lock | |
//! | 2 | | adds a reader, finds the writer |
//! | 3 | stores the upgradeable bit, which erases the count | |
//! | 4 | | subtracts the reader: the count underflows |
//!
//! The fixed form changes only the two bits: it sets the upgradeable bit, then clears the writer
//! bit. It has no assertion.
//!
//! Both are interleaving bugs.

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_verify::{Form, KnownBug, Program};

const WRITER: u32 = 1;
const UPGRADEABLE: u32 = 1 << 1;
const READER: u32 = 1 << 2;

pub(crate) fn bugs() -> [KnownBug; 2] {
    let assertion = KnownBug::new(
        "spin-upgradeable",
        "https://github.com/zesterer/spin-rs/issues/169",
    )
    .program(|form| {
        Program::new("downgrade-assertion", "a downgrade of a held lock succeeds")
            .scene(move || RwLock::written(form, true))
            .thread(["downgrade"], |lock| lock.downgrade_to_upgradeable())
            .thread(["try upgradeable"], |lock| lock.fail_upgradeable_read())
    });
    let store = KnownBug::new(
        "spin-upgradeable-store",
        "https://github.com/zesterer/spin-rs/blob/master/src/rwlock.rs",
    )
    .program(|form| {
        Program::new("downgrade-store", "the word counts the readers")
            .scene(move || RwLock::written(form, false))
            .thread(["downgrade"], |lock| lock.downgrade_to_upgradeable())
            .thread(["try_read"], |lock| lock.try_read_and_unlock())
    });
    [assertion, store]
}

struct RwLock {
    form: Form,
    asserts: bool,
    word: AtomicU32,
}

impl RwLock {
    /// Creates a lock that a writer holds.
    fn written(form: Form, asserts: bool) -> Self {
        RwLock {
            form,
            asserts,
            word: AtomicU32::new(WRITER),
        }
    }

    fn downgrade_to_upgradeable(&self) {
        if self.form == Form::Fixed {
            self.word.fetch_or(UPGRADEABLE, Relaxed);
            self.word.fetch_and(!WRITER, Release);
            return;
        }
        if self.asserts {
            let bits = self.word.load(Acquire) & (WRITER | UPGRADEABLE);
            assert_eq!(bits, WRITER, "a bit besides the writer's is set");
        }
        self.word.store(UPGRADEABLE, Release);
    }

    /// Performs a `try_upgradeable_read`. It fails, because the other thread holds the lock.
    fn fail_upgradeable_read(&self) {
        let old = self.word.fetch_or(UPGRADEABLE, Acquire);
        assert_ne!(old & (WRITER | UPGRADEABLE), 0, "two upgradeable readers");
    }

    fn try_read_and_unlock(&self) {
        self.word.fetch_add(READER, Acquire);
        let old = self.word.fetch_sub(READER, Release);
        assert!(old >= READER, "the count of readers underflows");
    }
}

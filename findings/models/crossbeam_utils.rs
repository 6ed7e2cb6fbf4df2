//! `crossbeam-utils` 0.8.23: the sequence lock of `AtomicCell`.
//!
//! The crate reads the data with `read_volatile`, which the standard calls a race. Here, the data
//! are Relaxed atomics, which compile to the same instructions.
//!
//! Source: <https://docs.rs/crate/crossbeam-utils/0.8.23/source/src/atomic/seq_lock.rs>

use spanlock_sync::atomic::{AtomicUsize, Ordering::*, fence};
use spanlock_sync::hint;
use spanlock_verify::{Program, Suite, note};

pub(crate) fn suite() -> Suite {
    Suite::new("crossbeam-utils")
        .without_pairs()
        .program(
            Program::new("write-read", "a valid read is not torn")
                .scene(SeqLock::new)
                .thread(["write"], |lock| lock.write())
                .thread(["read"], |lock| lock.read()),
        )
        .program(
            Program::new("write-write-read", "writers exclude each other")
                .scene(SeqLock::new)
                .thread(["read"], |lock| lock.read())
                .thread(["write"], |lock| lock.write())
                .thread(["write"], |lock| lock.write()),
        )
}

struct SeqLock {
    state: AtomicUsize,
    data: [AtomicUsize; 2],
}

impl SeqLock {
    fn new() -> Self {
        SeqLock {
            state: AtomicUsize::new(0),
            data: [AtomicUsize::new(0), AtomicUsize::new(0)],
        }
    }

    /// Returns the data. Relaxed, as all accesses to the data: they stand for plain accesses.
    fn data(&self) -> [usize; 2] {
        [self.data[0].load(Relaxed), self.data[1].load(Relaxed)]
    }

    fn write(&self) {
        let stamp = loop {
            let old = self.state.swap(1, Acquire);
            if old != 1 {
                break old;
            }
            // The crate backs off and swaps again. Here, the thread first looks whether a swap
            // can succeed: the explorer does not follow a loop that waits and writes to its third
            // round.
            while self.state.load(Relaxed) == 1 {
                hint::pause();
            }
        };
        fence(Release);
        let [first, second] = self.data();
        assert_eq!(first, second, "a writer sees torn data");
        self.data[0].store(first + 1, Relaxed);
        self.data[1].store(first + 1, Relaxed);
        self.state.store(stamp + 2, Release);
    }

    fn read(&self) {
        let stamp = self.state.load(Acquire);
        if stamp == 1 {
            return;
        }
        let [first, second] = self.data();
        fence(Acquire);
        if self.state.load(Relaxed) == stamp {
            assert_eq!(first, second, "torn");
            note(first.to_string());
        }
    }
}

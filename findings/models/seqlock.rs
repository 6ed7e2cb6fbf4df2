//! `seqlock` 0.2.0: `read` and `lock_write`.
//!
//! The crate reads the data with `read_volatile`, which the standard calls a race. Here, the data
//! are Relaxed atomics, which compile to the same instructions.
//!
//! Source: <https://docs.rs/crate/seqlock/0.2.0/source/src/lib.rs>

use spanlock_sync::Mutex;
use spanlock_sync::atomic::{AtomicUsize, Ordering::*, fence};
use spanlock_verify::{Program, Suite, note};

pub(crate) fn suite() -> Suite {
    Suite::new("seqlock")
        .without_pairs()
        .program(
            Program::new("write-read", "a read is not torn")
                .scene(SeqLock::new)
                .thread(["write"], |lock| {
                    lock.write();
                    lock.write();
                })
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
    seq: AtomicUsize,
    data: [AtomicUsize; 2],
    mutex: Mutex<()>,
}

impl SeqLock {
    fn new() -> Self {
        SeqLock {
            seq: AtomicUsize::new(0),
            data: [AtomicUsize::new(0), AtomicUsize::new(0)],
            mutex: Mutex::new(()),
        }
    }

    /// Returns the data. Relaxed, as all accesses to the data: they stand for plain accesses.
    fn data(&self) -> [usize; 2] {
        [self.data[0].load(Relaxed), self.data[1].load(Relaxed)]
    }

    fn write(&self) {
        let _guard = self.mutex.lock();
        let seq = self.seq.load(Relaxed) + 1;
        self.seq.store(seq, Relaxed);
        fence(Release);
        let [first, second] = self.data();
        assert_eq!(first, second, "a writer sees torn data");
        self.data[0].store(first + 1, Relaxed);
        self.data[1].store(first + 1, Relaxed);
        self.seq.store(seq + 1, Release);
    }

    /// Reads once. The crate repeats it until it is valid.
    fn read(&self) {
        let before = self.seq.load(Acquire);
        if before % 2 == 1 {
            return;
        }
        let [first, second] = self.data();
        fence(Acquire);
        if self.seq.load(Relaxed) == before {
            assert_eq!(first, second, "torn");
            note(first.to_string());
        }
    }
}

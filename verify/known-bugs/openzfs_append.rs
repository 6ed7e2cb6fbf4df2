//! OpenZFS: two appends choose the same offset.
//!
//! A write in append mode goes to the end of the file. It must choose the offset under the range
//! lock. Code that chooses the offset first, and then locks the range at that offset, can overwrite
//! another append.
//!
//! | step | writer A | writer B |
//! |---|---|---|
//! | 1 | reads the end of file: 0 | reads the end of file: 0 |
//! | 2 | locks 0..1, writes, moves the end to 1, unlocks | |
//! | 3 | | locks 0..1, overwrites A's byte |
//!
//! - Issue (open): <https://github.com/openzfs/zfs/issues/6136>. After concurrent appends,
//!   the file is too short. The report suspects that the offset is not updated under the range
//!   lock.
//!
//! The fixed form chooses the offset under the lock. In ZFS, a range lock of type `RL_APPEND` does
//! this: it locks "from the end" and returns the offset.
//!
//! This is an interleaving bug.

use spanlock_sync::Mutex;
use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "openzfs-append",
        "https://github.com/openzfs/zfs/issues/6136",
    )
    .program(|form| {
        Program::new("two-appends", "no append overwrites another")
            .scene(move || File::new(form))
            .thread(["append"], |file| file.append(1))
            .thread(["append"], |file| file.append(2))
    })
}

struct File {
    form: Form,
    end: AtomicU32,
    /// The bytes, under a mutex that stands for the range lock.
    bytes: Mutex<[u32; 2]>,
}

impl File {
    fn new(form: Form) -> Self {
        File {
            form,
            end: AtomicU32::new(0),
            bytes: Mutex::new([0; 2]),
        }
    }

    fn append(&self, byte: u32) {
        let early = self.end.load(Acquire);
        let mut bytes = self.bytes.lock();
        let offset = match self.form {
            Form::Buggy => early,
            Form::Fixed => self.end.load(Relaxed),
        };
        let old = std::mem::replace(&mut bytes[offset as usize], byte);
        assert_eq!(old, 0, "another append was overwritten");
        self.end.store(offset + 1, Release);
    }
}

//! `left-right` 0.11.8: `enter` and `publish`.
//!
//! A reader makes its epoch odd, and reads the copy to which the pointer leads. A writer swaps the
//! pointer, and waits until each reader has left or entered anew before it writes the old copy.
//!
//! Sources: <https://docs.rs/crate/left-right/0.11.8/source/src/read.rs>, `src/write.rs`.

use spanlock_sync::atomic::{AtomicUsize, Ordering::*, fence};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::hint;
use spanlock_verify::{Program, Suite, note};

pub(crate) fn suite() -> Suite {
    Suite::new("left-right").without_pairs().program(
        Program::new(
            "enter-publish",
            "no copy is written while a reader reads it",
        )
        .scene(LeftRight::new)
        .thread(["enter"], |both| {
            both.read();
            both.read();
        })
        .thread(["publish"], |both| both.publish()),
    )
}

struct LeftRight {
    epoch: AtomicUsize,
    /// The index of the copy for readers.
    current: AtomicUsize,
    copies: [UnsafeCell<u32>; 2],
}

// SAFETY: if the type is correct, the writer writes only the copy that no reader reads.
unsafe impl Sync for LeftRight {}

impl LeftRight {
    fn new() -> Self {
        LeftRight {
            epoch: AtomicUsize::new(0),
            current: AtomicUsize::new(0),
            copies: [UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    fn read(&self) {
        self.epoch.fetch_add(1, AcqRel);
        fence(SeqCst);
        let copy = &self.copies[self.current.load(Acquire)];
        // SAFETY: the writer waits for this reader.
        note(copy.with(|it| unsafe { *it }).to_string());
        self.epoch.fetch_add(1, AcqRel);
    }

    fn publish(&self) {
        // SAFETY: no reader has this copy.
        self.copies[1].with_mut(|it| unsafe { *it = 1 });
        let old = self.current.swap(1, Release);
        fence(SeqCst);
        let seen = self.epoch.load(Acquire);
        while seen % 2 == 1 && self.epoch.load(Acquire) == seen {
            hint::pause();
        }
        // SAFETY: the readers of this copy have left.
        self.copies[old].with_mut(|it| unsafe { *it = 1 });
    }
}

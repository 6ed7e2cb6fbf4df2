//! `triple_buffer` 9.0.1: `write` and `read`.
//!
//! Each end has a buffer of its own, and swaps it for the third one, whose index and dirty bit are
//! in one word.
//!
//! Source: <https://docs.rs/crate/triple_buffer/9.0.1/source/src/lib.rs>

use spanlock_sync::atomic::{AtomicUsize, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Program, Suite, note};

const INDEX: usize = 0b11;
const DIRTY: usize = 0b100;

pub(crate) fn suite() -> Suite {
    Suite::new("triple_buffer").without_pairs().program(
        Program::new("write-read", "a read sees a whole value, and no older one")
            .scene(TripleBuffer::new)
            .thread(["write"], |buffers| buffers.write())
            .thread(["read"], |buffers| buffers.read()),
    )
}

struct TripleBuffer {
    back: AtomicUsize,
    buffers: [UnsafeCell<u32>; 3],
}

// SAFETY: if the type is correct, each buffer belongs to one end at a time.
unsafe impl Sync for TripleBuffer {}

impl TripleBuffer {
    fn new() -> Self {
        TripleBuffer {
            back: AtomicUsize::new(0),
            buffers: [UnsafeCell::new(0), UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    fn write(&self) {
        let mut input = 1;
        for value in 1..=3 {
            // SAFETY: the buffer is the writer's.
            self.buffers[input].with_mut(|it| unsafe { *it = value });
            input = self.back.swap(input | DIRTY, AcqRel) & INDEX;
        }
    }

    fn read(&self) {
        let (mut output, mut last) = (2, 0);
        for _ in 0..2 {
            if self.back.load(Relaxed) & DIRTY != 0 {
                output = self.back.swap(output, AcqRel) & INDEX;
            }
            // SAFETY: the buffer is the reader's.
            let value = self.buffers[output].with(|it| unsafe { *it });
            assert!(value >= last, "an older value");
            last = value;
            note(value.to_string());
        }
    }
}

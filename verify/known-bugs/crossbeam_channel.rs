//! `crossbeam-channel` 0.5.12 to 0.5.14: an unbounded channel frees its first block twice.
//!
//! The first sender installs a block in `tail_block` and then in `head_block`. When the last
//! receiver leaves, it swaps `head_block` for null, and frees the block that it found, with its
//! messages. When the channel is dropped, it frees a block that is still in `head_block`.
//!
//! | step | sender A | sender B | last receiver |
//! |---|---|---|---|
//! | 1 | installs the block in `tail_block` | | |
//! | 2 | | sends a message into the block | |
//! | 3 | | | swaps `head_block` and finds null; sees a message, so waits for the block |
//! | 4 | stores the block in `head_block` | | |
//! | 5 | | | *loads* `head_block`, and frees the block |
//! | 6 | | | drops the channel, which frees the block in `head_block` again |
//!
//! - Advisory: RUSTSEC-2025-0024
//! - Fix (0.5.15): swap instead of load in the waiting loop too,
//!   <https://github.com/crossbeam-rs/crossbeam/pull/1187>
//!
//! The bug is an interleaving of three threads. In this program, sender A ends after step 4, and
//! the channel has a single block. If the receiver would have to wait longer, it returns instead.

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_verify::{Form, KnownBug, Program};

use crate::support::Block;

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "crossbeam-channel",
        "https://github.com/crossbeam-rs/crossbeam/pull/1187",
    )
    .program(|form| {
        Program::new("double-free", "the first block is freed once")
            .scene(move || Channel::new(form))
            .thread(["disconnect"], |channel| channel.discard_all())
            .thread(["install"], |channel| channel.install())
            .thread(["send"], |channel| channel.send())
    })
}

/// The bit that the last receiver sets in `tail` when it leaves.
const MARK: u32 = 1;
const MESSAGE: u32 = 2;
/// The two values of `head_block` and `tail_block`.
const NULL: u32 = 0;
const BLOCK: u32 = 1;

struct Channel {
    form: Form,
    tail: AtomicU32,
    tail_block: AtomicU32,
    head_block: AtomicU32,
    /// Whether the message has been written into the block.
    written: AtomicU32,
    block: Block,
}

impl Channel {
    fn new(form: Form) -> Self {
        Channel {
            form,
            tail: AtomicU32::new(0),
            tail_block: AtomicU32::new(NULL),
            head_block: AtomicU32::new(NULL),
            written: AtomicU32::new(0),
            block: Block::new(),
        }
    }

    /// Installs the block, as the first sender does.
    fn install(&self) {
        let installed = self
            .tail_block
            .compare_exchange(NULL, BLOCK, Release, Relaxed);
        if installed.is_ok() {
            self.head_block.store(BLOCK, Release);
        }
    }

    fn send(&self) {
        self.install();
        // The compare-exchange fails if the receiver has left.
        if self
            .tail
            .compare_exchange(0, MESSAGE, AcqRel, Relaxed)
            .is_ok()
        {
            self.block.touch();
            self.written.store(1, Release);
        }
    }

    /// The last receiver leaves.
    fn discard_all(&self) {
        let tail = self.tail.fetch_or(MARK, AcqRel);
        let mut block = self.head_block.swap(NULL, AcqRel);
        if tail == MESSAGE && block == NULL {
            block = match self.form {
                Form::Buggy => self.head_block.load(Acquire),
                Form::Fixed => self.head_block.swap(NULL, AcqRel),
            };
        }
        let must_wait = tail == MESSAGE && self.written.load(Acquire) == 0;
        if block == BLOCK && !must_wait {
            self.block.free();
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.head_block.load(Relaxed) == BLOCK {
            self.block.free();
        }
    }
}

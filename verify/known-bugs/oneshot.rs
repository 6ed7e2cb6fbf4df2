//! `oneshot`: three bugs by which one end frees the channel while the other end still uses it.
//!
//! The channel is a heap block with a state and a slot for the receiver's waker. (In this program,
//! the state is outside the block.) The end that leaves second frees the channel. A polled receiver
//! has stored its waker and set the state to `RECEIVING`. To take the waker, the sender sets the
//! state to `UNPARKING`, and afterwards to another state.
//!
//! **A polled receiver is dropped (0.1.11).** The receiver disconnects first, and drops its waker
//! afterwards.
//!
//! | step | receiver's drop | sender's drop |
//! |---|---|---|
//! | 1 | swaps `RECEIVING` for `DISCONNECTED` | |
//! | 2 | | finds `DISCONNECTED`, frees the channel |
//! | 3 | drops the waker in the freed channel | |
//!
//! - Advisory: RUSTSEC-2026-0005, <https://github.com/faern/oneshot/issues/73>
//! - Fix (0.1.12): <https://github.com/faern/oneshot/pull/74>: change `RECEIVING` to `EMPTY`, drop
//!   the waker, then disconnect.
//!
//! **A receiver is dropped while the sender takes its waker (0.1.11 to 0.2.1, issue open).** The
//! receiver overwrites `UNPARKING` with `DISCONNECTED`. Then it mistakes its own value for a value
//! that the sender wrote.
//!
//! | step | receiver's drop | sender's drop |
//! |---|---|---|
//! | 1 | | swaps `RECEIVING` for `UNPARKING` |
//! | 2 | swaps `UNPARKING` for `DISCONNECTED` | |
//! | 3 | finds `DISCONNECTED` instead of `UNPARKING`, so does not wait; frees the channel | |
//! | 4 | | takes the waker from the freed channel |
//!
//! - Issue: <https://github.com/faern/oneshot/issues/87>
//! - In the fixed form, the receiver waits until the state is no longer `UNPARKING`, and then
//!   writes it.
//!
//! **The orderings of both drops (0.1.11).** The sender's `fetch_xor` was Relaxed, and the
//! receiver's swap only Acquire. So nothing ordered one end's last use of the channel before the
//! other end freed it.
//!
//! - Fix (0.1.12): AcqRel for both, <https://github.com/faern/oneshot/pull/72>
//!
//! The first two bugs are interleavings that use freed memory. In the third, every interleaving
//! frees the channel after the last use, but without synchronization.

use spanlock_sync::atomic::AtomicU32;
use spanlock_sync::atomic::Ordering::{self, *};
use spanlock_sync::hint;
use spanlock_verify::{Form, KnownBug, Program};

use crate::support::Block;

// The states of the channel. To leave, the sender flips bit 0.
const RECEIVING: u32 = 0b00;
const UNPARKING: u32 = 0b01;
const DISCONNECTED: u32 = 0b10;
const EMPTY: u32 = 0b11;

pub(crate) fn bugs() -> [KnownBug; 3] {
    let polled = KnownBug::new(
        "oneshot-polled-drop",
        "https://github.com/faern/oneshot/issues/73",
    )
    .program(|form| {
        both_drop("polled-drop", move |channel| Channel {
            waker_first: form,
            ..channel
        })
    });
    let unparking = KnownBug::new(
        "oneshot-drop-while-unparking",
        "https://github.com/faern/oneshot/issues/87",
    )
    .program(|form| {
        both_drop("unparking", move |channel| Channel {
            waits_first: form,
            ..channel
        })
    });
    let orderings = KnownBug::new(
        "oneshot-orderings",
        "https://github.com/faern/oneshot/pull/72",
    )
    .program(|form| {
        both_drop("orderings", move |channel| Channel {
            orderings: form,
            ..channel
        })
    });
    [polled, unparking, orderings]
}

/// Returns a program that drops both ends of a polled channel. `of` turns the fixed channel into a
/// form with or without one bug.
fn both_drop(
    name: &'static str,
    of: impl Fn(Channel) -> Channel + Send + Sync + 'static,
) -> impl Into<Program> {
    Program::new(name, "the end that leaves second frees the channel")
        .scene(move || of(Channel::polled()))
        .thread(["drop receiver"], |channel| channel.drop_receiver())
        .thread(["drop sender"], |channel| channel.drop_sender())
}

struct Channel {
    state: AtomicU32,
    /// Stands for the waker's slot.
    block: Block,
    waker_first: Form,
    waits_first: Form,
    orderings: Form,
}

impl Channel {
    fn polled() -> Self {
        Channel {
            state: AtomicU32::new(RECEIVING),
            block: Block::new(),
            waker_first: Form::Fixed,
            waits_first: Form::Fixed,
            orderings: Form::Fixed,
        }
    }

    /// Returns the ordering of the operation by which an end leaves.
    fn leaving(&self, buggy: Ordering) -> Ordering {
        match self.orderings {
            Form::Buggy => buggy,
            Form::Fixed => AcqRel,
        }
    }

    fn drop_sender(&self) {
        match self.state.fetch_xor(1, self.leaving(Relaxed)) {
            RECEIVING => {
                // Stands for taking the waker.
                self.block.touch();
                self.state.swap(DISCONNECTED, AcqRel);
            }
            DISCONNECTED => self.block.free(),
            _ => {}
        }
    }

    fn drop_receiver(&self) {
        let leave_receiving = || {
            let left = self
                .state
                .compare_exchange(RECEIVING, EMPTY, Relaxed, Relaxed);
            left.is_ok()
        };
        if self.waker_first == Form::Fixed && leave_receiving() {
            // Stands for dropping the waker, as does `touch` below.
            self.block.touch();
        }
        match self.disconnect() {
            RECEIVING => self.block.touch(),
            UNPARKING => {
                while self.state.load(Acquire) == UNPARKING {
                    hint::pause();
                }
                self.block.free();
            }
            DISCONNECTED => self.block.free(),
            _ => {}
        }
    }

    /// Gives up the receiver's end. Returns the old state.
    fn disconnect(&self) -> u32 {
        let state = &self.state;
        let order = self.leaving(Acquire);
        if self.waits_first == Form::Buggy {
            return state.swap(DISCONNECTED, order);
        }
        loop {
            let old = state.load(Relaxed);
            if old == UNPARKING {
                hint::pause();
            } else if state
                .compare_exchange(old, DISCONNECTED, order, Relaxed)
                .is_ok()
            {
                return old;
            }
        }
    }
}

//! `conquer-once` 0.4.0: a thread that is late by one compare-exchange.
//!
//! A thread that finds the cell uninitialized tries to claim it by a compare-exchange. Meanwhile,
//! another thread may have claimed and initialized it.
//!
//! | step | thread A | thread B |
//! |---|---|---|
//! | 1 | loads `UNINIT` | |
//! | 2 | | claims the cell, initializes it, sets `READY` |
//! | 3 | the compare-exchange fails, and finds `READY` | |
//!
//! **`get_or_init` and `try_get_or_init` panic.** They convert the error `AlreadyInit` by
//! `unreachable!()`.
//!
//! **`init_once` and `try_init_once` return without synchronization.** The failure ordering of the
//! compare-exchange is Relaxed. So thread A does not see what B's closure did, although the
//! documentation of `try_init_once` promises this for `Err(AlreadyInit)`. A `Once` protects data
//! outside of the cell, for which no later Acquire helps.
//!
//! - Sources: <https://docs.rs/crate/conquer-once/0.4.0/source/src/cell.rs>, `src/state.rs`.
//! - In the fixed form, `AlreadyInit` ends in success, and the failure ordering is Acquire.
//!
//! The first is an interleaving bug. In the second, only the ordering is wrong.

use spanlock_sync::atomic::{AtomicUsize, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::hint;
use spanlock_verify::{Form, KnownBug, Program};

const WOULD_BLOCK: usize = 0;
const UNINIT: usize = 1;
const READY: usize = 2;

pub(crate) fn bugs() -> [KnownBug; 2] {
    let source = "https://docs.rs/crate/conquer-once/0.4.0/source/src/cell.rs";
    let panic = KnownBug::new("conquer-once-panic", source).program(|form| {
        Program::new("get-or-init", "get_or_init returns a value")
            .scene(move || OnceCell::new(form, Form::Fixed))
            .thread(["get_or_init"], |cell| cell.get_or_init())
            .thread(["get_or_init"], |cell| cell.get_or_init())
    });
    let ordering = KnownBug::new("conquer-once-ordering", source).program(|form| {
        Program::new("init-once", "after init_once, the data is initialized")
            .scene(move || OnceCell::new(Form::Fixed, form))
            .thread(["init_once"], |cell| cell.init_once())
            .thread(["init_once"], |cell| cell.init_once())
    });
    [panic, ordering]
}

struct OnceCell {
    panics: Form,
    ordering: Form,
    state: AtomicUsize,
    /// The cell's value, or what a `Once` protects.
    data: UnsafeCell<u32>,
}

// SAFETY: if the cell is correct, the data is read only once it is initialized.
unsafe impl Sync for OnceCell {}

impl OnceCell {
    fn new(panics: Form, ordering: Form) -> Self {
        OnceCell {
            panics,
            ordering,
            state: AtomicUsize::new(UNINIT),
            data: UnsafeCell::new(0),
        }
    }

    /// Initializes the data, or returns the state that it finds.
    fn try_init(&self) -> Result<(), usize> {
        let state = self.state.load(Acquire);
        if state != UNINIT {
            return Err(state);
        }
        let failure = match self.ordering {
            Form::Buggy => Relaxed,
            Form::Fixed => Acquire,
        };
        if let Err(now) = self
            .state
            .compare_exchange(UNINIT, WOULD_BLOCK, Acquire, failure)
        {
            let is_late = self.panics == Form::Buggy && now == READY;
            assert!(!is_late, "entered unreachable code");
            return Err(now);
        }
        // SAFETY: the cell is claimed.
        self.data.with_mut(|data| unsafe { *data = 1 });
        self.state.swap(READY, AcqRel);
        Ok(())
    }

    fn init_once(&self) {
        if self.try_init() == Err(WOULD_BLOCK) {
            while self.state.load(Acquire) == WOULD_BLOCK {
                hint::pause();
            }
        }
        // SAFETY: the data is initialized.
        assert_eq!(self.data.with(|data| unsafe { *data }), 1);
    }

    fn get_or_init(&self) {
        self.init_once();
    }
}

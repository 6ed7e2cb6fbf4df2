//! `atomic_once_cell` 0.2.0: `set` and `get`.
//!
//! Source: <https://docs.rs/crate/atomic_once_cell/0.2.0/source/src/lib.rs>

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Program, Suite, note};

const EMPTY: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;

pub(crate) fn suite() -> Suite {
    Suite::new("atomic_once_cell").without_pairs().program(
        Program::new("set-get", "one set succeeds, and a get sees its value")
            .scene(OnceCell::new)
            .thread(["set", "get"], |cell| {
                cell.set(1);
                cell.get();
            })
            .thread(["set", "get"], |cell| {
                cell.set(2);
                cell.get();
            }),
    )
}

struct OnceCell {
    state: AtomicU32,
    value: UnsafeCell<u32>,
}

// SAFETY: if the cell is correct, the value is written before it is read.
unsafe impl Sync for OnceCell {}

impl OnceCell {
    fn new() -> Self {
        OnceCell {
            state: AtomicU32::new(EMPTY),
            value: UnsafeCell::new(0),
        }
    }

    fn change(&self, old: u32, new: u32) -> bool {
        let changed = self.state.compare_exchange(old, new, AcqRel, Relaxed);
        changed.is_ok()
    }

    fn set(&self, value: u32) {
        if self.change(EMPTY, BUSY) {
            // SAFETY: the state is BUSY.
            self.value.with_mut(|it| unsafe { *it = value });
            assert!(self.change(BUSY, READY));
        }
    }

    fn get(&self) {
        if self.state.load(Acquire) == READY {
            // SAFETY: no thread writes the value once the state is READY.
            note(self.value.with(|it| unsafe { *it }).to_string());
        }
    }
}

//! `parking_lot_core`: a thread that loses the race to create a table does not synchronize with the
//! winner.
//!
//! | step | winner | loser |
//! |---|---|---|
//! | 1 | initializes a table | initializes a table |
//! | 2 | publishes it by a compare-exchange with Release | |
//! | 3 | | its compare-exchange fails *Relaxed* and returns the winner's table |
//! | 4 | | uses that table, although nothing orders the winner's step 1 before this use |
//!
//! - Fix: Acquire on failure, <https://github.com/Amanieu/parking_lot/pull/210>
//!
//! The checkers model failure orderings too, and find the race on the table.

use std::ptr;

use spanlock_sync::atomic::{AtomicPtr, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "parking-lot-hashtable",
        "https://github.com/Amanieu/parking_lot/pull/210",
    )
    .program(|form| {
        Program::new("create", "every thread sees an initialized table")
            .scene(move || Lazy::new(form))
            .thread(["get"], |lazy| lazy.get())
            .thread(["get"], |lazy| lazy.get())
    })
}

type Table = UnsafeCell<u32>;

struct Lazy {
    form: Form,
    table: AtomicPtr<Table>,
}

// SAFETY: no thread writes a table after it was published.
unsafe impl Sync for Lazy {}

impl Lazy {
    fn new(form: Form) -> Self {
        Lazy {
            form,
            table: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn get(&self) {
        let mut table = self.table.load(Acquire);
        if table.is_null() {
            table = self.create();
        }
        // SAFETY: the table lives as long as `self`.
        let value = unsafe { &*table }.with(|value| unsafe { *value });
        assert_eq!(value, 7);
    }

    fn create(&self) -> *mut Table {
        let table = Box::new(Table::new(0));
        // SAFETY: no other thread knows the table yet.
        table.with_mut(|value| unsafe { *value = 7 });
        let failure = match self.form {
            Form::Buggy => Relaxed,
            Form::Fixed => Acquire,
        };
        let table = Box::into_raw(table);
        match self
            .table
            .compare_exchange(ptr::null_mut(), table, Release, failure)
        {
            Ok(_) => table,
            Err(winner) => {
                // SAFETY: the table was made above, and was not published.
                drop(unsafe { Box::from_raw(table) });
                winner
            }
        }
    }
}

impl Drop for Lazy {
    fn drop(&mut self) {
        let table = self.table.load(Relaxed);
        if !table.is_null() {
            // SAFETY: `create` made it by `into_raw`, and no other thread is left.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

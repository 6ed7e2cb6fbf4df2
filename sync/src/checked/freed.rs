//! Detects the use of freed atomics.
//!
//! Each allocation of atomics, a slice or a box, has a cell. A use of one of the atomics reads the
//! cell, and the free of the allocation writes the cell. So a search tries both orders of a use and
//! the free. Loom also detects, in either order, a use that does not happen-before the free.
//!
//! Freed memory is kept until the next execution, so that its addresses are not reused. A use after
//! the free fails the model. Memory that is dropped in any other way is not kept, so new atomics
//! may get its addresses. Its record is removed when the first of its atomics is dropped
//! ([`Place`]).
//!
//! Under the explorer, nothing is recorded here: the explorer knows which atomics and cells were
//! dropped, and its arena does not use an address twice in an execution.
//!
//! A checker runs all threads of a model on one system thread. So the state here is kept in a plain
//! thread local of that thread.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;

use crate::cell::UnsafeCell;

use super::operations::{Access, note};

struct Memory {
    addresses: Range<usize>,
    /// Stands for the memory in loom.
    cell: UnsafeCell<()>,
    /// The memory itself, once it has been freed.
    freed: Option<Box<dyn Any>>,
}

thread_local! {
    static MEMORY: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

/// Drops the memory that the last execution freed, and forgets all slices of that execution.
pub(crate) fn begin_execution() {
    drop(MEMORY.take());
}

fn addresses<T>(memory: &[T]) -> Range<usize> {
    let Range { start, end } = memory.as_ptr_range();
    start.addr()..end.addr()
}

/// Records memory that may be freed later.
pub(crate) fn made<T>(memory: &[T]) {
    if cfg!(spanlock_explorer) {
        return;
    }
    let memory = Memory {
        addresses: addresses(memory),
        cell: UnsafeCell::new(()),
        freed: None,
    };
    MEMORY.with_borrow_mut(|all| all.push(memory));
}

/// A part of an atomic, which lies in its memory. When the atomic is dropped, its memory is
/// forgotten, if it was recorded.
#[derive(Debug)]
pub(crate) struct Place {
    /// Gives the place an address of its own.
    _byte: u8,
}

impl Place {
    pub(super) fn new() -> Self {
        Place { _byte: 0 }
    }

    /// Notes an operation of the atomic.
    #[inline]
    #[track_caller]
    pub(super) fn used(&self, access: Access) {
        note(access);
        check(self, |memory| memory.cell.with(|_| ()));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let address = core::ptr::from_ref(self).addr();
        // The system thread may be ending.
        let _ = MEMORY.try_with(|all| {
            let mut all = all.borrow_mut();
            let is_here = |it: &Memory| it.freed.is_none() && it.addresses.contains(&address);
            if let Some(at) = all.iter().position(is_here) {
                all.remove(at);
            }
        });
    }
}

/// Records that memory is freed, and keeps it.
///
/// # Panics
/// If the memory was not recorded by [`made`].
pub(crate) fn free<T: 'static>(memory: Box<[T]>) {
    #[cfg(spanlock_explorer)]
    return super::explorer::freed::free(memory);
    #[cfg(not(spanlock_explorer))]
    MEMORY.with_borrow_mut(|all| {
        let addresses = addresses(&memory);
        let known = all.iter_mut().find(|known| known.addresses == addresses);
        let known = known.expect("only memory that the facade has allocated is freed");
        known.freed = Some(Box::new(memory));
        known.cell.with_mut(|_| ());
    });
}

/// Does the same as [`free`], for a box.
#[cfg(feature = "epoch")]
pub(crate) fn free_box<T: 'static>(memory: Box<T>) {
    let memory = core::ptr::slice_from_raw_parts_mut(Box::into_raw(memory), 1);
    // SAFETY: a slice of one element has the layout of the element.
    free(unsafe { Box::from_raw(memory) });
}

/// Forgets memory that is about to be dropped, and that no other thread can use.
#[cfg(feature = "epoch")]
pub(crate) fn forget<T>(memory: &T) {
    let addresses = addresses(core::slice::from_ref(memory));
    MEMORY.with_borrow_mut(|all| all.retain(|known| known.addresses != addresses));
}

/// Asserts that the memory of an object has not been freed. This is no access that a search sees.
#[track_caller]
pub(crate) fn assert_kept<T>(object: &T) {
    check(object, |_| ());
}

/// Asserts that the memory of an object has not been freed. Calls `then` with it, if it is
/// recorded.
#[track_caller]
fn check<T>(object: &T, then: impl FnOnce(&Memory)) {
    let address = core::ptr::from_ref(object).addr();
    // While a failed model unwinds, the guards that it drops may use freed words.
    if std::thread::panicking() {
        return;
    }
    let is_freed = MEMORY.with_borrow(|all| {
        let at = all.iter().find(|known| known.addresses.contains(&address));
        at.is_some_and(|at| {
            if at.freed.is_none() {
                then(at);
            }
            at.freed.is_some()
        })
    });
    assert!(!is_freed, "an atomic is used after its memory was freed");
}

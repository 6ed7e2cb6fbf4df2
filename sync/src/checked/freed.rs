//! Detects the use of freed atomics.
//!
//! A slice of atomics is an object of its own: each use of one of the atomics reads it, and the
//! free changes it. So a search tries both orders. A cell stands for the slice in loom: a use reads
//! the cell, and the free writes it. So loom detects a use that does not happen before the free, in
//! whichever order the two run.
//!
//! Freed memory is kept until the next execution, so that its addresses are not reused. A later use
//! fails the model.
//!
//! Everything here is plain std state of the one system thread on which the checker runs all
//! threads.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;

use crate::cell::UnsafeCell;

struct Memory {
    addresses: Range<usize>,
    /// Stands for the memory in footprints, and in loom.
    cell: UnsafeCell<()>,
    /// The memory itself, once it was freed.
    freed: Option<Box<dyn Any>>,
}

thread_local! {
    static MEMORY: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

/// Drops what the last execution has freed, and forgets what it had allocated.
pub(crate) fn begin_execution() {
    drop(MEMORY.take());
}

fn addresses<T>(memory: &[T]) -> Range<usize> {
    let Range { start, end } = memory.as_ptr_range();
    start.addr()..end.addr()
}

/// Notes memory that may be freed.
pub(crate) fn made<T>(memory: &[T]) {
    let memory = Memory {
        addresses: addresses(memory),
        cell: UnsafeCell::new(()),
        freed: None,
    };
    MEMORY.with_borrow_mut(|all| {
        // A slice may have been dropped without `free`, and its addresses may have been reused.
        let apart = |a: &Range<usize>, b: &Range<usize>| a.end <= b.start || b.end <= a.start;
        all.retain(|known| known.freed.is_some() || apart(&known.addresses, &memory.addresses));
        all.push(memory);
    });
}

/// Keeps freed memory.
///
/// # Panics
/// If the memory was not noted by [`made`].
pub(crate) fn free<T: 'static>(memory: Box<[T]>) {
    let addresses = addresses(&memory);
    MEMORY.with_borrow_mut(|all| {
        let known = all.iter_mut().find(|known| known.addresses == addresses);
        let known = known.expect("free_slice frees only what zeroed_slice has allocated");
        known.freed = Some(Box::new(memory));
        known.cell.with_mut(|_| ());
    });
}

/// Notes that an atomic operation uses an object.
#[track_caller]
pub(crate) fn used<T>(used: &T) {
    let address = core::ptr::from_ref(used).addr();
    // While a failed model unwinds, the guards that it drops may use freed words.
    if std::thread::panicking() {
        return;
    }
    let is_freed = MEMORY.with_borrow(|all| {
        let at = all.iter().find(|known| known.addresses.contains(&address));
        at.is_some_and(|at| {
            if at.freed.is_none() {
                at.cell.with(|_| ());
            }
            at.freed.is_some()
        })
    });
    assert!(!is_freed, "memory is used that was freed before");
}

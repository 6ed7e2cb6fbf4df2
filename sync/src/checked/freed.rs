//! Memory of atomics that can be freed: a slice of them is an object of its own, which whoever uses one of them looks at, and whoever frees it changes. So a
//! search tries both orders, and loom, which is told the same of a cell, finds a use that does not happen before the freeing, whatever the order was.
//!
//! What is freed is kept until the next execution, so that its addresses are nobody else's, and who uses it later fails the model.
//!
//! Plain std state of the system thread on which the checker runs all threads of an execution.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;

use crate::cell::UnsafeCell;

struct Memory {
    addresses: Range<usize>,
    /// Stands for it: footprints and loom know its accesses.
    cell: UnsafeCell<()>,
    /// What was freed.
    freed: Option<Box<dyn Any>>,
}

thread_local! {
    static MEMORY: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

/// Gives up what the execution before has freed, and knows nothing that it made.
pub(crate) fn begin_execution() {
    drop(MEMORY.take());
}

fn addresses<T>(memory: &[T]) -> Range<usize> {
    let Range { start, end } = memory.as_ptr_range();
    start.addr()..end.addr()
}

/// Somebody may free it.
pub(crate) fn made<T>(memory: &[T]) {
    let memory = Memory {
        addresses: addresses(memory),
        cell: UnsafeCell::new(()),
        freed: None,
    };
    MEMORY.with_borrow_mut(|all| {
        // Who drops a slice, and does not free it, says nothing to us: its addresses may be another's now.
        let apart = |a: &Range<usize>, b: &Range<usize>| a.end <= b.start || b.end <= a.start;
        all.retain(|known| known.freed.is_some() || apart(&known.addresses, &memory.addresses));
        all.push(memory);
    });
}

/// Keeps what is freed.
///
/// # Panics
/// It is not known that it was made.
pub(crate) fn free<T: 'static>(memory: Box<[T]>) {
    let addresses = addresses(&memory);
    MEMORY.with_borrow_mut(|all| {
        let known = all.iter_mut().find(|known| known.addresses == addresses);
        let known = known.expect("only a slice that the door has made can be freed by it");
        known.freed = Some(Box::new(memory));
        known.cell.with_mut(|_| ());
    });
}

/// An atomic operation uses what lies at its address.
#[track_caller]
pub(crate) fn used<T>(used: &T) {
    let address = core::ptr::from_ref(used).addr();
    // A failure unwinds through guards, who use what they have to give back.
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

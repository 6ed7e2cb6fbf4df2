//! Detects the use of freed atomics.
//!
//! Each slice of atomics has a cell. A use of one of the atomics reads the cell, and the free of
//! the slice writes the cell. So a search tries both orders of a use and the free. Loom also
//! detects, in either order, a use that does not happen-before the free.
//!
//! Freed memory is kept until the next execution, so that its addresses are not reused. A use after
//! the free fails the model.
//!
//! A checker runs all threads of a model on one system thread. So the state here is kept in a plain
//! thread local of that thread.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;

use crate::cell::UnsafeCell;

struct Memory {
    addresses: Range<usize>,
    /// Stands for the memory in [footprints](crate::footprint), and in loom.
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

/// Records a slice that may be freed later.
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

/// Records that a slice is freed, and keeps its memory.
///
/// # Panics
/// If the slice was not recorded by [`made`].
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
    assert!(!is_freed, "an atomic is used after its memory was freed");
}

//! Memory of atomics that was freed. It is kept until the next execution, so that its addresses are nobody else's, and who uses an atomic in it fails the model.
//!
//! Plain std state of the system thread on which the checker runs all threads of an execution.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;

thread_local! {
    static FREED: RefCell<Vec<(Range<usize>, Box<dyn Any>)>> = const { RefCell::new(Vec::new()) };
}

/// Gives up what the execution before has freed.
pub(crate) fn begin_execution() {
    drop(FREED.take());
}

/// Keeps what is freed.
pub(crate) fn free<T: 'static>(memory: Box<[T]>) {
    let addresses = memory.as_ptr_range();
    let addresses = addresses.start.addr()..addresses.end.addr();
    FREED.with_borrow_mut(|freed| freed.push((addresses, Box::new(memory))));
}

/// What lies at `address` is used.
#[track_caller]
pub(crate) fn assert_not<T>(used: &T) {
    let address = core::ptr::from_ref(used).addr();
    let is_freed = FREED.with_borrow(|freed| freed.iter().any(|(at, _)| at.contains(&address)));
    // A failure unwinds through guards, who use what they have to give back.
    assert!(
        !is_freed || std::thread::panicking(),
        "memory is used that was freed before"
    );
}

//! A lock that another copy of the crate has created: a shared library and its host may each have
//! one, and the waiters of each copy queue in a table of its own.

use super::*;

#[test]
fn a_lock_of_another_copy_panics() {
    let lock = List {
        id: LockId::of_another_copy(),
        ..List::default()
    };
    let calls: [&dyn Fn() -> bool; 4] = [
        &|| lock.read(0..1).is_ok(),
        &|| lock.try_write(0..1).is_ok(),
        &|| lock.lock_all([(0..1, Access::Read)]).is_ok(),
        &|| lock.try_lock_all([(0..1, Access::Read)]).is_ok(),
    ];
    for call in calls {
        let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("the lock is foreign");
        let message = panic.downcast::<&str>().expect("a message");
        assert!(message.contains("another copy of the crate"), "{message}");
    }
    assert!(lock.holds.lock().unwrap().is_empty(), "nothing was taken");
}

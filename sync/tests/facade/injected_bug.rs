//! As shipped, an injected bug is the constant `false`.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use spanlock_sync::injected_bug;

/// Evaluated at compile time, so it generates no code.
const INJECTED: bool = injected_bug!("some-bug", "something is done wrong", killed_by = "wakeup");

#[test]
fn no_bug_is_injected() {
    const { assert!(!INJECTED) };
}

//! Spinning before sleeping.

use crate::world::hint as world;
pub use crate::world::hint::Backoff;

/// Pauses in a loop that waits for a step of another thread. As shipped, it is the processor's spin
/// hint.
///
/// Under a checker it is a yield, which tells the checker that this thread has nothing to do.
#[inline]
pub fn pause() {
    world::pause();
}

/// Returns `normal` as shipped, `checked` under a checker.
///
/// For bounds whose size does not matter to an algorithm but multiplies its executions: how many
/// times a waiter may be overtaken, how many slots a table has. Never for an ordering or a step.
#[inline]
pub const fn scaled(normal: u32, checked: u32) -> u32 {
    if world::IS_CHECKED { checked } else { normal }
}

//! Spinning before sleeping.

use crate::world::hint as world;
pub use crate::world::hint::Backoff;

/// Pauses once in a loop that waits for another thread. As shipped (built without a checker), this
/// is the processor's spin hint.
///
/// Under a checker, this is a yield, which tells the checker that this thread has nothing to do.
/// The loop must go on until it reads something else. For one that gives up, use [`Backoff`].
#[inline]
pub fn pause() {
    world::pause();
}

/// Returns `normal` as shipped, `checked` under a checker.
///
/// Use it for a bound whose value does not affect correctness but multiplies the executions that a
/// checker explores. Examples: how many times a waiter may be overtaken, how many slots a table
/// has. Never use it to choose an ordering or a step of an algorithm.
#[inline]
pub const fn scaled(normal: u32, checked: u32) -> u32 {
    if world::IS_CHECKED { checked } else { normal }
}

//! Tells a checker which steps on a region conflict.
//!
//! Not through the facade: each checker is told in its own way.

#[cfg(spanlock_explorer)]
mod explored;
#[cfg(not(spanlock_explorer))]
mod touched;

#[cfg(spanlock_explorer)]
pub(super) use explored::Marks;
#[cfg(not(spanlock_explorer))]
pub(super) use touched::Marks;

//! No spinning: see [`Backoff`].

pub(crate) use crate::thread::yield_now as pause;

/// Whether a checker runs.
pub(crate) const IS_CHECKED: bool = true;

/// A bounded spin, which has no rounds under a checker.
///
/// A thread that spins learns nothing here that a sleeping one does not, and a search with two
/// spinning threads and a holder never ends. So in models a thread joins the queue after its first
/// check.
#[derive(Debug, Default)]
pub struct Backoff {}

impl Backoff {
    /// Returns a spin that has no rounds.
    pub const fn new() -> Self {
        Backoff {}
    }

    /// Returns false: there are no rounds.
    #[inline]
    pub fn round(&mut self) -> bool {
        false
    }
}

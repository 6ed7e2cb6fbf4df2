//! Crash images: what the code of a program with crashes tells the harness about them.

use serde::{Deserialize, Serialize};

/// Says whether a step of an execution comes before another one, or is that step.
pub type ComesBefore<'a> = dyn Fn(u32, u32) -> bool + 'a;

/// Returns what comes before what, if the first step of each pair comes before the second, too.
/// Returns `None` if the execution does not permit that.
pub type WithOrder<'a> = dyn Fn(&[(u32, u32)]) -> Option<Box<ComesBefore<'a>>> + 'a;

/// The crash images of a program's executions, collected while it runs.
pub trait Crashes: Send + Sync {
    /// Called by the explorer after each execution. `comes_before(a, b)` says whether step `a`
    /// happens before step `b`, or is `b`. The code of the program learns the number of its current
    /// step from [`step`](crate::step). An execution may permit several orders of the beginnings
    /// and ends of operations: `with_order` says what comes before what in such an order.
    fn executed(&self, comes_before: &ComesBefore<'_>, with_order: &WithOrder<'_>);

    /// Called after the search: judges all images.
    ///
    /// # Errors
    /// What is wrong with an image.
    fn judge(&self) -> Result<Images, String>;
}

/// The images that a search has judged, and found correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Images {
    /// The number of different images that a crash may leave.
    pub count: u64,
    /// The number of further images that a crash during recovery may leave.
    pub during_recovery: u64,
    /// The number of moments at which the process may be killed while some store is not durable, in
    /// the mode `sequence`.
    pub kills: Option<u64>,
}

//! Observers see every decision of a search, and cannot steer it.

use crate::event::EventId;
use crate::graph::Graph;

/// How an execution ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Every thread returned.
    Complete,
    /// A thread waits for a value that is no longer the newest, or was cut in a spin loop: another
    /// execution shows what the thread does after its wait.
    Blocked,
    /// No thread can go on. The search fails, unless it
    /// [allows](crate::Search::allow_deadlocks) deadlocks.
    Deadlock,
}

/// Sees what a search does: for tests, statistics and drawings.
///
/// A method must not call the functions that programs call, such as [`fence`](crate::fence).
pub trait Observer {
    /// The next event was added in the maximal way: it reads the newest write, is the newest write,
    /// or chooses the first alternative.
    fn added(&mut self, _graph: &Graph, _event: EventId) {}

    /// The event was added in another way.
    fn deviated(&mut self, _graph: &Graph, _event: EventId) {}

    /// An earlier read was made to read from the write, which was added last. All events between
    /// them of which the write is independent were removed.
    fn revisited(&mut self, _graph: &Graph, _write: EventId) {}

    /// The memory model does not permit this graph.
    fn refused(&mut self, _graph: &Graph) {}

    /// An execution ended.
    fn ended(&mut self, _graph: &Graph, _end: End) {}
}

/// Observes nothing.
impl Observer for () {}

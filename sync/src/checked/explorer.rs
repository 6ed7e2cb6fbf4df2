//! The explorer's primitives, with the methods of std's. The facade's types wrap them as they wrap
//! those of loom and shuttle.
//!
//! Every operation on a location of the explorer is an event of the execution graph. Accesses to
//! cells are no events. The explorer compares their order with the events' happens-before relation.

pub(super) mod arc;
pub(super) mod atomic;
pub(super) mod cell;
pub(super) mod freed;
pub(super) mod mutex;
pub(super) mod thread;

//! Concurrent objects of other crates, whose atomics a checker does not see.

pub use crate::world::foreign::Foreign;

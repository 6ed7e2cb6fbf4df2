//! The facade in detail. These documents are also in the folder `docs/` of the crate.

/// How a lock waits, with a mutex as an example.
#[doc = include_str!("../docs/waiting.md")]
pub mod waiting {}

/// How the worlds differ from each other, and which shipped code no checker explores.
#[doc = include_str!("../docs/worlds.md")]
pub mod worlds {}

/// What a model can ask of the facade: faults, weakened orderings, injected bugs.
#[doc = include_str!("../docs/models.md")]
pub mod models {}

/// The facade without std, in a kernel, and in a browser.
#[doc = include_str!("../docs/targets.md")]
pub mod targets {}

/// Why there are three ways to reclaim memory, and what each costs.
#[doc = include_str!("../docs/reclamation.md")]
pub mod reclamation {}

/// What happens in unusual situations, and which test shows it.
#[doc = include_str!("../docs/edge-cases.md")]
pub mod edge_cases {}

//! The lock in detail. These documents are also in the folder `docs/` of the crate.

/// Terms, the contract, properties and features.
#[doc = include_str!("../docs/behaviour.md")]
pub mod behaviour {}

/// What happens in unusual situations, and which test shows it.
#[doc = include_str!("../docs/edge-cases.md")]
pub mod edge_cases {}

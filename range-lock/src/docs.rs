//! The contract and its details. These documents are also in the folder `docs/` of the crate.

/// Each point of the contract, deadlocks, and foreign code.
#[doc = include_str!("../docs/contract.md")]
pub mod contract {}

/// What each capability does, and where it does not.
#[doc = include_str!("../docs/capabilities.md")]
pub mod capabilities {}

/// The crate without std or without a clock, statistics, and deadlock detection.
#[doc = include_str!("../docs/features.md")]
pub mod features {}

/// What happens to invalid requests and in unusual situations, and which test shows it.
#[doc = include_str!("../docs/edge-cases.md")]
pub mod edge_cases {}

/// Programs that do not compile.
#[doc = include_str!("../docs/misuse.md")]
pub mod misuse {}

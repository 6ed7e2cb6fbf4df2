//! Journals and logs, ours and others', on the same flushes: `cargo compare journal`.
//!
//! | file | what |
//! |---|---|
//! | `args.rs` | the arguments |
//! | `devices.rs`, `meter.rs`, `over.rs` | where files lie; flushes that are counted, timed, and modelled; what is put under a file of ours |
//! | `calls.rs` | how others' flushes are seen |
//! | `peers.rs` | what others make |
//! | `contestants.rs` | everybody, behind one trait |
//! | `load.rs` | threads that commit, wait and think |
//! | `thesis.rs` | the patterns of the thesis, and its figures |
//! | `rows.rs`, `targets.rs` | what comes out |
//! | `run.rs` | a whole run |

pub mod args;
pub mod calls;
pub mod contestants;
pub mod devices;
pub mod load;
pub mod meter;
pub mod over;
pub mod peers;
pub mod rows;
mod run;
pub mod targets;
pub mod thesis;

pub use run::{Outcome, Plan, run};

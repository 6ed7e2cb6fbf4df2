//! Journals and logs, our own and those of other projects, on the same flushes: `cargo compare
//! journal`.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | the arguments |
//! | `devices.rs` | where files are stored |
//! | `meter.rs` | flushes that are counted, timed, and modelled |
//! | `over.rs` | the layer beneath our files |
//! | `queued.rs` | a file whose writes the kernel queues |
//! | `calls.rs` | how the flushes of other projects' code are intercepted |
//! | `peers.rs` | the logs of other projects |
//! | `contestants.rs` | all contestants, behind one trait |
//! | `load.rs` | threads that commit, wait and think |
//! | `thesis.rs` | the patterns of the thesis, and its figures |
//! | `rows.rs`, `targets.rs` | the results |
//! | `run.rs` | a whole run |

pub mod args;
pub mod calls;
pub mod contestants;
pub mod devices;
pub mod load;
pub mod meter;
pub mod over;
pub mod peers;
pub mod queued;
pub mod rows;
mod run;
pub mod targets;
pub mod thesis;

pub use run::{Outcome, Plan, run};

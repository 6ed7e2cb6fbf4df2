//! The layer of logs. It owns the tail of each log, its chain of pages, and the marks that commit
//! its groups. A **log** belongs to one file or directory: a chain of pages of 63 **slots**. A
//! **group** is the slots of one record, and takes effect with its **mark**. `object` appends to
//! its logs, and so do the changes in `handles` and `volume`; `recover` makes logs from what it has
//! replayed.
//!
//! From the top down:
//!
//! | file | holds |
//! |---|---|
//! | `append.rs` | reserving slots; deciding when a log is cleaned |
//! | `clean.rs` | cleaning one log; `clean/copy.rs` copies its live groups |
//! | `reservation.rs` | the slots of one operation, until it has committed |
//! | `live.rs` | what a cleaning must keep |
//! | `tail.rs` | where the slots of a log are reserved; adding pages to it |
//! | `lanes.rs` | log pages that threads have of their own; the order of groups in them |
//! | `end.rs` | the word from which slots of one page are reserved |
//! | `chain.rs` | the pages of a log, and their pointers |
//! | `record.rs` | the records that groups contain |

pub(crate) mod append;
pub(crate) mod chain;
pub(crate) mod clean;
mod end;
pub(crate) mod lanes;
pub(crate) mod live;
pub(crate) mod record;
pub(crate) mod reservation;
pub(crate) mod tail;

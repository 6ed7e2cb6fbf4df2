//! The layer of recovery. It owns nothing: it reads the bytes of a volume, and makes the objects of
//! the layer below from them. `volume` calls it, to open, check or repair a volume and to load a
//! file.
//!
//! | file | holds |
//! |---|---|
//! | `recovery.rs` | the recovery of a whole volume, and what it trusts |
//! | `reader.rs` | reading inodes, and the chains of their logs |
//! | `replay.rs` | replaying the groups in a chain |
//! | `file_scan.rs`, `runs.rs` | what the log of one file says, as runs of pages |
//! | `claims.rs` | which pages are in use, each by one log or file |
//! | `damage.rs` | how recovery reacts to damage |
//! | `survey.rs`, `mend.rs` | listing all damage; repairing it |

pub(crate) mod claims;
pub(crate) mod damage;
pub(crate) mod file_scan;
#[cfg(test)]
pub(crate) mod forged;
pub(crate) mod mend;
pub(crate) mod reader;
pub(crate) mod recovery;
pub(crate) mod replay;
pub(crate) mod runs;
pub(crate) mod survey;
#[cfg(test)]
pub(crate) mod tests;

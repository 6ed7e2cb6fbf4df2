//! Journals in images of ext4 file systems, compared with what e2fsprogs and the kernel do.

#![cfg(feature = "jbd2")]

#[path = "../rounds/mod.rs"]
mod rounds;

mod crashes;
mod debugfs_journals;
mod flag;
mod images;

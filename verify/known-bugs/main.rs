//! Concurrency bugs of other projects, re-created at their smallest and found again. Most are
//! published.
//!
//! Each entry has a *buggy* and a *fixed* form of the same few lines. The harness must fail the
//! buggy form, with a schedule to replay, and pass the fixed one. The one exception is
//! `basedrop-departure`, which states why no mode finds it. The code is our own: it keeps the
//! operations and orderings that matter to the bug and leaves out the rest of the project.
//!
//! | kind of bug | found by | why |
//! |---|---|---|
//! | interleaving, lost wakeup | loom and shuttle | both search interleavings and see deadlocks |
//! | stale value | loom in mode `weak` only | the others never return a stale value |
//! | missing synchronization | loom in both modes | shuttle does not track happens-before |
//! | load buffering | no mode | the checkers execute each thread in program order |
//!
//! Three entries are not reported upstream. They were found while other entries were re-created
//! from the same code: `asterinas-rw-mutex-try-read`, `basedrop-departure`,
//! `spin-upgradeable-store`.
//!
//! The forms that free memory twice, or use it after it was freed, are safe to run under a checker
//! only: there `free_slice` keeps the memory until the execution ends.

use std::process::ExitCode;

use spanlock_verify::KnownBug;

mod affinitypool;
mod asterinas_range_lock;
mod asterinas_rw_mutex;
mod basedrop;
mod crossbeam_channel;
mod linux_range_lock;
mod oneshot;
mod openzfs_append;
mod parking_lot_hashtable;
mod shuttle_upgrade;
mod spin_rw_lock;
mod spin_upgradeable;
mod support;
mod thread_local;
mod tokio_oneshot;

/// Returns every entry.
pub(crate) fn all() -> Vec<KnownBug> {
    let mut bugs = vec![
        affinitypool::bug(),
        asterinas_range_lock::bug(),
        crossbeam_channel::bug(),
        linux_range_lock::bug(),
        openzfs_append::bug(),
        parking_lot_hashtable::bug(),
        shuttle_upgrade::bug(),
        spin_rw_lock::bug(),
        thread_local::bug(),
        tokio_oneshot::bug(),
    ];
    bugs.extend(asterinas_rw_mutex::bugs());
    bugs.extend(basedrop::bugs());
    bugs.extend(oneshot::bugs());
    bugs.extend(spin_upgradeable::bugs());
    bugs
}

fn main() -> ExitCode {
    spanlock_verify::known_bugs(all())
}

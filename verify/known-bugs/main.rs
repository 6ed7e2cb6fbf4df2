//! Concurrency bugs of other projects, re-created as small programs that the harness must find.
//! Most of the bugs are published.
//!
//! Each entry has a *buggy* and a *fixed* form of the same few lines. The harness must find a
//! failing execution of the buggy form, and none of the fixed form. We wrote the code ourselves. It
//! has the operations and orderings that matter to the bug, and nothing else of the project.
//!
//! The explorer must find every bug, and so must loom in programs of two threads. The one exception
//! is `basedrop-departure`, which is load buffering: the checkers execute each thread in program
//! order.
//!
//! `docs/findings.md` says which of the bugs we found ourselves, and how.
//!
//! Some forms free memory twice, or use freed memory. They are safe to run only under a checker,
//! where `free_slice` keeps the memory until the execution ends.

use std::process::ExitCode;

use spanlock_verify::KnownBug;

mod affinitypool;
mod asterinas_range_lock;
mod asterinas_rw_mutex;
mod basedrop;
mod blinkcast;
mod cloud_hypervisor_block;
mod conquer_once;
mod crossbeam_channel;
mod linux_range_lock;
mod lockfree_object_pool;
mod omango;
mod oneshot;
mod openzfs_append;
mod parking_lot_hashtable;
mod rcu_clean;
mod rsevents;
mod shuttle_upgrade;
mod spin_rw_lock;
mod spin_upgradeable;
mod sqlite_wal_reset;
mod support;
mod thread_local;
mod tokio_oneshot;
mod turso_backfill;
mod turso_unsynced;
mod write_ahead_log;
mod xutex;

/// Returns every entry.
pub(crate) fn all() -> Vec<KnownBug> {
    let mut bugs = vec![
        affinitypool::bug(),
        asterinas_range_lock::bug(),
        cloud_hypervisor_block::bug(),
        crossbeam_channel::bug(),
        linux_range_lock::bug(),
        lockfree_object_pool::bug(),
        omango::bug(),
        openzfs_append::bug(),
        parking_lot_hashtable::bug(),
        shuttle_upgrade::bug(),
        spin_rw_lock::bug(),
        sqlite_wal_reset::bug(),
        thread_local::bug(),
        tokio_oneshot::bug(),
        turso_backfill::bug(),
        turso_unsynced::bug(),
        xutex::bug(),
    ];
    bugs.extend(asterinas_rw_mutex::bugs());
    bugs.extend(basedrop::bugs());
    bugs.extend(blinkcast::bugs());
    bugs.extend(conquer_once::bugs());
    bugs.extend(oneshot::bugs());
    bugs.extend(rcu_clean::bugs());
    bugs.extend(rsevents::bugs());
    bugs.extend(spin_upgradeable::bugs());
    bugs
}

fn main() -> ExitCode {
    spanlock_verify::known_bugs(all())
}

//! Detects deadlocks before a thread waits, and reports the source locations involved.
//!
//! With the feature `deadlock-detection` every hold of a guard is recorded: the thread that took
//! it, the source location, and the lock. So is every call that may wait for ever, until it
//! returns. Such a call is checked first:
//!
//! 1. If one of the thread's own holds conflicts with the request, it would wait for itself.
//! 2. For each *other* lock among the holds, the order "that lock, then this one" is recorded. If
//!    the recorded orders form a cycle, threads that pass these locations at the same time can wait
//!    for each other.
//! 3. The request would wait for other threads: for their conflicting holds, and for their earlier
//!    conflicting requests. Or it would wait for a place, where a position has as many readers as
//!    the lock admits ([`reader_limit`](crate::RawRangeLock::reader_limit)). If each thread that
//!    could end the wait is this thread, or waits for this thread in the end, all of them would
//!    wait for ever.
//!
//! In each case the call panics before it acquires anything, and names all locations involved. A
//! call for a lock that another copy of this crate has created panics as well: a shared library and
//! its host may each have a copy, with queues of its own ([`spanlock_sync::wait`]).
//!
//! Without the feature, [`LockId`] and the records have no size, and the functions are empty.
//!
//! # Scope
//! - Only these calls are checked: the plain methods, `lock_all`, `append`, and the blocking
//!   `upgrade`. Tries and requests with a deadline never panic and record no orders, because they
//!   end by themselves; their holds are recorded. (A timeout too long for the clock never ends, and
//!   is not checked either.)
//! - Orders outlive holds, and end with the lock: dropping its [`LockId`] removes them. Ids are not
//!   reused.
//! - A lock without a [`LockId`] is known by its address. It takes part in checks 1 and 3 but not
//!   in check 2. A forgotten guard of it counts against the next lock at the same address.
//!
//! # Limits
//! - A hold counts as held by the thread that took it until it is dropped, wherever that happens. A
//!   thread that hands a guard to another thread and then requests the same range panics, although
//!   it would only wait for that other thread. Do not use the feature in such a program.
//! - A hold taken by a future belongs to no thread: it is neither recorded nor checked. It may take
//!   a place among a limited number of readers, so a wait for such a place may go unreported.
//! - A batch is not checked against the limit of readers. The segment locks do not wait for a place
//!   in a batch, and no program fills the 2³⁰ − 1 places of a whole-range lock.
//! - Check 3 sees what happens in this run, at this moment: two ranges of *one* lock taken in
//!   opposite orders are reported only when two threads really meet there. It assumes that every
//!   lock serves requests first come, first served. So it may report a cycle that the lock would
//!   have resolved by overtaking.
//! - Orders are recorded for locks, not for ranges, as calls happen. A cycle is reported even if
//!   its ranges or threads can never meet.
//! - Raw locks used without guards are not watched.

#[cfg(feature = "deadlock-detection")]
#[path = "detect/on.rs"]
mod world;

#[cfg(not(feature = "deadlock-detection"))]
#[path = "detect/off.rs"]
mod world;

pub use world::LockId;
pub(crate) use world::{Watch, before, check_home};

/// A call that may wait for ever.
#[cfg_attr(not(feature = "deadlock-detection"), allow(dead_code))]
pub(crate) enum Call<'a> {
    Lock,
    Batch,
    /// The hold that is upgraded does not conflict with itself.
    Upgrade(&'a Watch),
}

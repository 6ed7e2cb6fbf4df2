//! Deadlocks that a thread makes for itself: seen before it waits, and told with the places in the code.
//!
//! With the feature `deadlock-detection` every hold of a guard is recorded: which thread took it, where, of which lock. Before a call that may
//! wait for ever, the thread's own holds are looked through:
//!
//! 1. Does one of them conflict with what is asked for? The thread would wait for itself.
//! 2. For each of other locks, the order "that one, then this one" is remembered. Do the orders now form a circle? Then
//!    threads that come through these places at the same time can wait for each other.
//!
//! In either case the call panics, before anything is taken, and names all places that take part. Without the feature nothing of
//! this exists: [`LockId`] and the guards' part have no size, and the functions are empty.
//!
//! # What is looked at
//! - Calls that wait without end: the plain verbs, `lock_all`, `append`, the blocking `upgrade`. Tries and deadlines cannot hang, so they
//!   are never stopped, and tell nothing of orders; what they take is recorded.
//! - Orders outlive holds, and end with the lock: its [`LockId`] forgets them when it is dropped. Numbers are not used twice.
//! - A lock without a [`LockId`] is known by its address: it takes part in 1, not in 2; and a guard of it that was forgotten is
//!   held against the next lock at that address.
//!
//! # Limits
//! - A hold counts as that of the thread that took it, until it is dropped, wherever that happens. A thread that gives a guard away and then asks
//!   for the same range is stopped, although it would only wait for the other: do not use the feature in such a program.
//! - What a future takes belongs to no thread: it is neither recorded nor stopped.
//! - Two ranges of *one* lock, taken in opposite orders by two threads, are not seen (`lock_all` takes them in one call); nor is a reader that
//!   reads again, behind a writer that came between.
//! - Orders are learnt from what has happened, by lock and not by range: a circle of locks whose ranges or threads can never meet is told as well.
//! - Raw locks used without the guards are not watched.

#[cfg(feature = "deadlock-detection")]
#[path = "detect/on.rs"]
mod world;

#[cfg(not(feature = "deadlock-detection"))]
#[path = "detect/off.rs"]
mod world;

pub use world::LockId;
pub(crate) use world::{Watch, before};

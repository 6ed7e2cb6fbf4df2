//! Read-copy-update (RCU) by the kernel's sleepable RCU. In a kernel, this is the module `rcu`.
//!
//! One domain serves all locks. Its counters are per core, so readers of different pages share no
//! cache line, and a lock needs no memory for them. A reader may sleep, because a walk may allocate
//! a node. A synchronize sleeps until all readers have left, those of other locks too.
//!
//! The two counters of `rcu_shared.rs` would need no more of the kernel than a barrier. But all
//! readers of a lock would share their cache line, and `synchronize` would have to poll them.

use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::injected_bug;
use crate::world::kernel;

/// A set of readers, for which a task can wait before it frees memory.
#[derive(Debug)]
pub struct Rcu(());

/// Protects what its task found under it, until it is dropped. A task may have several guards, and
/// drop them in any order.
#[derive(Debug)]
#[must_use = "dropping the guard at once ends the critical section"]
pub struct ReadGuard<'a> {
    index: c_int,
    /// Not `Send`: the critical section ends in the task that began it.
    not_send: PhantomData<(&'a Rcu, *const ())>,
}

impl Rcu {
    /// Returns an `Rcu` without readers.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Rcu(())
    }

    /// Begins a read-side critical section.
    #[inline]
    pub fn enter(&self) -> ReadGuard<'_> {
        ReadGuard {
            index: kernel::rcu_enter(),
            not_send: PhantomData,
        }
    }

    /// Waits until no critical section can still reference memory that was unlinked before this
    /// call. Sleeps. Returns true: a kernel refuses no barrier.
    ///
    /// Never call it inside a critical section: it would wait for itself.
    #[must_use = "if false, the memory must not be freed"]
    pub fn synchronize(&self) -> bool {
        if !injected_bug!(
            "node-freed-too-early",
            "synchronize returns without waiting for the read-side critical sections",
            killed_by = "reclamation, grace, recall"
        ) {
            kernel::rcu_synchronize();
        }
        true
    }
}

impl ReadGuard<'_> {
    /// Returns `None`. (With std, returns the memory that this thread remembers for `key`.)
    #[inline]
    pub fn recall(&self, _key: u64) -> Option<NonNull<()>> {
        None
    }

    /// Remembers nothing. (With std, remembers the memory for later critical sections of this
    /// thread.)
    #[inline]
    pub fn remember(&self, _key: u64, _memory: NonNull<()>) {}
}

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this critical section began with this index, in this task, and ends once.
        unsafe { kernel::rcu_leave(self.index) };
    }
}

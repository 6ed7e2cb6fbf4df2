//! Sections where threads have no memory of their own: what `section` is without std, and what `section.rs` tells the use of.
//!
//! # How
//! Two counters that all threads share, and a *phase* that says which of them a section raises: Linux's sleepable
//! read-copy-update (SRCU). So a section costs two read-modify-writes on a line that all share; each
//! [`Sections`] has counters of its own.
//!
//! # Protocol
//!
//! | | a walk | | who takes memory away |
//! |---|---|---|---|
//! | 1 | [`enter`](Sections::enter): raises the counter of the phase | 1 | unlinks the memory |
//! | 2 | (in `enter`) [`light`](crate::barrier::light) barrier | 2 | (in [`wait_for_all`](Sections::wait_for_all)) [`heavy`](crate::barrier::heavy) barrier |
//! | 3 | walks | 3 | waits until the other phase's counter is 0; changes the phase; waits until the counter before is 0 |
//! | 4 | dropping the [`Section`]: lowers the counter that it raised | 4 | frees the memory |
//!
//! # Invariants
//! - **E-I1** A counter is the number of sections that began in its phase and have not ended.
//! - **E-I2** When `wait_for_all` returns, every section that could have seen what was linked before has ended. By the two barriers either its
//!   walk sees what was unlinked, or both looks at counters come after it has raised one: and each counter was 0 at some
//!   moment since.
//! - **E-I3** Later sections keep nobody waiting for ever: they raise the counter of the phase, and the one waited for is the other's, but for
//!   those who read the phase before it changed.
//!
//! Orderings: F to I as in `section.rs`, needed by `sync/tests/checked_sections.rs`.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::atomic::{AtomicUsize, Ordering::*};
use crate::{Mutex, barrier, hint};

/// All sections of what is protected by them.
#[derive(Debug)]
pub struct Sections {
    /// Which counter new sections raise: its lowest bit.
    phase: AtomicUsize,
    inside: [AtomicUsize; 2],
    /// Held by who waits: two who change the phase in turns could wait long.
    waiting: Mutex<()>,
}

/// Being in a section. Sections may be nested: the outermost counts.
#[derive(Debug)]
#[must_use = "dropping the section at once ends it"]
pub struct Section<'a> {
    counter: &'a AtomicUsize,
    /// As with std, where it ends in the thread that began it.
    not_send: PhantomData<*const ()>,
}

impl Sections {
    /// Nobody is in a section.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Sections {
            phase: AtomicUsize::new(0),
            inside: [AtomicUsize::new(0), AtomicUsize::new(0)],
            waiting: Mutex::new(()),
        }
    }

    /// Begins a section.
    #[inline]
    pub fn enter(&self) -> Section<'_> {
        // Relaxed: which counter is of no account to E-I2.
        let counter = &self.inside[self.phase.load(Relaxed) & 1];
        // Relaxed: the barrier F orders it.
        counter.fetch_add(1, Relaxed);
        // Light [F→G].
        barrier::light();
        Section {
            counter,
            not_send: PhantomData,
        }
    }

    /// Waits until every section has ended that could have seen what was unlinked before this call.
    ///
    /// Not from within a section: it would wait for itself.
    pub fn wait_for_all(&self) {
        let _alone = self.waiting.lock();
        // Heavy [G→F].
        barrier::heavy();
        // Relaxed: changed under the mutex alone.
        let phase = self.phase.load(Relaxed);
        self.wait_for(phase.wrapping_add(1));
        // Relaxed: E-I3 needs it to be seen at some time only.
        self.phase.store(phase.wrapping_add(1), Relaxed);
        self.wait_for(phase);
    }

    fn wait_for(&self, phase: usize) {
        // Acquire [I→H]: what was done in the sections happens before what follows.
        while self.inside[phase & 1].load(Acquire) != 0 {
            hint::pause();
        }
    }
}

impl Section<'_> {
    /// With std: what this thread has remembered for `key`. Here: nothing.
    #[inline]
    pub fn recall(&self, _key: u64) -> Option<NonNull<()>> {
        None
    }

    /// With std: remembers for later sections. Here: does not.
    #[inline]
    pub fn remember(&self, _key: u64, _memory: NonNull<()>) {}
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release [H→I]: what was done in the section happens before its end is seen.
        self.counter.fetch_sub(1, Release);
    }
}

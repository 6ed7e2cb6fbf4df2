//! Persistent memory as a contract: the four verbs, and what every implementation owes.
//!
//! # What the hardware promises
//!
//! The rules below are those of x86; an implementation may promise more, never less.
//!
//! - The unit is a **line** of 64 bytes. What has persisted of a line is a *prefix* of the stores
//!   to it, in the order in which threads saw them. Different lines persist in any order.
//! - An aligned store of **8 bytes** persists whole or not at all. Nothing larger does.
//! - `clwb` and `clflushopt` only *start* a write-back. They are ordered after earlier stores to
//!   their own line and by fences, with respect to nothing else. `clflush` is ordered with respect
//!   to stores as well.
//! - A fence (`sfence`) waits for the write-backs that **its own thread** started. One thread's
//!   flush followed by another's fence makes nothing durable.
//! - A line may persist **early**, whenever the cache evicts it: "not flushed" never means "not
//!   there".
//! - A store is **visible before it is durable**. Another thread may read it, act on it, and make
//!   its own conclusion durable first.
//! - **Non-temporal** stores bypass the cache, want no flush, and are ordered by a fence alone: not
//!   even two of them to one line keep their order.
//!
//! # The way to a publication
//!
//! ```text
//!   write ──► Written ──flush──► Flushed ──fence──► Durable ──publish──► Written ──► …
//!   write_streaming ──────────►  Flushed
//! ```
//!
//! What costs is the fence, because it waits. So the tokens merge:
//! [`Flushed::and`](crate::Flushed::and) puts any number of flushes under one fence.
//!
//! # Invariants
//!
//! Every `SAFETY:` comment of an implementation may cite these.
//!
//! - **I1** A `Written` names bytes that lie inside the region that made it, and that its thread
//!   has stored.
//! - **I2** A `Flushed` exists only when a write-back of every line that it stands for has begun on
//!   this thread, and after the last store to these bytes that this token's thread made before it.
//! - **I3** A `Durable` exists only when a fence of the same thread came after every flush that it
//!   stands for.
//! - **I4** Tokens are neither copied nor cloned. `Written` and `Flushed` never leave their thread;
//!   `Durable`, being a fact about the medium and no longer about a thread's caches, may.
//! - **I5** A store that makes other bytes reachable goes through [`Pmem::publish`], which consumes
//!   a `Durable`.
//!
//! What the types do *not* say: which bytes a `Flushed` or a `Durable` stands for. Merging
//! everything that a publication relies upon is the caller's part; forgetting a `Written`
//! altogether is a compiler warning (`#[must_use]`).

use std::sync::Arc;

use crate::tokens::{Durable, Flushed, Written};

/// Bytes in a line, the unit of write-back.
pub const LINE_BYTES: u64 = 64;

/// A region of persistent memory: bytes at offsets `0..len()`, and what it takes to make them
/// durable.
///
/// ```text
///   write ──► Written ──flush──► Flushed ──fence──► Durable ──publish──► Written ──► …
///   write_streaming ──────────►  Flushed
/// ```
///
/// Offsets and lengths are in bytes. The trait is `dyn`-usable. No method blocks except as
/// [`flush`](Pmem::flush) and [`fence`](Pmem::fence) say.
///
/// # Examples
///
/// A record becomes durable first, the pointer to it afterwards:
///
/// ```
/// use spanlock_pmem::{Durable, Pmem};
///
/// /// Appends `record` at `end`, and stores the new end at offset 0.
/// fn append(region: &dyn Pmem, end: u64, record: &[u8]) -> Durable {
///     // SAFETY: nobody reads past the published end, and this is the only writer.
///     let written = unsafe { region.write(end, record) };
///     let durable = region.persist(written);
///     let mark = region.publish(0, end + record.len() as u64, durable);
///     region.persist(mark)
/// }
/// ```
///
/// The mark cannot be set before the record's fence. Neither a `Written` nor a `Flushed` will do:
///
/// ```compile_fail,E0308
/// # use spanlock_pmem::{Pmem, Written};
/// fn publish_unflushed(region: &dyn Pmem, record: Written) -> Written {
///     region.publish(0, 64, record)
/// }
/// ```
///
/// ```compile_fail,E0308
/// # use spanlock_pmem::{Pmem, Written};
/// fn publish_unfenced(region: &dyn Pmem, record: Written) -> Written {
///     let flushed = region.flush(record);
///     region.publish(0, 64, flushed)
/// }
/// ```
///
/// With the fence, the same function compiles:
///
/// ```
/// # use spanlock_pmem::{Pmem, Written};
/// fn publish_fenced(region: &dyn Pmem, record: Written) -> Written {
///     let flushed = region.flush(record);
///     let durable = region.fence(flushed);
///     region.publish(0, 64, durable)
/// }
/// ```
///
/// # Safety
/// An implementation guarantees, for one thread: what a [`Durable`] token covers survives whatever
/// its documentation says it survives, and [`publish`](Pmem::publish) is atomic with respect to
/// that. What a new region finds on its medium is as durable as what a token covers
/// ([`Durable::at_rest`]). It makes tokens only as their constructors ([`Written::new`],
/// [`Flushed::new`], [`Durable::new`]) allow. It refuses bytes outside the region, and lets the
/// bytes inside it be accessed as the methods' own contracts say.
///
/// # Panics
/// Every method panics, like slice indexing, when the bytes it names are not all inside the region,
/// and [`publish`](Pmem::publish) and [`load`](Pmem::load) when `at` is not a multiple of 8.
#[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
pub unsafe trait Pmem: Send + Sync {
    /// The region's size in bytes. Never zero.
    fn len(&self) -> u64;

    /// Copies the bytes at `at` out.
    ///
    /// # Safety
    /// No other thread writes these bytes meanwhile, and no
    /// [`write_streaming`](Pmem::write_streaming) to them awaits its fence.
    unsafe fn read(&self, at: u64, into: &mut [u8]);

    /// Copies `data` to `at`, through the cache: visible to every thread that synchronises with
    /// this one, durable only once flushed and fenced.
    ///
    /// # Safety
    /// No other thread reads or writes these bytes meanwhile, and no
    /// [`write_streaming`](Pmem::write_streaming) to them awaits its fence.
    unsafe fn write(&self, at: u64, data: &[u8]) -> Written;

    /// Copies `data` to `at` past the cache (non-temporal stores): wants a fence, but no flush.
    /// Meant for whole pages; head and tail that are not line-aligned may go through the cache.
    ///
    /// Such stores are ordered by the fence alone, and by nothing else that synchronises threads: a
    /// lock released before the fence does not make them visible to the next holder.
    ///
    /// # Safety
    /// As for [`write`](Pmem::write), and it holds on until this thread has fenced the returned
    /// token: up to then nobody, this thread included, accesses these bytes.
    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed;

    /// Starts the write-back of every 64-byte line that `written` covers.
    ///
    /// May block, and may panic if the medium refuses the bytes, where the implementation says so.
    ///
    /// # Panics
    /// Also when `written` was made by another region.
    fn flush(&self, written: Written) -> Flushed;

    /// Waits until what `flushed` covers has reached the medium. Only this thread's flushes count.
    ///
    /// `flushed` stands for flushes of this region. Whether one fence serves several regions is the
    /// implementation's to say.
    fn fence(&self, flushed: Flushed) -> Durable;

    /// Stores 8 bytes (little-endian) at `at`, atomically with respect to threads (Release) and to
    /// crashes. What makes earlier writes reachable goes through here, so it asks for the proof
    /// that they are durable.
    fn publish(&self, at: u64, value: u64, after: Durable) -> Written;

    /// Loads 8 bytes (little-endian) at `at` that were stored by [`publish`](Pmem::publish).
    /// Ordering: Acquire.
    ///
    /// What it returns is visible, and need not be durable yet: the thread that published it may
    /// not have reached its fence.
    fn load(&self, at: u64) -> u64;

    /// [`flush`](Pmem::flush) and [`fence`](Pmem::fence) in one, for bytes that nothing shares the
    /// fence with.
    fn persist(&self, written: Written) -> Durable {
        self.fence(self.flush(written))
    }
}

/// Implements [`Pmem`] for a pointer to a region.
macro_rules! forward_to_pointee {
    ($pointer:ty) => {
        // SAFETY: every method is the pointee's own, which keeps the contract.
        unsafe impl<P: Pmem + ?Sized> Pmem for $pointer {
            fn len(&self) -> u64 {
                (**self).len()
            }

            unsafe fn read(&self, at: u64, into: &mut [u8]) {
                // SAFETY: the caller's promise is the same.
                unsafe { (**self).read(at, into) }
            }

            unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
                // SAFETY: the caller's promise is the same.
                unsafe { (**self).write(at, data) }
            }

            unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
                // SAFETY: the caller's promise is the same.
                unsafe { (**self).write_streaming(at, data) }
            }

            fn flush(&self, written: Written) -> Flushed {
                (**self).flush(written)
            }

            fn fence(&self, flushed: Flushed) -> Durable {
                (**self).fence(flushed)
            }

            fn publish(&self, at: u64, value: u64, after: Durable) -> Written {
                (**self).publish(at, value, after)
            }

            fn load(&self, at: u64) -> u64 {
                (**self).load(at)
            }

            fn persist(&self, written: Written) -> Durable {
                (**self).persist(written)
            }
        }
    };
}

forward_to_pointee!(&P);
forward_to_pointee!(Arc<P>);

//! Persistent memory as a contract: the four verbs, and the obligations of every implementation.
//!
//! # What the hardware promises
//!
//! These are the rules of x86. An implementation may promise more, but never less.
//!
//! - The unit is a **line** of 64 bytes. Of the stores to one line, a *prefix* has persisted, in
//!   the order in which threads saw them. Different lines persist in any order.
//! - An aligned store of **8 bytes** persists completely or not at all. A larger store may tear.
//! - `clwb` and `clflushopt` only *start* a write-back. They are ordered only by fences, and after
//!   earlier stores to their own line. `clflush` is also ordered with other stores.
//! - A fence (`sfence`) waits for the write-backs that **its own thread** started. If one thread
//!   flushes and another one fences, nothing is durable.
//! - A line may persist **early**, whenever the cache evicts it. An unflushed store may therefore
//!   be on the medium.
//! - A store is **visible before it is durable**. Another thread may read it, act on it, and make
//!   the result durable first.
//! - **Non-temporal** stores bypass the cache, need no flush, and are ordered by a fence alone.
//!   Even two of them to one line may be reordered.
//!
//! # The steps to a publication
//!
//! ```text
//!   write ──► Written ──flush──► Flushed ──fence──► Durable ──publish──► Written ──► …
//!   write_streaming ──────────►  Flushed
//! ```
//!
//! The fence is the expensive step, because it waits. Tokens therefore merge:
//! [`Flushed::and`](crate::Flushed::and) puts any number of flushes under one fence.
//!
//! # Invariants
//!
//! The `SAFETY:` comments of an implementation may cite these.
//!
//! - **PM-I1** A `Written` names bytes that lie inside the region that made it. Its thread has
//!   stored them, or another thread has, and the token came from there as an `Unflushed`.
//! - **PM-I2** A `Flushed` exists only if this thread has begun a write-back of every line that it
//!   stands for. That write-back began after the stores of the `Written` tokens that became it.
//! - **PM-I3** A `Durable` exists only if a fence of the same thread followed every flush that it
//!   stands for.
//! - **PM-I4** Tokens are neither copied nor cloned. `Flushed` never leaves its thread, and
//!   `Written` only as an `Unflushed`, to be flushed where it arrives. `Durable` may, because it
//!   describes the medium and no longer a thread's caches.
//! - **PM-I5** A store that makes other bytes reachable goes through [`Pmem::publish`], which
//!   consumes a `Durable`.
//!
//! The types do *not* record which bytes a `Flushed` or a `Durable` stands for. The caller must
//! merge the tokens of all writes that a publication relies on. The compiler warns of a token that
//! is not used at all (`#[must_use]`).

use std::sync::Arc;

use crate::tokens::{Durable, Flushed, Written};

/// The number of bytes in a line, the unit of write-back.
pub const LINE_BYTES: u64 = 64;

/// A region of persistent memory: bytes at offsets `0..len()`, and the operations that make them
/// durable.
///
/// ```text
///   write ──► Written ──flush──► Flushed ──fence──► Durable ──publish──► Written ──► …
///   write_streaming ──────────►  Flushed
/// ```
///
/// Offsets and lengths are in bytes. The trait is `dyn`-usable. Only [`flush`](Pmem::flush),
/// [`write_streaming`](Pmem::write_streaming), [`fence`](Pmem::fence) and
/// [`persist`](Pmem::persist) may block.
///
/// # Examples
///
/// A record becomes durable first, and then the pointer to it:
///
/// ```
/// use spanlock_pmem::{Durable, Pmem};
///
/// /// Appends `record` at `end`, and stores the new end at offset 0.
/// fn append(region: &dyn Pmem, end: u64, record: &[u8]) -> Durable {
///     // SAFETY: no thread reads past the published end, and this is the only writer.
///     let written = unsafe { region.write(end, record) };
///     let durable = region.persist(written);
///     let mark = region.publish(0, end + record.len() as u64, durable);
///     region.persist(mark)
/// }
/// ```
///
/// The mark cannot be set before the record's fence. Neither a `Written` nor a `Flushed` is
/// accepted:
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
/// An implementation guarantees, for one thread:
///
/// - The bytes that a [`Durable`] token covers survive the failures that the implementation's
///   documentation names, and [`publish`](Pmem::publish) is atomic with respect to these failures.
/// - The contents that a new region finds on its medium are as durable as bytes covered by a token
///   ([`Durable::at_rest`]).
/// - It makes tokens only as their constructors ([`Written::new`], [`Flushed::new`],
///   [`Durable::new`]) allow.
/// - It refuses bytes outside the region. Bytes inside it may be accessed as the methods' contracts
///   say.
///
/// # Panics
/// Every method panics, like slice indexing, if the bytes it names are not all inside the region.
/// [`publish`](Pmem::publish) and [`load`](Pmem::load) also panic if `at` is not a multiple of 8.
/// [`write`](Pmem::write), [`write_streaming`](Pmem::write_streaming) and
/// [`publish`](Pmem::publish) also panic if the region is [read-only](Pmem::is_read_only).
#[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
pub unsafe trait Pmem: Send + Sync {
    /// Returns the region's size in bytes, which is never zero.
    fn len(&self) -> u64;

    /// Returns whether the region can only be read. Every store to such a region panics, so code
    /// that has to store asks first. Constant while the region lives.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Copies the bytes at `at` into `into`.
    ///
    /// # Safety
    /// Meanwhile no other thread writes these bytes, and no
    /// [`write_streaming`](Pmem::write_streaming) to them awaits its fence.
    #[track_caller]
    unsafe fn read(&self, at: u64, into: &mut [u8]);

    /// Copies `data` to `at`, through the cache. The bytes are visible to every thread that
    /// synchronizes with this one, and durable only after a flush and a fence.
    ///
    /// # Safety
    /// Meanwhile no other thread reads or writes these bytes, and no
    /// [`write_streaming`](Pmem::write_streaming) to them awaits its fence.
    #[track_caller]
    unsafe fn write(&self, at: u64, data: &[u8]) -> Written;

    /// Copies `data` to `at` past the cache (non-temporal stores), so that it needs a fence but no
    /// flush. It is meant for whole pages. A head or tail that is not line-aligned may go through
    /// the cache.
    ///
    /// Only the fence orders such stores; other synchronization between threads does not. If a lock
    /// is released before the fence, its next holder may not see them.
    ///
    /// May block, and may panic if the medium refuses the bytes, as [`flush`](Pmem::flush) does.
    ///
    /// # Safety
    /// As for [`write`](Pmem::write). Furthermore, no thread, including this one, accesses these
    /// bytes before this thread has fenced the returned token.
    #[track_caller]
    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed;

    /// Fetches the lines of `len` bytes at `at` into the cache, for a store that comes soon. Only a
    /// hint: it waits for nothing, and changes and orders nothing. Other threads may use the bytes
    /// meanwhile. By default, it does nothing.
    #[track_caller]
    fn prefetch(&self, at: u64, len: u64) {
        let _ = (at, len);
    }

    /// Starts the write-back of every 64-byte line that `written` covers.
    ///
    /// May block, and may panic if the medium refuses the bytes, where the implementation says so.
    ///
    /// # Panics
    /// If another region made `written`.
    #[track_caller]
    fn flush(&self, written: Written) -> Flushed;

    /// Waits until the bytes that `flushed` covers have reached the medium. Only this thread's
    /// flushes count.
    ///
    /// `flushed` stands for flushes of this region. The implementation says whether one fence
    /// serves several regions.
    #[track_caller]
    fn fence(&self, flushed: Flushed) -> Durable;

    /// Stores 8 bytes (little-endian) at `at`, atomically with respect to threads (Release) and to
    /// crashes. Stores that make earlier writes reachable go through here; `after` proves that
    /// those writes are durable.
    #[track_caller]
    fn publish(&self, at: u64, value: u64, after: Durable) -> Written;

    /// Loads 8 bytes (little-endian) at `at` that [`publish`](Pmem::publish) stored. Ordering:
    /// Acquire.
    ///
    /// The value is visible but may not be durable yet: the thread that published it may not have
    /// reached its fence.
    #[track_caller]
    fn load(&self, at: u64) -> u64;

    /// Does [`flush`](Pmem::flush) and [`fence`](Pmem::fence), for bytes that share the fence with
    /// no others.
    #[track_caller]
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

            fn is_read_only(&self) -> bool {
                (**self).is_read_only()
            }

            unsafe fn read(&self, at: u64, into: &mut [u8]) {
                // SAFETY: the caller gives the same promise.
                unsafe { (**self).read(at, into) }
            }

            unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
                // SAFETY: the caller gives the same promise.
                unsafe { (**self).write(at, data) }
            }

            unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
                // SAFETY: the caller gives the same promise.
                unsafe { (**self).write_streaming(at, data) }
            }

            fn prefetch(&self, at: u64, len: u64) {
                (**self).prefetch(at, len);
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

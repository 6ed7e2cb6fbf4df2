//! Persistent memory as a contract: the four verbs, and the typestates on the way to a publication.

use core::marker::PhantomData;

/// A region of persistent memory: bytes at offsets `0..len()`, and what it takes to make them durable.
///
/// ```text
///   write ──► Written ──flush──► Flushed ──fence──► Durable ──publish──► Written ──► …
///   write_streaming ──────────►  Flushed
/// ```
///
/// # Safety
/// An implementation guarantees, for one thread: what a [`Durable`] token covers survives whatever its
/// documentation says it survives, and [`publish`](Pmem::publish) is atomic with respect to that.
///
/// # Panics
/// Every method panics, like slice indexing, when the bytes it names are not all inside the region, and
/// [`publish`](Pmem::publish) and [`load`](Pmem::load) when `at` is not a multiple of 8.
pub unsafe trait Pmem: Send + Sync {
    /// The region's size in bytes.
    fn len(&self) -> u64;

    /// Copies the bytes at `at` out.
    ///
    /// # Safety
    /// No other thread writes these bytes meanwhile.
    unsafe fn read(&self, at: u64, into: &mut [u8]);

    /// Copies `data` to `at`, through the cache: visible to every thread that synchronises with this
    /// one, durable only once flushed and fenced.
    ///
    /// # Safety
    /// No other thread reads or writes these bytes meanwhile.
    unsafe fn write(&self, at: u64, data: &[u8]) -> Written;

    /// Copies `data` to `at` past the cache (non-temporal stores): wants a fence, but no flush.
    /// Meant for whole pages; head and tail that are not line-aligned may go through the cache.
    ///
    /// # Safety
    /// As for [`write`](Pmem::write).
    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed;

    /// Starts the write-back of every 64-byte line that `written` covers.
    fn flush(&self, written: Written) -> Flushed;

    /// Waits until what `flushed` covers has reached the medium. Only this thread's flushes count.
    fn fence(&self, flushed: Flushed) -> Durable;

    /// Stores 8 bytes (little-endian) at `at`, atomically with respect to threads (Release) and to crashes. What makes
    /// earlier writes reachable goes through here, so it asks for the proof that they are durable.
    fn publish(&self, at: u64, value: u64, after: Durable) -> Written;

    /// Loads 8 bytes (little-endian) at `at` that were stored by [`publish`](Pmem::publish). Ordering: Acquire.
    fn load(&self, at: u64) -> u64;
}

/// Bytes that are written and not yet flushed. Bound to its thread.
#[derive(Debug)]
#[must_use = "written bytes are not durable until flushed and fenced"]
pub struct Written {
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// A flush and a fence count only on the thread that wrote: not `Send`.
    _thread: PhantomData<*const ()>,
}

/// Bytes whose write-back has begun. Bound to its thread: one thread's fence does nothing for the
/// flushes of another.
#[derive(Debug)]
#[must_use = "flushed bytes are not durable until fenced"]
pub struct Flushed {
    _thread: PhantomData<*const ()>,
}

/// The proof that bytes are durable, wanted by [`Pmem::publish`].
#[derive(Debug)]
pub struct Durable {
    _private: (),
}

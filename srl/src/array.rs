//! The array: the words of the first segments, and a tail with all other words, which is created
//! when it is first needed.
//!
//! # The problem
//! This store is for a capacity that is known and moderate. The words take 4 bytes per segment, as
//! in the last term of [SRL] Equation 3, or half a byte in the packed form. A file system may give
//! each file a lock for the largest file size, but most files stay small. If all words were in one
//! allocation, each new file would pay for a mapping and for page faults. So the array allocates
//! only its first words with the lock.
//!
//! # Picture
//!
//! ```text
//!  segment   0   1   2      255 256 257                capacity ÷ segment size
//!          ┌───┬───┬───┬─ ─┬───┬───┬───┬─ ─ ─ ─ ─ ─ ─┬───┐
//!          │ W │ W │ W │ … │ W │ W │ W │      …      │ W │
//!          └───┴───┴───┴─ ─┴───┴───┴───┴─ ─ ─ ─ ─ ─ ─┴───┘
//!          │  the head, 1 KiB  │   the tail, or null     │
//! ```
//!
//! # Properties
//! - **Cost**: a lookup in the tail costs one load and two comparisons more than a lookup in the
//!   head.
//! - **Progress**: finding a word is wait-free. So is creating the tail, except for the allocator.
//!   If two threads create it at the same time, one of them frees its own again.
//! - **Memory**: the **head** has up to 1 KiB of words: 256, or 128 packed words. The **tail** is
//!   created when a small request first needs one of its words, and stays until the lock is
//!   dropped. A tail of more than 64 MiB is allocated with the lock, so that the constructor can
//!   report that there is no memory for it. Where the system provides zeroed memory page by page, a
//!   page of words takes memory only once a request uses one of these words. Head and tail share no
//!   cache line with other memory, unless they take less than one ([`Padded`]).
//! - **Scans**: the segments of a missing tail are free. A scan does not create the tail.
//!
//! # Invariants
//! - **AR-I1** A piece lies in the head or in the tail, never in both. The words of a piece are
//!   contiguous.
//! - **AR-I2** The tail's pointer is null or points to all words of the tail. It changes only once,
//!   from null, by compare-exchange. So each segment has one word at most, and the word stays as
//!   long as the array.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | U | the compare-exchange that links the tail | Release | V | `srl-array/tail-growth` |
//! | V | the load of the tail's pointer, the failed link | Acquire | U | `srl-array/tail-growth` |
//!
//! A wide request issues the barrier K of the [gate](crate::gate) before it loads the pointer. A
//! small request creates or finds the tail before the barrier J. So if the wide request finds the
//! tail missing, the small request sees the gate closed: G-I2 holds as if the words had been seen
//! free.
//!
//! # Without memory
//! If there is no memory for a tail of at most 64 MiB, each request that needs the tail returns
//! [`RangeError::Memory`](spanlock_range_lock::RangeError::Memory).
//! [`try_reserve`](crate::Srl::try_reserve) creates the tail in advance.
//!
//! # Models
//! In the rows `srl-array/tail-…` of `cargo verify`, the head has two words. In all other rows, the
//! lock has no tail.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use core::ptr::{NonNull, null_mut};
use core::slice;

use spanlock_range_lock::words::Word;
use spanlock_sync::atomic::{AtomicPtr, Ordering::*};
use spanlock_sync::injected_bug;

use crate::lock::Srl;
use crate::padded::Padded;
use crate::segment::{SegmentError, Segments};
use crate::store::{Piece, SegmentStore, words_of};

/// The largest tail, in bytes, that is not allocated with the lock.
const LARGEST_LAZY_TAIL: usize = 64 << 20;

/// The words of all segments, in two allocations.
#[derive(Debug)]
pub struct Array<W: Word> {
    /// The words of the first segments.
    head: Padded<W>,
    /// The words of all other segments.
    tail: Tail<W>,
    segments: Segments,
}

impl<W: Word> Srl<Array<W>> {
    /// Does what [`with_segment_size`](Self::with_segment_size) does, but the words after the first
    /// `head` are created when one of them is first needed. For tests and models.
    #[doc(hidden)]
    pub fn with_head(capacity: u64, size: u64, head: usize) -> Result<Self, SegmentError> {
        let segments = Segments::new(capacity, size)?;
        Ok(Self::with_store(Array::with_head(segments, head)?))
    }
}

impl<W: Word> Array<W> {
    /// The number of words in the head: 1 KiB of `RwWord`s or of `PackedWord`s.
    const HEAD: usize = if W::LANES == 1 { 256 } else { 128 };

    pub(crate) fn new(segments: Segments) -> Result<Self, SegmentError> {
        Self::with_head(segments, Self::HEAD)
    }

    /// Creates an array whose head has at most `most` words.
    fn with_head(segments: Segments, most: usize) -> Result<Self, SegmentError> {
        let count = segments.count();
        let words = usize::try_from(count.div_ceil(u64::from(W::LANES)));
        let parts = words.ok().and_then(|words| {
            let head = words.min(most);
            Some((Padded::zeroed(head)?, Tail::new(words - head)?))
        });
        let (head, tail) = parts.ok_or_else(|| segments.no_memory())?;
        Ok(Array {
            head,
            tail,
            segments,
        })
    }

    /// Creates all words. Returns `None` if there is no memory for them.
    pub(crate) fn reserve(&self) -> Option<()> {
        self.tail.reserve()
    }

    /// Returns the size of the words in bytes, without a missing tail.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&*self.head) + self.tail.memory_usage()
    }

    /// Returns the end of the longest piece in `first..end` that starts with `first` (AR-I1).
    #[inline]
    fn end_of_piece(&self, first: u64, end: u64) -> u64 {
        let tail = self.head.len() as u64 * u64::from(W::LANES);
        if first < tail { end.min(tail) } else { end }
    }

    /// Returns the longest piece in `first..end` that starts with `first`. `tail` returns the words
    /// of the tail; if it returns `None`, so does this.
    #[inline]
    fn piece<'s>(
        &'s self,
        first: u64,
        end: u64,
        tail: impl FnOnce() -> Option<&'s [W]>,
    ) -> Option<Piece<'s, W>> {
        let end = self.end_of_piece(first, end);
        let word = number_of_word::<W>(first);
        let (words, at) = match word.checked_sub(self.head.len()) {
            None => (&*self.head, word),
            Some(at) => (tail()?, at),
        };
        // In bounds: `end` is at most `count`, and there are words for that many segments.
        let words = &words[at..at + words_of::<W>(first, end)];
        Some(Piece::new(words, first, end))
    }

    /// Returns a piece of the tail, after creating the tail. Returns `None` if there is no memory.
    #[cold]
    #[inline(never)]
    fn make_piece(&self, first: u64, end: u64) -> Option<Piece<'_, W>> {
        let tail = self.tail.make()?;
        self.piece(first, end, || Some(tail))
    }
}

/// Returns the number of a segment's word, counted from the first word of the head.
#[inline]
fn number_of_word<W: Word>(segment: u64) -> usize {
    (segment / u64::from(W::LANES)) as usize
}

// SAFETY: segment `i` always has the word `i / LANES`, once it has one. A word lives as long as the
// array (AR-I2).
unsafe impl<W: Word> SegmentStore for Array<W> {
    type Word = W;
    type ReadGuard<'a> = ();

    #[inline]
    fn segments(&self) -> Segments {
        self.segments
    }

    #[inline]
    fn enter(&self) {}

    #[inline]
    fn word<'s>(&'s self, _guard: &'s (), segment: u64) -> Option<&'s W> {
        let word = number_of_word::<W>(segment);
        match self.head.get(word) {
            Some(word) => Some(word),
            // Creating the tail here would put a call into the fast path of every request.
            None => self.tail.words()?.get(word - self.head.len()),
        }
    }

    #[inline]
    fn find_or_make<'s>(&'s self, guard: &'s (), first: u64, end: u64) -> Option<Piece<'s, W>> {
        match self.find(guard, first, end) {
            Ok(piece) => Some(piece),
            Err(_) => self.make_piece(first, end),
        }
    }

    #[inline]
    fn find<'s>(&'s self, _guard: &'s (), first: u64, end: u64) -> Result<Piece<'s, W>, u64> {
        self.piece(first, end, || self.tail.words()).ok_or(end)
    }

    fn first_busy<'s>(
        &'s self,
        guard: &'s (),
        first: u64,
        end: u64,
        is_free: impl Fn(Piece<'s, W>) -> bool,
    ) -> u64 {
        let mut at = first;
        while at < end {
            let Ok(piece) = self.find(guard, at, end) else {
                break;
            };
            if !is_free(piece) {
                return at;
            }
            at += piece.len();
            if injected_bug!(
                "tail-not-scanned",
                "a wide request scans only the first of its two pieces",
                killed_by = "tail-wide"
            ) {
                break;
            }
        }
        end
    }

    /// Uses the address, if the caller knows it, instead of a lookup.
    ///
    /// A load that follows a read-modify-write is slow, so a release without a lookup is measurably
    /// cheaper.
    #[inline]
    unsafe fn held(&self, word: Option<usize>, first: u64, end: u64) -> Piece<'_, W> {
        let Some(word) = word else {
            let held = self.piece(first, end, || self.tail.words());
            return held.unwrap_or_else(|| unreachable!("a held segment has a word"));
        };
        let end = self.end_of_piece(first, end);
        let word = core::ptr::with_exposed_provenance(word);
        // SAFETY: `word` is the address of the word of `first` (the caller's promise). The words of
        // `first..end` are contiguous (AR-I1), and live as long as `self` (AR-I2).
        let words = unsafe { slice::from_raw_parts(word, words_of::<W>(first, end)) };
        Piece::new(words, first, end)
    }
}

/// The words of all segments whose words are not in the head.
#[derive(Debug)]
struct Tail<W: Word> {
    /// The first word, or null while the tail is missing.
    first: AtomicPtr<W>,
    /// The number of words.
    len: usize,
}

impl<W: Word> Tail<W> {
    /// Creates a tail of `len` words, which is missing at first if it is small.
    ///
    /// Returns `None` if the tail is not small, and there is no memory for it.
    fn new(len: usize) -> Option<Self> {
        let first = if len <= LARGEST_LAZY_TAIL / size_of::<W>() {
            null_mut()
        } else {
            Padded::into_raw(Padded::<W>::zeroed(len)?).as_ptr()
        };
        Some(Tail {
            first: AtomicPtr::new(first),
            len,
        })
    }

    /// Returns the words, or `None` if they are missing.
    #[inline]
    fn words(&self) -> Option<&[W]> {
        let first = NonNull::new(self.load())?;
        // SAFETY: the tail has `len` words, and they stay while `self` is borrowed (AR-I2).
        Some(unsafe { slice::from_raw_parts(first.as_ptr(), self.len) })
    }

    /// Returns the first word, or null.
    #[inline]
    fn load(&self) -> *mut W {
        // Acquire [V→U]: this thread sees the words initialized.
        self.first.load(Acquire)
    }

    /// Creates the words, unless another thread has done so meanwhile; returns them. Returns `None`
    /// if there is no memory for them.
    fn make(&self) -> Option<&[W]> {
        Some(self.link(Padded::zeroed(self.len)?))
    }

    /// Creates the words if they are missing. Returns `None` if there is no memory for them.
    fn reserve(&self) -> Option<()> {
        if self.len > 0 && self.words().is_none() {
            self.make()?;
        }
        Some(())
    }

    /// Makes these the tail's words, unless another thread has linked some meanwhile; returns the
    /// words.
    fn link(&self, made: Padded<W>) -> &[W] {
        let made = made.into_raw();
        // Release [U→V]: publishes the words. Acquire on failure [V→U]: this thread uses the words
        // that another thread linked.
        let linked = (self.first).compare_exchange(null_mut(), made.as_ptr(), Release, Acquire);
        let first = match linked {
            Err(_)
                if injected_bug!(
                    "loser-keeps-its-tail",
                    "a thread that finds the tail linked by another thread uses its own tail",
                    killed_by = "tail-growth, tail-across"
                ) =>
            {
                made.as_ptr()
            }
            Ok(_) => made.as_ptr(),
            Err(other) => {
                // SAFETY: `made` was given up above, and no other thread has it.
                drop(unsafe { Padded::from_raw(made, self.len) });
                other
            }
        };
        // SAFETY: these are the words of the tail, which stay while `self` is borrowed (AR-I2).
        unsafe { slice::from_raw_parts(first, self.len) }
    }

    /// Returns the size of the words in bytes, or 0 while they are missing.
    fn memory_usage(&self) -> usize {
        // Relaxed: for statistics. The words are not used.
        if self.first.load(Relaxed).is_null() {
            return 0;
        }
        self.len * size_of::<W>()
    }
}

impl<W: Word> Drop for Tail<W> {
    fn drop(&mut self) {
        // Without this check, a small array would load a pointer that is always null.
        if self.len == 0 {
            return;
        }
        if let Some(first) = NonNull::new(self.load()) {
            // SAFETY: the tail's words were given up with this length, and no other thread has the
            // tail.
            drop(unsafe { Padded::from_raw(first, self.len) });
        }
    }
}

//! The array: the words of all segments in one allocation.
//!
//! This store is for a capacity that is known and moderate. The words take 4 bytes per segment, as
//! in the last term of [SRL] Equation 3, or half a byte in the packed form. Where the system
//! provides zeroed memory page by page, a page of words takes memory only once a request uses one
//! of these words.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use alloc::boxed::Box;

use spanlock_range_lock::words::Word;
use spanlock_sync::atomic::zeroed_slice;

use crate::segment::{SegmentError, Segments};
use crate::store::{Piece, SegmentStore, words_of};

/// The words of all segments, in one allocation.
#[derive(Debug)]
pub struct Array<W> {
    /// The words of `segments.count()` segments.
    words: Box<[W]>,
    segments: Segments,
}

impl<W: Word> Array<W> {
    pub(crate) fn new(segments: Segments) -> Result<Self, SegmentError> {
        let count = segments.count();
        let words = usize::try_from(count.div_ceil(u64::from(W::LANES)));
        let words = words.ok().and_then(zeroed_slice);
        let words = words.ok_or(SegmentError::Memory {
            segments: count,
            capacity: segments.capacity(),
        })?;
        Ok(Array { words, segments })
    }

    /// Returns the size of the words in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of_val(&*self.words)
    }
}

// SAFETY: the words live as long as the array. Segment `i` always has the word `i / LANES`.
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
    fn word<'s>(&'s self, _guard: &'s (), segment: u64) -> &'s W {
        &self.words[(segment / u64::from(W::LANES)) as usize]
    }

    #[inline]
    fn find_or_make<'s>(&'s self, _guard: &'s (), first: u64, end: u64) -> Piece<'s, W> {
        let word = (first / u64::from(W::LANES)) as usize;
        // In bounds: `end` is at most `count`, and there are words for that many segments.
        let words = &self.words[word..word + words_of::<W>(first, end)];
        Piece::new(words, first, end)
    }

    #[inline]
    fn find<'s>(&'s self, guard: &'s (), first: u64, end: u64) -> Result<Piece<'s, W>, u64> {
        Ok(self.find_or_make(guard, first, end))
    }

    fn first_busy<'s>(
        &'s self,
        guard: &'s (),
        first: u64,
        end: u64,
        is_free: impl Fn(Piece<'s, W>) -> bool,
    ) -> u64 {
        if is_free(self.find_or_make(guard, first, end)) {
            end
        } else {
            first
        }
    }

    /// Uses the address, if the caller knows it, instead of a lookup.
    ///
    /// A load that follows a read-modify-write is slow, so a release without a lookup is measurably
    /// cheaper.
    #[inline]
    unsafe fn held(&self, word: Option<usize>, first: u64, end: u64) -> Piece<'_, W> {
        let Some(word) = word else {
            return self.find_or_make(&(), first, end);
        };
        let word = core::ptr::with_exposed_provenance(word);
        // SAFETY: `word` is the address of the word of `first` (the caller's promise). The words of
        // `first..end` are contiguous in `self.words`, which is neither reallocated nor moved while
        // `self` lives.
        let words = unsafe { core::slice::from_raw_parts(word, words_of::<W>(first, end)) };
        Piece::new(words, first, end)
    }
}

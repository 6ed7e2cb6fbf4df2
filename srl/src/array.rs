//! The array: the words of all segments side by side, allocated at once.
//!
//! For a capacity that is known and not too large: 4 bytes a segment, half a byte in the packed form ([SRL] Equation 3 without the tree). A page of the
//! words is used only once one of its segments is, where the system gives zeroed memory page by page.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use alloc::boxed::Box;

use spanlock_range_lock::RwWord;
use spanlock_range_lock::words::Word;
use spanlock_sync::atomic::zeroed_slice;
use spanlock_sync::{DefaultPark, Park};

use crate::lock::Srl;
use crate::packed::PackedWord;
use crate::segment::{SegmentError, Segments};
use crate::space::{Piece, Space, words_of};

/// A range lock with a reader-writer word for each segment of a fixed capacity.
///
/// ```
/// use spanlock_range_lock::{RangeLockExt, RangeError};
/// use spanlock_srl::SrlArray;
///
/// let lock = SrlArray::new(1 << 20)?; // 1 MiB in segments of 4 KiB
/// let first = lock.write(0..4096)?;
/// let second = lock.write(4096..8192)?; // another segment: does not wait
/// assert!(lock.try_read(4000..5000).is_err());
/// drop((first, second));
/// assert!(lock.try_read(4000..5000).is_ok());
/// assert!(matches!(lock.read(0..1 << 21), Err(RangeError::PastCapacity { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SrlArray<P = DefaultPark> = Srl<Array<RwWord>, P>;

/// As [`SrlArray`], with the states of sixteen segments in one word: for requests of many segments, of which at most
/// [six readers](crate::packed::MAX_READERS) hold one at a time.
///
/// ```
/// use spanlock_range_lock::RangeLockExt;
/// use spanlock_srl::SrlPacked;
///
/// let lock = SrlPacked::new(1 << 20)?;
/// let megabyte = lock.write(0..1 << 20)?; // 256 segments: sixteen compare-exchanges
/// assert!(lock.try_read(4000..5000).is_err());
/// # drop(megabyte);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SrlPacked<P = DefaultPark> = Srl<Array<PackedWord>, P>;

/// The words of all segments, side by side.
#[derive(Debug)]
pub struct Array<W> {
    /// Those of `segments.count()` segments.
    words: Box<[W]>,
    segments: Segments,
}

impl<W: Word> Srl<Array<W>> {
    /// A lock for positions `0..capacity`, in segments of 4 KiB.
    ///
    /// # Errors
    /// [`SegmentError::Memory`] if there is no memory for its words.
    pub fn new(capacity: u64) -> Result<Self, SegmentError> {
        Self::with_segment_size(capacity, Segments::DEFAULT_SIZE)
    }

    /// A lock for positions `0..capacity`, in segments of `size`.
    ///
    /// # Errors
    /// [`SegmentError::Size`] if `size` is not a power of two, [`SegmentError::Memory`] if there is no memory for
    /// the words.
    pub fn with_segment_size(capacity: u64, size: u64) -> Result<Self, SegmentError> {
        let segments = Segments::new(capacity, size)?;
        let count = segments.count();
        let words = usize::try_from(count.div_ceil(u64::from(W::LANES)));
        let words = words.ok().and_then(zeroed_slice);
        let words = words.ok_or(SegmentError::Memory {
            segments: count,
            capacity,
        })?;
        Ok(Srl::with_space(Array { words, segments }))
    }
}

impl<W: Word, P: Park> Srl<Array<W>, P> {
    /// Bytes that the words take: 4 a segment, or half a byte if they are packed.
    pub fn memory_usage(&self) -> usize {
        size_of_val(&*self.space.words)
    }
}

// SAFETY: the words are made with the array and stay as long as it; segment `i` has word `i / LANES`.
unsafe impl<W: Word> Space for Array<W> {
    type Word = W;
    type Section<'a> = ();

    #[inline]
    fn segments(&self) -> Segments {
        self.segments
    }

    #[inline]
    fn enter(&self) {}

    #[inline]
    fn word<'s>(&'s self, _section: &'s (), segment: u64) -> &'s W {
        &self.words[(segment / u64::from(W::LANES)) as usize]
    }

    #[inline]
    fn find_or_make<'s>(&'s self, _section: &'s (), first: u64, end: u64) -> Piece<'s, W> {
        let word = (first / u64::from(W::LANES)) as usize;
        // In bounds: `end` is at most `count`, which the words are enough for.
        let words = &self.words[word..word + words_of::<W>(first, end)];
        Piece::new(words, first, end)
    }

    #[inline]
    fn find<'s>(&'s self, section: &'s (), first: u64, end: u64) -> Result<Piece<'s, W>, u64> {
        Ok(self.find_or_make(section, first, end))
    }

    fn first_taken<'s>(
        &'s self,
        section: &'s (),
        first: u64,
        end: u64,
        is_free: impl Fn(Piece<'s, W>) -> bool,
    ) -> u64 {
        if is_free(self.find_or_make(section, first, end)) {
            end
        } else {
            first
        }
    }

    /// Starts from the address, if it is known: after a read-modify-write the processor is slow to load anything, so a release
    /// that looks nothing up is measurably cheaper.
    #[inline]
    unsafe fn held(&self, word: Option<usize>, first: u64, end: u64) -> Piece<'_, W> {
        let Some(word) = word else {
            return self.find_or_make(&(), first, end);
        };
        let word = core::ptr::with_exposed_provenance(word);
        // SAFETY: the caller's address is that of the first word of the segments `first..end`; their words
        // lie one after the other in `self.words`, which nobody changes or moves while `self` lives.
        let words = unsafe { core::slice::from_raw_parts(word, words_of::<W>(first, end)) };
        Piece::new(words, first, end)
    }
}

//! Segment stores: where the words of segments are kept.
//!
//! A **word** consists of one or more *lanes*. Each lane is the reader-writer state of one segment;
//! the lanes of a word belong to neighbouring segments. An array keeps its words in two
//! allocations. A tree keeps them in leaves, each an allocation of its own. A [`Piece`] is a
//! sequence of words within one allocation.

use spanlock_range_lock::Access;
use spanlock_range_lock::words::{Run, Wakes, Word};
use spanlock_sync::wait::WaitQueue;

use crate::segment::Segments;

/// The words of neighbouring segments, contiguous in memory.
#[derive(Debug)]
pub struct Piece<'a, W> {
    words: &'a [W],
    /// The lane of the first segment, in the first word.
    lane: u32,
    /// The number of segments: at least one, and at most as many as the words have lanes.
    segments: u64,
}

impl<W> Clone for Piece<'_, W> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Piece<'_, W> {}

impl<'a, W: Word> Piece<'a, W> {
    /// Creates a piece for the segments `first..end`. There must be at least one segment.
    ///
    /// `words` holds their states, starting with the word of `first`.
    #[inline]
    pub(crate) fn new(words: &'a [W], first: u64, end: u64) -> Self {
        Piece {
            words,
            lane: lane::<W>(first),
            segments: end - first,
        }
    }

    /// Returns the number of segments.
    #[inline]
    pub(crate) fn len(self) -> u64 {
        self.segments
    }

    /// Returns the address of the first word.
    #[inline]
    pub(crate) fn address(self) -> usize {
        self.words.as_ptr().expose_provenance()
    }

    /// Returns the part with the first `segments` segments, or `None` if `segments` is zero.
    pub(crate) fn up_to(self, segments: u64) -> Option<Self> {
        let words = (u64::from(self.lane) + segments).div_ceil(u64::from(W::LANES));
        (segments > 0).then(|| Piece {
            words: &self.words[..words as usize],
            segments,
            ..self
        })
    }

    /// Takes segments in ascending order, up to the first that cannot be taken without waiting.
    /// Returns how many it took.
    #[inline]
    pub(crate) fn arrive<P>(self, access: Access, queue: &WaitQueue<P>) -> u64 {
        let mut taken = 0;
        self.each_run(|run| {
            let lanes = run.arrive(access, 1, queue);
            taken += u64::from(lanes);
            lanes == run.len()
        });
        taken
    }

    /// Releases all segments; returns the waiters to wake, if any. Ordering: Release.
    ///
    /// # Safety
    /// The caller holds them with `access` and gives those holds up.
    #[inline]
    pub(crate) unsafe fn release(self, access: Access) -> Option<Wakes<W>> {
        let wakes = self.wakes();
        let mut any = false;
        self.each_run(|run| {
            // SAFETY: the caller's promise, for each lane range.
            any |= unsafe { run.release_no_wake(access) };
            true
        });
        any.then_some(wakes)
    }

    /// Downgrades the holds of all segments; returns the waiters to wake. Ordering: Release.
    ///
    /// # Safety
    /// As for [`Word::downgrade`], for each segment.
    pub(crate) unsafe fn downgrade(self, from: Access, to: Access) -> Wakes<W> {
        // SAFETY: the caller's promise, for each lane range.
        self.runs()
            .for_each(|run| unsafe { run.downgrade_no_wake(from, to) });
        self.wakes()
    }

    #[inline]
    fn wakes(self) -> Wakes<W> {
        let end = u64::from(self.lane) + self.segments;
        Wakes::new(self.words.as_ptr().addr(), self.lane, end)
    }

    /// Returns whether no segment has a hold that conflicts with `access`. Ordering: Acquire if it
    /// returns true.
    #[inline]
    pub(crate) fn is_free(self, access: Access) -> bool {
        let all = W::LANES;
        if self.is_whole() {
            let is_free = |word: &W| word.free_until(0, all, access) == all;
            // Most pieces of a wide request have whole words only. Checking eight words without a
            // branch in between costs little more than a load per word.
            let mut eights = self.words.chunks_exact(8);
            let rest = eights.remainder();
            let all_free = |eight: &[W]| eight.iter().fold(true, |free, it| free & is_free(it));
            return eights.all(all_free) && rest.iter().all(is_free);
        }
        self.runs().all(|run| run.is_free(access))
    }

    /// Returns the lane range of the first word.
    #[inline]
    pub(crate) fn first_run(self) -> Run<'a, W> {
        let end = (u64::from(self.lane) + self.segments).min(u64::from(W::LANES));
        Run::new(&self.words[0], self.lane, end as u32)
    }

    /// Returns whether the piece covers every lane of its words.
    #[inline]
    fn is_whole(self) -> bool {
        self.lane == 0 && self.segments % u64::from(W::LANES) == 0
    }

    /// Calls `f` with the lane range of each word, in ascending order, until it returns false.
    ///
    /// Whole words have their own loop, in which the lanes are constants.
    #[inline]
    fn each_run(self, mut f: impl FnMut(Run<'a, W>) -> bool) {
        if self.is_whole() {
            self.words.iter().all(|word| f(Run::new(word, 0, W::LANES)));
        } else {
            self.runs().all(f);
        }
    }

    /// Returns the lane range of each word, in ascending order.
    #[inline]
    pub(crate) fn runs(self) -> impl Iterator<Item = Run<'a, W>> + Clone {
        let mut first = self.lane;
        // Includes the lanes of the first word that come before the first segment.
        let mut left = u64::from(self.lane) + self.segments;
        self.words.iter().map(move |word| {
            let end = left.min(u64::from(W::LANES));
            left -= end;
            Run::new(word, core::mem::take(&mut first), end as u32)
        })
    }
}

/// Returns the lane of a segment in its word.
#[inline]
pub(crate) fn lane<W: Word>(segment: u64) -> u32 {
    (segment % u64::from(W::LANES)) as u32
}

/// Segments that share a word: its lanes `first..end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    first: u32,
    end: u32,
}

impl Lanes {
    /// Returns the lanes of the segments from `first` to `last`, if those share a word.
    #[inline]
    pub(crate) fn of<W: Word>(first: u64, last: u64) -> Option<Self> {
        let all = u64::from(W::LANES);
        (first / all == last / all).then(|| Self::within::<W>(first, last))
    }

    /// Returns the lanes of the segments from `first` to `last`, which share a word.
    #[inline]
    pub(crate) fn within<W: Word>(first: u64, last: u64) -> Self {
        Lanes {
            first: lane::<W>(first),
            end: lane::<W>(last) + 1,
        }
    }

    /// Returns these lanes of a word.
    #[inline]
    pub(crate) fn run<W: Word>(self, word: &W) -> Run<'_, W> {
        Run::new(word, self.first, self.end)
    }
}

/// Returns the number of words that hold the segments `first..end`.
#[inline]
pub(crate) fn words_of<W: Word>(first: u64, end: u64) -> usize {
    let lanes = u64::from(W::LANES);
    (end.div_ceil(lanes) - first / lanes) as usize
}

/// Keeps the words of all segments of a lock.
///
/// # Safety
/// A segment has one word at a time, and all methods find that word. A word found under a read
/// guard stays in memory until the guard is dropped. A word with a hold stays until the hold ends.
pub unsafe trait SegmentStore: Send + Sync {
    /// The encoding of segment states.
    type Word: Word;

    /// An RCU read-side critical section: words found in it stay in memory until it ends.
    type ReadGuard<'a>
    where
        Self: 'a;

    /// Returns how positions map to segments.
    fn segments(&self) -> Segments;

    /// Enters a read-side critical section. A thread must not block in one.
    fn enter(&self) -> Self::ReadGuard<'_>;

    /// Returns the word of a segment.
    ///
    /// If the word is missing, may create it. If there is none then, returns `None`:
    /// [`find_or_make`](Self::find_or_make) may create it.
    fn word<'s>(&'s self, guard: &'s Self::ReadGuard<'_>, segment: u64) -> Option<&'s Self::Word>;

    /// Returns the longest piece that starts with segment `first` and ends at or before `end`.
    ///
    /// Creates the words that are missing. Returns `None` if there is no memory for them.
    fn find_or_make<'s>(
        &'s self,
        guard: &'s Self::ReadGuard<'_>,
        first: u64,
        end: u64,
    ) -> Option<Piece<'s, Self::Word>>;

    /// Returns the same piece as [`find_or_make`](Self::find_or_make), but creates nothing.
    ///
    /// # Errors
    /// If `first` has no word: the next segment that may have one, or `end`. The segments in
    /// between have no words.
    fn find<'s>(
        &'s self,
        guard: &'s Self::ReadGuard<'_>,
        first: u64,
        end: u64,
    ) -> Result<Piece<'s, Self::Word>, u64>;

    /// Returns the start of the first piece in `first..end` that `is_free` rejects, or `end`.
    ///
    /// Segments without words count as free.
    fn first_busy<'s>(
        &'s self,
        guard: &'s Self::ReadGuard<'_>,
        first: u64,
        end: u64,
        is_free: impl Fn(Piece<'s, Self::Word>) -> bool,
    ) -> u64;

    /// Returns the same piece as [`find`](Self::find), for segments that the caller holds.
    ///
    /// `word` is the address of the piece's first word, if the caller knows it.
    ///
    /// # Safety
    /// The caller holds the segments. `word`, if given, is the address of the word of `first`.
    unsafe fn held(&self, word: Option<usize>, first: u64, end: u64) -> Piece<'_, Self::Word>;
}

//! Where the words of segments lie: one piece in the array, many in the tree.

use spanlock_range_lock::Access;
use spanlock_range_lock::words::{Run, Wakes, Word};
use spanlock_sync::wait::WaitQueue;

use crate::segment::Segments;

/// Words of neighbouring segments, side by side in memory.
#[derive(Debug)]
pub struct Piece<'a, W> {
    words: &'a [W],
    /// The lane of the first segment, in the first word.
    lane: u32,
    /// How many segments; at least one, and no more than the words have.
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
    /// The segments `first..end`, at least one, of which `words` holds the states from `first`'s word on.
    #[inline]
    pub(crate) fn new(words: &'a [W], first: u64, end: u64) -> Self {
        Piece {
            words,
            lane: lane::<W>(first),
            segments: end - first,
        }
    }

    /// How many segments.
    #[inline]
    pub(crate) fn len(self) -> u64 {
        self.segments
    }

    /// The address of the first word.
    #[inline]
    pub(crate) fn address(self) -> usize {
        self.words.as_ptr().expose_provenance()
    }

    /// The first `segments` of them; `None` of none.
    pub(crate) fn up_to(self, segments: u64) -> Option<Self> {
        let words = (u64::from(self.lane) + segments).div_ceil(u64::from(W::LANES));
        (segments > 0).then(|| Piece {
            words: &self.words[..words as usize],
            segments,
            ..self
        })
    }

    /// Takes the first segments as one who has just come, as many as that is possible of at once. Returns how many.
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

    /// Gives all of them back. Whom to wake, if anybody. Ordering: Release.
    ///
    /// # Safety
    /// They are held with `access`, and given up.
    #[inline]
    pub(crate) unsafe fn give_back(self, access: Access) -> Option<Wakes<W>> {
        let wakes = self.wakes();
        let mut any = false;
        self.each_run(|run| {
            // SAFETY: the caller's promise, run by run.
            any |= unsafe { run.release_no_wake(access) };
            true
        });
        any.then_some(wakes)
    }

    /// Turns holds of all of them into ones that exclude less. Whom to wake. Ordering: Release.
    ///
    /// # Safety
    /// As [`Word::downgrade`], for each of them.
    pub(crate) unsafe fn weaken(self, from: Access, to: Access) -> Wakes<W> {
        // SAFETY: the caller's promise, run by run.
        self.runs().for_each(|run| unsafe { run.downgrade_no_wake(from, to) });
        self.wakes()
    }

    #[inline]
    fn wakes(self) -> Wakes<W> {
        let end = u64::from(self.lane) + self.segments;
        Wakes::new(self.words.as_ptr().addr(), self.lane, end)
    }

    /// Whether nobody holds any of them in conflict. Ordering: Acquire if so.
    #[inline]
    pub(crate) fn is_free(self, access: Access) -> bool {
        let all = W::LANES;
        if self.is_whole() {
            let is_free = |word: &W| word.free_until(0, all, access) == all;
            // Whole words, as in most pieces of a wide request: hardly more than a load each, and several before the next jump back.
            let (eights, rest) = self.words.as_chunks::<8>();
            // All of them without a jump between, which most often would not be taken.
            let all_free = |eight: &[W; 8]| eight.iter().fold(true, |free, it| free & is_free(it));
            let free = eights.iter().all(all_free);
            return free && rest.iter().all(is_free);
        }
        self.runs().all(|run| run.is_free(access))
    }

    /// The lanes of the first word.
    #[inline]
    pub(crate) fn first_run(self) -> Run<'a, W> {
        let end = (u64::from(self.lane) + self.segments).min(u64::from(W::LANES));
        Run::new(&self.words[0], self.lane, end as u32)
    }

    /// Whether it is of whole words.
    #[inline]
    fn is_whole(self) -> bool {
        self.lane == 0 && self.segments.is_multiple_of(u64::from(W::LANES))
    }

    /// Calls `f` with the words' lanes, in ascending order, as long as it says so. Whole words, as most are in a piece of many, have a loop of their own, in which
    /// the compiler knows their lanes.
    #[inline]
    fn each_run(self, mut f: impl FnMut(Run<'a, W>) -> bool) {
        if self.is_whole() {
            self.words.iter().all(|word| f(Run::new(word, 0, W::LANES)));
        } else {
            self.runs().all(f);
        }
    }

    /// The words' lanes, in ascending order.
    #[inline]
    pub(crate) fn runs(self) -> impl Iterator<Item = Run<'a, W>> + Clone {
        let mut first = self.lane;
        // What is left of the segments, with the lanes before the first.
        let mut left = u64::from(self.lane) + self.segments;
        self.words.iter().map(move |word| {
            let end = left.min(u64::from(W::LANES));
            left -= end;
            Run::new(word, core::mem::take(&mut first), end as u32)
        })
    }
}

/// The lane of a segment in its word.
#[inline]
pub(crate) fn lane<W: Word>(segment: u64) -> u32 {
    (segment % u64::from(W::LANES)) as u32
}

/// Segments that are in one word: its lanes `first..end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    first: u32,
    end: u32,
}

impl Lanes {
    /// The lanes of the segments from `first` to `last`, if they are in one word.
    #[inline]
    pub(crate) fn of<W: Word>(first: u64, last: u64) -> Option<Self> {
        let all = u64::from(W::LANES);
        (first / all == last / all).then(|| Self::within::<W>(first, last))
    }

    /// The lanes of the segments from `first` to `last`, which are in one word.
    #[inline]
    pub(crate) fn within<W: Word>(first: u64, last: u64) -> Self {
        Lanes {
            first: lane::<W>(first),
            end: lane::<W>(last) + 1,
        }
    }

    /// These lanes of a word.
    #[inline]
    pub(crate) fn run<W: Word>(self, word: &W) -> Run<'_, W> {
        Run::new(word, self.first, self.end)
    }
}

/// The words of segments `first..end` are so many, from the first's word on.
#[inline]
pub(crate) fn words_of<W: Word>(first: u64, end: u64) -> usize {
    let lanes = u64::from(W::LANES);
    (end.div_ceil(lanes) - first / lanes) as usize
}

/// Where the words of all segments lie.
///
/// # Safety
/// A segment has one word at a time, found by all of the methods alike. A word that is found in a section stays until the section ends, and one with a
/// hold stays until the hold ends.
pub unsafe trait Space: Send + Sync {
    /// The form of the states.
    type Word: Word;

    /// Proof that nothing that is found now goes away.
    type Section<'a>
    where
        Self: 'a;

    /// How positions map to segments.
    fn segments(&self) -> Segments;

    /// Begins a section. Nobody blocks in one.
    fn enter(&self) -> Self::Section<'_>;

    /// The word of a segment. Makes what is missing.
    fn word<'s>(&'s self, section: &'s Self::Section<'_>, segment: u64) -> &'s Self::Word;

    /// The words of the segments from `first` on, up to `end`, as far as they lie in one piece. Makes what is missing.
    fn find_or_make<'s>(
        &'s self,
        section: &'s Self::Section<'_>,
        first: u64,
        end: u64,
    ) -> Piece<'s, Self::Word>;

    /// As [`find_or_make`](Self::find_or_make), but makes nothing.
    ///
    /// # Errors
    /// There are no words for the segments from `first` to the one returned, which is `end` at most.
    fn find<'s>(
        &'s self,
        section: &'s Self::Section<'_>,
        first: u64,
        end: u64,
    ) -> Result<Piece<'s, Self::Word>, u64>;

    /// The first segment from `first` on, up to `end`, that `is_free` does not say of the piece which begins with it; `end` if there is none. Of pieces that lie in one
    /// node it needs not look up each.
    fn first_taken<'s>(
        &'s self,
        section: &'s Self::Section<'_>,
        first: u64,
        end: u64,
        is_free: impl Fn(Piece<'s, Self::Word>) -> bool,
    ) -> u64;

    /// The words of segments that the caller holds, from `first` on, as far as they lie in one piece. `word` is the address of the first, if it is
    /// known.
    ///
    /// # Safety
    /// The segments are held, and `word` is the address of the first word of the piece that begins with `first`.
    unsafe fn held(&self, word: Option<usize>, first: u64, end: u64) -> Piece<'_, Self::Word>;
}

//! A shard: the free extents of one stripe, with its spare. `alloc.rs` has the design.
//!
//! # Orderings
//!
//! | letter | where | pairs with | carries | model |
//! |---|---|---|---|---|
//! | P | [`Spare::put`], [`Spare::replace`]: Release | Q | the earlier use's end | `reused` |
//! | Q | [`Spare::take`], [`Spare::replace`]: Acquire | P | | `patch-punch` |
//!
//! Everything else is protected by the shard's mutex. The models judge crash images: without P or
//! Q, a thread may write to a page while a crash can still undo the change that freed it.

use core::mem::take;
use std::collections::BTreeMap;

use spanlock_sync::Mutex;
use spanlock_sync::atomic::{AtomicU64, Ordering};

use crate::medium::extent::{Extent, ExtentList};

/// The number of extents that a request examines to find a sufficient one.
const LOOKS: usize = 16;
/// The most extents in [`Shard::recent`].
const MAX_RECENT: usize = 8;
/// The most pages in one of these extents, and in a spare.
const MAX_RECENT_PAGES: u32 = 64;

/// The free extents of one stripe.
#[derive(Debug)]
struct Shard {
    /// Start → length.
    extents: BTreeMap<u32, u32>,
    /// Extents that were freed recently and have been the spare. They have not entered the tree.
    /// The newest comes last.
    recent: Vec<Extent>,
    free: u32,
}

impl Shard {
    /// Creates a shard without free pages.
    fn new() -> Self {
        Shard {
            extents: BTreeMap::new(),
            recent: Vec::with_capacity(MAX_RECENT),
            free: 0,
        }
    }

    /// Takes one extent of up to `want` pages. The shard's spare is `spare`.
    #[inline]
    fn take(&mut self, want: u32, spare: &Spare) -> Option<Extent> {
        match self.recent.last_mut() {
            Some(newest) if newest.len >= want => {
                newest.len -= want;
                let taken = Extent {
                    start: newest.start + newest.len,
                    len: want,
                };
                if newest.len == 0 {
                    self.recent.pop();
                }
                self.free -= want;
                Some(taken)
            }
            _ => self.take_from_tree(want, spare),
        }
    }

    fn take_from_tree(&mut self, want: u32, spare: &Spare) -> Option<Extent> {
        let mut best = self.best(want);
        if best.is_none_or(|it| it.len < want) {
            if let Some(extent) = spare.replace(None) {
                self.free += extent.len;
                self.join(extent);
            }
            let mut recent = take(&mut self.recent);
            recent.drain(..).for_each(|extent| self.join(extent));
            self.recent = recent;
            best = self.best(want);
        }
        let Extent { start, len } = best?;
        let taken = want.min(len);
        // Take the pages from the end of the extent, so that its key stays.
        if taken == len {
            self.extents.remove(&start);
        } else if let Some(left) = self.extents.get_mut(&start) {
            *left -= taken;
        }
        self.free -= taken;
        Some(Extent {
            start: start + len - taken,
            len: taken,
        })
    }

    /// Looks at the first [`LOOKS`] extents of the tree. Returns the first that has `want` pages.
    /// If none has, returns the longest.
    fn best(&self, want: u32) -> Option<Extent> {
        let mut best: Option<Extent> = None;
        for (&start, &len) in self.extents.iter().take(LOOKS) {
            if best.is_none_or(|b| len > b.len) {
                best = Some(Extent { start, len });
            }
            if len >= want {
                break;
            }
        }
        best
    }

    #[inline]
    fn release(&mut self, extent: Extent) {
        debug_assert!(!self.has_some(extent), "{extent:?} was already free");
        self.free += extent.len;
        if extent.len > MAX_RECENT_PAGES {
            self.join(extent);
            return;
        }
        if self.recent.len() == MAX_RECENT {
            let oldest = self.recent.remove(0);
            self.join(oldest);
        }
        self.recent.push(extent);
    }

    /// Returns whether some of these pages are free.
    fn has_some(&self, extent: Extent) -> bool {
        let end = extent.start + extent.len;
        let before = self.extents.range(..end).next_back();
        let in_tree = before.is_some_and(|(&start, &len)| extent.overlaps(Extent { start, len }));
        in_tree || self.recent.iter().any(|it| extent.overlaps(*it))
    }

    /// Puts an extent into the tree, and joins it with its neighbours.
    fn join(&mut self, extent: Extent) {
        let Extent { mut start, mut len } = extent;
        let before = self.extents.range_mut(..start).next_back();
        let joined_before = match before {
            Some((&s, l)) if s + *l == start => {
                *l += len;
                (start, len) = (s, *l);
                true
            }
            _ => false,
        };
        let after = self.extents.remove(&(start + len));
        if let Some(after) = after {
            len += after;
        }
        if !joined_before || after.is_some() {
            self.extents.insert(start, len);
        }
    }
}

/// A word that holds at most one free extent: its start in the upper half, and its length.
///
/// A thread may put an extent here, or take it, without the shard's lock, but it replaces one
/// extent by another only under the lock. So if the lock's holder finds the shard and the spare
/// empty, the shard has no free page at that moment.
#[derive(Debug)]
struct Spare(AtomicU64);

impl Spare {
    /// No extent. Page 0 is never free, so no extent has this word.
    const NONE: u64 = 0;

    fn new() -> Self {
        Spare(AtomicU64::new(Spare::NONE))
    }

    fn extent(word: u64) -> Option<Extent> {
        (word != Spare::NONE).then_some(Extent {
            start: (word >> 32) as u32,
            len: word as u32,
        })
    }

    fn word(extent: Option<Extent>) -> u64 {
        extent.map_or(Spare::NONE, |it| {
            u64::from(it.start) << 32 | u64::from(it.len)
        })
    }

    /// Takes the extent if it has `want` pages.
    #[inline]
    fn take(&self, want: u32) -> Option<Extent> {
        // Relaxed: the exchange checks it.
        let word = self.0.load(Ordering::Relaxed);
        if word as u32 != want {
            return None;
        }
        // Acquire [Q←P]: the end of the pages' earlier use. Relaxed on failure: nothing is taken.
        let taken =
            (self.0).compare_exchange(word, Spare::NONE, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().and_then(Spare::extent)
    }

    /// Puts `extent` there. Returns whether there was none before; otherwise it does nothing.
    #[inline]
    fn put(&self, extent: Extent) -> bool {
        let word = Spare::word(Some(extent));
        // Release [P→Q]: the end of the pages' earlier use. Relaxed on failure: nothing is put.
        let put =
            (self.0).compare_exchange(Spare::NONE, word, Ordering::Release, Ordering::Relaxed);
        put.is_ok()
    }

    /// Puts `extent` there, if there is one, and takes the extent that was there. The caller has
    /// the shard's lock.
    fn replace(&self, extent: Option<Extent>) -> Option<Extent> {
        let word = Spare::word(extent);
        // Release [P→Q]: the end of the pages' earlier use. Acquire [Q←P]: that of the pages that
        // were there.
        Spare::extent(self.0.swap(word, Ordering::AcqRel))
    }

    /// Returns the number of pages.
    fn pages(&self) -> u32 {
        // Relaxed: only a number.
        self.0.load(Ordering::Relaxed) as u32
    }
}

/// A shard on its own cache lines: two, because processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct AlignedShard {
    spare: Spare,
    shard: Mutex<Shard>,
}

impl AlignedShard {
    pub(super) fn new() -> Self {
        AlignedShard {
            spare: Spare::new(),
            shard: Mutex::new(Shard::new()),
        }
    }

    /// Takes the spare if it has `want` pages. Takes no lock.
    #[inline]
    pub(super) fn take_spare(&self, want: u32) -> Option<Extent> {
        self.spare.take(want)
    }

    /// Takes up to `want` pages. Adds them to `list` and returns their number.
    pub(super) fn take_into(&self, list: &mut ExtentList, want: u32) -> u32 {
        let mut left = want;
        let mut shard = self.shard.lock();
        while left > 0
            && let Some(extent) = shard.take(left, &self.spare)
        {
            left -= extent.len;
            list.push(extent);
        }
        want - left
    }

    /// Frees an extent that lies in the stripe.
    #[inline]
    pub(super) fn release(&self, extent: Extent) {
        let is_short = extent.len <= MAX_RECENT_PAGES;
        if is_short && self.spare.put(extent) {
            return;
        }
        let mut shard = self.shard.lock();
        if !is_short {
            return shard.release(extent);
        }
        debug_assert!(!shard.has_some(extent), "{extent:?} was already free");
        if let Some(older) = self.spare.replace(Some(extent)) {
            debug_assert!(!older.overlaps(extent), "{extent:?} was already free");
            shard.release(older);
        }
    }

    /// Returns the number of free pages.
    pub(super) fn free(&self) -> u64 {
        let shard = self.shard.lock();
        u64::from(shard.free) + u64::from(self.spare.pages())
    }
}

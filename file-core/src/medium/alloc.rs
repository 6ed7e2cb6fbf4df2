//! The page allocator: free extents in memory, split into shards, with a reserve for a full volume.
//!
//! # The problem
//! A copy-on-write file takes a page and frees one for every overwritten page, so the allocator is
//! on every writer's path. A *full* volume must still allow overwriting files and cleaning logs,
//! both of which take pages before they free any. NOVA keeps a free list per processor in memory
//! and rebuilds it at mount (Xu & Swanson, FAST '16).
//!
//! # Properties
//! - **Shards**: the volume's pages are divided into up to 16 stripes, each with its own short
//!   lock. A request starts at the shard selected by its hint and continues with the others if that
//!   shard has too few pages. The hint for data is a hash of inode and file page, so writers of
//!   different places usually use different shards. A freed page returns to the stripe it lies in,
//!   and joins its neighbours when it enters the tree there.
//! - **Reuse**: a freed extent of at most 64 pages does not enter the tree at once. The newest one
//!   is in an atomic word, the shard's *spare*, and up to eight older ones are in a list under the
//!   lock. If the spare of the shard that the hint selects has exactly as many pages as requested,
//!   the request takes it without the lock. Otherwise, it takes from the newest extent of the list
//!   if that one is long enough. So a writer that keeps replacing the same pages of a file
//!   alternates between a few pages of the volume. It takes and frees them with one atomic exchange
//!   each.
//! - **Extents**: otherwise, a request gets the first sufficient extent among the first 16 of a
//!   shard. If there is none, it gets several extents.
//! - **Nothing on the medium**: recovery determines which pages are free.
//! - **The reserve**: two small pools, usable only by some classes of requests and only once the
//!   shards are empty. Freed pages refill the pools first.
//!
//! | class | requested for | shards | pool 0 | pool 1 |
//! |---|---|---|---|---|
//! | [`Class::Growth`] | new data, new files, and their log pages | yes | | |
//! | [`Class::Overwrite`] | data that replaces data, and its log pages | yes | yes | |
//! | [`Class::Compaction`] | fresh logs, which free more pages than they take | yes | yes | yes |
//!
//! # Invariants
//! - **F-A1** A page of the data area is in at most one of these places: a shard, a shard's spare,
//!   a pool, or an extent that was taken and not yet freed.
//! - **F-A2** The extents in a shard's tree do not touch: each is joined with its neighbours when
//!   it enters the tree. All extents outside the tree enter it when none of the tree's first 16
//!   extents suffices for a request.
//!
//! # Orderings
//! [`Reserve::missing`] is a hint. A mutex protects everything else, except the spares: see
//! [`shard`].
//!
//! # Not guaranteed
//! A request that takes several extents or searches several shards is not one atomic step. So on a
//! nearly full volume, it may fail although enough pages are free:
//! - while another request, which is going to fail, holds some of them;
//! - if pages are freed in a shard that it has already searched, while other requests take those of
//!   the shards that it searches later.

mod shard;

use core::mem::take;

use spanlock_sync::Mutex;
use spanlock_sync::atomic::{AtomicU32, Ordering};

use crate::medium::alloc::shard::AlignedShard;
use crate::medium::error::Error;
use crate::medium::extent::{Extent, ExtentList};

/// The purpose of a request for pages; see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Growth,
    Overwrite,
    Compaction,
}

impl Class {
    /// Returns the number of pools that the class may use.
    fn pools(self) -> usize {
        match self {
            Class::Growth => 0,
            Class::Overwrite => 1,
            Class::Compaction => 2,
        }
    }
}

const MAX_SHARDS: u32 = 16;
/// The fewest pages in a shard, so that small volumes are not fragmented.
const MIN_SHARD_PAGES: u32 = 256;
/// Requests for more pages than this first check that enough are free. This avoids briefly holding
/// pages that other requests could use.
const LOOK_BEFORE_PAGES: u32 = 256;
/// The pools, which hold single pages.
#[derive(Debug)]
struct Reserve {
    pools: Mutex<[Vec<u32>; 2]>,
    /// The intended number of pages in each pool.
    target: u32,
    /// The number of pages missing from the pools. Written under `pools`' lock.
    missing: AtomicU32,
}

/// The allocator of a volume's pages.
#[derive(Debug)]
pub(crate) struct Allocator {
    shards: Box<[AlignedShard]>,
    /// First page of the data area.
    first: u32,
    /// Pages of the data area.
    total: u32,
    /// The number of pages in a stripe.
    stripe: u32,
    reserve: Reserve,
}

impl Allocator {
    /// Creates an allocator for `total` pages starting at page `first`, none of them free yet.
    pub(crate) fn new(first: u32, total: u32) -> Self {
        let shards = (total / MIN_SHARD_PAGES).clamp(1, MAX_SHARDS);
        let target = (total / 128).clamp(2, 256);
        Allocator {
            shards: (0..shards).map(|_| AlignedShard::new()).collect(),
            first,
            total,
            stripe: total.div_ceil(shards),
            reserve: Reserve {
                pools: Mutex::new([Vec::new(), Vec::new()]),
                target,
                missing: AtomicU32::new(2 * target),
            },
        }
    }

    /// Takes `pages` pages (at least one), in as few extents as can be found quickly.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; nothing was taken.
    pub(crate) fn take(&self, hint: u64, pages: u32, class: Class) -> Result<ExtentList, Error> {
        let mut list = ExtentList::default();
        self.take_into(&mut list, hint, pages, class)?;
        Ok(list)
    }

    /// Like [`take`](Self::take), but fills `list`, which is empty. Returning the list would cost
    /// every writer a copy.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; nothing was taken.
    pub(crate) fn take_into(
        &self,
        list: &mut ExtentList,
        hint: u64,
        pages: u32,
        class: Class,
    ) -> Result<(), Error> {
        let mut left = pages;
        if pages > LOOK_BEFORE_PAGES && self.available(class) < pages as u64 {
            return Err(self.no_space(pages, class));
        }
        let start = shard_of_hint(hint, self.shards.len());
        if let Some(spare) = self.shards[start].take_spare(pages) {
            list.push(spare);
            return Ok(());
        }
        for i in 0..self.shards.len() {
            // Avoids `%`, because this is on every writer's path.
            let at = if start + i < self.shards.len() {
                start + i
            } else {
                start + i - self.shards.len()
            };
            left -= self.shards[at].take_into(list, left);
            if left == 0 {
                return Ok(());
            }
        }
        left -= self.take_reserve(left, class, list);
        if left > 0 {
            for extent in take(list).iter() {
                self.release(extent);
            }
            return Err(self.no_space(pages, class));
        }
        Ok(())
    }

    /// Takes up to `want` pages from the pools that `class` may use. Returns the number taken.
    #[cold]
    fn take_reserve(&self, want: u32, class: Class, list: &mut ExtentList) -> u32 {
        let mut pools = self.reserve.pools.lock();
        let mut taken = 0;
        for pool in &mut pools[..class.pools()] {
            while taken < want
                && let Some(page) = pool.pop()
            {
                list.push(Extent {
                    start: page,
                    len: 1,
                });
                taken += 1;
            }
        }
        // Relaxed: a hint, as in `release`.
        self.reserve.missing.fetch_add(taken, Ordering::Relaxed);
        taken
    }

    /// Frees pages. The store that made them unreachable is durable (F-M7).
    pub(crate) fn release(&self, extent: Extent) {
        debug_assert!(extent.start >= self.first);
        debug_assert!((extent.start - self.first) as u64 + extent.len as u64 <= self.total as u64);
        let mut rest = extent;
        // Relaxed: a hint. If it is stale, this page goes to a shard and a later page refills the
        // pool.
        if self.reserve.missing.load(Ordering::Relaxed) > 0 {
            rest = self.refill(rest);
        }
        while rest.len > 0 {
            let stripe = (rest.start - self.first) / self.stripe;
            let stripe_end = self.first as u64 + (stripe as u64 + 1) * self.stripe as u64;
            let len = (rest.len as u64).min(stripe_end - rest.start as u64) as u32;
            self.shards[stripe as usize].release(Extent {
                start: rest.start,
                len,
            });
            rest = Extent {
                start: rest.start + len,
                len: rest.len - len,
            };
        }
    }

    /// Fills the pools from `extent`, the last pool first. Returns the pages they did not take.
    #[cold]
    fn refill(&self, extent: Extent) -> Extent {
        let mut pools = self.reserve.pools.lock();
        let mut rest = extent;
        let mut missing = 0;
        for pool in pools.iter_mut().rev() {
            let lacks = self.reserve.target - pool.len() as u32;
            let n = lacks.min(rest.len);
            pool.extend(rest.start..rest.start + n);
            rest = Extent {
                start: rest.start + n,
                len: rest.len - n,
            };
            missing += lacks - n;
        }
        // Relaxed: a hint, as in `release`; the lock orders the stores.
        self.reserve.missing.store(missing, Ordering::Relaxed);
        rest
    }

    /// Returns the number of pages that a request of `class` could get.
    fn available(&self, class: Class) -> u64 {
        let shards: u64 = self.shards.iter().map(AlignedShard::free).sum();
        let pools = self.reserve.pools.lock();
        shards
            + pools[..class.pools()]
                .iter()
                .map(|p| p.len() as u64)
                .sum::<u64>()
    }

    /// Returns the number of free pages: the total, and those in the pools.
    pub(crate) fn free_pages(&self) -> (u64, u64) {
        let (all, growth) = (
            self.available(Class::Compaction),
            self.available(Class::Growth),
        );
        (all, all.saturating_sub(growth))
    }

    #[cold]
    fn no_space(&self, needed: u32, class: Class) -> Error {
        Error::NoSpace {
            needed: needed as u64,
            free: self.available(class),
        }
    }
}

/// Returns which of `count` shards `hint` selects: the upper half of a hash, scaled to `count`.
#[inline]
fn shard_of_hint(hint: u64, count: usize) -> usize {
    let hash = hint.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    ((hash * count as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(total: u32) -> Allocator {
        let alloc = Allocator::new(10, total);
        alloc.release(Extent {
            start: 10,
            len: total,
        });
        alloc
    }

    #[test]
    fn every_page_is_taken_once_and_freed_again() {
        let alloc = full(5000);
        assert_eq!(alloc.free_pages(), (5000, 78));
        let mut seen = vec![false; 5010];
        let mut lists = Vec::new();
        for want in [1, 7, 300, 1000, 3614] {
            let list = alloc.take(want as u64, want, Class::Growth).unwrap();
            assert_eq!(list.pages().count(), want as usize);
            for page in list.pages() {
                assert!(!seen[page as usize]);
                seen[page as usize] = true;
            }
            lists.push(list);
        }
        assert_eq!(
            alloc.take(0, 1, Class::Growth).unwrap_err(),
            Error::NoSpace { needed: 1, free: 0 }
        );
        assert_eq!(
            alloc.take(0, 39, Class::Overwrite).unwrap().pages().count(),
            39
        );
        assert!(alloc.take(0, 1, Class::Overwrite).is_err());
        assert_eq!(
            alloc
                .take(0, 39, Class::Compaction)
                .unwrap()
                .pages()
                .count(),
            39
        );
        assert_eq!(alloc.free_pages(), (0, 0));
        for list in lists {
            list.iter().for_each(|e| alloc.release(e));
        }
        // The pools were filled first.
        assert_eq!(alloc.free_pages(), (5000 - 78, 78));
    }

    #[test]
    fn freed_neighbours_join() {
        let alloc = full(100);
        let pages: Vec<u32> = (0..96)
            .map(|i| {
                alloc
                    .take(i, 1, Class::Growth)
                    .unwrap()
                    .pages()
                    .next()
                    .unwrap()
            })
            .collect();
        for &page in pages
            .iter()
            .step_by(2)
            .chain(pages.iter().skip(1).step_by(2))
        {
            alloc.release(Extent {
                start: page,
                len: 1,
            });
        }
        assert_eq!(alloc.take(0, 96, Class::Growth).unwrap().count(), 1);
    }

    #[test]
    fn the_newest_freed_extent_is_taken_again() {
        let alloc = full(1000);
        let take = |pages| {
            let list = alloc.take(0, pages, Class::Growth).unwrap();
            list.iter().collect::<Vec<_>>()
        };
        let (few, one, two) = (take(4)[0], take(1)[0], take(2)[0]);
        // The spare.
        alloc.release(few);
        alloc.release(one);
        assert_eq!(take(1), [one]);
        // One that was the spare before.
        assert_eq!(take(4), [few]);
        // Part of such a one, from its end.
        alloc.release(few);
        alloc.release(two);
        let last = Extent {
            start: few.start + 3,
            len: 1,
        };
        assert_eq!(take(1), [last]);
        // `two` is the spare now, and `last` and `one` are taken.
        assert_eq!(alloc.free_pages().0, 1000 - 2);
        // A request that needs all pages finds the spare too.
        assert!(alloc.take(0, 998 - 14, Class::Growth).is_ok());
    }

    #[test]
    fn a_failed_request_takes_nothing() {
        let alloc = full(100);
        assert!(alloc.take(0, 101, Class::Compaction).is_err());
        assert!(alloc.take(0, 97, Class::Growth).is_err());
        assert_eq!(alloc.free_pages(), (100, 4));
    }
}

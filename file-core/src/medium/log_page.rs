//! The state in memory of each log page: what in it is still needed.
//!
//! # The problem
//! A log keeps a page until nothing in it is needed. NOVA counts the live entries of each log page
//! and unlinks pages that have none (Xu & Swanson, FAST '16, §III-D). It counts them under the
//! inode's lock. Here, several writers change one file while another thread cleans its log.
//!
//! # Properties
//! One word for each page of the volume, changed by single read-modify-writes:
//!
//! ```text
//!   63                 32 31      24 23      16 15       8 7        0
//!  ┌─────────────────────┬──────────┬──────────┬──────────┬──────────┐
//!  │ live references     │ 0        │ flags    │ tombs    │ open     │
//!  └─────────────────────┴──────────┴──────────┴──────────┴──────────┘
//! ```
//!
//! - *open*: the number of slots that are not reserved yet, or whose operation has not ended. While
//!   there are any, the page is part of the log's end, and no cleaning touches it.
//! - *live references*: the number of mapped pages of the file whose groups are here, or of names.
//!   One more if the file's size comes from a group here, and one more if its time does.
//! - *tombs*: the number of groups that take something away. They are needed while an older page
//!   has groups, so only a cleaning that copies what is live in all older pages drops them.
//!
//! # Invariants
//! - **F-P1** Each live reference is taken away once, by the thread that replaces what refers to
//!   the page, and only after the replacing group is durable.
//! - **F-P2** A page is *unlinked* once no group in it is needed and no pointer to it remains. It
//!   becomes free then, but not while live references remain: threads that have replaced a
//!   reference may still have to take it away. The thread that finds both conditions true frees
//!   the page. No operation that ends there can be that thread, because a page with open slots is
//!   not unlinked.
//!
//! # Orderings
//!
//! | letter | where | pairs with | carries | model |
//! |---|---|---|---|---|
//! | F | `end`: Release | G | the index, the size and the slots that changed | `compaction` |
//! | F | `unlink`: Release | G | the page's pointer | none needs it; `move-read` runs it |
//! | G | `state` and others: Acquire | F | | none needs it; `compaction` runs it |
//!
//! The comments at the accesses say why no model can need these orderings. G is the load in
//! `state`, and the read-modify-writes in `wait_for`, `unlink` and `take_live`.

use spanlock_sync::atomic::{AtomicU64, Ordering};
use spanlock_sync::injected_bug;

use crate::medium::layout::PAGE_SLOTS;

const OPEN: u64 = 1;
const TOMB: u64 = 1 << 8;
/// A cleaning waits until the page's open slots have ended.
const WAITED_FOR: u64 = 1 << 16;
/// No pointer to the page remains.
const UNLINKED: u64 = 1 << 17;
/// A group continues in the next page of the log.
const CONTINUED: u64 = 1 << 18;
const LIVE: u64 = 1 << 32;

/// A snapshot of a page's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageState(u64);

impl PageState {
    /// Returns the state of a page at recovery.
    pub(crate) fn recovered(open: u32, tombs: u32, is_continued: bool) -> PageState {
        let continued = if is_continued { CONTINUED } else { 0 };
        PageState(u64::from(open) * OPEN + u64::from(tombs) * TOMB + continued)
    }

    /// Returns the number of open slots.
    #[inline]
    pub(crate) fn open(self) -> u32 {
        self.0 as u32 & 0xFF
    }

    fn tombs(self) -> u32 {
        (self.0 >> 8) as u32 & 0xFF
    }

    /// Returns the number of live references.
    #[inline]
    pub(crate) fn live(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns whether every slot belongs to an operation that has ended, or will never belong to
    /// one.
    pub(crate) fn is_settled(self) -> bool {
        self.open() == 0
    }

    /// Returns whether no group in the page is needed.
    pub(crate) fn is_dead(self) -> bool {
        let unlinks_tombs = injected_bug!(
            "unlinks-tomb",
            "a page is unlinked whose groups still take something away",
            killed_by = "file-core-cleaning/sequences-of-2"
        );
        self.is_settled() && self.live() == 0 && (self.tombs() == 0 || unlinks_tombs)
    }

    /// Returns whether a group continues in the next page.
    pub(crate) fn is_continued(self) -> bool {
        self.0 & CONTINUED != 0
    }

    fn is_free(self) -> bool {
        self.0 & UNLINKED != 0 && self.live() == 0
    }
}

/// The position of a log page among those of its log, in memory: a page with a higher rank comes
/// later in the chain. Only the pages of lanes have ranks of their own: see F-L7 of
/// [`crate::log::tail`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(pub(crate) u32);

impl Rank {
    /// The rank of a page that was in the log before it had lanes, or to which a cleaning has
    /// copied groups.
    pub(crate) const LOWEST: Rank = Rank(0);
    pub(crate) const HIGHEST: Rank = Rank(u32::MAX);
}

/// A log page's seed and rank, which stay the same while it is linked.
#[derive(Clone, Copy)]
struct Identity(u64);

impl Identity {
    fn new(seed: u32, rank: Rank) -> Identity {
        Identity(u64::from(rank.0) << 32 | u64::from(seed))
    }

    fn seed(self) -> u32 {
        self.0 as u32
    }

    fn rank(self) -> Rank {
        Rank((self.0 >> 32) as u32)
    }
}

/// The number of pages in a row whose words lie on different lines: as many as two lines have
/// words, because processors fetch lines in pairs.
const ROW: usize = 16;

/// The states of all pages of a volume.
///
/// Consecutive pages may be in use by different threads. So their words do not lie next to each
/// other: the pages form rows of [`ROW`] pages, and the words are stored column by column.
#[derive(Debug)]
pub(crate) struct LogPages {
    first: u32,
    /// The number of rows.
    rows: usize,
    states: Box<[AtomicU64]>,
    /// See [`Identity`]; the seed is that of
    /// [`PageId::seed`](crate::medium::layout::PageId::seed). Every append reads it. If it were
    /// next to the state, it would often be out of the cache, because every append changes a state.
    identities: Box<[AtomicU64]>,
}

impl LogPages {
    /// Creates the states of `count` pages from `first` on, none of which is a log page.
    pub(crate) fn new(first: u32, count: u32) -> Self {
        let rows = (count as usize).div_ceil(ROW);
        // Not a loop that stores zeros: in incremental builds, rustc 1.95 crashes on it, because
        // LLVM makes it a call of a function that the module has lost. This converts in place.
        let zeros = || {
            let zeros = vec![0; rows * ROW].into_iter();
            zeros.map(AtomicU64::new).collect()
        };
        LogPages {
            first,
            rows,
            states: zeros(),
            identities: zeros(),
        }
    }

    /// Returns the index of the page's words.
    #[inline]
    fn at(&self, page: u32) -> usize {
        let nth = (page - self.first) as usize;
        nth % ROW * self.rows + nth / ROW
    }

    #[inline]
    fn word(&self, page: u32) -> &AtomicU64 {
        &self.states[self.at(page)]
    }

    #[inline]
    fn identity(&self, page: u32) -> Identity {
        // Relaxed: see `start`.
        Identity(self.identities[self.at(page)].load(Ordering::Relaxed))
    }

    /// Makes `page` a log page. The caller owns it: no log has it yet.
    pub(crate) fn start(&self, page: u32, seed: u32, rank: Rank, state: PageState) {
        // Relaxed, both: what leads other threads to the page carries them. It is the log's tail
        // (letter T of `tail.rs`) or a value of the index (letter L of `index.rs`).
        let identity = Identity::new(seed, rank);
        self.identities[self.at(page)].store(identity.0, Ordering::Relaxed);
        self.word(page).store(state.0, Ordering::Relaxed);
    }

    /// Returns the page's seed. The caller has found the page in its log.
    #[inline]
    pub(crate) fn seed(&self, page: u32) -> u32 {
        self.identity(page).seed()
    }

    /// Returns the page's rank. If the page may have left its log, the result says nothing.
    #[inline]
    pub(crate) fn rank(&self, page: u32) -> Rank {
        self.identity(page).rank()
    }

    /// Changes the rank of a page that becomes the newest of its log.
    pub(crate) fn set_rank(&self, page: u32, rank: Rank) {
        // Relaxed: see `start`.
        let identity = Identity::new(self.seed(page), rank);
        self.identities[self.at(page)].store(identity.0, Ordering::Relaxed);
    }

    /// Returns a page's state. If it is settled, the caller sees what its operations have changed.
    pub(crate) fn state(&self, page: u32) -> PageState {
        // Acquire [G←F]: the index and size.
        // equivalent(Relaxed): in every execution that our programs search, something else orders
        // the change before the walk of the cleaning too. The proof needs it.
        PageState(self.word(page).load(Ordering::Acquire))
    }

    /// Says that no operation will use `slots` slots.
    pub(crate) fn skip(&self, page: u32, slots: u32) {
        if slots > 0 {
            // Relaxed: no operation has changed anything.
            let open = u64::from(slots) * OPEN;
            self.word(page).fetch_sub(open, Ordering::Relaxed);
        }
    }

    /// Ends an operation that has `slots` slots of the page. `change` says how the operation
    /// changes what the page is needed for. Returns whether a cleaning waits for this.
    #[must_use = "the cleaning that waits must be woken"]
    pub(crate) fn end(&self, page: u32, slots: u32, change: PageUse) -> bool {
        debug_assert!(slots <= PAGE_SLOTS);
        // References are the topmost field, so a negative number changes no other field.
        let live = (change.live as u64).wrapping_mul(LIVE);
        let tombs = u64::from(change.tombs) * TOMB;
        let change = (live.wrapping_add(tombs)).wrapping_sub(u64::from(slots) * OPEN);
        // Release [F→G]: the index and size that the operation changed.
        let before = self.word(page).fetch_add(change, Ordering::Release);
        // F-P2: a page with open slots is not unlinked. So the caller need not free the page, even
        // if it takes the last reference away.
        debug_assert!(before & UNLINKED == 0, "page {page} had open slots");
        before & WAITED_FOR != 0 && PageState(before).open() == slots
    }

    /// Returns whether the page is settled. If it is not, [`end`](Self::end) says when it may be.
    pub(crate) fn wait_for(&self, page: u32) -> bool {
        // Acquire [G←F]: the index and size.
        // equivalent(Relaxed): as in `state`.
        let before = self.word(page).fetch_or(WAITED_FOR, Ordering::Acquire);
        PageState(before).is_settled()
    }

    /// Adds live references.
    pub(crate) fn add_live(&self, page: u32, count: u32) {
        // Relaxed: a page to which the caller has a reference does not become free.
        let live = u64::from(count) * LIVE;
        self.word(page).fetch_add(live, Ordering::Relaxed);
    }

    /// Takes live references away (F-P1). Returns whether the caller must free the page.
    #[must_use = "nobody else frees the page"]
    pub(crate) fn take_live(&self, page: u32, count: u32) -> bool {
        let live = u64::from(count) * LIVE;
        // Acquire [G←F]: if the page becomes free, its slots were written before.
        // equivalent(Relaxed): no program of ours shows that it is needed. Without it, the slots
        // could race with the next use of their page.
        let before = self.word(page).fetch_sub(live, Ordering::Acquire);
        debug_assert!(PageState(before).live() >= count, "page {page}");
        PageState(before.wrapping_sub(live)).is_free()
    }

    /// Marks the page as unlinked (F-P2): the pointer that skips it is durable. Returns whether the
    /// caller must free the page.
    #[must_use = "nobody else frees the page"]
    pub(crate) fn unlink(&self, page: u32) -> bool {
        // Release [F→G]: the page's pointer. The log's mutex orders the stores to it before this,
        // and another thread may free the page.
        // Acquire [G←F]: as in `take_live`.
        // equivalent(Acquire): as in `take_live`.
        // equivalent(Release): as in `take_live`.
        let before = self.word(page).fetch_or(UNLINKED, Ordering::AcqRel);
        PageState(before | UNLINKED).is_free()
    }

    /// Forgets that the page was a log page, before it becomes free.
    pub(crate) fn forget(&self, page: u32) {
        // Relaxed: the allocator carries it, by a shard's mutex or its spare.
        self.word(page).store(0, Ordering::Relaxed);
    }
}

/// How an operation changes what a page is needed for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageUse {
    /// The live references that the operation adds to the page, less those to the same page that
    /// it takes away.
    pub(crate) live: i64,
    /// Groups that take something away.
    pub(crate) tombs: u32,
}

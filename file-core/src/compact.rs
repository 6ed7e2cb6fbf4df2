//! Compaction: a log of mostly dead groups is rewritten into a fresh chain.
//!
//! # The problem
//! Every overwrite leaves a dead group behind, so a log grows for ever. NOVA's "thorough" garbage
//! collection copies live entries into a new log and swings the head (Xu & Swanson, FAST '16).
//!
//! # Properties
//! - **When**: an append needs a page, and the log has more than max(8, 4 × the pages its live
//!   groups need, 1 for each 256 pages of the file). How many live is found by a walk over the
//!   index: hence the third bound, and the log is asked again only when it has grown by an eighth.
//!   On a full volume also earlier, when it yields the slots that the append needs.
//! - **Cost**: proportional to what lives; every write to the same file waits meanwhile, readers do
//!   not notice. Amortized over the appends that made the garbage: at most one live slot copied for
//!   three slots appended.
//! - **Space**: for its duration the live groups are there twice. May draw on the whole reserve,
//!   and gives back more.
//!
//! # The switch
//! 1. Nobody is in flight, and nobody can reserve (L4): the index is the truth.
//! 2. The new chain is stored whole, marks and all, in private pages. Its epoch is one more.
//!    Nothing points to it, so its marks need no publication of their own.
//! 3. *Fence.* Only now may anything point to it.
//! 4. The inode's head pointer is published, flushed, *fenced*. Before the 8-byte store persists,
//!    recovery reads the old chain; after it, the new one. They say the same.
//! 5. The old chain's pages become free (M7).

use spanlock_pmem::Pmem;

use crate::alloc::Class;
use crate::error::Error;
use crate::layout::{Chain, HEAD_SEQUENCE, PAGE_SLOTS, SLOT_BYTES, WORD_BYTES, mark_of};
use crate::log::{State, store_chain};
use crate::medium::Medium;
use crate::record::{GroupWriter, slots_for};

/// Logs of fewer pages are left alone, unless the volume is full.
pub(crate) const MIN_PAGES: usize = 8;
/// How many times the pages of its live groups a log may have.
const FACTOR: u64 = 4;
/// On a full volume a compaction yields at least this many slots, or it would be done for every append.
const LEAST_GAIN: u64 = 8;

/// A log with a page for every 256 live things is not too long: looking at these would cost more
/// than it yields.
const LIVE_PER_PAGE: u64 = 256;

/// Receives the groups of a log one by one: the record's length in bytes, and who writes it.
pub(crate) type EmitGroup<'a> = dyn FnMut(usize, &dyn Fn(&mut GroupWriter<'_>)) + 'a;

/// What of a log must be kept.
pub(crate) trait Live {
    /// Calls `emit` for each group that a fresh log must have, in order. Returns how many things it
    /// looked at: pages, or names.
    fn each(&self, emit: &mut EmitGroup<'_>) -> u64;
}

/// A fresh chain, not stored yet.
struct Fresh {
    chain: Chain,
    /// The slots with the live groups, each with its mark.
    slots: Vec<u8>,
    /// What [`Live::each`] returned.
    looked_at: u64,
}

impl Fresh {
    fn of(old: &Chain, live: &dyn Live) -> Fresh {
        let chain = Chain {
            epoch: old.epoch + 1,
            ..*old
        };
        let seed = chain.seed();
        let mut slots = Vec::new();
        let looked_at = live.each(&mut |bytes, put| {
            let start = slots.len();
            slots.resize(start + slots_for(bytes) * SLOT_BYTES, 0);
            let group = &mut slots[start..];
            put(&mut GroupWriter::new(group));
            let mark = mark_of(seed, (start / SLOT_BYTES) as u32, group);
            group[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
        });
        Fresh {
            chain,
            slots,
            looked_at,
        }
    }

    fn slots(&self) -> u64 {
        (self.slots.len() / SLOT_BYTES) as u64
    }

    /// Pages of a log that is not too long.
    fn bound(&self) -> usize {
        bound(self.slots()).max(self.looked_at / LIVE_PER_PAGE) as usize
    }
}

/// Pages that a log with so many live slots may have.
pub(crate) fn bound(live_slots: u64) -> u64 {
    (live_slots.div_ceil(PAGE_SLOTS as u64) * FACTOR).max(MIN_PAGES as u64)
}

/// Compacts if more of the log is dead than it may be. The log is quiet.
///
/// # Errors
/// [`Error::NoSpace`] if there is no room for the new chain; nothing has changed.
pub(crate) fn if_due<P: Pmem>(
    state: &mut State,
    medium: &Medium<P>,
    slots: u32,
    live: &dyn Live,
) -> Result<(), Error> {
    let fresh = Fresh::of(&state.chain, live);
    let (pages, bound) = (state.pages.len(), fresh.bound());
    if pages <= bound {
        state.compact_at = (bound + 1).max(pages + pages / 8);
        return Ok(());
    }
    switch(state, medium, slots, &fresh)?;
    state.compact_at = bound + 1;
    Ok(())
}

/// Compacts if that makes room for `slots` more slots without more pages. The log is quiet.
///
/// # Errors
/// [`Error::NoSpace`] if there is no room for the new chain; nothing has changed.
pub(crate) fn if_it_helps<P: Pmem>(
    state: &mut State,
    medium: &Medium<P>,
    slots: u32,
    live: &dyn Live,
) -> Result<(), Error> {
    let fresh = Fresh::of(&state.chain, live);
    let wanted = fresh.slots() + (slots as u64).max(LEAST_GAIN);
    if wanted > state.pages.len() as u64 * PAGE_SLOTS as u64 {
        return Ok(());
    }
    switch(state, medium, slots, &fresh)
}

/// Stores the fresh chain, with room for `slots` more slots, and makes it the log.
fn switch<P: Pmem>(
    state: &mut State,
    medium: &Medium<P>,
    slots: u32,
    fresh: &Fresh,
) -> Result<(), Error> {
    let chain = fresh.chain;
    let count = (fresh.slots() + slots as u64).div_ceil(PAGE_SLOTS as u64) as u32;
    let taken = medium
        .space
        .alloc
        .take(chain.inode as u64, count, Class::Compaction)?;
    let pages: Vec<u32> = taken.pages().collect();

    state.poisoned = true;
    let stored = store_chain(medium, &chain, 0, &pages, &fresh.slots);
    let durable = medium.pmem.fence(stored);
    let head = chain.seal(HEAD_SEQUENCE, pages[0]);
    medium.publish(medium.head_at(chain.inode), head, durable);

    medium.space.count_log_pages(pages.len() as u64);
    medium.space.count_compaction();
    // No longer poisoned.
    let old = core::mem::replace(state, state.follow(chain, pages, fresh.slots() as u32));
    // M7: the head that ends their use is durable.
    medium.space.give_log_pages(&old.pages);
    Ok(())
}

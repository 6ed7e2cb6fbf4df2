//! Compaction: rewrites a log of mostly dead groups into a fresh chain.
//!
//! # The problem
//! Every overwrite leaves a dead group behind, so without compaction a log would grow for ever.
//! NOVA's "thorough" garbage collection copies live entries into a new log and swings the head (Xu
//! & Swanson, FAST '16).
//!
//! # Properties
//! - **When**: an append needs a page, and the log has more than max(8, 4 × the pages its live
//!   groups need, 1 for each 256 pages of the file). Counting the live groups takes a walk over the
//!   index. The third bound limits that cost, and so does a second rule: the walk is repeated only
//!   after the log has grown by an eighth. On a full volume, a log is also compacted earlier if
//!   that frees the slots that the append needs. A removal compacts the directory's log by the
//!   same bounds.
//! - **Cost**: proportional to the live groups. Writes to the same file wait meanwhile; readers do
//!   not. The cost is amortized over the appends that made the garbage: at most one live slot is
//!   copied for three slots appended. (On a full volume this does not hold: an early compaction
//!   may free as few as [`LEAST_GAIN`] slots.)
//! - **Space**: while a compaction runs, the live groups exist twice. It may use the whole reserve
//!   and frees more than it takes.
//!
//! # The switch
//! 1. No append is in flight and none can reserve (L4), so the index is authoritative.
//! 2. The new chain is stored whole, with its marks, in private pages. Its epoch is one more than
//!    the old one's. Nothing points to the chain, so its marks are not published one by one.
//! 3. *Fence.* Only now may anything point to the new chain.
//! 4. The inode's head pointer is published, flushed, and *fenced*. Before this 8-byte store
//!    persists, recovery reads the old chain; afterwards it reads the new one. Both have the same
//!    content.
//! 5. The old chain's pages become free (M7).

use spanlock_pmem::{Durable, Pmem};
use spanlock_sync::injected_bug;

use crate::alloc::Class;
use crate::chain::{LogState, MIN_COMPACTED_PAGES, store_chain};
use crate::error::Error;
use crate::layout::{Chain, HEAD_SEQUENCE, PAGE_SLOTS, SLOT_BYTES, WORD_BYTES, mark_of};
use crate::medium::Medium;
use crate::record::{GroupWriter, slots_for};

/// The size limit of a log, as a multiple of the pages that its live groups need.
const FACTOR: u64 = 4;
/// On a full volume, a compaction must free at least this many slots. Otherwise every append would
/// compact.
const LEAST_GAIN: u64 = 8;

/// A log may have one page for every 256 live pages or names. Walking these would cost more than a
/// compaction frees.
const LIVE_PER_PAGE: u64 = 256;

/// Receives the groups of a log one by one: the record's length in bytes, and a function that
/// writes it.
pub(crate) type EmitGroup<'a> = dyn FnMut(usize, &dyn Fn(&mut GroupWriter<'_>)) + 'a;

/// The live content of a log, which a compaction must keep.
pub(crate) trait Live {
    /// Calls `emit` for each group of the fresh log, in order. Returns how many pages or names it
    /// visited.
    fn each(&self, emit: &mut EmitGroup<'_>) -> u64;
}

/// A fresh chain that is not stored yet.
struct Fresh {
    chain: Chain,
    /// The slots of the live groups, including their marks.
    slots: Vec<u8>,
    /// The result of [`Live::each`].
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

    /// Returns the most pages that the log may have before it is compacted.
    fn bound(&self) -> usize {
        bound(self.slots()).max(self.looked_at / LIVE_PER_PAGE) as usize
    }
}

/// Returns the most pages that a log with `live_slots` live slots may have.
pub(crate) fn bound(live_slots: u64) -> u64 {
    (live_slots.div_ceil(PAGE_SLOTS as u64) * FACTOR).max(MIN_COMPACTED_PAGES as u64)
}

/// Compacts if the log exceeds its size limit. The log must be quiet.
///
/// # Errors
/// [`Error::NoSpace`] if there is no room for the new chain; nothing has changed.
pub(crate) fn if_due<P: Pmem>(
    state: &mut LogState,
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

/// Compacts if that makes room for `slots` more slots without adding pages. The log must be quiet.
///
/// # Errors
/// [`Error::NoSpace`] if there is no room for the new chain; nothing has changed.
pub(crate) fn if_it_helps<P: Pmem>(
    state: &mut LogState,
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
    state: &mut LogState,
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
    let durable = if injected_bug!(
        "head-before-chain",
        "a compaction moves the head before the new chain is durable",
        killed_by = "file-core-full/patch-patch, file-core-full/second-append"
    ) {
        drop(stored);
        Durable::at_rest()
    } else {
        medium.pmem.fence(stored)
    };
    let head = chain.seal(HEAD_SEQUENCE, pages[0]);
    medium.publish(medium.head_at(chain.inode), head, durable);

    medium.space.count_log_pages(pages.len() as u64);
    medium.space.count_compaction();
    // This also clears the poison flag.
    let old = core::mem::replace(state, state.follow(chain, pages, fresh.slots() as u32));
    // M7: the head pointer that ends their use is durable.
    medium.space.release_log_pages(&old.pages);
    Ok(())
}

//! The live content of a log: what a cleaning must keep, and how long a log may be for it.
//!
//! A log does not know what its groups mean. The file or directory that owns it lists the groups
//! that are still needed ([`Live::each`]), and learns where a cleaning has copied them
//! ([`Live::moved`]).

use crate::log::record::GroupWriter;
use crate::log::tail::SlotAddress;
use crate::medium::layout::PAGE_SLOTS;
use crate::medium::space::Space;

/// The size limit of a log, as a multiple of the pages that its live groups need.
const FACTOR: u64 = 4;
/// A log may have one page for every 256 live pages or names. Walking these would cost more than a
/// cleaning frees.
pub(super) const LIVE_PER_PAGE: u64 = 256;

/// A group that a cleaning copies.
pub(crate) struct LiveGroup<'a> {
    /// Identifies the group to [`Live::moved`].
    pub(crate) tag: u64,
    /// The number of live references to the group.
    pub(crate) live: u32,
    /// The length of the record.
    pub(crate) bytes: usize,
    /// Writes the record.
    pub(crate) put: &'a dyn Fn(&mut GroupWriter<'_>),
}

/// Receives the groups of a log one by one.
pub(crate) type EmitGroup<'a> = dyn FnMut(LiveGroup<'_>) + 'a;

/// Tells whether a page is one of those whose groups are copied.
pub(crate) type IsOld<'a> = dyn Fn(u32) -> bool + 'a;

/// The live content of a log, which a cleaning must keep.
pub(crate) trait Live {
    /// Calls `emit` for each live group in the old pages. No group is longer than a page. Returns
    /// how many pages or names it visited.
    fn each(&self, is_old: &IsOld<'_>, emit: &mut EmitGroup<'_>) -> u64;

    /// Records where the groups are now, in the order in which [`each`](Self::each) emitted them.
    /// Returns the log pages from which the caller must take references away: old pages, and new
    /// ones whose groups writers have replaced meanwhile.
    fn moved(&self, is_old: &IsOld<'_>, groups: &[(u64, SlotAddress)]) -> Vec<u32>;
}

/// Returns the most pages that a log with `live_slots` live slots may have.
pub(crate) fn bound(space: &Space, live_slots: u64) -> u64 {
    (live_slots.div_ceil(PAGE_SLOTS as u64) * FACTOR).max(space.least_cleaned as u64)
}

//! Replaying a log: its slots are decoded, and the records of its committed groups applied.
//!
//! The content of a slot depends only on the medium and the chain. So the pages of a long log are
//! decoded on all threads of rayon's pool, a *batch* at a time, while one thread applies the batch
//! before. Two batches are in memory, however long the log is.
//!
//! Which slots the replay visits depends on the groups before them: it goes past the slots of each
//! group that it applies. One thread applies all groups in the order of the log, so what it visits,
//! and each damage that it meets, does not depend on the schedule. What the other threads decode
//! is only looked up. Some slots are left to that thread: see [`Page::decode`].

#[cfg(test)]
mod tests;

use core::ops::Range;

use rayon::prelude::*;
use spanlock_pmem::Pmem;
use spanlock_sync::injected_bug;

use crate::log::chain::LogState;
use crate::log::record::Record;
use crate::log::tail::{Log, SlotAddress};
use crate::medium::error::Error;
use crate::medium::layout::{
    EXTENT_BYTES, Geometry, PAGE, PAGE_SLOTS, PAYLOAD_BYTES, PageId, SLOT_BYTES, TAIL_AT,
    WORD_BYTES, WRITE_HEADER_BYTES, get_u64, mark_of, page_at, slots_of_mark,
};
use crate::medium::log_page::{LogPages, PageState, Rank};
use crate::medium::reports::Repair;
use crate::recover::damage::Fix;
use crate::recover::reader::{Chain, EachDamage, LogReader};

/// Receives the records of a log.
pub(super) type EachRecord<'a> = dyn FnMut(Record, SlotAddress) -> Result<(), Error> + 'a;

/// How many pages are decoded at a time: at most a few megabytes of records. Each batch may have to
/// wake a thread, so it must take much longer than that.
const BATCH: usize = 256;

/// A committed group. Or its damage.
type Group = Result<Sound, Error>;

/// A committed group whose checksum is right.
struct Sound {
    record: Record,
    slots: u32,
    /// Which of its slots begins with a word that is not zero, besides the mark.
    stray: Option<u32>,
}

/// The content of a slot.
enum Slot {
    /// Nothing.
    Empty,
    /// Bytes of a group without a mark.
    Uncommitted,
    /// The first slot of a committed group.
    Group(Group),
}

/// The number of a slot in its page, and what is there, if that is decoded.
type Decoded = (u32, Option<Slot>);

/// A page of a chain, read into memory.
struct Page<'c> {
    chain: &'c Chain,
    /// See [`most_slots`].
    most_slots: u64,
    /// Its position in the chain.
    nth: usize,
    /// On the heap: recovery may run on a small stack.
    image: Vec<u8>,
}

impl Page<'_> {
    fn id(&self) -> PageId {
        self.chain.pages[self.nth]
    }

    fn group_bytes(&mut self, slot: u32, count: u32) -> &mut [u8] {
        let at = slot as usize * SLOT_BYTES;
        &mut self.image[at..at + count as usize * SLOT_BYTES]
    }

    /// Returns what is at a slot, or `None` if it is the first one of a group that goes on in the
    /// next page: reading such a group may take the whole log.
    ///
    /// Erases the group's mark from the image, so no slot before this one may be read after it.
    fn read(&mut self, slot: u32) -> Option<Slot> {
        let bytes = self.group_bytes(slot, 1);
        let mark = get_u64(bytes, 0);
        if mark == 0 {
            let is_empty = *bytes == [0; SLOT_BYTES];
            return Some(if is_empty {
                Slot::Empty
            } else {
                Slot::Uncommitted
            });
        }
        let group = match self.group_len(slot, mark) {
            Ok(count) if slot + count > PAGE_SLOTS => return None,
            Ok(count) => {
                let id = self.id();
                decode_group(id, slot, self.group_bytes(slot, count))
            }
            Err(error) => Err(error),
        };
        Some(Slot::Group(group))
    }

    /// Returns the number of slots of the group with this mark.
    fn group_len(&self, slot: u32, mark: u64) -> Result<u32, Error> {
        let corrupt = |what| corrupt(self.id(), slot, what);
        let count = slots_of_mark(mark).ok_or_else(|| corrupt("an invalid commit mark"))?;
        let left = (self.chain.pages.len() - self.nth) as u64 * u64::from(PAGE_SLOTS);
        if u64::from(slot) + u64::from(count) > left {
            return Err(corrupt("a committed group longer than its log"));
        }
        let crosses = slot + count > PAGE_SLOTS;
        if crosses && (slot > 0 || count <= PAGE_SLOTS) {
            return Err(corrupt("a committed group that crosses a page"));
        }
        if crosses && u64::from(count) > self.most_slots {
            return Err(corrupt("a committed group longer than any write"));
        }
        Ok(count)
    }

    /// Decodes the slots, except those that [`read`](Self::read) does not decode, and those that
    /// lie in a sound group: the replay visits them only if it refuses the group. Leaves out empty
    /// slots, because most pages have little else.
    fn decode(mut self) -> Vec<Decoded> {
        let mut slots = Vec::new();
        let mut at = 0;
        while at < PAGE_SLOTS {
            let slot = self.read(at);
            let end = match &slot {
                Some(Slot::Group(Ok(group))) => at + group.slots,
                _ => at + 1,
            };
            if !matches!(slot, Some(Slot::Empty)) {
                slots.push((at, slot));
                slots.extend((at + 1..end).map(|slot| (slot, None)));
            }
            at = end;
        }
        slots
    }
}

/// Returns how many slots a group of several pages has at most: that of a write that maps each page
/// of the volume, in an extent of its own and between holes. A longer one is forged, and could take
/// more memory than the volume.
fn most_slots(geometry: &Geometry) -> u64 {
    let pages = u64::from(geometry.data_pages());
    let bytes = WRITE_HEADER_BYTES as u64 + (2 * pages + 1) * EXTENT_BYTES as u64 + pages * 4;
    bytes.div_ceil(PAYLOAD_BYTES as u64)
}

const WRONG_CHECKSUM: &str = "a committed group whose checksum is wrong";

fn corrupt(id: PageId, slot: u32, what: &'static str) -> Error {
    let page = id.page;
    Error::corrupt(what, id.log.inode, SlotAddress { page, slot }.at())
}

/// Decodes the group in these slots, which begin at slot `slot` of a page. If it is sound, sets the
/// first words of all its slots to zero; otherwise only the mark.
///
/// Refuses a group with two stray words, even if its checksum is right: see
/// [`LogReader::long_group`].
fn decode_group(id: PageId, slot: u32, slots: &mut [u8]) -> Group {
    let mark = get_u64(slots, 0);
    slots[..WORD_BYTES].fill(0);
    let (stray, second) = {
        let mut strays = strays(slots);
        (strays.next(), strays.next())
    };
    let at = stray.map_or(0, |nth| nth as usize * SLOT_BYTES);
    let word = get_u64(slots, at);
    slots[at..at + WORD_BYTES].fill(0);
    if second.is_some() || mark_of(id.seed(), slot, slots) != mark {
        slots[at..at + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
        return Err(corrupt(id, slot, WRONG_CHECKSUM));
    }
    let record = Record::decode(slots).map_err(|what| corrupt(id, slot, what))?;
    Ok(Sound {
        record,
        slots: (slots.len() / SLOT_BYTES) as u32,
        stray,
    })
}

/// Returns which of these slots begin with a word that is not zero.
fn strays(slots: &[u8]) -> impl Iterator<Item = u32> {
    let slots = slots.chunks_exact(SLOT_BYTES);
    (0..)
        .zip(slots)
        .filter(|(_, slot)| get_u64(slot, 0) != 0)
        .map(|(nth, _)| nth)
}

impl<P: Pmem> LogReader<'_, P> {
    /// Replays the log with this chain. Calls `each` with the records of its committed groups and
    /// their positions, in order. Calls `damaged` with all damage.
    ///
    /// # Errors
    /// Those of `damaged`, which also receives those of `each`.
    pub(super) fn replay(
        &self,
        chain: Chain,
        each: &mut EachRecord<'_>,
        damaged: &mut EachDamage<'_>,
    ) -> Result<ReplayedLog, Error> {
        let mut groups = Groups {
            pages: vec![PageGroups::default(); chain.pages.len()],
            ..Groups::default()
        };
        let mut apply = |nth, slots: Vec<_>| groups.apply(self, &chain, nth, slots, each, damaged);
        if self.is_long(&chain) {
            self.decode_in_parallel(&chain, &mut apply)?;
        } else {
            for nth in 0..chain.pages.len() {
                apply(nth, self.page(&chain, nth).decode())?;
            }
        }
        Ok(ReplayedLog { chain, groups })
    }

    /// Decodes the pages of a chain on the threads of rayon's current pool. Calls `apply` in this
    /// thread, with the slots of each page, in order.
    ///
    /// # Errors
    /// The first error of `apply`, which ends this.
    fn decode_in_parallel(
        &self,
        chain: &Chain,
        apply: &mut dyn FnMut(usize, Vec<Decoded>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let decode = |pages: Range<usize>| -> Vec<_> {
            let pages = pages.into_par_iter();
            pages.map(|nth| self.page(chain, nth).decode()).collect()
        };
        let count = chain.pages.len();
        let batch = |first: usize| first..count.min(first + BATCH);
        let mut decoded = decode(batch(0));
        for first in (0..count).step_by(BATCH) {
            let mut following = Vec::new();
            rayon::in_place_scope(|scope| {
                scope.spawn(|_| following = decode(batch(count.min(first + BATCH))));
                (first..)
                    .zip(decoded)
                    .try_for_each(|(nth, slots)| apply(nth, slots))
            })?;
            decoded = following;
        }
        Ok(())
    }

    fn page<'c>(&self, chain: &'c Chain, nth: usize) -> Page<'c> {
        let mut image = vec![0; PAGE];
        self.load(page_at(chain.pages[nth].page), &mut image);
        Page {
            chain,
            most_slots: most_slots(self.geometry),
            nth,
            image,
        }
    }

    /// Returns what is at a slot of a chain.
    fn slot(&self, chain: &Chain, nth: usize, slot: u32) -> Slot {
        let mut page = self.page(chain, nth);
        page.read(slot)
            .unwrap_or_else(|| Slot::Group(self.long_group(page, slot)))
    }

    /// Returns the group that begins at this slot, and may go on in the next pages.
    ///
    /// Does not read past the second stray word. So few groups read a page, and all of them take
    /// linear time, even if each page of a forged log begins with the mark of a long one.
    fn long_group(&self, page: Page<'_>, slot: u32) -> Group {
        let at = slot as usize * SLOT_BYTES;
        let count = page.group_len(slot, get_u64(&page.image, at))?;
        let len = count as usize * SLOT_BYTES;
        let mut slots = page.image[at..TAIL_AT].to_vec();
        let mut words = strays(&slots).count();
        for next in page.nth + 1.. {
            if slots.len() >= len {
                break;
            }
            // One of them is the mark.
            if words > 2 {
                return Err(corrupt(page.id(), slot, WRONG_CHECKSUM));
            }
            let image = self.page(page.chain, next).image;
            let more = &image[..TAIL_AT.min(len - slots.len())];
            words += strays(more).count();
            slots.extend_from_slice(more);
        }
        slots.truncate(len);
        decode_group(page.id(), slot, &mut slots)
    }
}

/// The state of a page, according to its committed groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PageGroups {
    /// Groups that take something away.
    tombs: u32,
    /// Whether a group continues in the next page.
    is_continued: bool,
}

/// The groups of a log, as far as they have been applied.
#[derive(Debug, Default, PartialEq, Eq)]
struct Groups {
    pages: Vec<PageGroups>,
    /// The first slot of the chain that the replay has not gone past.
    index: u64,
    /// The slot after the last committed group.
    next: u64,
    committed: u64,
    uncommitted_slots: u64,
}

impl Groups {
    /// Visits the slots of the next page. Those that are left out are empty.
    fn apply<P: Pmem>(
        &mut self,
        reader: &LogReader<'_, P>,
        chain: &Chain,
        nth: usize,
        slots: Vec<Decoded>,
        each: &mut EachRecord<'_>,
        damaged: &mut EachDamage<'_>,
    ) -> Result<(), Error> {
        let start = nth as u64 * u64::from(PAGE_SLOTS);
        for (slot, found) in slots {
            let index = start + u64::from(slot);
            if index < self.index {
                // It lies in a group that has been applied.
                continue;
            }
            let found = found.unwrap_or_else(|| reader.slot(chain, nth, slot));
            let is_gap = index > self.index || !matches!(found, Slot::Group(_));
            if is_gap
                && injected_bug!(
                    "ends-at-gap",
                    "recovery takes the first slot without a mark for the end of the log",
                    killed_by = "file-core/patch-second"
                )
            {
                self.index = u64::MAX;
                break;
            }
            self.index = index;
            let Slot::Group(group) = found else {
                self.uncommitted_slots += u64::from(matches!(found, Slot::Uncommitted));
                self.index += 1;
                continue;
            };
            let page = chain.pages[nth].page;
            let place = SlotAddress { page, slot };
            let applied = group.and_then(|group| {
                let takes_away = group.record.takes_away();
                each(group.record, place)?;
                Ok((takes_away, group.slots, group.stray))
            });
            match applied {
                Ok((takes_away, count, stray)) => {
                    if let Some(stray) = stray {
                        let index = self.index + u64::from(stray);
                        Self::meet_stray(chain, index, damaged)?;
                    }
                    self.add(nth, takes_away, count);
                }
                Err(error) => {
                    damaged(error, Fix::Erase(place.at(), Repair::EraseGroup))?;
                    // The other slots of a group begin with zero, so they are skipped one by one.
                    self.index += 1;
                }
            }
        }
        // The slots at the end may have been left out.
        self.index = self.index.max(start + u64::from(PAGE_SLOTS));
        Ok(())
    }

    /// Reports the first word of this slot, which should be zero.
    fn meet_stray(chain: &Chain, index: u64, damaged: &mut EachDamage<'_>) -> Result<(), Error> {
        let id = chain.pages[(index / u64::from(PAGE_SLOTS)) as usize];
        let slot = (index % u64::from(PAGE_SLOTS)) as u32;
        let at = SlotAddress {
            page: id.page,
            slot,
        }
        .at();
        let error = corrupt(id, slot, "a word that is not zero within a committed group");
        damaged(error, Fix::Erase(at, Repair::ClearWord))
    }

    /// Goes past a group that has been applied. It begins in page `nth`, at the slot that is
    /// visited.
    fn add(&mut self, nth: usize, takes_away: bool, count: u32) {
        let last_slot = self.index + u64::from(count) - 1;
        let last = (last_slot / u64::from(PAGE_SLOTS)) as usize;
        self.pages[nth].tombs += u32::from(takes_away);
        for page in &mut self.pages[nth..last] {
            page.is_continued = true;
        }
        self.committed += 1;
        self.index = last_slot + 1;
        self.next = self.index;
        if injected_bug!(
            "reuses-last-slot",
            "recovery continues the log at the last committed group",
            killed_by = "file-core/patch-patch, file-core/sequences-of-1"
        ) {
            self.next -= u64::from(count);
        }
    }
}

/// A log that has been replayed.
pub(super) struct ReplayedLog {
    chain: Chain,
    groups: Groups,
}

impl ReplayedLog {
    /// Returns the number of pages in the chain.
    pub(super) fn pages(&self) -> u64 {
        self.chain.pages.len() as u64
    }

    /// Returns the number of committed groups, without damaged ones.
    pub(super) fn committed_groups(&self) -> u64 {
        self.groups.committed
    }

    /// Returns the number of slots with bytes of groups without a mark.
    pub(super) fn uncommitted_slots(&self) -> u64 {
        self.groups.uncommitted_slots
    }

    /// Returns a birth that no page of the chain has reached.
    pub(super) fn births(&self) -> u64 {
        let births = self.chain.pages.iter().map(|it| it.birth.wrapping_add(1));
        births.fold(0, u64::max)
    }

    /// Returns the first slot of the last page that is not in use.
    fn next(&self) -> u32 {
        match self.pages().checked_sub(1) {
            None => PAGE_SLOTS,
            Some(before) => {
                let used = self
                    .groups
                    .next
                    .saturating_sub(before * u64::from(PAGE_SLOTS));
                used as u32
            }
        }
    }

    /// Returns the log, ready to append after the last committed group, and sets the states of its
    /// pages. They have no live references yet.
    pub(super) fn into_log(self, log_pages: &LogPages) -> Log {
        let (next, births) = (self.next(), self.births());
        let ReplayedLog { chain, groups } = self;
        let pages = &chain.pages;
        for (nth, (id, page)) in pages.iter().zip(&groups.pages).enumerate() {
            let is_last = nth + 1 == pages.len();
            let open = if is_last { PAGE_SLOTS - next } else { 0 };
            let state = PageState::recovered(open, page.tombs, page.is_continued);
            log_pages.start(id.page, id.seed(), Rank::LOWEST, state);
        }
        let pages = pages.iter().map(|it| it.page).collect();
        Log::new(LogState::new(chain.inode.id.log(), pages, births), next)
    }
}

//! Opening a log: finds the last complete batch, and detects damage.
//!
//! Recovery goes from batch to batch, beginning at the superblock's head, and stops at the first
//! position without a fitting batch. `docs/compact.md` lists the cases in which that position is
//! the end of the log, and those in which it is damage; "case 8" below refers to that list.
//!
//! # Invariants
//! - **C-R1** Both superblocks describe the ring correctly at any time, and either one suffices.
//!   They are written durably, one after the other. A crash may tear one of them, so an opening
//!   writes the newest last, and the other first. Space that a change frees is reused only after
//!   both are written.
//! - **C-R2** Each opening begins a new *epoch*. *Settled* is a position in the superblock. Batches
//!   before *settled* are durable and belong to earlier epochs than the superblock's. Batches from
//!   *settled* on belong to the superblock's epoch.
//! - **C-R3** A batch is written only after all batches before it are durable. So all batches but
//!   the last are durable.
//! - **C-R4** Recovery returns only durable records. By C-R3 only the last batch may not be
//!   durable, so recovery writes and flushes it again.

use spanlock_sync::{injected_bug, is_flush_left_out};

use super::format::{DATA, HEADER, Header, SLOTS, SUPERBLOCK, Slot, Superblock, VERSION};
use super::marks::Marks;
use super::opening::Start;
use super::ring::{self, Found, Ring};
use super::{Error, Lsn};
use crate::Storage;

/// The number of bytes read at a time when the free part of the ring is searched.
const SEARCH: usize = 1 << 20;
/// The largest number in a superblock with which a log can be written. These numbers only count up,
/// so no log reaches this limit, but forged superblocks can. With larger numbers, a log is opened
/// for reading only: otherwise, some opening would raise a number beyond what the next accepts, and
/// records acknowledged in between would be lost.
const MOST_WRITABLE: u64 = 1 << 62;
/// The largest number in a superblock. A log that was opened below [`MOST_WRITABLE`] cannot reach
/// this before it is opened again.
const MOST_READABLE: u64 = u64::MAX >> 1;

/// The result of [`Log::open`](super::Log::open).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recovery {
    /// The first record, if there is any.
    pub first: Lsn,
    /// The record that will be appended next. All earlier ones are in the log.
    pub next: Lsn,
    /// Whether the log was [closed](super::Log::close) before, or is new.
    pub was_closed: bool,
    /// Whether the log ended with a batch whose header is sound but whose records are not, as an
    /// interrupted commit can leave it. Recovery dropped that batch. If its header did not reach
    /// the medium, this is false.
    pub was_torn: bool,
    /// Whether the two copies of the superblock were sound and equal, or the log is new. Otherwise,
    /// one of them was older or damaged. Opening rewrites both, but
    /// [lazily](super::Log::open_lazily) only with its other writes. Until then, damage to the
    /// newer copy brings back the older one, and with it records that were truncated.
    pub copies_agreed: bool,
    /// The damage that [`Log::salvage`](super::Log::salvage) found, where it cut the log off.
    pub damage: Option<Error>,
}

/// The batches that a scan of the ring found.
pub(super) struct Scan {
    pub(super) marks: Marks,
    /// The last batch, if it belongs to the last epoch.
    pub(super) last: Option<Found>,
    was_torn: bool,
    /// The newest epoch in the log and in the remains after it.
    pub(super) newest_epoch: u64,
}

/// The superblock of a storage.
pub(super) struct Newest {
    pub(super) superblock: Superblock,
    /// The order in which its successor is written: the slot of the newest copy comes last. The
    /// other slot may be torn (C-R1).
    pub(super) slots: [u64; 2],
    /// See [`Recovery::copies_agreed`].
    pub(super) copies_agreed: bool,
}

/// Returns the newest superblock of a storage.
pub(super) fn superblock<S: Storage>(storage: &S) -> Result<Newest, Error> {
    let len = storage.len();
    if len < DATA {
        return Err(Error::NotALog { len });
    }
    let (mut newest, mut other) = (None::<(Superblock, u64)>, Error::NotALog { len });
    let mut copies = Vec::new();
    for at in SLOTS {
        let mut bytes = [0; SUPERBLOCK];
        (storage.read_at(&mut bytes, at)).map_err(Error::io("reading the superblock"))?;
        match Superblock::decode(&bytes) {
            Slot::Sound(found) => {
                copies.push(bytes);
                let is_newer = |(it, _): &(Superblock, u64)| it.serial < found.serial;
                if newest.as_ref().is_none_or(is_newer) {
                    newest = Some((found, at));
                }
            }
            Slot::Version(found) => {
                let supported = VERSION;
                other = Error::Version { found, supported };
            }
            Slot::Damaged if matches!(other, Error::NotALog { .. }) => {
                let what = "both superblocks are damaged";
                other = Error::BadSuperblock { what, at };
            }
            Slot::Damaged | Slot::Foreign => {}
        }
    }
    let Some((newest, at)) = newest else {
        return Err(match Start::read(storage)? {
            Start::Unfinished => Error::Unfinished,
            Start::Zero | Start::Used => other,
        });
    };
    check(&newest, len)?;
    let is_ignored = injected_bug!(
        "first-slot-first",
        "opening a log writes its first superblock first, even if the second one is torn",
        killed_by =
            "compact-log-torn/second-sequences-of-1, compact-log-torn/second-sequences-of-2"
    );
    let [first, second] = SLOTS;
    Ok(Newest {
        superblock: newest,
        slots: match at == first && !is_ignored {
            true => [second, first],
            false => [first, second],
        },
        copies_agreed: matches!(&copies[..], [one, other] if one == other),
    })
}

/// Checks that the superblock's numbers can describe a log. A sound checksum does not imply that.
fn check(superblock: &Superblock, len: u64) -> Result<(), Error> {
    if len < superblock.len {
        return Err(Error::CutShort {
            expected: superblock.len,
            found: len,
        });
    }
    let block = u64::from(superblock.block);
    let is_log = super::is_block(block)
        && largest(superblock) <= MOST_READABLE
        && ring::is_enough(superblock.len, block)
        && superblock.first_record >= superblock.head_record
        && superblock.head_record >= 1
        && superblock.settled >= superblock.head
        && superblock.head.is_multiple_of(block);
    is_log.then_some(()).ok_or(Error::BadSuperblock {
        what: "the superblock's numbers describe no log",
        at: SLOTS[0],
    })
}

/// Returns the largest of the numbers that only count up.
fn largest(superblock: &Superblock) -> u64 {
    let numbers = [
        superblock.serial,
        superblock.epoch,
        superblock.settled,
        superblock.first_record,
    ];
    numbers.into_iter().fold(0, u64::max)
}

/// Returns an error if the superblock's numbers are too large to count on from.
pub(super) fn check_writable(superblock: &Superblock) -> Result<(), Error> {
    match largest(superblock) {
        found if found > MOST_WRITABLE => Err(Error::ReadOnly { found }),
        _ => Ok(()),
    }
}

/// Scans the batches from the head on. Also returns the damage, if any; everything before the
/// damage is sound.
pub(super) fn scan<S: Storage>(
    ring: &Ring<S>,
    superblock: &Superblock,
) -> Result<(Scan, Option<Error>), Error> {
    let (mut position, mut record) = (superblock.head, superblock.head_record);
    let mut marks = Marks::new(position, record, ring.len);
    let (mut last, mut overlaps) = (None, false);
    while position - superblock.head < ring.len {
        let is_settled = position < superblock.settled;
        let is_epoch =
            |epoch| is_settled == (epoch < superblock.epoch) && epoch <= superblock.epoch;
        let found = ring.batch(position, record, is_epoch);
        let Some(found) = found.map_err(Error::io("reading the log"))? else {
            break;
        };
        let len = found.bytes.len() as u64;
        if len > ring.len - (position - superblock.head) {
            overlaps = true;
            break;
        }
        position += len;
        record += u64::from(found.header.count);
        marks.advance(position, record);
        last = (!is_settled).then_some(found);
    }
    let later = search(ring, superblock, position)?;
    let damage = damage(superblock, position, &later, overlaps).map(|(what, at)| Error::Corrupt {
        what,
        at: at.unwrap_or(ring.place(position)),
        lsn: Lsn(record),
    });
    let was_torn = damage.is_none() && is_torn(ring, superblock, position)?;
    let scan = Scan {
        marks,
        last,
        was_torn,
        newest_epoch: later.newest_epoch,
    };
    Ok((scan, damage))
}

impl Scan {
    pub(super) fn report(&self, newest: &Newest, damage: Option<Error>) -> Recovery {
        let superblock = &newest.superblock;
        let next = self.marks.end().record;
        Recovery {
            first: Lsn(superblock.first_record.min(next)),
            next: Lsn(next),
            was_closed: superblock.closed,
            was_torn: self.was_torn,
            copies_agreed: newest.copies_agreed,
            damage,
        }
    }
}

/// Returns the damage if the log cannot end at `position`: cases 7, 8 and 11. If the damage is not
/// at `position`, also returns its byte offset.
fn damage(
    superblock: &Superblock,
    position: u64,
    later: &Later,
    overlaps: bool,
) -> Option<(&'static str, Option<u64>)> {
    if later.newer_at.is_some() {
        let what = "a batch is newer than both superblocks, which are stale";
        return Some((what, later.newer_at));
    }
    if position < superblock.settled {
        return Some(("a batch from before the last opening is missing", None));
    }
    if overlaps {
        return Some(("a batch is longer than the free part of the log", None));
    }
    let is_missing = later.has_successor && !superblock.closed;
    is_missing.then_some(("a batch is missing, although a later one is present", None))
}

/// The headers in the free part of the ring.
struct Later {
    /// Case 8: whether a header of the last epoch lies after the end of the log.
    has_successor: bool,
    /// Case 11: the byte offset of the first header of a newer epoch than the last.
    newer_at: Option<u64>,
    /// The newest epoch among these headers and the superblock.
    newest_epoch: u64,
}

/// Searches the free part of the ring, from `position` on.
fn search<S: Storage>(
    ring: &Ring<S>,
    superblock: &Superblock,
    position: u64,
) -> Result<Later, Error> {
    let end = superblock.head + ring.len;
    let mut later = Later {
        has_successor: false,
        newer_at: None,
        newest_epoch: superblock.epoch,
    };
    let mut at = position;
    let mut bytes = vec![0; SEARCH.min(ring.len as usize)];
    while at < end {
        let len = (end - at).min(bytes.len() as u64) as usize;
        (ring.read(&mut bytes[..len], at)).map_err(Error::io("searching the log"))?;
        for (bytes, nth) in bytes[..len].chunks(ring.block as usize).zip(0..) {
            let place = ring.place(at + nth * ring.block);
            let header = Header::decode(bytes)
                .filter(|header| header.id == ring.id && ring.place(header.position) == place);
            let Some(header) = header else {
                continue;
            };
            later.has_successor |= header.epoch == superblock.epoch && header.position > position;
            if header.epoch > superblock.epoch {
                later.newer_at.get_or_insert(place);
                later.newest_epoch = later.newest_epoch.max(header.epoch);
            }
        }
        at += len as u64;
    }
    Ok(later)
}

/// Returns whether a header of the last epoch lies at `position`.
fn is_torn<S: Storage>(
    ring: &Ring<S>,
    superblock: &Superblock,
    position: u64,
) -> Result<bool, Error> {
    if position - superblock.head >= ring.len {
        return Ok(false);
    }
    let mut bytes = [0; HEADER];
    (ring.read(&mut bytes, position)).map_err(Error::io("reading the log"))?;
    let begun = |header: Header| {
        (header.id, header.epoch, header.position) == (ring.id, superblock.epoch, position)
    };
    Ok(Header::decode(&bytes).is_some_and(begun))
}

/// Writes both copies durably, one after the other, in the order of `slots`. Zeros fill the rest of
/// the block, because a device with large sectors writes only whole sectors.
pub(super) fn write<S: Storage>(
    storage: &S,
    superblock: &Superblock,
    slots: [u64; 2],
) -> std::io::Result<()> {
    let mut bytes = superblock.encode().to_vec();
    bytes.resize(superblock.block as usize, 0);
    slots.into_iter().try_for_each(|at| {
        if is_flush_left_out() {
            return storage.write_at(&bytes, at);
        }
        storage.write_fua(&bytes, at)
    })
}

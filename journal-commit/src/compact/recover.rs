//! What is found when a log is opened: the last whole batch, or damage.
//!
//! # Commit correctness
//! A batch is acknowledged when its write and the flush after it have returned. The next batch is written after that, and nothing else writes to the ring: so at any moment all
//! batches but the last are durable, and only one can be half there. Recovery starts at the superblock's head and takes batch after batch, each where the one before it ends,
//! with the next record's number, and of the right epoch; it stops at the first place where there is none. These are the cases at that place:
//!
//! | | what happened | what is there | verdict |
//! |---|---|---|---|
//! | 1 | nothing was written there in this lap | zeros, or a batch of an earlier lap, or the inside of one: another position, if it is a header at all | the end |
//! | 2 | a crash before any sector of the batch was durable | as 1 | the end: it was not acknowledged |
//! | 3 | a crash when some sectors were | no header, or a header whose digest or whose records' checksums do not fit | the end |
//! | 4 | a crash when all were, before the flush returned | a whole batch | kept, though not acknowledged |
//! | 5 | the write or the flush failed | as 2, 3 or 4; nothing follows, for the log was poisoned | as 2, 3 or 4 |
//! | 6 | remains of 3 or 5, and the log was opened and went on in a shorter batch | another epoch, though position and record may fit | never taken: batches behind *settled* are of the last epoch |
//! | 7 | the medium lost or changed an acknowledged batch from before the last opening | no batch in front of *settled* | **damage**: not opened |
//! | 8 | it lost or changed one of the last epoch, not the last one | a later batch of the last epoch lies somewhere behind the place | **damage**: it was written after this one was durable |
//! | 9 | it lost or changed the last acknowledged batch | as 2 or 3 | *taken for the end*: the bytes cannot tell; a log that was [closed](super::Log::close) can: 7 |
//! | 10 | a log of another id was here | another id | the end |
//!
//! So a record behind a hole is never returned; the records that are returned are a prefix of those appended, which has all that were acknowledged (but in case 9).
//!
//! Case 4 is not over with that: the batch may be whole in a cache only, after a flush that failed. So opening writes the last batch of the last epoch once more where it
//! is, flushes, and only then hands it out. A crash meanwhile leaves the same bytes, or case 2 or 3 of a batch that was never acknowledged.
//!
//! # The superblock
//! There are two copies, in sectors of their own, 4096 bytes apart. Each change writes one durably, then the other; what a change sets free is used when both have returned. So at
//! any time both copies describe the ring well, and either is enough: one that is torn or damaged is passed over and written anew by the opening.
//!
//! | change | before it | after it |
//! |---|---|---|
//! | creation | no log | an empty log |
//! | truncation | from the old head all is there | from the new one too; the space between is not written before both copies are |
//! | opening | batches of the last epoch count behind *settled* | those that count are flushed, and in front of *settled*; remains behind it are of an older epoch |
//! | closing | as above | all batches are flushed, and in front of *settled* |
//!
//! # What is assumed of the medium
//! - What was flushed, or written durably, stays, and reads as written (else 7 to 9).
//! - A crash leaves each 512-byte sector that was being written old or new. (If it leaves something else, the checksums tell, but for the superblock both copies might be hit in turn:
//!   they are not written at once.)
//! - A write touches only the blocks that it writes. On a device with sectors of 4096 bytes, choose [`block_bytes`](super::Options::block_bytes) so: then no batch shares a sector with another.

use super::format::{DATA, HEADER, Header, SLOTS, SUPERBLOCK, Slot, Superblock, VERSION};
use super::marks::Marks;
use super::ring::{self, Found, Ring};
use super::{Error, Lsn};
use crate::Storage;

/// Bytes that are read at a time when the free part of the ring is searched.
const SEARCH: usize = 1 << 20;

/// What [`Log::open`](super::Log::open) found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recovery {
    /// The first record that is there, if any is.
    pub first: Lsn,
    /// The record that will be appended next: those before it are there.
    pub next: Lsn,
    /// Whether the log had been [closed](super::Log::close).
    pub was_closed: bool,
    /// Whether a batch was found whose commit was interrupted, and was left out.
    pub was_torn: bool,
    /// What [`Log::salvage`](super::Log::salvage) gave up.
    pub damage: Option<Error>,
}

/// The log as its ring says.
pub(super) struct Scan {
    pub(super) marks: Marks,
    /// The last batch, if it is of the last epoch.
    pub(super) last: Option<Found>,
    was_torn: bool,
}

/// The newest superblock of a storage.
pub(super) fn superblock<S: Storage>(storage: &S) -> Result<Superblock, Error> {
    let len = storage.len();
    if len < DATA {
        return Err(Error::NotALog { len });
    }
    let (mut newest, mut other) = (None::<Superblock>, Error::NotALog { len });
    for at in SLOTS {
        let mut bytes = [0; SUPERBLOCK];
        (storage.read_at(&mut bytes, at)).map_err(Error::io("reading the superblock"))?;
        match Superblock::decode(&bytes) {
            Slot::Sound(found) => {
                if newest.as_ref().is_none_or(|it| it.serial < found.serial) {
                    newest = Some(found);
                }
            }
            Slot::Version(found) => {
                let supported = VERSION;
                other = Error::Version { found, supported };
            }
            Slot::Damaged if matches!(other, Error::NotALog { .. }) => {
                other = Error::Corrupt {
                    what: "both superblocks",
                    at,
                    lsn: Lsn::FIRST,
                };
            }
            Slot::Damaged | Slot::Foreign => {}
        }
    }
    let newest = newest.ok_or(other)?;
    check(&newest, len)?;
    Ok(newest)
}

/// What a checksum cannot tell: whether the numbers make a log.
fn check(superblock: &Superblock, len: u64) -> Result<(), Error> {
    if len < superblock.len {
        return Err(Error::CutShort {
            expected: superblock.len,
            found: len,
        });
    }
    let block = u64::from(superblock.block);
    // They are counted up, and nobody counts so far.
    let are_sane = [
        superblock.serial,
        superblock.epoch,
        superblock.settled,
        superblock.first_record,
    ];
    let is_log = super::is_block(block)
        && are_sane.iter().all(|&number| number <= u64::MAX >> 2)
        && ring::is_enough(superblock.len, block)
        && superblock.first_record >= superblock.head_record
        && superblock.head_record >= 1
        && superblock.settled >= superblock.head
        && superblock.head.is_multiple_of(block);
    is_log.then_some(()).ok_or(Error::Corrupt {
        what: "the superblock's numbers",
        at: SLOTS[0],
        lsn: Lsn::FIRST,
    })
}

/// Walks along the batches. Damage is the second part: what is before it is sound.
pub(super) fn scan<S: Storage>(
    ring: &Ring<S>,
    superblock: &Superblock,
) -> Result<(Scan, Option<Error>), Error> {
    let (mut position, mut record) = (superblock.head, superblock.head_record);
    let mut marks = Marks::new(position, record, ring.len);
    let mut last = None;
    while position - superblock.head < ring.len {
        let is_settled = position < superblock.settled;
        let is_epoch =
            |epoch| is_settled == (epoch < superblock.epoch) && epoch <= superblock.epoch;
        let found = ring.batch(position, record, is_epoch);
        let Some(found) = found.map_err(Error::io("reading the log"))? else {
            break;
        };
        position += found.bytes.len() as u64;
        record += u64::from(found.header.count);
        marks.advance(position, record);
        last = (!is_settled).then_some(found);
    }
    let damage = damage(ring, superblock, position)?.map(|what| Error::Corrupt {
        what,
        at: ring.place(position),
        lsn: Lsn(record),
    });
    let was_torn = damage.is_none() && is_torn(ring, superblock, position)?;
    let scan = Scan {
        marks,
        last,
        was_torn,
    };
    Ok((scan, damage))
}

impl Scan {
    pub(super) fn report(&self, superblock: &Superblock, damage: Option<Error>) -> Recovery {
        let next = self.marks.end().record;
        Recovery {
            first: Lsn(superblock.first_record.min(next)),
            next: Lsn(next),
            was_closed: superblock.closed,
            was_torn: self.was_torn,
            damage,
        }
    }
}

/// Why the batches should not end at `position`, if they should not.
fn damage<S: Storage>(
    ring: &Ring<S>,
    superblock: &Superblock,
    position: u64,
) -> Result<Option<&'static str>, Error> {
    if position < superblock.settled {
        return Ok(Some("a batch from before the last opening is missing"));
    }
    if superblock.closed || !has_successor(ring, superblock, position)? {
        return Ok(None);
    }
    Ok(Some("a batch is missing that a later one follows"))
}

/// Whether a header of the last epoch lies in the free part of the ring, behind `position`.
fn has_successor<S: Storage>(
    ring: &Ring<S>,
    superblock: &Superblock,
    position: u64,
) -> Result<bool, Error> {
    let end = superblock.head + ring.len;
    let mut at = position;
    let mut bytes = vec![0; SEARCH.min(ring.len as usize)];
    while at < end {
        let len = (end - at).min(bytes.len() as u64) as usize;
        (ring.read(&mut bytes[..len], at)).map_err(Error::io("searching the log"))?;
        let is_later = |(header, at): (Header, u64)| {
            (header.id, header.epoch) == (ring.id, superblock.epoch)
                && header.position > position
                && ring.place(header.position) == ring.place(at)
        };
        let blocks = bytes[..len].chunks(ring.block as usize).zip(0..);
        let mut headers = blocks.filter_map(|(bytes, nth)| {
            Header::decode(bytes).map(|header| (header, at + nth * ring.block))
        });
        if headers.any(is_later) {
            return Ok(true);
        }
        at += len as u64;
    }
    Ok(false)
}

/// Whether a batch was begun at `position`, in the last epoch.
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

/// Writes both copies, one after the other, durably.
pub(super) fn write<S: Storage>(storage: &S, superblock: &Superblock) -> std::io::Result<()> {
    let bytes = superblock.encode();
    SLOTS
        .into_iter()
        .try_for_each(|at| storage.write_fua(&bytes, at))
}

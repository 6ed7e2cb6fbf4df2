//! Creating and opening a space. `docs/format.md` lists the steps of recovery.

use std::collections::BTreeMap;
use std::io;

use crc32c::crc32c_append;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{GroupCommit, Log, Options as RingOptions};
use spanlock_sync::{injected_bug, time};

use super::commits::{Commits, write_superblocks};
use super::error::Error;
use super::format::{self, Change, ENTRY, SLOTS, SUPERBLOCK, Slot, Superblock};
use super::free::Free;
use super::map::Map;
use super::medium::Medium;
use super::recent::Recent;
use super::runs::{Run, Runs};

/// Entries of the table that are read at a time.
const CHUNK: u64 = 1 << 16;
/// Blocks of data that are read at a time.
const DATA_CHUNK: u64 = 64;

/// The parts of an open space.
pub(super) struct Parts<M: Medium> {
    pub(super) medium: M,
    pub(super) map: Map,
    pub(super) free: Free,
    pub(super) recent: Recent,
    pub(super) commits: Commits<M::Ring>,
}

/// Creates a space. The rings come first: without a superblock, there is no space.
pub(super) fn create<M: Medium>(
    medium: M,
    mut superblock: Superblock,
    id: Option<u64>,
) -> Result<Parts<M>, Error> {
    superblock.fit(medium.len());
    superblock.check()?;
    for at in SLOTS {
        if !matches!(read_slot(&medium, at)?, Slot::Unsound) {
            return Err(Error::Occupied);
        }
    }
    let areas = 0..superblock.ring_range(superblock.rings - 1).end;
    (medium.reserve(areas)).map_err(Error::io("allocating the rings"))?;
    let mut rings = Vec::new();
    for ring in 0..superblock.rings {
        let storage = medium
            .ring(superblock.ring_range(ring))
            .map_err(Error::io("placing a ring"))?;
        let options = match id {
            // Rings have different ids, so that no record passes for one of another ring.
            Some(id) => ring_options().id(id.wrapping_add(u64::from(ring))),
            None => {
                // Otherwise a flush after the first write to a block would also write the journal
                // of the file system, and persistent memory would first have to be mapped.
                fill(&storage).map_err(Error::io("writing zeros to a ring"))?;
                Log::wipe(&storage).map_err(Error::Ring)?;
                ring_options()
            }
        };
        rings.push(Log::create(storage, &options).map_err(Error::Ring)?);
    }
    write_superblocks(&medium, &mut superblock)?;
    let free = Free::new(superblock.places, []);
    let commits = Commits::new(rings, superblock, Runs::default(), 0);
    let map = Map::new();
    Ok(Parts {
        medium,
        recent: Recent::new(),
        map,
        free,
        commits,
    })
}

fn fill(ring: &impl Storage) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    for at in (0..ring.len()).step_by(zeros.len()) {
        let len = (ring.len() - at).min(zeros.len() as u64);
        ring.write_at(&zeros[..len as usize], at)?;
    }
    ring.flush()
}

fn ring_options() -> RingOptions {
    // A wait for others depends on the time, so the log's own models explore it.
    match time::IS_CHECKED {
        true => RingOptions::new().group_commit(GroupCommit::Plain),
        false => RingOptions::new(),
    }
}

fn read_slot(medium: &impl Medium, at: u64) -> Result<Slot, Error> {
    let mut bytes = [0; SUPERBLOCK];
    // SAFETY: no other thread has this medium yet.
    (unsafe { medium.read(at, &mut bytes) }).map_err(Error::io("reading the superblock"))?;
    Ok(Superblock::decode(&bytes))
}

/// Returns the newest sound superblock.
fn newest(medium: &impl Medium) -> Result<Superblock, Error> {
    let mut error = Error::NotASpace;
    let mut newest: Option<Superblock> = None;
    for at in SLOTS {
        match read_slot(medium, at)? {
            Slot::Sound(it) if newest.as_ref().is_none_or(|best| best.serial < it.serial) => {
                newest = Some(it);
            }
            Slot::OtherVersion(found) => {
                error = Error::Version {
                    found,
                    supported: format::VERSION,
                }
            }
            Slot::Sound(_) | Slot::Unsound => {}
        }
    }
    let newest = newest.ok_or(error)?;
    if newest.place_at(newest.places) > medium.len() {
        return Err(Error::corrupt("the medium was cut short", medium.len()));
    }
    Ok(newest)
}

/// What the records after the cut say.
#[derive(Default)]
struct Records {
    number: u64,
    /// Blocks, with their last places, or with none if they were trimmed.
    blocks: Runs,
    /// The places of these blocks.
    places: Runs,
}

/// Opens a space.
pub(super) fn open<M: Medium>(medium: M) -> Result<Parts<M>, Error> {
    let superblock = newest(&medium)?;
    let mut rings = Vec::new();
    for ring in 0..superblock.rings {
        let storage = medium
            .ring(superblock.ring_range(ring))
            .map_err(Error::io("placing a ring"))?;
        rings.push(Log::open(storage, &ring_options()).map_err(Error::Ring)?);
    }
    let records = read_records(&medium, &rings, &superblock)?;
    let (mut map, noted) = build(&medium, &superblock, &records)?;
    let places = map.places();
    if let Some(twice) = places.windows(2).find(|pair| pair[0].end > pair[1].start) {
        let at = superblock.place_at(twice[1].start);
        return Err(Error::corrupt("two blocks with one place", at));
    }
    let free = Free::new(superblock.places, places);
    let number = records.number;
    let has_news = number > superblock.cut;
    let commits = Commits::new(rings, superblock, noted, number);
    if has_news {
        commits.checkpoint_if(&medium, || true)?;
    }
    Ok(Parts {
        medium,
        recent: Recent::new(),
        map,
        free,
        commits,
    })
}

/// A record after the cut.
struct Record {
    changes: Vec<Change>,
    /// Whether it may be durable without its data.
    is_unsure: bool,
}

fn read_records<R: Storage>(
    medium: &impl Medium,
    rings: &[Log<R>],
    superblock: &Superblock,
) -> Result<Records, Error> {
    let mut all: BTreeMap<u64, Record> = BTreeMap::new();
    for (ring, range) in rings
        .iter()
        .zip((0..).map(|ring| superblock.ring_range(ring)))
    {
        let corrupt = |what| Error::corrupt(what, range.start);
        // The last batch, and its records.
        let (mut batch, mut last) = (None, Vec::new());
        for record in ring.records() {
            let record = record.map_err(Error::Ring)?;
            let decoded = format::decode(&record.data, superblock);
            let (number, changes) =
                decoded.ok_or(corrupt("a record that is none of this space"))?;
            if batch.replace(record.batch) != Some(record.batch) {
                last.clear();
            }
            last.push(number);
            let is_unsure = false;
            let record = Record { changes, is_unsure };
            if number > superblock.cut && all.insert(number, record).is_some() {
                return Err(corrupt("two records with one number"));
            }
        }
        for number in last {
            // Only the last flush of a ring can have been interrupted.
            all.entry(number).and_modify(|it| it.is_unsure = true);
        }
    }
    let mut records = Records {
        number: all.keys().next_back().copied().unwrap_or(superblock.cut),
        ..Records::default()
    };
    let lacking = without_data(medium, superblock, &all)?;
    // No other record depends on them: their threads still held the blocks.
    all.retain(|number, _| !lacking.contains(number));
    for Change { block, run, .. } in all.values().flat_map(|it| &it.changes) {
        records.blocks.insert(*block, *run);
    }
    for (block, run) in records.blocks.iter() {
        let Some(place) = run.target else { continue };
        let its = Run::new(Some(block), run.len);
        if !records.places.insert(place, its).is_empty() {
            let at = superblock.place_at(place);
            return Err(Error::corrupt("two blocks with one place", at));
        }
    }
    Ok(records)
}

/// Returns the numbers of the records that lack data. Makes the data of the others durable, before
/// the table names its places: a later recovery must not find it gone. The data is written again:
/// if a write-back has failed, and the process was killed, it may be in the page cache only, for
/// ever.
fn without_data(
    medium: &impl Medium,
    superblock: &Superblock,
    all: &BTreeMap<u64, Record>,
) -> Result<Vec<u64>, Error> {
    let mut lacking = Vec::new();
    for (number, record) in all.iter().filter(|(_, it)| it.is_unsure) {
        for change in &record.changes {
            let (Some(sum), Some(place)) = (change.sum, change.run.target) else {
                continue;
            };
            // If a later record has changed one of the blocks, this one had been acknowledged, and
            // other data may be in its places now.
            let mut later = all.range(number + 1..).flat_map(|(_, it)| &it.changes);
            if later.any(|it| it.overlaps(change)) {
                continue;
            }
            let mut found = 0;
            for first in (0..change.run.len).step_by(DATA_CHUNK as usize) {
                let len = DATA_CHUNK.min(change.run.len - first);
                let at = superblock.place_at(place + first);
                let mut data = vec![0; (len * u64::from(superblock.block)) as usize];
                // SAFETY: no other thread has this medium yet.
                (unsafe { medium.read(at, &mut data) }).map_err(Error::io("reading data"))?;
                found = crc32c_append(found, &data);
                // SAFETY: as above.
                (unsafe { medium.write(at, &data) }).map_err(Error::io("writing data again"))?;
            }
            if found != sum
                && !injected_bug!(
                    "data-not-compared",
                    "a record counts although its data is missing",
                    killed_by = "objects-packed/sequences-of-1, objects-packed/patch-patch"
                )
            {
                lacking.push(*number);
                break;
            }
        }
    }
    if !injected_bug!(
        "recovered-data-not-flushed",
        "recovery writes the table before the data that it names is durable",
        killed_by = "objects-packed/sequences-of-1, objects-packed/sequences-of-2"
    ) {
        medium.flush().map_err(Error::io("flushing data"))?;
    }
    Ok(lacking)
}

/// Returns the map that the table alone gives. Nothing writes the table meanwhile.
///
/// # Errors
/// [`Error::Corrupt`], [`Error::Io`].
pub(super) fn read_table(medium: &impl Medium, superblock: &Superblock) -> Result<Map, Error> {
    let none = Records {
        number: superblock.cut,
        ..Records::default()
    };
    build(medium, superblock, &none).map(|(map, _)| map)
}

/// Returns the map, and the entries that the table lacks.
fn build(
    medium: &impl Medium,
    superblock: &Superblock,
    records: &Records,
) -> Result<(Map, Runs), Error> {
    let map = Map::new();
    let mut noted = Runs::default();
    let mut bytes = vec![0; (CHUNK.min(superblock.used) * ENTRY) as usize];
    let mut first = 0;
    while first < superblock.used {
        let chunk = first..superblock.used.min(first + CHUNK);
        let bytes = &mut bytes[..((chunk.end - chunk.start) * ENTRY) as usize];
        // SAFETY: no other thread has this medium yet.
        let read = unsafe { medium.read(superblock.entry_at(first), bytes) };
        read.map_err(Error::io("reading the table"))?;
        if records.number > superblock.cut {
            // A checkpoint may have been interrupted. If the process was killed and a write-back
            // had failed, entries may be in the page cache only, for ever. This writes them again;
            // the checkpoint that follows flushes.
            // SAFETY: as above.
            let written = unsafe { medium.write(superblock.entry_at(first), bytes) };
            written.map_err(Error::io("writing the table again"))?;
        }
        for (place, entry) in chunk.clone().zip(bytes.chunks_exact(ENTRY as usize)) {
            let entry = format::u64_at(entry, 0);
            take_entry(superblock, records, place, entry, &map, &mut noted)?;
        }
        first = chunk.end;
    }
    for (block, run) in records
        .blocks
        .iter()
        .filter(|(_, run)| run.target.is_some())
    {
        map.insert(block, run);
    }
    for (place, run) in records.places.iter() {
        noted.insert(place, run);
    }
    Ok((map, noted))
}

/// Adds one entry of the table to the map, unless a record names its block.
fn take_entry(
    superblock: &Superblock,
    records: &Records,
    place: u64,
    entry: u64,
    map: &Map,
    noted: &mut Runs,
) -> Result<(), Error> {
    let corrupt = |what| Err(Error::corrupt(what, superblock.entry_at(place)));
    let block = match format::decode_entry(place, entry) {
        Ok(Some(block)) => block,
        Ok(None) => return Ok(()),
        Err(format::Unsound) => return corrupt("an entry of the table"),
    };
    let is_taken = records.places.contains(place);
    if records.blocks.contains(block) {
        if !is_taken {
            noted.insert(place, Run::new(None, 1));
        }
        return Ok(());
    }
    if block >= superblock.size || place >= superblock.places {
        return corrupt("an entry of the table that lies outside the space");
    }
    let run = Run::new(Some(place), 1);
    match is_taken || !map.insert(block, run).is_empty() {
        true => corrupt("a place with two blocks, or a block with two places"),
        false => Ok(()),
    }
}

//! Random logs, short and long, sound and damaged: the replay must do what a plain loop over all
//! slots does, on any number of threads.

use core::cell::RefCell;

use fastrand::Rng;
use rayon::ThreadPoolBuilder;
use spanlock_pmem::MappedFile;

use super::*;
use crate::log::record::{GroupWriter, WriteHeader, slots_for};
use crate::medium::extent::Extent;
use crate::medium::journal::Word;
use crate::medium::layout::{InodeId, Kind, ROOT_GENERATION, RawInode, seal};
use crate::recover::forged::{region, store};

const PER_PAGE: usize = PAGE_SLOTS as usize;

const FILE: InodeId = InodeId {
    number: 1,
    generation: ROOT_GENERATION + 1,
    kind: Kind::File,
};

/// Slots in memory, and the pages that they will be in.
struct Slots {
    bytes: Vec<u8>,
    pages: Vec<PageId>,
}

impl Slots {
    fn of(&mut self, index: usize, count: usize) -> &mut [u8] {
        &mut self.bytes[index * SLOT_BYTES..(index + count) * SLOT_BYTES]
    }

    /// Returns the first word of a slot.
    fn word(&self, index: usize) -> u64 {
        get_u64(&self.bytes, index * SLOT_BYTES)
    }

    fn count(&self) -> usize {
        self.pages.len() * PER_PAGE
    }

    /// Makes a group of these slots. The first words of the further ones stay.
    fn mark(&mut self, index: usize, count: usize) {
        let seed = self.pages[index / PER_PAGE].seed();
        let group = self.of(index, count);
        let mark = mark_of(seed, (index % PER_PAGE) as u32, &without_words(group));
        group[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
    }

    /// Puts a group of `count` slots there, with random checksums. Other groups may lie in it.
    fn put(&mut self, index: usize, count: usize, random: &mut Rng) {
        let mut header = WriteHeader {
            file_page: random.u32(..),
            extents: 1,
            checksums: true,
            sets_size: random.u8(..4) == 0,
            ..WriteHeader::default()
        };
        // As many pages as the slots have room for.
        header.pages = ((count * (SLOT_BYTES - WORD_BYTES) - header.record_bytes()) / 4) as u32;
        assert_eq!(slots_for(header.record_bytes()), count);
        let extent = Extent {
            start: 1,
            len: header.pages,
        };
        let group = self.of(index, count);
        group.fill(0);
        let mut writer = GroupWriter::new(group);
        header.put(&mut writer, [extent].into_iter());
        (0..header.pages).for_each(|_| writer.put(&random.u32(..).to_le_bytes()));
        for inner in index + 1..index + count {
            let rest = (index + count - inner).min(PER_PAGE - inner % PER_PAGE);
            if random.u8(..16) == 0 {
                self.put(inner, random.usize(1..=rest.min(3)), random);
            }
        }
        self.mark(index, count);
    }

    /// Fills the slots with groups and gaps.
    fn fill(&mut self, random: &mut Rng) {
        let mut index = 0;
        while index < self.count() {
            let (in_page, in_log) = (PER_PAGE - index % PER_PAGE, self.count() - index);
            let count = match random.u8(..20) {
                0 if in_page == PER_PAGE => random.usize(1..=in_log.min(200)),
                0..4 => random.usize(1..=in_page),
                _ => 1,
            };
            match random.u8(..8) {
                0 => {}
                1 => {
                    for slot in self.of(index, count).chunks_mut(SLOT_BYTES) {
                        slot[WORD_BYTES..].fill_with(|| random.u8(..));
                    }
                }
                _ => self.put(index, count, random),
            }
            index += count;
        }
    }

    /// Flips bits, and puts marks in random places.
    fn damage(&mut self, random: &mut Rng) {
        for _ in 0..random.usize(1..20) {
            if random.bool() {
                let at = random.usize(..self.bytes.len());
                self.bytes[at] ^= 1 << random.u8(..8);
            } else {
                let at = random.usize(..self.count());
                let mark = random_mark(random).to_le_bytes();
                self.of(at, 1)[..WORD_BYTES].copy_from_slice(&mark);
            }
        }
    }

    /// Erases or changes marks. Returns the words that do the same in the region.
    fn change_marks(&mut self, random: &mut Rng) -> Vec<Word> {
        let change = |_| {
            let index = random.usize(..self.count());
            let value = [0, random_mark(random)][random.usize(..2)];
            self.of(index, 1)[..WORD_BYTES].copy_from_slice(&value.to_le_bytes());
            let place = SlotAddress {
                page: self.pages[index / PER_PAGE].page,
                slot: (index % PER_PAGE) as u32,
            };
            let at = place.at();
            Word { at, value }
        };
        (0..10).map(change).collect()
    }

    /// Stores the log. Returns its inode.
    fn store(&self, region: &MappedFile) -> RawInode {
        let nexts = self.pages.iter().skip(1).map(Some).chain([None]);
        for ((id, next), slots) in self.pages.iter().zip(nexts).zip(self.bytes.chunks(TAIL_AT)) {
            let mut image = [0; PAGE];
            image[..TAIL_AT].copy_from_slice(slots);
            id.put_tail(
                &mut image,
                next.map_or(0, |next| seal(id.seed(), next.page)),
            );
            store(region, page_at(id.page), &image);
        }
        RawInode {
            id: FILE,
            head: seal(FILE.log().head_seed(), self.pages[0].page),
            created: 0,
        }
    }
}

/// Returns the slots with zeros for their first words.
fn without_words(slots: &[u8]) -> Vec<u8> {
    let mut slots = slots.to_vec();
    for slot in slots.chunks_mut(SLOT_BYTES) {
        slot[..WORD_BYTES].fill(0);
    }
    slots
}

/// Returns a word that can be a mark, but is none of this place.
fn random_mark(random: &mut Rng) -> u64 {
    let count = [1, 2, 63, 64, 100, 0xFF_FFFF, random.u64(..0x100_0000)][random.usize(..7)];
    u64::from(random.u32(..)) | count << 32 | 0x4D << 56
}

/// Returns the pages of a log, in random places of the region.
fn random_pages(count: usize, geometry: &Geometry, random: &mut Rng) -> Vec<PageId> {
    let mut pages: Vec<u32> = (geometry.data_start()..geometry.data_end()).collect();
    random.shuffle(&mut pages);
    let id = |(birth, page)| PageId {
        log: FILE.log(),
        birth,
        page,
    };
    (0..).zip(pages).map(id).take(count).collect()
}

#[derive(PartialEq)]
enum Event {
    Record(Record, SlotAddress),
    Damage(Error, Fix),
}

/// Decides which records are refused, and which damage ends the replay.
#[derive(Clone, Copy)]
struct Judge {
    /// Of how many records one is refused.
    refuses: u64,
    /// How much damage is noted before one ends the replay.
    notes: usize,
}

/// The events of a replay so far.
struct Seen {
    judge: Judge,
    events: Vec<Event>,
    damages: usize,
}

impl Seen {
    fn new(judge: Judge) -> Self {
        Seen {
            judge,
            events: Vec::new(),
            damages: 0,
        }
    }

    fn record(&mut self, record: Record, place: SlotAddress) -> Result<(), Error> {
        self.events.push(Event::Record(record, place));
        if (place.at() / SLOT_BYTES as u64).is_multiple_of(self.judge.refuses) {
            let what = "a refused record";
            return Err(Error::corrupt(what, FILE.number, place.at()));
        }
        Ok(())
    }

    fn damage(&mut self, error: Error, fix: Fix) -> Result<(), Error> {
        self.events.push(Event::Damage(error.clone(), fix));
        self.damages += 1;
        if self.damages > self.judge.notes {
            return Err(error);
        }
        Ok(())
    }
}

/// How a replay ends: the first slot of the last page that is not in use, and the groups.
type End = Result<(u32, Groups), Error>;

/// Replays the log as recovery does.
fn replayed(
    reader: &LogReader<'_, MappedFile>,
    inode: &RawInode,
    judge: Judge,
) -> (Vec<Event>, End) {
    let seen = RefCell::new(Seen::new(judge));
    let mut damaged = |error, fix| seen.borrow_mut().damage(error, fix);
    let chain = reader.walk(inode, &mut |_, _| Ok(()), &mut damaged);
    let mut each = |record, place| seen.borrow_mut().record(record, place);
    let replayed = reader.replay(chain.unwrap(), &mut each, &mut damaged);
    let end = replayed.map(|it| (it.next(), it.groups));
    (seen.into_inner().events, end)
}

/// Replays the log in one loop over all of its slots, which are in memory.
fn plainly(slots: &Slots, most_slots: u64, judge: Judge) -> (Vec<Event>, End) {
    let mut seen = Seen::new(judge);
    let mut groups = Groups {
        pages: vec![PageGroups::default(); slots.pages.len()],
        ..Groups::default()
    };
    let mut index = 0;
    while index < slots.count() {
        let rest = &slots.bytes[index * SLOT_BYTES..];
        if rest[..WORD_BYTES] == [0; WORD_BYTES] {
            groups.uncommitted_slots += u64::from(rest[..SLOT_BYTES].iter().any(|&it| it != 0));
            index += 1;
            continue;
        }
        let nth = index / PER_PAGE;
        let id = slots.pages[nth];
        let place = SlotAddress {
            page: id.page,
            slot: (index % PER_PAGE) as u32,
        };
        let group = group_at_start(rest, id, place.slot, most_slots);
        let group = group.map_err(|what| Error::corrupt(what, FILE.number, place.at()));
        let applied = group.and_then(|(record, count)| {
            let takes_away = record.takes_away();
            seen.record(record, place)?;
            Ok((takes_away, count))
        });
        match applied {
            Ok((takes_away, count)) => {
                let has_word = |it: &usize| slots.word(*it) != 0;
                if let Some(stray) = (index + 1..index + count).find(has_word) {
                    let page = slots.pages[stray / PER_PAGE].page;
                    let slot = (stray % PER_PAGE) as u32;
                    let at = SlotAddress { page, slot }.at();
                    let what = "a word that is not zero within a committed group";
                    let error = Error::corrupt(what, FILE.number, at);
                    if let Err(error) = seen.damage(error, Fix::Erase(at, Repair::ClearWord)) {
                        return (seen.events, Err(error));
                    }
                }
                index += count;
                groups.next = index as u64;
                groups.committed += 1;
                groups.pages[nth].tombs += u32::from(takes_away);
                for page in &mut groups.pages[nth..(index - 1) / PER_PAGE] {
                    page.is_continued = true;
                }
            }
            Err(error) => {
                let fix = Fix::Erase(place.at(), Repair::EraseGroup);
                if let Err(error) = seen.damage(error, fix) {
                    return (seen.events, Err(error));
                }
                index += 1;
            }
        }
    }
    groups.index = index as u64;
    let used = groups.next as usize;
    let next = used.saturating_sub(slots.count() - PER_PAGE) as u32;
    (seen.events, Ok((next, groups)))
}

/// Decodes the group at the start of the rest of a log, which is slot `slot` of the page `id`.
fn group_at_start(
    rest: &[u8],
    id: PageId,
    slot: u32,
    most_slots: u64,
) -> Result<(Record, usize), &'static str> {
    let mark = get_u64(rest, 0);
    let count = slots_of_mark(mark).ok_or("an invalid commit mark")?;
    let len = count as usize * SLOT_BYTES;
    if len > rest.len() {
        return Err("a committed group longer than its log");
    }
    if slot + count > PAGE_SLOTS && (slot > 0 || count <= PAGE_SLOTS) {
        return Err("a committed group that crosses a page");
    }
    if count > PAGE_SLOTS && u64::from(count) > most_slots {
        return Err("a committed group longer than any write");
    }
    let strays = rest[..len].chunks(SLOT_BYTES).skip(1);
    let strays = strays.filter(|slot| slot[..WORD_BYTES] != [0; WORD_BYTES]);
    let group = without_words(&rest[..len]);
    if strays.count() > 1 || mark_of(id.seed(), slot, &group) != mark {
        return Err("a committed group whose checksum is wrong");
    }
    Ok((Record::decode(&group)?, count as usize))
}

/// Replays the log on one thread and on others, and compares what they do with a plain loop.
fn check(reader: &mut LogReader<'_, MappedFile>, inode: &RawInode, slots: &Slots, judge: Judge) {
    let (events, end) = plainly(slots, most_slots(reader.geometry), judge);
    for threads in [0, 1, 3] {
        let pool = ThreadPoolBuilder::new().num_threads(threads.max(1));
        reader.long_from = if threads > 0 { 256 } else { usize::MAX };
        let run = || replayed(reader, inode, judge);
        let found = pool.build().unwrap().install(run);
        let what = format!("{} pages, {threads} threads", slots.pages.len());
        assert!(found.0 == events, "{what}: other events");
        assert_eq!(found.1, end, "{what}");
    }
}

#[test]
fn any_number_of_threads_replays_as_a_plain_loop() {
    let geometry = Geometry {
        pages: 640,
        inodes: 32,
        max_file_size: 1 << 30,
        data_checksums: true,
    };
    let (_folder, region) = region(geometry.pages);
    let mut random = Rng::with_seed(5);
    for count in [1, 2, 40, 256, 257, 600] {
        for round in 0..4 {
            let pages = random_pages(count, &geometry, &mut random);
            let mut slots = Slots {
                bytes: vec![0; count * TAIL_AT],
                pages,
            };
            slots.fill(&mut random);
            if round > 0 {
                slots.damage(&mut random);
            }
            let inode = slots.store(&region);
            let mut reader = LogReader::new(&region, &geometry);
            if round == 3 {
                // The journal has other marks than the medium.
                reader.journaled = slots.change_marks(&mut random);
            }
            let judge = Judge {
                refuses: [u64::MAX, 50][random.usize(..2)],
                notes: [0, 3, usize::MAX][random.usize(..3)],
            };
            check(&mut reader, &inode, &slots, judge);
        }
    }
}

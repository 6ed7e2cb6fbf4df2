//! Volumes with forged counts and lengths under correct checksums. Recovery must neither panic nor
//! take more memory than the volume has bytes.

mod counting;

use std::ops::Range;

use crc32c::crc32c;
use spanlock_pmem::{MappedFile, Options, Pmem};
use spanlock_range_lock::RwCounter;

use crate::log::record::{GroupWriter, WriteHeader, slots_for};
use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::layout::*;
use crate::recover::forged::counting::most_in_use;
use crate::volume::fsck;
use crate::{FormatOptions, Volume};

pub(crate) fn region(pages: u32) -> (tempfile::TempDir, MappedFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let region = MappedFile::create(path, page_at(pages), Options::default()).unwrap();
    (folder, region)
}

pub(super) fn store(region: &MappedFile, at: u64, bytes: &[u8]) {
    // SAFETY: no other thread uses the region.
    let written = unsafe { region.write(at, bytes) };
    region.persist(written);
}

fn load(region: &MappedFile, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: as above.
    unsafe { region.read(at, &mut bytes) };
    bytes
}

pub(super) fn geometry(region: &MappedFile) -> Geometry {
    crate::volume::format::find(&region).unwrap().geometry
}

/// Opens the volume. Fails the test if that takes more memory than the volume has bytes.
fn open(region: &MappedFile, what: &str) -> Result<u64, Error> {
    let open = || Volume::open(region, |_| RwCounter::new()).map(|(_, report)| report);
    let (opened, most) = most_in_use(open);
    let len = region.len() as usize;
    assert!(most <= len, "{what}: {most} bytes for a volume of {len}");
    opened.map(|report| report.committed_groups)
}

/// Opens the volume as [`open`], on the only thread of a pool: the other threads of a pool, which
/// take part in reading long logs, would not be counted.
fn open_alone(region: &MappedFile, what: &str) -> Result<u64, Error> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
    pool.build().unwrap().install(|| open(region, what))
}

/// Formats a volume with an empty file "a". Returns the pages that are free, in order.
fn formatted(region: &MappedFile) -> Vec<u32> {
    let options = FormatOptions::new().inodes(32).max_file_size(1 << 44);
    let volume = Volume::format(region, &options, |_| RwCounter::new()).unwrap();
    volume.create("a").unwrap();
    drop(volume);
    let geometry = geometry(region);
    let directory = log_pages(region, &geometry);
    assert_eq!(directory.len(), 1);
    (geometry.data_start()..geometry.data_end())
        .filter(|page| *page != directory[0].page)
        .collect()
}

/// The log of the file "a".
const A: LogId = LogId {
    inode: 1,
    generation: ROOT_GENERATION + 1,
};

/// Gives a file a log in these pages, of groups of one extent each: the page of the file, and the
/// extent.
pub(super) fn with_log(region: &MappedFile, log: LogId, free: &[u32], groups: &[(u32, Extent)]) {
    let pages = groups.chunks(PAGE_SLOTS as usize);
    let last = pages.len() - 1;
    for (nth, groups) in pages.enumerate() {
        let mut image = [0; PAGE];
        let id = PageId {
            log,
            birth: nth as u64,
            page: free[nth],
        };
        for (i, &(file_page, extent)) in groups.iter().enumerate() {
            let header = WriteHeader {
                file_page,
                pages: extent.len,
                extents: 1,
                end: (u64::from(file_page) + u64::from(extent.len)) * PAGE_BYTES,
                ..WriteHeader::default()
            };
            assert_eq!(slots_for(header.record_bytes()), 1);
            let slot = &mut image[i * SLOT_BYTES..][..SLOT_BYTES];
            header.put(&mut GroupWriter::new(slot), [extent].into_iter());
            let mark = mark_of(id.seed(), i as u32, slot);
            slot[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
        }
        let next = (nth < last).then(|| seal(id.seed(), free[nth + 1]));
        id.put_tail(&mut image, next.unwrap_or(0));
        store(region, page_at(free[nth]), &image);
    }
    let head = seal(log.head_seed(), free[0]);
    let at = geometry(region).inode_at(log.inode);
    store(region, at, &head.to_le_bytes());
}

const PAGES: u32 = 4096;

/// Each of 140,000 groups maps 1,500 pages. The log is long, so it is read in batches.
#[test]
fn groups_of_many_pages_take_no_more_memory_than_the_volume() {
    const MANY: u32 = 1500;
    let (_folder, region) = region(2 * PAGES);
    let free = formatted(&region);
    // Behind the log, and beside the directory's page.
    let starts = [3000, 3000 + MANY as usize];
    let start = starts.map(|it| free[it]).into_iter();
    let start = (start.zip(starts))
        .find(|(start, it)| free[it + MANY as usize] == start + MANY)
        .expect("only one page is in use")
        .0;
    let extent = Extent { start, len: MANY };
    let with = |file_page: fn(u32) -> u32| {
        let groups: Vec<_> = (0..140_000).map(|i| (file_page(i), extent)).collect();
        with_log(&region, A, &free, &groups);
        open_alone(&region, "many groups")
    };
    let error = with(|i| i * MANY).unwrap_err();
    let too_many = "a file with more pages than the volume";
    assert!(error.to_string().contains(too_many), "{error}");
    // Groups that replace each other in part leave pages in two places of the file.
    let error = with(|i| i % MANY).unwrap_err();
    assert!(error.to_string().contains("in use twice"), "{error}");
    assert_eq!(with(|_| 7), Ok(140_001));
}

/// Pages far apart in the file take most nodes of the index.
#[test]
fn pages_far_apart_take_no_more_memory_than_the_volume() {
    let (_folder, region) = region(PAGES);
    let free = formatted(&region);
    let far = |i: u32| {
        let start = free[100 + i as usize];
        (i << 20, Extent { start, len: 1 })
    };
    with_log(&region, A, &free, &(0..3900).map(far).collect::<Vec<_>>());
    assert_eq!(open_alone(&region, "pages far apart"), Ok(3901));
}

fn log_pages(region: &MappedFile, geometry: &Geometry) -> Vec<PageId> {
    let mut found = Vec::new();
    for number in 0..geometry.inodes {
        let bytes = load(region, geometry.inode_at(number), INODE_USED_BYTES);
        let Some(inode) = RawInode::decode(bytes[..].try_into().unwrap(), number) else {
            continue;
        };
        let log = LogId {
            inode: number,
            generation: inode.id.generation,
        };
        let (mut word, mut seed) = (inode.head, log.head_seed());
        while let Ok(Some(page)) = unseal(seed, word) {
            let image = load(region, page_at(page), PAGE);
            let image = image[..].try_into().unwrap();
            let (id, next) = PageId::from_tail(image, log, page).unwrap();
            found.push(id);
            (word, seed) = (next, id.seed());
        }
    }
    found
}

/// A small volume with groups of several slots, and the bytes of its metadata.
fn sample(data_checksums: bool) -> (tempfile::TempDir, MappedFile) {
    let (folder, region) = region(128);
    let options = FormatOptions::new()
        .inodes(32)
        .max_file_size(1 << 30)
        .data_checksums(data_checksums);
    let volume = Volume::format(&region, &options, |_| RwCounter::new()).unwrap();
    let file = volume.create("a").unwrap();
    for i in 0..70 {
        file.write_at(&[3; 9000], i * 5000).unwrap();
    }
    volume.create(&"long name ".repeat(20)).unwrap();
    volume.create_dir("b").unwrap();
    volume
        .create("b/c")
        .unwrap()
        .write_at(&[4; 9000], 0)
        .unwrap();
    volume.link("a", "b/a").unwrap();
    volume.rename("b/c", "b/d").unwrap();
    drop((volume, file));
    (folder, region)
}

/// Repairs the checksum of these bytes.
type Repair = dyn Fn(&mut [u8]);

/// A piece of metadata with a checksum.
struct Piece {
    start: u64,
    len: usize,
    /// The offsets of the numbers in it.
    numbers: Range<usize>,
    repair: Box<Repair>,
}

impl Piece {
    /// Changes the bytes, repairs the checksum, opens the volume, and undoes the changes. Returns
    /// whether the volume was refused.
    fn forge(&self, region: &MappedFile, what: &str, change: impl FnOnce(&mut [u8])) -> bool {
        let sound = load(region, self.start, self.len);
        let mut forged = sound.clone();
        change(&mut forged);
        (self.repair)(&mut forged);
        store(region, self.start, &forged);
        let what = format!("{what} in the {} bytes at {}", self.len, self.start);
        let is_refused = open(region, &what).is_err();
        store(region, self.start, &sound);
        if self.start == 0 {
            // Opening repairs the second superblock from the first.
            store(region, geometry(region).replica_at(), &sound);
        }
        is_refused
    }
}

/// Puts the checksum of the bytes from `from` on behind them.
fn repair(bytes: &mut [u8], from: usize) {
    let end = bytes.len() - 4;
    let sum = crc32c(&bytes[from..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
}

/// Returns the superblock, the first inodes, and the log pages' tails.
fn places(region: &MappedFile) -> Vec<Piece> {
    let geometry = geometry(region);
    let sealed_from = |start: u64, len: usize, from: usize| Piece {
        start,
        len,
        numbers: from..len - 4,
        repair: Box::new(move |bytes| repair(bytes, from)),
    };
    let mut places = vec![sealed_from(0, SUPER_BYTES, 0)];
    let inodes = (0..4).map(|number| geometry.inode_at(number));
    places.extend(inodes.map(|start| sealed_from(start, INODE_USED_BYTES, 8)));
    let tails = log_pages(region, &geometry).into_iter();
    let tails = tails.map(|log| page_at(log.page) + TAIL_AT as u64);
    places.extend(tails.map(|start| sealed_from(start, PAGE - TAIL_AT, 8)));
    places
}

/// Returns a function that marks the first `count` slots of its bytes as a group.
fn marks(log: &PageId, slot: u32, count: u32) -> impl Fn(&mut [u8]) + 'static {
    let seed = log.seed();
    move |bytes| {
        let group = &mut bytes[..count as usize * SLOT_BYTES];
        group[..WORD_BYTES].fill(0);
        let mark = mark_of(seed, slot, group);
        group[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
    }
}

/// Calls `each` with each group of a log page: its first slot, and how many it has.
fn groups(region: &MappedFile, log: &PageId, mut each: impl FnMut(u32, u32)) {
    let image = load(region, page_at(log.page), TAIL_AT);
    for slot in 0..PAGE_SLOTS {
        let mark = get_u64(&image, slot as usize * SLOT_BYTES);
        if let Some(slots) = slots_of_mark(mark) {
            each(slot, slots);
        }
    }
}

/// Returns the groups that end in their page.
fn records(region: &MappedFile) -> Vec<Piece> {
    let mut places = Vec::new();
    for log in log_pages(region, &geometry(region)) {
        groups(region, &log, |slot, slots| {
            if slot + slots <= PAGE_SLOTS {
                places.push(Piece {
                    start: page_at(log.page) + u64::from(slot) * SLOT_BYTES as u64,
                    len: slots as usize * SLOT_BYTES,
                    // The numbers of a record are in its first slot.
                    numbers: WORD_BYTES..SLOT_BYTES,
                    repair: Box::new(marks(&log, slot, slots)),
                });
            }
        });
    }
    places
}

/// Returns numbers at which code often errs.
fn numbers(region: &MappedFile) -> [u32; 10] {
    let pages = (region.len() / PAGE_BYTES) as u32;
    let large = [0xFFFF, 1 << 16, 1 << 31, u32::MAX - 1, u32::MAX];
    let [a, b, c, d, e] = large;
    [0, 1, 2, pages - 1, pages, a, b, c, d, e]
}

#[test]
fn every_forged_number_is_harmless() {
    let mut refused = 0;
    for data_checksums in [false, true] {
        let (_folder, region) = sample(data_checksums);
        let records = records(&region).into_iter().step_by(3);
        for place in places(&region).into_iter().chain(records) {
            for at in place.numbers.clone().step_by(4) {
                for number in numbers(&region) {
                    let what = format!("{number} at byte {at}");
                    let forged = place.forge(&region, &what, |bytes| {
                        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
                    });
                    refused += u32::from(forged);
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn groups_of_every_length_are_harmless() {
    let mut refused = 0;
    let (_folder, region) = sample(false);
    for log in log_pages(&region, &geometry(&region)) {
        groups(&region, &log, |slot, _| {
            let rest = PAGE_SLOTS - slot;
            for count in [1, 2, 3, rest].into_iter().filter(|count| *count <= rest) {
                let place = Piece {
                    start: page_at(log.page) + u64::from(slot) * SLOT_BYTES as u64,
                    len: rest as usize * SLOT_BYTES,
                    numbers: 0..0,
                    repair: Box::new(marks(&log, slot, count)),
                };
                refused += u32::from(place.forge(&region, &format!("{count} slots"), |_| ()));
            }
        });
    }
    assert!(refused > 50, "{refused}");
}

/// Checks and repairs the volume, if it has a readable superblock. If the repair says that no
/// damage is left, the volume must open, and a second repair must find nothing to do.
fn mends(region: &MappedFile, what: &str) -> bool {
    let Ok(found) = fsck::check(&region) else {
        return false;
    };
    let opens_as_it_is = open(region, what).is_ok();
    assert!(opens_as_it_is || !found.is_sound(), "{what}: missed");
    let report = fsck::repair(&region).expect("a superblock is readable");
    let shown: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.is_repaired(), "{what}: {shown:?}");
    let opened = Volume::open(region, |_| RwCounter::new());
    assert!(opened.is_ok(), "{what}: {opened:?}, {shown:?}");
    let again = fsck::repair(&region).expect("as above");
    assert!(again.is_sound(), "{what}: {again:?}, {shown:?}");
    true
}

/// Forges random numbers in random pieces of the metadata, repairs the checksums, and then the
/// volume.
#[test]
fn random_forged_volumes_are_repaired() {
    let mut random = fastrand::Rng::with_seed(23);
    let mut repaired = 0;
    for data_checksums in [false, true] {
        let (_folder, region) = sample(data_checksums);
        let sound = load(&region, 0, region.len() as usize);
        let mut places = places(&region);
        // The superblock describes the whole volume, so it is forged less often than the rest.
        places.extend(records(&region));
        let numbers = numbers(&region);
        for _ in 0..scaled(FORGED / 10) {
            let state = random.get_seed();
            for _ in 0..random.usize(1..=4) {
                let place = &places[random.usize(..places.len())];
                let mut bytes = load(&region, place.start, place.len);
                let at = random.usize(place.numbers.start / 4..place.numbers.end / 4) * 4;
                let number = match random.u8(..3) {
                    0 => random.u32(..),
                    1 => get_u32(&bytes, at)
                        .wrapping_add(random.u32(..16))
                        .wrapping_sub(8),
                    _ => numbers[random.usize(..numbers.len())],
                };
                bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
                if random.u8(..4) > 0 {
                    (place.repair)(&mut bytes);
                }
                store(&region, place.start, &bytes);
            }
            repaired += usize::from(mends(&region, &format!("the numbers of seed {state}")));
            store(&region, 0, &sound);
        }
    }
    assert!(repaired > FORGED / 10, "{repaired}");
}

/// Multiplies a number by `SPANLOCK_ROUNDS`, which `.ci/full` sets, and rounds up.
fn scaled(number: usize) -> usize {
    let given = std::env::var("SPANLOCK_ROUNDS").ok();
    let factor = given.map_or(1.0, |it| it.parse().expect("SPANLOCK_ROUNDS is a number"));
    (number as f64 * factor).ceil() as usize
}

/// How many volumes are forged at random.
const FORGED: usize = 5_000;

/// Up to three numbers at a time, in one piece of metadata: random ones, or near the sound one.
#[test]
fn random_forged_numbers_are_harmless() {
    let mut refused = 0;
    let mut random = fastrand::Rng::with_seed(17);
    for data_checksums in [false, true] {
        let (_folder, region) = sample(data_checksums);
        let mut places = places(&region);
        places.extend(records(&region));
        let numbers = numbers(&region);
        for _ in 0..scaled(FORGED) {
            let place = &places[random.usize(..places.len())];
            let state = random.get_seed();
            let forged = place.forge(&region, &format!("the numbers of seed {state}"), |bytes| {
                for _ in 0..random.usize(1..=3) {
                    let at = random.usize(place.numbers.start / 4..place.numbers.end / 4) * 4;
                    let sound = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                    let number = match random.u8(..3) {
                        0 => random.u32(..),
                        1 => sound.wrapping_add(random.u32(..16)).wrapping_sub(8),
                        _ => numbers[random.usize(..numbers.len())],
                    };
                    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
                }
            });
            refused += usize::from(forged);
        }
    }
    assert!(refused > FORGED / 10, "{refused}");
}

/// One group of more than a million holes fills the log. Its length in pages does not fit 52 bits.
#[test]
fn a_group_of_a_whole_log_is_harmless() {
    const HOLES: u32 = 1 << 20;
    let (_folder, region) = region(PAGES);
    let free = formatted(&region);
    let header = WriteHeader {
        extents: HOLES,
        ..WriteHeader::default()
    };
    let slots = slots_for(header.record_bytes());
    let mut group = vec![0; slots * SLOT_BYTES];
    let hole = Extent {
        start: 0,
        len: u32::MAX,
    };
    let holes = core::iter::repeat_n(hole, HOLES as usize);
    header.put(&mut GroupWriter::new(&mut group), holes);
    let ids = (0..).zip(&free).map(|(birth, &page)| PageId {
        log: A,
        birth,
        page,
    });
    let ids: Vec<PageId> = ids.take(slots.div_ceil(PAGE_SLOTS as usize)).collect();
    let mark = mark_of(ids[0].seed(), 0, &group);
    group[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
    for (nth, slots) in group.chunks(TAIL_AT).enumerate() {
        let mut image = [0; PAGE];
        image[..slots.len()].copy_from_slice(slots);
        let id = ids[nth];
        let next = ids.get(nth + 1).map(|next| seal(id.seed(), next.page));
        id.put_tail(&mut image, next.unwrap_or(0));
        store(&region, page_at(id.page), &image);
    }
    let head = seal(A.head_seed(), free[0]);
    let at = geometry(&region).inode_at(A.inode);
    store(&region, at, &head.to_le_bytes());
    assert!(open_alone(&region, "one group").is_err());
}

/// If every page of a log begins with the mark of a long group, reading each group whole would take
/// quadratic time. Only a group without further marks in it is read whole.
#[test]
fn a_long_group_is_not_read_past_other_marks() {
    const LOG: usize = 24;
    let (_folder, region) = region(PAGES);
    let free = formatted(&region);
    let at = geometry(&region).inode_at(A.inode);
    let mark = 0x4D << 56 | 1400 << 32 | 0x1234_5678_u64;
    let most = [1, LOG].map(|marks| {
        for nth in 0..LOG {
            let id = PageId {
                log: A,
                birth: nth as u64,
                page: free[nth],
            };
            let mut image = [0; PAGE];
            if nth < marks {
                image[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
            }
            let next = (nth + 1 < LOG).then(|| seal(id.seed(), free[nth + 1]));
            id.put_tail(&mut image, next.unwrap_or(0));
            store(&region, page_at(id.page), &image);
        }
        store(&region, at, &seal(A.head_seed(), free[0]).to_le_bytes());
        let open = || Volume::open(&region, |_| RwCounter::new()).map(|_| ());
        let (opened, most) = most_in_use(open);
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("whose checksum is wrong"), "{error}");
        most
    });
    assert!(most[1] + 50_000 < most[0], "{most:?} bytes");
}

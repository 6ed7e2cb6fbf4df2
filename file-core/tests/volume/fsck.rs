//! Checks and repairs of damaged volumes. Whatever is damaged, a repaired volume opens, and what
//! could be read before the repair reads back the same.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::common::{Mem, PAGE, Rng, Volume, content, format, open, segments};
use spanlock_file_core::fsck::{self, Finding, Repair, Report};
use spanlock_file_core::{Error, FORMAT_VERSION, FormatOptions, Kind, OpenOptions};

type Content = BTreeMap<String, Vec<u8>>;

/// Creates a volume in which pages have been used again, with names of all kinds.
fn sample(data_checksums: bool) -> Vec<u8> {
    let options = FormatOptions::new()
        .inodes(32)
        .data_checksums(data_checksums);
    let volume = format(160, &options);
    volume.create_dir_all("a/b").unwrap();
    let paths = ["one", "a/two", "a/b/three", "a/four"];
    let files = paths.map(|path| volume.create(path).unwrap());
    for round in 0..90_u64 {
        for (nth, file) in files.iter().enumerate() {
            let bytes = vec![(nth as u8 + round as u8) | 1; 5000];
            file.write_at(&bytes, round % 4 * PAGE).unwrap();
        }
    }
    files[1].truncate(9000).unwrap();
    files[2].punch_hole(PAGE..2 * PAGE).unwrap();
    volume.link("one", "a/one again").unwrap();
    volume.rename("a/four", "a/five").unwrap();
    volume.create("a/empty").unwrap();
    volume.create("gone").unwrap().write_at(b"gone", 0).unwrap();
    volume.remove("gone").unwrap();
    volume.pmem().bytes()
}

/// Returns what can be read of a volume that is opened read-only.
pub(crate) fn readable(mem: &Arc<Mem>) -> Content {
    let options = OpenOptions::new().read_only(true);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    mem.set_read_only(true);
    let (volume, _) = Volume::open_with(Arc::clone(mem), &options, lock).unwrap();
    let found = read(&volume);
    mem.set_read_only(false);
    found
}

fn read(volume: &Volume) -> Content {
    let mut found = Content::new();
    for (path, size) in volume.list() {
        let Ok(file) = volume.open_file(&path) else {
            continue;
        };
        let mut bytes = vec![0; size as usize];
        if file.read_at(&mut bytes, 0).is_ok() {
            found.insert(path, bytes);
        }
    }
    found
}

fn shown(report: &Report) -> Vec<String> {
    report.findings.iter().map(ToString::to_string).collect()
}

/// Repairs the volume, and checks everything that a repair promises. Returns the report.
pub(crate) fn mend(mem: &Arc<Mem>, what: &str) -> Report {
    let before = mem.bytes();
    mem.set_read_only(true);
    let checked = fsck::check(mem).unwrap();
    mem.set_read_only(false);
    assert_eq!(mem.bytes(), before, "{what}: a check wrote");
    let intact = readable(mem);
    // Of a copy: opening may repair a superblock.
    let opens = open(&Mem::from_bytes(&before)).is_ok();
    assert!(
        opens || !checked.is_sound(),
        "{what}: a check missed the damage"
    );
    let report = fsck::repair(mem).unwrap();
    assert_eq!(report.findings.len(), checked.findings.len(), "{what}");
    assert!(report.is_repaired(), "{what}: {:?}", shown(&report));
    check_repaired(mem, &intact, &format!("{what}: {:?}", shown(&report)));
    report
}

/// Checks a repaired volume that has at least this content.
fn check_repaired(mem: &Arc<Mem>, intact: &Content, what: &str) {
    let before = mem.bytes();
    let again = fsck::repair(mem).unwrap();
    assert!(again.is_sound(), "{what}: {:?} is left", shown(&again));
    assert_eq!(mem.bytes(), before, "{what}: a repair of nothing wrote");
    let (volume, _) = open(mem).unwrap_or_else(|error| panic!("{what}: {error}"));
    let now = read(&volume);
    for (path, bytes) in intact {
        assert!(now.get(path) == Some(bytes), "{what}: {path} has changed");
    }
    assert!(volume.check().unwrap().damaged.is_empty(), "{what}");
    // The volume can be changed, and what is written stays.
    for path in now.keys() {
        let file = volume.open_file(path).unwrap();
        file.write_at(b"changed", 0).unwrap();
    }
    for path in now.keys() {
        let file = volume.open_file(path).unwrap();
        assert_eq!(content(&file)[..7], *b"changed", "{what}: {path}");
        for (other, bytes) in now.iter().filter(|(other, _)| !other.contains("one")) {
            if other != path && bytes.len() > 7 {
                let bytes_now = content(&volume.open_file(other).unwrap());
                assert!(bytes_now[7..] == bytes[7..], "{what}: {other}");
            }
        }
    }
    mem.restore(&before);
}

pub(crate) fn damage_of<'r>(report: &'r Report, what: &str) -> &'r Finding {
    let mut damage = report.damage();
    let found = damage.find(|it| it.what.contains(what));
    found.unwrap_or_else(|| panic!("{what:?} is not in {:?}", shown(report)))
}

#[test]
fn a_sound_volume_is_not_written_to() {
    for data_checksums in [false, true] {
        let mem = Mem::from_bytes(&sample(data_checksums));
        let report = mend(&mem, "sound");
        assert!(report.is_sound());
        assert_eq!((report.files, report.directories), (5, 2));
        let notes: Vec<_> = report.findings.iter().map(|it| it.what).collect();
        assert_eq!(notes, ["a file that no name refers to"]);
    }
}

#[test]
fn every_damage_of_one_volume_is_listed_and_repaired() {
    let mut bytes = sample(true);
    let last = bytes.len() - PAGE as usize;
    let line = |number: usize| PAGE as usize + number * 128;
    // The second superblock, the inodes of "a/b" and "one", and the root's name of "a".
    bytes[last + 30] ^= 1;
    bytes[line(2) + 10] ^= 1;
    bytes[line(3) + 10] ^= 1;
    // The head pointers of "a/two" and of "a/empty", which is empty.
    bytes[line(4)] ^= 1;
    bytes[line(7) + 1] = 77;
    let mem = Mem::from_bytes(&bytes);
    let report = mend(&mem, "much damage");
    let superblock = damage_of(&report, "superblock");
    assert_eq!(superblock.place.at, last as u64);
    assert_eq!(superblock.repair, Repair::RewriteSuperblock);
    let inodes: Vec<_> = (report.damage())
        .filter(|it| it.repair == Repair::RewriteInode)
        .map(|it| (it.place.inode, it.path.as_deref()))
        .collect();
    assert_eq!(inodes, [(Some(2), Some("a/b")), (Some(3), Some("one"))]);
    let logs: Vec<_> = (report.damage())
        .filter(|it| it.repair == Repair::RewriteLog)
        .map(|it| (it.place.inode, it.path.as_deref(), it.what))
        .collect();
    let pointer = "a log pointer with a wrong checksum";
    assert_eq!(
        logs,
        [
            (Some(4), Some("a/two"), pointer),
            (Some(7), Some("a/empty"), pointer)
        ]
    );
    assert!(report.damage().all(|it| it.is_repaired));
    let (volume, _) = open(&mem).unwrap();
    assert_eq!(volume.kind("a/b").unwrap(), Kind::Directory);
    assert_eq!(volume.open_file("a/two").unwrap().size(), 0);
    assert!(volume.open_file("one").unwrap().size() > 0);
}

#[test]
fn a_name_whose_inode_is_gone_is_erased() {
    let mut bytes = sample(false);
    let line = PAGE as usize + 4 * 128;
    bytes[line..line + 64].fill(0xEE);
    let mem = Mem::from_bytes(&bytes);
    let report = mend(&mem, "no inode");
    let finding = damage_of(&report, "unreadable inode");
    assert_eq!(finding.repair, Repair::EraseName);
    assert_eq!(finding.path.as_deref(), Some("a/two"));
    let (volume, _) = open(&mem).unwrap();
    assert!(!volume.exists("a/two"));
    assert!(volume.exists("a/five"));
}

/// Damage has turned the line of an inode into zeros. The file or directory becomes empty, and the
/// report says so.
#[test]
fn an_inode_of_zeros_becomes_empty() {
    let sound = sample(false);
    // The root, "a/b" and "one".
    for (number, path) in [(0, "/"), (2, "a/b"), (3, "one")] {
        let mut bytes = sound.clone();
        let line = PAGE as usize + number * 128;
        bytes[line..line + 64].fill(0);
        let mem = Mem::from_bytes(&bytes);
        let report = mend(&mem, path);
        let finding = damage_of(&report, "unreadable inode");
        assert_eq!(finding.repair, Repair::EmptyInode);
        assert_eq!(finding.path.as_deref(), Some(path));
        let (volume, _) = open(&mem).unwrap();
        match path {
            "one" => assert_eq!(volume.open_file(path).unwrap().size(), 0),
            "a/b" => assert!(volume.read_dir(path).unwrap().is_empty()),
            _ => assert!(volume.list().is_empty()),
        }
    }
}

/// Returns which word of the volume is the mark that was stored between the two images.
pub(crate) fn new_mark(before: &[u64], after: &[u64]) -> usize {
    let is_new = |at: &usize| before[*at] == 0 && after[*at] >> 56 == 0x4D;
    (0..before.len()).find(is_new).unwrap()
}

/// Each name that is erased is reported, also if one file has several.
#[test]
fn all_names_of_a_file_that_is_gone_are_listed() {
    let mut bytes = sample(false);
    // The inode of "one", which is also "a/one again".
    let line = PAGE as usize + 3 * 128;
    bytes[line..line + 64].fill(0xEE);
    let report = mend(&Mem::from_bytes(&bytes), "two names");
    let paths: Vec<_> = report.damage().map(|it| it.path.as_deref()).collect();
    assert_eq!(paths, [Some("one"), Some("a/one again")]);
}

/// The truncation that is lost has made bytes zero that are past the end even so.
#[test]
fn a_repair_leaves_no_bytes_past_the_end() {
    for sums in [false, true] {
        let volume = format(128, &FormatOptions::new().data_checksums(sums));
        let file = volume.create("a").unwrap();
        file.write_at(&[b'o'; 2 * PAGE as usize], 0).unwrap();
        let before = volume.pmem().words();
        file.truncate(PAGE).unwrap();
        let after = volume.pmem().words();
        file.truncate(PAGE + 5).unwrap();
        let mem = Arc::clone(volume.pmem());
        drop((volume, file));
        mem.flip(new_mark(&before, &after) * 64 + 3);
        mend(&mem, "a lost truncation");
        let (volume, _) = open(&mem).unwrap();
        let file = volume.open_file("a").unwrap();
        file.truncate(2 * PAGE).unwrap();
        let kept = PAGE as usize + 5;
        let wanted = [vec![b'o'; kept], vec![0; PAGE as usize - 5]].concat();
        assert!(content(&file) == wanted, "{sums}");
        assert!(volume.check().unwrap().damaged.is_empty());
    }
}

/// The damaged page of a log is not one of the new log's: after a crash, the old log would lead to
/// it, look sound, and claim pages that another file has by now.
#[test]
fn a_repair_that_crashes_keeps_intact_files() {
    let volume = format(64, &FormatOptions::new().inodes(32));
    let [damaged, intact] = ["damaged", "intact"].map(|name| volume.create(name).unwrap());
    damaged.write_at(&[b'f'; 6 * PAGE as usize], 0).unwrap();
    // The first page of the log becomes full, without pages for data.
    (1..63).for_each(|more| damaged.truncate(6 * PAGE + more).unwrap());
    let before = volume.stats().log_pages;
    damaged.punch_hole(0..6 * PAGE).unwrap();
    assert_eq!(
        volume.stats().log_pages,
        before + 1,
        "the hole is in another page"
    );
    // Also into the pages of the hole.
    while intact.append(&[b'g'; PAGE as usize]).is_ok() {}
    let expected = content(&intact);
    let mut words = volume.pmem().words();
    drop((damaged, intact, volume));
    // The tail of a log page begins at word 504. It has the birth and the inode.
    let is_second = |at: &usize| {
        let tail = &words[*at..];
        at % 512 == 504 && tail[1] > 1 && tail[2] == 1 && tail[3] as u32 == 1
    };
    let tail = (0..words.len() - 8).find(is_second).unwrap();
    words[tail + 5] ^= 8;
    for nth in 1.. {
        let mem = Mem::from_words(words.clone());
        mem.panic_at(nth);
        let repaired = catch_unwind(AssertUnwindSafe(|| fsck::repair(&mem)));
        mem.panic_at(0);
        assert!(fsck::repair(&mem).unwrap().is_repaired());
        let (volume, _) = open(&mem).unwrap();
        assert!(
            content(&volume.open_file("intact").unwrap()) == expected,
            "operation {nth}"
        );
        if repaired.is_ok() {
            assert!(nth > 5, "only {nth} operations");
            break;
        }
    }
}

#[test]
fn a_log_that_a_repair_has_written_can_lose_the_size() {
    let volume = format(64, &FormatOptions::new().inodes(32));
    let file = volume.create("a").unwrap();
    file.write_at(&[b'a'; 2 * PAGE as usize], 0).unwrap();
    let expected = content(&file);
    let before = volume.pmem().words();
    file.write_at(b"b", 5 * PAGE + 9).unwrap();
    let mem = Arc::clone(volume.pmem());
    drop((volume, file));
    mem.flip(new_mark(&before, &mem.words()) * 64 + 3);
    mend(&mem, "the second write");
    // The head of the log of inode 1: the number of its first page, whose first word is the mark of
    // the group that sets the size.
    let page = mem.words()[(PAGE as usize + 128) / 8] as u32 as usize;
    mem.flip(page * PAGE as usize * 8 + 3);
    mend(&mem, "the size");
    let (volume, _) = open(&mem).unwrap();
    assert!(content(&volume.open_file("a").unwrap()) == expected);
}

/// The hole that is lost has removed pages past the end, which another file has had since.
#[test]
fn a_repair_leaves_no_pages_past_the_end() {
    let volume = format(64, &FormatOptions::new().inodes(32));
    let file = volume.create("a").unwrap();
    file.write_at(b"hello", 0).unwrap();
    file.allocate_keeping_size(PAGE..11 * PAGE).unwrap();
    let before = volume.pmem().words();
    file.punch_hole(PAGE..11 * PAGE).unwrap();
    let after = volume.pmem().words();
    let other = volume.create("other").unwrap();
    while other.append(&[b'S'; PAGE as usize]).is_ok() {}
    drop(other);
    volume.remove("other").unwrap();
    let mem = Arc::clone(volume.pmem());
    drop((volume, file));
    mem.flip(new_mark(&before, &after) * 64 + 3);
    mend(&mem, "a lost hole");
    let (volume, _) = open(&mem).unwrap();
    let file = volume.open_file("a").unwrap();
    file.truncate(11 * PAGE).unwrap();
    let content = content(&file);
    assert!(content.starts_with(b"hello"));
    assert!(content[5..].iter().all(|byte| *byte == 0));
}

#[test]
fn damaged_data_becomes_a_hole() {
    let volume = format(64, &FormatOptions::new().inodes(32).data_checksums(true));
    let file = volume.create("file").unwrap();
    file.write_at(&[7; 4 * PAGE as usize], 0).unwrap();
    let mut bytes = volume.pmem().bytes();
    let at = bytes.windows(4096).position(|it| it == [7; 4096]).unwrap();
    for page in [1, 2] {
        bytes[at + page * PAGE as usize + 5] ^= 4;
    }
    let mem = Mem::from_bytes(&bytes);
    let report = mend(&mem, "data");
    let finding = damage_of(&report, "file data");
    assert_eq!(
        (finding.place.offset, finding.bytes),
        (Some(PAGE), 2 * PAGE)
    );
    assert_eq!(report.damage().count(), 1);
    let (volume, _) = open(&mem).unwrap();
    let now = content(&volume.open_file("file").unwrap());
    let mut expected = vec![7; 4 * PAGE as usize];
    expected[PAGE as usize..3 * PAGE as usize].fill(0);
    assert!(now == expected);
}

#[test]
fn without_a_superblock_there_is_nothing_to_check() {
    let mut bytes = sample(false);
    let last = bytes.len() - PAGE as usize;
    bytes[9] ^= 1;
    bytes[last + 9] ^= 1;
    let mem = Mem::from_bytes(&bytes);
    assert!(matches!(fsck::check(&mem), Err(Error::Corrupt { .. })));
    assert!(matches!(fsck::repair(&mem), Err(Error::Corrupt { .. })));
    let nothing = fsck::check(&Mem::new(64 * PAGE));
    assert!(matches!(nothing, Err(Error::NotAVolume { .. })));
}

/// Fails unless a check and a repair return this error, and write nothing.
#[track_caller]
fn assert_refused(bytes: &[u8], error: Error) {
    let mem = Mem::from_bytes(bytes);
    assert_eq!(fsck::check(&mem), Err(error.clone()));
    assert_eq!(fsck::repair(&mem), Err(error));
    assert!(mem.bytes() == bytes);
}

#[test]
fn a_truncated_volume_is_not_repaired() {
    let bytes = sample(false);
    let expected = bytes.len() as u64;
    for pages in [1, 2, 100, 159] {
        let found = pages * PAGE;
        let error = Error::Truncated { expected, found };
        assert_refused(&bytes[..found as usize], error);
    }
    let (kept, _) = bytes.split_at(expected as usize - 8);
    let found = kept.len() as u64;
    assert_refused(kept, Error::Truncated { expected, found });
    assert_refused(&bytes[..56], Error::NotAVolume { len: 56 });
}

#[test]
fn a_volume_of_another_version_is_not_repaired() {
    let sound = sample(false);
    let replica = sound.len() - PAGE as usize;
    for version in [1, FORMAT_VERSION + 1] {
        let mut bytes = sound.clone();
        for at in [0, replica] {
            bytes[at + 8..at + 12].copy_from_slice(&version.to_le_bytes());
            let sum = crc32c::crc32c(&bytes[at..at + 60]);
            bytes[at + 60..at + 64].copy_from_slice(&sum.to_le_bytes());
        }
        let error = Error::Version {
            found: version,
            supported: FORMAT_VERSION,
        };
        assert_refused(&bytes, error.clone());
        // The first superblock, or the second if the first is damaged, says so.
        bytes[9] ^= 1;
        bytes[20] ^= 1;
        assert_refused(&bytes, error);
    }
}

/// Damages the volume at random: bits, bytes, words, slots and whole pages.
fn damage(bytes: &mut [u8], rng: &mut Rng) {
    let pages = bytes.len() as u64 / PAGE;
    for _ in 0..=rng.below(5) {
        // One superblock stays.
        let page = 1 + rng.below(pages - 1);
        // Mostly inodes and logs.
        let page = if rng.below(3) == 0 { 1 } else { page };
        let within = match rng.below(3) {
            0 => rng.below(PAGE / 64) * 64,
            1 => rng.below(12) * 64,
            _ => PAGE - 64,
        };
        let at = (page * PAGE + within) as usize;
        match rng.below(6) {
            0 => bytes[at + rng.below(64) as usize] ^= 1 << rng.below(8),
            1 => bytes[at + rng.below(64) as usize] = rng.next() as u8,
            2 => bytes[at..at + 8].fill(rng.next() as u8),
            3 => bytes[at..at + 64].fill(0),
            4 => {
                let from = (rng.below(pages) * PAGE + within) as usize;
                bytes.copy_within(from..from + 64, at);
            }
            _ => {
                let from = (rng.below(pages) * PAGE) as usize;
                bytes.copy_within(from..from + PAGE as usize, (page * PAGE) as usize);
            }
        }
    }
}

#[test]
fn random_damage_is_listed_and_repaired() {
    let mut rng = Rng::new(11);
    let mut damaged = 0;
    let mut kinds = BTreeSet::new();
    for data_checksums in [false, true] {
        let bytes = sample(data_checksums);
        for round in 0..300 {
            let mut bytes = bytes.clone();
            damage(&mut bytes, &mut rng);
            let report = mend(&Mem::from_bytes(&bytes), &format!("round {round}"));
            damaged += usize::from(!report.is_sound());
            kinds.extend(report.findings.iter().map(|it| it.what));
        }
    }
    assert!(damaged > 200, "{damaged}");
    let expected = [
        "a committed group whose checksum is wrong",
        "a directory that no name refers to",
        "a log page with a wrong tail",
        "a log pointer with a wrong checksum",
        "a page that is in use twice",
        "an invalid commit mark",
        "an unreadable inode",
        "file data that does not match its checksum",
    ];
    assert!(expected.iter().all(|it| kinds.contains(it)), "{kinds:?}");
}

/// A repair that is cut off at any moment can be repeated, and has lost nothing that was readable.
#[test]
fn a_repair_that_crashes_can_be_repeated() {
    let mut rng = Rng::new(12);
    let sound = sample(true);
    let mut images = 0;
    for round in 0..40 {
        let mut bytes = sound.clone();
        damage(&mut bytes, &mut rng);
        let mem = Mem::from_bytes(&bytes);
        let intact = readable(&mem);
        let crashed = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&crashed);
        let hook = Box::new(move |image: &mut dyn FnMut() -> Vec<u64>| {
            seen.lock().unwrap().push(image());
        });
        let simulated = Mem::simulated(mem.words(), round, hook);
        fsck::repair(&simulated).unwrap();
        drop(simulated);
        let all = std::mem::take(&mut *crashed.lock().unwrap());
        images += all.len();
        for (nth, image) in all.into_iter().enumerate() {
            let mem = Mem::from_words(image);
            let what = format!("round {round}, image {nth}");
            assert!(fsck::repair(&mem).unwrap().is_repaired(), "{what}");
            check_repaired(&mem, &intact, &what);
        }
    }
    assert!(images > 100, "{images}");
}

/// Returns a volume without room for a new log of "file", whose first change is damaged. The file
/// "kept" is intact.
fn full_and_damaged() -> Vec<u8> {
    /// The size of the file in pages. The volume has no room for so many.
    const PAGES: u64 = 321;
    let options = FormatOptions::new().inodes(32);
    let volume = format(322, &options.max_file_size(2 * PAGES * PAGE));
    volume.create("kept").unwrap().write_at(b"kept", 0).unwrap();
    let file = volume.create("file").unwrap();
    // The first record of the log. It has no pages, so none becomes free without it.
    let before = volume.pmem().bytes();
    file.truncate(2 * PAGES * PAGE).unwrap();
    let after = volume.pmem().bytes();
    let mut data = 2 * PAGE as usize..after.len();
    let first = data.find(|at| before[*at] != after[*at]).unwrap();
    // Each page lies between holes, so the new log has a record for each page, and needs more pages
    // than the reserve has.
    let mut next = 0;
    while file.write_at(&[7; PAGE as usize], 2 * next * PAGE).is_ok() {
        next = (next + 20) % PAGES;
    }
    let mut bytes = volume.pmem().bytes();
    bytes[first + 20] ^= 1;
    bytes
}

#[test]
fn damage_without_room_for_a_new_log_is_left_and_said_so() {
    let mut bytes = full_and_damaged();
    let mem = Mem::from_bytes(&bytes);
    let report = fsck::repair(&mem).unwrap();
    assert!(!report.is_repaired(), "{:?}", shown(&report));
    let finding = damage_of(&report, "a committed group whose checksum is wrong");
    assert_eq!(
        (finding.path.as_deref(), finding.repair, finding.is_repaired),
        (Some("file"), Repair::RewriteLog, false)
    );
    assert_eq!(report.damage().count(), 1);
    assert_eq!(mem.bytes(), bytes);

    // Other damage is repaired nevertheless.
    let sound = bytes[20];
    bytes[20] ^= 1;
    let mem = Mem::from_bytes(&bytes);
    let report = fsck::repair(&mem).unwrap();
    assert!(!report.is_repaired(), "{:?}", shown(&report));
    assert!(damage_of(&report, "superblock").is_repaired);
    bytes[20] = sound;
    assert_eq!(mem.bytes(), bytes);
    assert!(matches!(open(&mem), Err(Error::Corrupt { .. })));
    let expected = Content::from([("kept".to_owned(), b"kept".to_vec())]);
    assert_eq!(readable(&mem), expected);

    // The volume grows although it does not open.
    bytes.resize(bytes.len() * 9 / 8 / PAGE as usize * PAGE as usize, 0);
    let mem = Mem::from_bytes(&bytes);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    let grow = OpenOptions::new().grow(true);
    let opened = Volume::open_with(Arc::clone(&mem), &grow, lock);
    assert!(matches!(opened, Err(Error::Corrupt { .. })));
    assert!(fsck::repair(&mem).unwrap().is_repaired());
    assert!(readable(&mem).contains_key("file"));
}

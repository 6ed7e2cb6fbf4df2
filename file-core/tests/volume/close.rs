//! Volumes that are closed: the next opening does not read the logs of files, and is never misled.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{Mem, PAGE, Rng, Volume, content, format, open, segments};
use spanlock_file_core::{Error, FileCore, FormatOptions, OpenOptions, fsck};

type Content = BTreeMap<String, Vec<u8>>;

/// Offset of the record of a checkpoint.
const RECORD: usize = 64;

fn sample() -> Volume {
    let volume = format(96, &FormatOptions::new().inodes(64));
    volume.create_dir("a").unwrap();
    for (nth, path) in ["one", "a/two", "a/three"].into_iter().enumerate() {
        let file = volume.create(path).unwrap();
        for page in 0..4 {
            let bytes = vec![nth as u8 + 1; 5000];
            file.write_at(&bytes, page * PAGE).unwrap();
        }
    }
    volume.remove("a/three").unwrap();
    volume
}

fn read_all(volume: &Volume) -> Content {
    let names = volume.list().into_iter();
    names
        .map(|(name, size)| {
            let bytes = content(&volume.open_file(&name).unwrap());
            assert_eq!(bytes.len() as u64, size);
            (name, bytes)
        })
        .collect()
}

/// Returns the bytes of a closed volume, and its content.
fn closed() -> (Vec<u8>, Content) {
    let volume = sample();
    let content = read_all(&volume);
    let mem = Arc::clone(volume.pmem());
    volume.close().unwrap();
    (mem.bytes(), content)
}

#[test]
fn a_closed_volume_opens_as_it_was() {
    let volume = sample();
    let (expected, stats) = (read_all(&volume), volume.stats());
    let mem = Arc::clone(volume.pmem());
    volume.close().unwrap();
    let (volume, report) = open(&mem).unwrap();
    assert!(report.from_checkpoint);
    assert_eq!((report.files, report.directories), (2, 1));
    assert_eq!(report.pages_used, stats.pages_total - stats.pages_free);
    let now = volume.stats();
    assert_eq!(
        (now.pages_free, now.log_pages, now.inodes_free),
        (stats.pages_free, stats.log_pages, stats.inodes_free)
    );
    assert_eq!(read_all(&volume), expected);
    // The checkpoint serves once: a crash reads all logs.
    drop(volume);
    let (volume, report) = open(&mem).unwrap();
    assert!(!report.from_checkpoint);
    assert_eq!(read_all(&volume), expected);
}

#[test]
fn closing_needs_the_last_handle() {
    let volume = sample();
    let other = volume.clone();
    let volume = volume.close().unwrap_err();
    drop(other);
    let file = volume.open_file("one").unwrap();
    let volume = volume.close().unwrap_err();
    drop(file);
    let dir = volume.open_dir("a").unwrap();
    let volume = volume.close().unwrap_err();
    drop(dir);
    assert_eq!(volume.pmem().bytes()[RECORD..RECORD + 64], [0; 64]);
    volume.close().unwrap();
}

/// Sessions of random changes, each of which ends with a close or without.
#[test]
fn sessions_read_back_and_leak_no_pages() {
    let mut rng = Rng::new(5);
    let mem = {
        let volume = format(96, &FormatOptions::new().inodes(64));
        Arc::clone(volume.pmem())
    };
    let mut expected = Content::new();
    let mut was_closed = false;
    for session in 0..60 {
        let (volume, report) = open(&mem).unwrap();
        assert_eq!(report.from_checkpoint, was_closed, "session {session}");
        assert_eq!(read_all(&volume), expected, "session {session}");
        for _ in 0..rng.below(30) {
            let name = format!("file {}", rng.below(4));
            let file = volume.open_or_create(&name).unwrap();
            match rng.below(4) {
                0 => file.truncate(rng.below(5 * PAGE)).unwrap(),
                1 => {
                    drop(file);
                    volume.remove(&name).unwrap();
                }
                _ => {
                    let bytes = vec![rng.next() as u8; 1 + rng.below(6000) as usize];
                    file.write_at(&bytes, rng.below(4 * PAGE)).unwrap();
                }
            }
        }
        expected = read_all(&volume);
        let copy = Mem::from_bytes(&mem.bytes());
        was_closed = rng.below(3) > 0;
        if was_closed {
            volume.close().unwrap();
            let (closed, report) = open(&Mem::from_bytes(&mem.bytes())).unwrap();
            assert!(report.from_checkpoint);
            let (scanned, report) = open(&copy).unwrap();
            assert!(!report.from_checkpoint);
            let (closed, scanned) = (closed.stats(), scanned.stats());
            assert_eq!(closed.pages_free, scanned.pages_free, "session {session}");
            assert_eq!(closed.log_pages, scanned.log_pages, "session {session}");
        }
    }
}

#[test]
fn a_damaged_checkpoint_is_not_used() {
    let (bytes, expected) = closed();
    let first = u32::from_le_bytes(bytes[RECORD + 16..RECORD + 20].try_into().unwrap());
    let page = first as usize * PAGE as usize;
    let places = (RECORD..RECORD + 64).chain(page..page + 530).step_by(3);
    for at in places {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let mem = Mem::from_bytes(&damaged);
        let (volume, report) = open(&mem).unwrap();
        assert!(!report.from_checkpoint, "byte {at}");
        assert_eq!(read_all(&volume), expected, "byte {at}");
        assert_eq!(mem.bytes()[RECORD..RECORD + 8], [0; 8], "byte {at}");
    }
}

#[test]
fn a_volume_without_room_closes_without_a_checkpoint() {
    let volume = format(32, &FormatOptions::new().inodes(32));
    let hog = volume.create("hog").unwrap();
    let mut pages = 0;
    while hog.write_at(&[1; PAGE as usize], pages * PAGE).is_ok() {
        pages += 1;
    }
    drop(hog);
    let mem = Arc::clone(volume.pmem());
    volume.close().unwrap();
    let (volume, report) = open(&mem).unwrap();
    assert!(!report.from_checkpoint);
    assert_eq!(volume.open_file("hog").unwrap().size(), pages * PAGE);
}

#[test]
fn a_panic_midway_keeps_the_checkpoint_from_being_written() {
    let volume = sample();
    let file = volume.open_file("one").unwrap();
    volume.pmem().panic_at(2);
    let write = || file.write_at(&[9; 5000], 0);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).unwrap_err();
    volume.pmem().panic_at(0);
    drop(file);
    let mem = Arc::clone(volume.pmem());
    volume.close().unwrap();
    assert!(!open(&mem).unwrap().1.from_checkpoint);
}

/// Closes the volume, and checks that the next opening reads all logs and finds `free` pages free.
#[track_caller]
fn assert_closes_without_a_checkpoint(volume: Volume, free: u64) {
    let mem = Arc::clone(volume.pmem());
    volume.close().unwrap();
    let (volume, report) = open(&mem).unwrap();
    assert!(!report.from_checkpoint);
    assert_eq!(volume.stats().pages_free, free);
}

#[test]
fn a_removal_that_panics_keeps_the_checkpoint_from_being_written() {
    let (bytes, _) = closed();
    let (volume, _) = open(&Mem::from_bytes(&bytes)).unwrap();
    volume.remove("one").unwrap();
    let free = volume.stats().pages_free;
    for operation in 1..=3 {
        // The file is not in memory, so no log of its own is poisoned.
        let (volume, _) = open(&Mem::from_bytes(&bytes)).unwrap();
        volume.pmem().panic_at(operation);
        let remove = || volume.remove("one");
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(remove)).unwrap_err();
        volume.pmem().panic_at(0);
        assert_closes_without_a_checkpoint(volume, free);
    }
}

#[test]
fn pages_of_a_removed_file_are_not_lost_to_a_checkpoint() {
    let (bytes, _) = closed();
    let (volume, _) = open(&Mem::from_bytes(&bytes)).unwrap();
    volume.remove("one").unwrap();
    let free = volume.stats().pages_free;

    // A write of it has panicked, and nobody knows the pages that the write had taken.
    let (volume, _) = open(&Mem::from_bytes(&bytes)).unwrap();
    let file = volume.open_file("one").unwrap();
    volume.pmem().panic_at(2);
    let write = || file.write_at(&[9; 5000], 0);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).unwrap_err();
    volume.pmem().panic_at(0);
    drop(file);
    volume.remove("one").unwrap();
    assert_closes_without_a_checkpoint(volume, free);

    // Its log cannot be read when it is removed. The head pointer is the first word of inode 2.
    let (volume, _) = open(&Mem::from_bytes(&bytes)).unwrap();
    volume.pmem().flip((PAGE as usize + 2 * 128) * 8);
    volume.remove("one").unwrap();
    assert!(volume.stats().pages_free < free);
    assert_closes_without_a_checkpoint(volume, free);
}

#[test]
fn a_closed_volume_grows_and_is_formatted_and_checked() {
    let (mut bytes, expected) = closed();
    let mem = Mem::from_bytes(&bytes);
    assert!(fsck::check(&mem).unwrap().is_sound());
    assert!(fsck::repair(&mem).unwrap().is_sound());
    assert_eq!(mem.bytes(), bytes);

    // What is formatted is not taken for what was closed.
    let options = FormatOptions::new().inodes(64);
    let volume = FileCore::format(Arc::clone(&mem), &options, segments).unwrap();
    drop(volume);
    assert!(!open(&mem).unwrap().1.from_checkpoint);

    bytes.resize(bytes.len() + 40 * PAGE as usize, 0);
    let mem = Mem::from_bytes(&bytes);
    let options = OpenOptions::new().grow(true);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    let (volume, report) = FileCore::open_with(mem, &options, lock).unwrap();
    assert_eq!((report.pages_grown, report.from_checkpoint), (40, true));
    assert_eq!(read_all(&volume), expected);
    let file = volume.create("large").unwrap();
    file.write_at(&vec![7; 100 * PAGE as usize / 2], 0).unwrap();
    let (again, _) = open(&Mem::from_bytes(&volume.pmem().bytes())).unwrap();
    assert_eq!(read_all(&again), read_all(&volume));
}

#[test]
fn a_read_only_volume_is_closed_without_a_write() {
    let (bytes, expected) = closed();
    let mem = Mem::from_bytes(&bytes);
    let options = OpenOptions::new().read_only(true);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    let (volume, report) = FileCore::open_with(Arc::clone(&mem), &options, lock).unwrap();
    assert!(!report.from_checkpoint);
    assert_eq!(read_all(&volume), expected);
    volume.close().unwrap();
    assert!(mem.bytes() == bytes);
    // The checkpoint is still there.
    assert!(open(&mem).unwrap().1.from_checkpoint);
}

/// A repair forgets the checkpoint, which would contradict it.
#[test]
fn a_repair_of_a_closed_volume_erases_its_record() {
    let (mut bytes, _) = closed();
    // The line of the inode of "one".
    let line = PAGE as usize + 2 * 128;
    bytes[line..line + 64].fill(0xEE);
    let mem = Mem::from_bytes(&bytes);
    assert!(fsck::repair(&mem).unwrap().is_repaired());
    let (volume, report) = open(&mem).unwrap();
    assert!(!report.from_checkpoint);
    assert!(!volume.exists("one") && volume.exists("a/two"));
}

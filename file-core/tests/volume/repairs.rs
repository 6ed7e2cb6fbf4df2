//! Repairs of the logs of files: how much room they need, and what a crash within one leaves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::common::{Mem, PAGE, Volume, content, format, open, segments};
use spanlock_file_core::fsck::{self, Report};
use spanlock_file_core::{Error, FileCore, FormatOptions, OpenOptions};

const ONE_PAGE: usize = PAGE as usize;

/// Returns the positions of the marks in the log of a file, in order.
fn marks_of(words: &[u64], inode: usize) -> Vec<usize> {
    let mut marks = Vec::new();
    // Pointers have the number of a page in their lower half.
    let mut page = words[512 + inode * 16] as u32 as usize;
    while page > 0 {
        let slots = (0..63).map(|slot| page * 512 + slot * 8);
        marks.extend(slots.filter(|at| words[*at] >> 56 == 0x4D));
        page = words[page * 512 + 504] as u32 as usize;
    }
    marks
}

/// The new log of a fragmented file fits the half of the reserve that is kept for cleaning.
#[test]
fn a_full_volume_with_a_fragmented_file_can_be_repaired() {
    for pages in [256, 1024, 4096] {
        let volume = format(pages, &FormatOptions::new().inodes(64));
        let [file, rest] = ["a", "rest"].map(|name| volume.create(name).unwrap());
        let others = (0..50).map(|nth| volume.create(&format!("{nth}")).unwrap());
        let others: Vec<_> = others.collect();
        // Pages that follow each other in the file do not do so in the volume.
        let len = volume.stats().pages_free * 15 / 16;
        for page in (1..len).step_by(2).chain((0..len).step_by(2)) {
            file.write_at(&[7; ONE_PAGE], page * PAGE).unwrap();
        }
        while rest.append(&[7; ONE_PAGE]).is_ok() {}
        // Each log takes a page of the other half of the reserve.
        let refused = others.iter().filter(|it| it.truncate(1).is_err()).count();
        assert!(refused > 0, "{:?}", volume.stats());
        let mut words = volume.pmem().words();
        drop((file, rest, others, volume));
        let first = marks_of(&words, 1)[0];
        words[first] ^= 4;
        let mem = Mem::from_words(words);
        assert!(open(&mem).is_err());
        let report = fsck::repair(&mem).unwrap();
        assert!(report.is_repaired(), "{pages} pages: {:?}", report.findings);
        let (volume, _) = open(&mem).unwrap();
        // The damaged group had mapped one page.
        let now = content(&volume.open_file("a").unwrap());
        let lost = now.iter().filter(|it| **it != 7).count();
        assert_eq!((now.len(), lost), ((len * PAGE) as usize, PAGE as usize));
    }
}

/// Creates the file "f", whose page was overwritten, and files without data until one of them has
/// a log page where the old page was. Returns that file's number, and the second mark of "f".
fn with_a_log_in_an_old_page(volume: &Volume) -> (usize, usize) {
    let file = volume.create("f").unwrap();
    file.write_at(&[b'f'; ONE_PAGE], 0).unwrap();
    file.write_at(&[b'F'; ONE_PAGE], 0).unwrap();
    let words = volume.pmem().words();
    let marks = marks_of(&words, 1);
    // The first extent of a record.
    let old_page = words[marks[0] + 5] as u32 as usize;
    let takes_it = |number: &usize| {
        let file = volume.create(&number.to_string()).unwrap();
        file.truncate(5).unwrap();
        file.truncate(6).unwrap();
        marks_of(&volume.pmem().words(), *number)[0] / 512 == old_page
    };
    let number = (2..40).find(takes_it).expect("one takes the page");
    (number, marks[1])
}

/// Damages the second group of "f" and of the file with this number.
fn damage(words: &mut [u64], (number, mark): (usize, usize)) {
    let other = marks_of(words, number)[1];
    words[mark] ^= 4;
    words[other] ^= 4;
}

/// Returns what crashes during a repair leave.
fn crashes(words: &[u64]) -> Vec<Vec<u64>> {
    let images = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&images);
    let hook = Box::new(move |image: &mut dyn FnMut() -> Vec<u64>| {
        seen.lock().unwrap().push(image());
    });
    let simulated = Mem::simulated(words.to_vec(), 1, hook);
    assert!(fsck::repair(&simulated).unwrap().is_repaired());
    drop(simulated);
    let mut images = std::mem::take(&mut *images.lock().unwrap());
    images.sort_unstable();
    images.dedup();
    images
}

fn open_read_only(words: &[u64]) -> Volume {
    let mem = Mem::from_words(words.to_vec());
    mem.set_read_only(true);
    let options = OpenOptions::new().read_only(true);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    FileCore::open_with(mem, &options, lock).unwrap().0
}

/// The paths of the files that are damaged.
fn damaged(report: &Report) -> Vec<&str> {
    let mut paths: Vec<_> = report
        .damage()
        .filter_map(|it| it.path.as_deref())
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// A crash leaves the old logs of all damaged files, or the new ones. So a file that has lost a
/// page to the log of another file does not get it, with the slots, once that file has a new log.
#[test]
fn a_repair_gives_all_files_their_new_logs_at_once() {
    let volume = format(64, &FormatOptions::new().inodes(64));
    let found = with_a_log_in_an_old_page(&volume);
    let mut words = volume.pmem().words();
    drop(volume);
    damage(&mut words, found);
    let number = found.0.to_string();
    let mut journaled = 0;
    for image in crashes(&words) {
        let report = fsck::check(&Mem::from_words(image.clone())).unwrap();
        let before = open_read_only(&image);
        if report.is_sound() {
            // Also if the heads are in the journal only.
            for (path, _) in before.list() {
                before.open_file(&path).unwrap();
            }
            assert!(content(&before.open_file("f").unwrap()) == [0; ONE_PAGE]);
            journaled += usize::from(image[512 + 16] == words[512 + 16]);
            let (volume, _) = open(&Mem::from_words(image.clone())).unwrap();
            assert_eq!(volume.open_file(&number).unwrap().size(), 5);
        } else {
            assert_eq!(damaged(&report), [&number[..], "f"]);
            assert!(before.open_file("f").is_err());
        }
        let mem = Mem::from_words(image);
        assert!(fsck::repair(&mem).unwrap().is_repaired());
        let (volume, _) = open(&mem).unwrap();
        assert!(content(&volume.open_file("f").unwrap()) == [0; ONE_PAGE]);
    }
    assert!(
        journaled > 0,
        "no crash after the record and before the head"
    );
}

/// Fills the volume with pages of "f" between holes, and the part of the reserve that logs can
/// take. The new log of "f" would need more pages than the rest has.
fn fill(volume: &Volume) {
    let file = volume.open_file("f").unwrap();
    let others = (0..10).map(|nth| volume.create(&format!("other {nth}")).unwrap());
    let others: Vec<_> = others.collect();
    for page in 1.. {
        if file.write_at(&[7; ONE_PAGE], 2 * page * PAGE).is_err() {
            break;
        }
    }
    assert!(others.iter().any(|it| it.truncate(1).is_err()));
}

fn small_volume() -> Volume {
    let options = FormatOptions::new().inodes(64);
    format(322, &options.max_file_size(1000 * PAGE))
}

#[test]
fn without_room_for_a_file_that_has_lost_pages_no_file_has_a_new_log() {
    let volume = small_volume();
    let found = with_a_log_in_an_old_page(&volume);
    fill(&volume);
    let mut words = volume.pmem().words();
    drop(volume);
    damage(&mut words, found);
    let mem = Mem::from_words(words.clone());
    let report = fsck::repair(&mem).unwrap();
    assert_eq!(damaged(&report), [&found.0.to_string()[..], "f"]);
    let is_left = report.damage().all(|it| !it.is_repaired);
    assert!(is_left, "{:?}", report.findings);
    let heads = 512..1536;
    assert!(mem.words()[heads.clone()] == words[heads]);
}

#[test]
fn without_room_for_a_file_that_has_all_its_pages_other_files_are_repaired() {
    let volume = small_volume();
    volume.create("f").unwrap().truncate(5).unwrap();
    volume.create("small").unwrap().truncate(5).unwrap();
    fill(&volume);
    let mut words = volume.pmem().words();
    drop(volume);
    for number in [1, 2] {
        let first = marks_of(&words, number)[0];
        words[first] ^= 4;
    }
    let mem = Mem::from_words(words);
    let report = fsck::repair(&mem).unwrap();
    let repaired = report.damage().filter(|it| it.is_repaired);
    let repaired: Vec<_> = repaired.map(|it| it.path.as_deref()).collect();
    assert_eq!(repaired, [Some("small")], "{:?}", report.findings);
    assert_eq!(damaged(&fsck::check(&mem).unwrap()), ["f"]);
}

/// A file's old log, once it is replaced, has room for the new log of another file.
#[test]
fn damaged_files_are_repaired_one_after_the_other_if_there_is_little_room() {
    const FILES: usize = 20;
    for few in [0, 10, 15] {
        let volume = format(200, &FormatOptions::new().inodes(64));
        for number in 1..=FILES {
            let file = volume.create(&number.to_string()).unwrap();
            file.truncate(5).unwrap();
            file.truncate(6).unwrap();
        }
        let rest = volume.create("rest").unwrap();
        while volume.stats().pages_free > few && rest.append(&[7; ONE_PAGE]).is_ok() {}
        let free = volume.stats().pages_free;
        let mut words = volume.pmem().words();
        drop((rest, volume));
        for number in 1..=FILES {
            let second = marks_of(&words, number)[1];
            words[second] ^= 4;
        }
        let mem = Mem::from_words(words);
        let report = fsck::repair(&mem).unwrap();
        assert_eq!(damaged(&report).len(), FILES);
        assert!(report.is_repaired(), "{few}: {:?}", report.findings);
        let (volume, _) = open(&mem).unwrap();
        for number in 1..=FILES {
            assert_eq!(volume.open_file(&number.to_string()).unwrap().size(), 5);
        }
        assert_eq!(volume.stats().pages_free, free);
        assert!(free < FILES as u64);
    }
}

/// More heads than fit one record of the journal.
#[test]
fn any_number_of_files_is_repaired() {
    const FILES: usize = 520;
    let volume = format(1800, &FormatOptions::new().inodes(544));
    let (last, _) = with_a_log_in_an_old_page(&volume);
    for number in last + 1..=FILES {
        let file = volume.create(&number.to_string()).unwrap();
        file.truncate(5).unwrap();
        file.truncate(6).unwrap();
    }
    let mut words = volume.pmem().words();
    drop(volume);
    for number in 1..=FILES {
        let second = marks_of(&words, number)[1];
        words[second] ^= 4;
    }
    let mut left = Vec::new();
    for operation in (1..).step_by(101) {
        let mem = Mem::from_words(words.clone());
        mem.panic_at(operation);
        let result = catch_unwind(AssertUnwindSafe(|| fsck::repair(&mem).unwrap()));
        mem.panic_at(0);
        left.push(fsck::check(&mem).unwrap().damage().count());
        assert!(fsck::repair(&mem).unwrap().is_repaired());
        let (volume, _) = open(&mem).unwrap();
        for (path, size) in volume.list() {
            assert_eq!(size, if path == "f" { PAGE } else { 5 }, "{path}");
        }
        assert!(content(&volume.open_file("f").unwrap()) == [0; ONE_PAGE]);
        if result.is_ok_and(|report| report.is_repaired()) {
            break;
        }
    }
    left.dedup();
    // The file that has lost a page, and so is damaged twice, is among the first.
    assert_eq!(left, [FILES + 1, FILES - 508, 0]);
}

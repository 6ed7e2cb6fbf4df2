//! Repairs of the logs of files: how much room they need.

use crate::common::{Mem, PAGE, Volume, content, format, open};
use spanlock_file_core::FormatOptions;
use spanlock_file_core::fsck::{self, Report};

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

#[test]
fn without_room_for_all_new_logs_no_file_has_one() {
    let options = FormatOptions::new().inodes(64);
    let volume = format(322, &options.max_file_size(1000 * PAGE));
    volume.create("f").unwrap().truncate(5).unwrap();
    volume.create("small").unwrap().truncate(5).unwrap();
    fill(&volume);
    let mut words = volume.pmem().words();
    drop(volume);
    for number in [1, 2] {
        let first = marks_of(&words, number)[0];
        words[first] ^= 4;
    }
    let mem = Mem::from_words(words.clone());
    let report = fsck::repair(&mem).unwrap();
    assert_eq!(damaged(&report), ["f", "small"]);
    let is_left = report.damage().all(|it| !it.is_repaired);
    assert!(is_left, "{:?}", report.findings);
    let heads = 512..1536;
    assert!(mem.words()[heads.clone()] == words[heads]);
}

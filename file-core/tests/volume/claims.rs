//! Pages that are claimed twice, because damage has brought back an older group. A repair does not
//! take a page from one file for another that then drops it. Nor does it take a page from a later
//! group for an older group of the same file.

use std::sync::{Arc, Mutex};

use crate::common::{Mem, PAGE, Volume, content, format, open, segments};
use crate::fsck::new_mark;
use spanlock_file_core::fsck::{self, Report};
use spanlock_file_core::{Error, FormatOptions, OpenOptions};

/// How a mark is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// It becomes zero, which recovery does not notice.
    Zero,
    Flip,
}

impl Damage {
    fn apply(self, words: &mut [u64], at: usize) {
        match self {
            Damage::Zero => words[at] = 0,
            Damage::Flip => words[at] ^= 4,
        }
    }
}

pub(crate) fn one_page(byte: u8) -> [u8; PAGE as usize] {
    [byte; PAGE as usize]
}

/// Runs `change`, and returns which word is the mark of the group that it has added.
pub(crate) fn mark_of(volume: &Volume, change: impl FnOnce()) -> usize {
    let before = volume.pmem().words();
    change();
    new_mark(&before, &volume.pmem().words())
}

/// Returns the content of all files.
fn contents(volume: &Volume) -> Vec<(String, Vec<u8>)> {
    let files = volume.list().into_iter();
    files
        .map(|(path, _)| {
            let bytes = content(&volume.open_file(&path).unwrap());
            (path, bytes)
        })
        .collect()
}

/// Repairs the volume. Fails unless all damage is repaired then.
fn repaired(words: Vec<u64>) -> (Report, Volume) {
    let mem = Mem::from_words(words);
    let report = fsck::repair(&mem).unwrap();
    assert!(report.is_repaired(), "{:?}", report.findings);
    assert!(fsck::check(&mem).unwrap().is_sound());
    (report, open(&mem).unwrap().0)
}

/// Repairs the volume as [`repaired`]. Fails unless a repair that crashes and is repeated leaves
/// the same files.
pub(crate) fn repaired_always(words: &[u64]) -> (Report, Volume) {
    let (report, volume) = repaired(words.to_vec());
    let expected = contents(&volume);
    let images = images_of_repair(words);
    assert!(images.len() > 2, "only {} images", images.len());
    for image in images {
        let (_, volume) = repaired(image);
        assert!(contents(&volume) == expected, "a repeated repair differs");
    }
    (report, volume)
}

/// Returns what crashes of a repair may leave.
pub(crate) fn images_of_repair(words: &[u64]) -> Vec<Vec<u64>> {
    let images = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&images);
    let hook = Box::new(move |image: &mut dyn FnMut() -> Vec<u64>| {
        seen.lock().unwrap().push(image());
    });
    let simulated = Mem::simulated(words.to_vec(), 3, hook);
    fsck::repair(&simulated).unwrap();
    drop(simulated);
    let mut images = std::mem::take(&mut *images.lock().unwrap());
    images.sort_unstable();
    images.dedup();
    images
}

/// The file "a" has lost the group that replaced its page, which the file "b" has now.
#[test]
fn a_page_stays_with_the_file_whose_checksum_it_matches() {
    for damage in [Damage::Zero, Damage::Flip] {
        let options = FormatOptions::new().inodes(32).data_checksums(true);
        let volume = format(64, &options);
        let [a, b] = ["a", "b"].map(|name| volume.create(name).unwrap());
        b.write_at(&one_page(5), 2 * PAGE).unwrap();
        a.write_at(&one_page(1), 0).unwrap();
        let lost = mark_of(&volume, || a.write_at(&one_page(2), 0).unwrap());
        b.write_at(&one_page(7), 0).unwrap();
        let mut words = volume.pmem().words();
        drop((a, b, volume));
        damage.apply(&mut words, lost);
        let expected = [one_page(7), one_page(0), one_page(5)].concat();

        let read_only = OpenOptions::new().read_only(true);
        let lock = |capacity| Ok::<_, Error>(segments(capacity));
        let mem = Mem::from_words(words.clone());
        let (volume, _) = Volume::open_with(mem, &read_only, lock).unwrap();
        let file = volume.open_file("b").unwrap();
        assert!(content(&file) == expected, "{damage:?}");

        let (report, volume) = repaired_always(&words);
        let what = "file data that does not match its checksum";
        assert!(report.damage().any(|it| it.what == what));
        let now = content(&volume.open_file("b").unwrap());
        assert!(now == expected, "{damage:?}");
        let now = content(&volume.open_file("a").unwrap());
        assert!(now == one_page(0), "{damage:?}");
    }
}

/// The file "a" has lost the hole that removed pages past its size, which other files have now.
#[test]
fn a_page_past_the_size_of_a_damaged_file_stays_with_the_other_file() {
    let volume = format(64, &FormatOptions::new().inodes(32));
    let [a, b, c] = ["a", "b", "c"].map(|name| volume.create(name).unwrap());
    a.write_at(b"x", 0).unwrap();
    // Each log has its page before the pages of "a" become free.
    b.write_at(&one_page(5), 2 * PAGE).unwrap();
    c.write_at(&one_page(9), PAGE).unwrap();
    a.allocate_keeping_size(PAGE..3 * PAGE).unwrap();
    let lost = mark_of(&volume, || a.punch_hole(PAGE..3 * PAGE).unwrap());
    b.write_at(&[one_page(7), one_page(6)].concat(), 0).unwrap();
    c.write_at(&one_page(8), 0).unwrap();
    let mut words = volume.pmem().words();
    drop((a, b, c, volume));
    Damage::Flip.apply(&mut words, lost);

    let (report, volume) = repaired_always(&words);
    assert_eq!(report.damage().count(), 1, "{:?}", report.findings);
    let expected = [one_page(7), one_page(6), one_page(5)].concat();
    assert!(content(&volume.open_file("b").unwrap()) == expected);
    let expected = [one_page(8), one_page(9)].concat();
    assert!(content(&volume.open_file("c").unwrap()) == expected);
    assert_eq!(content(&volume.open_file("a").unwrap()), b"x");
}

/// An undamaged file keeps the pages past its size that an older group of another file names.
#[test]
fn a_damaged_file_takes_no_page_past_the_size_of_an_undamaged_one() {
    let volume = format(64, &FormatOptions::new().inodes(32));
    let [damaged, intact] = ["damaged", "intact"].map(|name| volume.create(name).unwrap());
    intact.write_at(b"x", 0).unwrap();
    damaged.write_at(&one_page(1), 0).unwrap();
    let lost = mark_of(&volume, || damaged.write_at(&one_page(2), 0).unwrap());
    intact.allocate_keeping_size(PAGE..2 * PAGE).unwrap();
    let mut words = volume.pmem().words();
    drop((damaged, intact, volume));
    Damage::Flip.apply(&mut words, lost);
    let (report, volume) = repaired_always(&words);
    let files: Vec<_> = report.damage().map(|it| it.path.as_deref()).collect();
    assert_eq!(files, [Some("damaged"); 2], "{:?}", report.findings);
    assert_eq!(content(&volume.open_file("intact").unwrap()), b"x");
}

/// The page that the lost group had replaced is at another place of the same file by now. The file
/// keeps it there.
#[test]
fn a_page_stays_with_the_later_group_of_its_file() {
    for damage in [Damage::Zero, Damage::Flip] {
        let volume = format(64, &FormatOptions::new().inodes(32));
        let file = volume.create("a").unwrap();
        file.write_at(&one_page(1), 0).unwrap();
        let lost = mark_of(&volume, || file.write_at(&one_page(2), 0).unwrap());
        for page in 1..6 {
            file.write_at(&one_page(10 + page), u64::from(page) * PAGE)
                .unwrap();
        }
        let mut expected = content(&file);
        expected[..PAGE as usize].fill(0);
        let mut words = volume.pmem().words();
        drop((file, volume));
        damage.apply(&mut words, lost);
        assert!(open(&Mem::from_words(words.clone())).is_err());

        let (report, volume) = repaired_always(&words);
        let twice = |it: &&fsck::Finding| it.what == "a page that is in use twice";
        let found: Vec<_> = report.damage().filter(twice).collect();
        assert_eq!(found.len(), 1, "{:?}", report.findings);
        assert_eq!((found[0].place.offset, found[0].bytes), (Some(0), PAGE));
        let now = content(&volume.open_file("a").unwrap());
        assert!(now == expected, "{damage:?}");
    }
}

/// With the pages that a lost group had removed, the file seems to have more pages than the volume.
#[test]
fn pages_that_were_removed_keep_no_later_group_out() {
    for damage in [Damage::Zero, Damage::Flip] {
        let options = FormatOptions::new().inodes(32).max_file_size(80 * PAGE);
        let volume = format(64, &options);
        let file = volume.create("a").unwrap();
        file.write_at(&[1; 40 * PAGE as usize], 0).unwrap();
        let lost = mark_of(&volume, || file.punch_hole(0..40 * PAGE).unwrap());
        let later = [2; 40 * PAGE as usize];
        file.write_at(&later, 40 * PAGE).unwrap();
        let mut words = volume.pmem().words();
        drop((file, volume));
        damage.apply(&mut words, lost);
        let (_, volume) = repaired_always(&words);
        let now = content(&volume.open_file("a").unwrap());
        assert!(now[40 * PAGE as usize..] == later, "{damage:?}");
    }
}

//! Opening with options: a volume that takes a region that has grown, and a small cache of files.

use std::sync::{Arc, Mutex};

use crate::common::{Mem, PAGE, Volume, content, format, open, segments};
use spanlock_file_core::{Error, FormatOptions, OpenOptions, RecoveryReport};

fn open_with(mem: &Arc<Mem>, options: &OpenOptions) -> Result<(Volume, RecoveryReport), Error> {
    let locks = |capacity| Ok::<_, String>(segments(capacity));
    Volume::open_with(Arc::clone(mem), options, locks)
}

/// Returns the words of a volume of 48 pages, in a region of `pages` pages that are not zero.
fn grown_region(pages: u64) -> Vec<u64> {
    let volume = format(48, &FormatOptions::new().inodes(32));
    let file = volume.create("file").unwrap();
    file.write_at(&[7; 9000], 0).unwrap();
    let mut words = volume.pmem().words();
    words.resize((pages * PAGE / 8) as usize, 0xABAB_ABAB_ABAB_ABAB);
    words
}

fn check(volume: &Volume) {
    assert_eq!(volume.list(), [("file".to_owned(), 9000)]);
    assert_eq!(content(&volume.open_file("file").unwrap()), [7; 9000]);
}

#[test]
fn a_volume_grows_only_if_asked_and_uses_the_new_pages() {
    let mem = Mem::from_words(grown_region(96));
    let (small, report) = open(&mem).unwrap();
    let before = small.stats();
    assert_eq!(report.pages_grown, 0);
    drop(small);

    let (volume, report) = open_with(&mem, &OpenOptions::new().grow(true)).unwrap();
    let after = volume.stats();
    assert_eq!(report.pages_grown, 48);
    assert_eq!(after.pages_total, before.pages_total + 48);
    assert_eq!(after.pages_free, before.pages_free + 48);
    assert_eq!(after.inodes_total, before.inodes_total);
    check(&volume);
    let hog = volume.create("hog").unwrap();
    let mut pages = 0;
    while hog.append(&[9; PAGE as usize]).is_ok() {
        pages += 1;
    }
    assert!(pages > before.pages_total, "{pages}");
    drop((volume, hog));

    // The old second superblock may be data now, and both new ones are sound.
    let (volume, report) = open_with(&mem, &OpenOptions::new().grow(true)).unwrap();
    assert_eq!((report.pages_grown, report.superblock_repaired), (0, false));
    volume.remove("hog").unwrap();
    check(&volume);
}

#[test]
fn a_part_of_a_page_is_no_growth() {
    let mut words = grown_region(49);
    words.truncate((48 * PAGE + 2048) as usize / 8);
    let mem = Mem::from_words(words.clone());
    let (volume, report) = open_with(&mem, &OpenOptions::new().grow(true)).unwrap();
    assert_eq!(report.pages_grown, 0);
    check(&volume);
    drop(volume);
    assert_eq!(mem.words(), words);
}

#[test]
fn a_crash_while_a_volume_grows_leaves_the_old_size_or_the_new() {
    let words = grown_region(96);
    // How often a crash left the old volume, the new one, and a torn first superblock.
    let seen = Arc::new(Mutex::new([0; 3]));
    for seed in 1..400 {
        let seen = Arc::clone(&seen);
        let hook = move |image: &mut dyn FnMut() -> Vec<u64>| {
            let (volume, report) =
                open(&Mem::from_words(image())).expect("a crash image must open");
            check(&volume);
            assert_eq!(report.pages_grown, 0);
            let grown = volume.stats().pages_total > 48;
            let seen = &mut *seen.lock().unwrap();
            seen[usize::from(grown)] += 1;
            seen[2] += u32::from(grown && report.superblock_repaired);
        };
        let mem = Mem::simulated(words.clone(), seed, Box::new(hook));
        let (volume, _) = open_with(&mem, &OpenOptions::new().grow(true)).unwrap();
        assert_eq!(volume.stats().pages_total, 96 - 7);
        check(&volume);
    }
    let seen = *seen.lock().unwrap();
    assert!(seen.iter().all(|times| *times > 10), "{seen:?}");
}

#[test]
fn a_volume_without_cached_files_works() {
    let volume = format(96, &FormatOptions::new().inodes(64));
    for i in 0..20_u8 {
        let file = volume.create(&format!("file {i}")).unwrap();
        file.write_at(&[i; 300], 5).unwrap();
    }
    let mem = Mem::from_words(volume.pmem().words());
    let (volume, _) = open_with(&mem, &OpenOptions::new().cached_files(0)).unwrap();
    for i in (0..20_u8).chain(0..20) {
        let file = volume.open_file(&format!("file {i}")).unwrap();
        assert_eq!(content(&file)[5..], [i; 300]);
    }
}

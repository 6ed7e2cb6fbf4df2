//! Logs that change while the volume is closed. A check, a repair and a read-only opening compare
//! them with the digests in the checkpoint, and find nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::claims::{images_of_repair, mark_of, one_page, repaired_always};
use crate::common::{Handle, Mem, PAGE, Rng, Volume, content, format, open, segments};
use spanlock_file_core::fsck::{self, Finding, Repair};
use spanlock_file_core::{Error, FileCore, FormatOptions, OpenOptions, RecoveryReport};

type Files = BTreeMap<String, Vec<u8>>;

const CHANGED: &str = "a log that has changed since the file was last in use";

fn open_with(mem: &Arc<Mem>, options: &OpenOptions) -> (Volume, RecoveryReport) {
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    FileCore::open_with(Arc::clone(mem), options, lock).unwrap()
}

/// Opens the volume read-only, in a region in which every store panics.
fn open_read_only(words: &[u64]) -> (Volume, RecoveryReport) {
    let mem = Mem::from_words(words.to_vec());
    mem.set_read_only(true);
    open_with(&mem, &OpenOptions::new().read_only(true))
}

fn closed(volume: Volume) -> Vec<u64> {
    let mem = Arc::clone(volume.pmem());
    volume.close().unwrap();
    mem.words()
}

fn damage(words: &[u64]) -> Vec<Finding> {
    let mem = Mem::from_words(words.to_vec());
    mem.set_read_only(true);
    fsck::check(&mem).unwrap().damage().cloned().collect()
}

/// Checks that the only damage is that the log of "a" has changed, and that "a" cannot be opened.
#[track_caller]
fn assert_finds_a(words: &[u64]) {
    let found = damage(words);
    let what: Vec<_> = found.iter().map(|it| (it.what, it.repair)).collect();
    assert_eq!(what, [(CHANGED, Repair::RewriteLog)]);
    assert_eq!(found[0].path.as_deref(), Some("a"));
    assert_eq!(found[0].place.inode, Some(1));
    let (volume, report) = open_read_only(words);
    assert!(!report.from_checkpoint);
    assert_eq!(report.findings, found);
    let error = volume.open_file("a").unwrap_err();
    assert!(error.to_string().contains(CHANGED), "{error}");
    let (volume, report) = open(&Mem::from_words(words.to_vec())).unwrap();
    assert!(report.from_checkpoint);
    let error = volume.open_file("a").unwrap_err();
    assert!(error.to_string().contains(CHANGED), "{error}");
}

/// A volume with the empty file "a", and with a file whose pages a checkpoint can take if the file
/// is removed.
fn with_a() -> (Volume, Handle) {
    let volume = format(64, &FormatOptions::new().inodes(32));
    let a = volume.create("a").unwrap();
    let other = volume.create("other").unwrap();
    other.write_at(&[9; 3 * PAGE as usize], 0).unwrap();
    (volume, a)
}

/// A volume with the file "a", whose first page was written twice, and the second mark.
fn written_twice() -> (Volume, usize) {
    let (volume, a) = with_a();
    a.write_at(&one_page(1), 0).unwrap();
    let mark = mark_of(&volume, || a.write_at(&one_page(2), 0).unwrap());
    drop(a);
    (volume, mark)
}

/// The file "b" has the page to which the log of "a" leads after the damage.
#[test]
fn an_intact_file_keeps_its_page() {
    let (volume, mark) = written_twice();
    volume
        .create("b")
        .unwrap()
        .write_at(&one_page(7), 0)
        .unwrap();
    let mut words = closed(volume);
    words[mark] = 0;
    // Only the first damage to "a" keeps it from being opened.
    let found = damage(&words);
    let what: Vec<_> = found.iter().map(|it| (it.what, it.repair)).collect();
    let twice = "a page that is in use twice";
    assert_eq!(
        what,
        [(CHANGED, Repair::RewriteLog), (twice, Repair::MakeHole)]
    );
    assert!(found.iter().all(|it| it.path.as_deref() == Some("a")));
    let (volume, _) = open_read_only(&words);
    assert!(content(&volume.open_file("b").unwrap()) == one_page(7));
    volume.open_file("a").unwrap_err();

    let (_, volume) = repaired_always(&words);
    assert!(content(&volume.open_file("b").unwrap()) == one_page(7));
    assert!(content(&volume.open_file("a").unwrap()) == one_page(0));
    // Nor does an opening for writing between a crash and the second repair mix them up.
    let mut refused = 0;
    for image in images_of_repair(&words) {
        match open(&Mem::from_words(image)) {
            Ok((volume, _)) => {
                assert!(content(&volume.open_file("b").unwrap()) == one_page(7));
                if let Ok(a) = volume.open_file("a") {
                    assert!(content(&a) == one_page(0));
                }
            }
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_file_that_cannot_be_opened_is_found_and_repaired() {
    let (volume, mark) = written_twice();
    volume.remove("other").unwrap();
    let mut words = closed(volume);
    assert_eq!(damage(&words), []);
    words[mark] = 0;
    assert_finds_a(&words);
    let (_, volume) = repaired_always(&words);
    // What the lost change had replaced, because no other file has it.
    assert!(content(&volume.open_file("a").unwrap()) == one_page(1));
    // It stays so when the volume is closed and opened again.
    let words = closed(volume);
    assert_eq!(damage(&words), []);
    let (volume, report) = open(&Mem::from_words(words)).unwrap();
    assert!(report.from_checkpoint);
    assert!(content(&volume.open_file("a").unwrap()) == one_page(1));
}

/// The pointer to a page of the log becomes zero, which ends the log early.
#[test]
fn a_log_that_ends_early_is_found_and_repaired() {
    for loses_all in [false, true] {
        let (volume, a) = with_a();
        for byte in 0..63 {
            a.write_at(&[byte; 8], 0).unwrap();
        }
        let before = volume.pmem().words();
        a.write_at(&[63; 8], 0).unwrap();
        let after = volume.pmem().words();
        let is_next = |at: &usize| at % 512 == 504 && before[*at] == 0 && after[*at] != 0;
        let next = (0..before.len()).find(is_next).unwrap();
        drop(a);
        volume.remove("other").unwrap();
        let mut words = closed(volume);
        // Or the head pointer, in the line of the inode.
        let lost = if loses_all { 512 + 16 } else { next };
        assert!(words[lost] != 0);
        words[lost] = 0;
        assert_finds_a(&words);
        assert_eq!(damage(&words)[0].place.at, lost as u64 * 8);
        let (_, volume) = repaired_always(&words);
        let expected: &[u8] = if loses_all { &[] } else { &[62; 8] };
        assert_eq!(content(&volume.open_file("a").unwrap()), expected);
    }
}

/// The file is empty then, as one finding says.
#[test]
fn an_inode_of_zeros_is_found_once() {
    let (volume, _) = written_twice();
    let mut words = closed(volume);
    words[512 + 16..][..8].fill(0);
    let repairs: Vec<_> = damage(&words).iter().map(|it| it.repair).collect();
    assert_eq!(repairs, [Repair::EmptyInode]);
    let (_, volume) = repaired_always(&words);
    assert_eq!(content(&volume.open_file("a").unwrap()), []);
}

/// Without a checkpoint, a log that has lost a word looks intact. A damaged checkpoint is reported.
#[test]
fn without_a_checkpoint_nothing_is_compared() {
    let (volume, mark) = written_twice();
    volume.remove("other").unwrap();
    let mut words = closed(volume);
    words[mark] = 0;
    let page = words[8 + 2] as u32 as usize;
    let mut erased = words.clone();
    erased[8] = 0;
    assert_eq!(damage(&erased), []);
    let of_mark = (0..64).map(|bit| (8, bit));
    let others = [9, 10, 12, 15, page * 512, page * 512 + 1].map(|at| (at, 0));
    for (at, bit) in of_mark.chain(others) {
        let mut words = words.clone();
        words[at] ^= 1 << bit;
        let found = damage(&words);
        assert_eq!(found.len(), 1, "{at}: {found:?}");
        assert_eq!(found[0].repair, Repair::EraseCheckpoint);
        assert_eq!(found[0].place.at, 64);
        let (volume, report) = open_read_only(&words);
        assert_eq!(report.findings, found);
        assert!(content(&volume.open_file("a").unwrap()) == one_page(1));
        let mem = Mem::from_words(words);
        assert!(fsck::repair(&mem).unwrap().is_repaired());
        assert_eq!(damage(&mem.words()), []);
    }
}

fn read_all(volume: &Volume, what: &str) -> Files {
    let names = volume.list().into_iter();
    names
        .map(|(path, _)| {
            let file = volume.open_file(&path);
            let file = file.unwrap_or_else(|why| panic!("{what}, {path}: {why}"));
            let bytes = content(&file);
            (path, bytes)
        })
        .collect()
}

/// Changes a file at random.
pub(crate) fn change(file: &Handle, rng: &mut Rng) {
    let at = rng.below(40 * PAGE);
    let end = at + 1 + rng.below(8 * PAGE);
    let done = match rng.below(15) {
        0 => file.truncate(at),
        1 => file.truncate(rng.below(3 * PAGE)),
        2 => file.punch_hole(at..end),
        3 => file.allocate(at..end),
        4 | 5 => file.allocate_keeping_size(at..end),
        6 => file.clean().map(drop),
        7 => file.set_modified(std::time::UNIX_EPOCH),
        8 => file.append(&vec![rng.next() as u8; 5000]).map(drop),
        _ => file.write_at(&vec![rng.next() as u8; (end - at) as usize], at),
    };
    // A full volume changes nothing.
    if let Err(error) = done {
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    }
}

/// Changes names at random, if that is possible.
fn change_names(volume: &Volume, paths: &[String], rng: &mut Rng) {
    let [one, other] = [0; 2].map(|_| &paths[rng.below(paths.len() as u64) as usize]);
    match rng.below(12) {
        0 => drop(volume.remove(one)),
        1 => drop(volume.rename(one, other)),
        2 => drop(volume.exchange(one, other)),
        3 => drop(volume.link(one, other)),
        4 if rng.below(5) == 0 => drop(volume.clean().unwrap()),
        5 => {
            // Its pages and its number become free with the handle.
            let Ok(file) = volume.open_file(one) else {
                return;
            };
            drop(volume.remove(one));
            change(&file, rng);
        }
        _ => {}
    }
}

/// Flips a bit of a log page, and repairs the damage if there is room.
fn damage_and_repair(mem: &Arc<Mem>, rng: &mut Rng) -> Option<Arc<Mem>> {
    let mut words = mem.words();
    let pages = log_pages(&words);
    if !pages.is_empty() {
        let page = pages[rng.below(pages.len() as u64) as usize];
        words[page + 8 * rng.below(63) as usize] ^= 1 << rng.below(64);
    }
    let mem = Mem::from_words(words);
    let report = fsck::repair(&mem).unwrap();
    report.is_repaired().then_some(mem)
}

/// Returns the first words of the pages that look like log pages of files.
fn log_pages(words: &[u64]) -> Vec<usize> {
    let is_log = |page: &&[u64]| page[511] != 0 && page[505] < 1000 && page[507] as u32 != 0;
    let pages = words.chunks_exact(512).enumerate();
    pages
        .filter(|it| is_log(&it.1))
        .map(|it| it.0 * 512)
        .collect()
}

/// Makes marks and pointers of logs zero, or flips a bit of a mark.
fn lose_words(words: &mut [u64], rng: &mut Rng) {
    let pages = log_pages(words);
    let is_mark = |at: &usize| words[*at] >> 56 == 0x4D;
    let slots = pages
        .iter()
        .flat_map(|page| (0..63).map(move |slot| page + slot * 8));
    let marks: Vec<_> = slots.filter(is_mark).collect();
    for _ in 0..1 + rng.below(3) {
        let mark = marks[rng.below(marks.len() as u64) as usize];
        match rng.below(8) {
            0 => words[pages[rng.below(pages.len() as u64) as usize] + 504] = 0,
            // The head pointer of an inode.
            1 => words[512 + 16 * (1 + rng.below(6) as usize)] = 0,
            2 => words[mark] ^= 4,
            _ => words[mark] = 0,
        }
    }
}

/// Whatever a closed volume has lost: a check finds it, and a repair keeps the files that opened
/// before.
#[test]
fn a_repair_of_a_closed_volume_keeps_the_files_that_open() {
    let mut repaired = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let checksums = seed % 3 == 0;
        let options = FormatOptions::new().inodes(32).data_checksums(checksums);
        let volume = format(300, &options);
        let paths = ["a", "b", "c", "d", "e"].map(str::to_owned);
        for _ in 0..10 + rng.below(40) {
            let file = volume.open_or_create(&paths[rng.below(5) as usize]);
            let file = file.unwrap();
            for _ in 0..1 + rng.below(4) {
                change(&file, &mut rng);
            }
            drop(file);
            change_names(&volume, &paths, &mut rng);
        }
        let before = read_all(&volume, "sound");
        let sound = closed(volume);
        for round in 0..8 {
            let what = format!("seed {seed}, round {round}");
            let mut words = sound.clone();
            lose_words(&mut words, &mut rng);
            let mem = Mem::from_words(words.clone());
            let (volume, report) = open(&mem).unwrap();
            if !report.from_checkpoint {
                // There was no room for a checkpoint.
                continue;
            }
            let (read_only, report) = open_read_only(&words);
            let mut intact = Files::new();
            for (path, bytes) in &before {
                let [one, other] = [&volume, &read_only].map(|it| it.open_file(path));
                assert_eq!(one.is_ok(), other.is_ok(), "{what}, {path}");
                let (Ok(one), Ok(other)) = (one, other) else {
                    continue;
                };
                assert!(content(&one) == *bytes, "{what}, {path}");
                assert!(content(&other) == *bytes, "{what}, {path}");
                intact.insert(path.clone(), bytes.clone());
            }
            let is_sound = report.findings.is_empty();
            assert_eq!(is_sound, intact.len() == before.len(), "{what}");
            drop((volume, read_only));
            let mem = Mem::from_words(words);
            let report = fsck::repair(&mem).unwrap();
            assert!(report.is_repaired(), "{what}");
            let now = read_all(&open(&mem).unwrap().0, &what);
            for (path, bytes) in intact {
                assert!(now[&path] == bytes, "{what}, {path}");
            }
            repaired += u32::from(!is_sound);
        }
    }
    assert!(repaired > 150, "{repaired}");
}

/// No history of a volume that is closed properly looks like damage.
#[test]
fn a_volume_that_is_closed_has_no_damage() {
    let mut checked = 0;
    for seed in 0..24 {
        let mut rng = Rng::new(seed);
        let checksums = seed % 2 == 0;
        let options = FormatOptions::new().inodes(32).data_checksums(checksums);
        let volume = format(400, &options);
        volume.create_dir_all("d/e").unwrap();
        let mut mem = Arc::clone(volume.pmem());
        drop(volume);
        let paths = ["a", "b", "c", "d/a", "d/b", "d/e/c"].map(str::to_owned);
        for session in 0..6 {
            let what = format!("seed {seed}, session {session}");
            if rng.below(8) == 0 {
                let mut words = mem.words();
                words.resize(words.len() + 20 * 512, 0);
                mem = Mem::from_words(words);
            }
            let options = OpenOptions::new()
                .cached_files(rng.below(3) as usize)
                .grow(true);
            let (volume, _) = open_with(&mem, &options);
            for _ in 0..rng.below(120) {
                let path = &paths[rng.below(6) as usize];
                // It is loaded, and evicts others.
                let Ok(file) = volume.open_or_create(path) else {
                    continue;
                };
                for _ in 0..rng.below(6) {
                    change(&file, &mut rng);
                }
                drop(file);
                change_names(&volume, &paths, &mut rng);
            }
            if rng.below(4) == 0 {
                // As in a crash, but with everything that was stored.
                drop(volume);
            } else {
                volume.close().unwrap();
                check_closed(&mem.words(), &what);
                checked += 1;
            }
            if rng.below(4) == 0 {
                mem = damage_and_repair(&mem, &mut rng).unwrap_or(mem);
            }
        }
    }
    assert!(checked > 80, "{checked}");
}

/// Checks that a closed volume is sound for a check, a repair, and both kinds of opening.
fn check_closed(words: &[u64], what: &str) {
    assert_eq!(damage(words), [], "{what}");
    let mem = Mem::from_words(words.to_vec());
    assert!(fsck::repair(&mem).unwrap().is_sound(), "{what}");
    assert!(mem.words() == words, "{what}");
    let (volume, report) = open(&mem).unwrap();
    assert!(report.from_checkpoint, "{what}");
    let files = read_all(&volume, what);
    let (volume, report) = open_read_only(words);
    assert_eq!(report.findings, [], "{what}");
    assert!(read_all(&volume, what) == files, "{what}");
}

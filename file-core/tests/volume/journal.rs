//! The journal of changes that touch several directories: forged records, and regions that panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use spanlock_file_core::fsck::{self, Repair};
use spanlock_file_core::{Error, FormatOptions, OpenOptions};
use spanlock_journal_commit::compact::{Log, Options};
use spanlock_journal_commit::storage::PmemStorage;

use crate::common::{Mem, PAGE, Rng, Volume, content, format, open, reopen, scaled, segments};

/// The bytes of the journal, which follows two pages of inodes, and of the data area.
const START: u64 = 3 * PAGE;
const DATA: u64 = 7 * PAGE;
const PAGES: u64 = 64;

fn volume() -> Volume {
    let volume = format(PAGES, &FormatOptions::new().inodes(64));
    for directory in ["d", "e"] {
        volume.create_dir(directory).unwrap();
    }
    for path in ["d/a", "e/b", "c"] {
        let file = volume.create(path).unwrap();
        file.write_at(path.as_bytes(), 0).unwrap();
    }
    volume
}

/// Returns a copy of the volume whose journal has this record.
fn with_record(volume: &Volume, record: &[u8]) -> Vec<u64> {
    let mem = Mem::from_words(volume.pmem().words());
    let part = PmemStorage::part(&mem, START..DATA).unwrap();
    let log = Log::open_lazily(part, &Options::new().id(1)).unwrap();
    log.append_durable(record).unwrap();
    mem.words()
}

fn record(words: &[(u64, u64)]) -> Vec<u8> {
    let words = words.iter().flat_map(|it| [it.0, it.1]);
    words.flat_map(u64::to_le_bytes).collect()
}

#[test]
fn a_record_that_names_no_slot_is_damage() {
    let volume = volume();
    let last = (PAGES - 1) * PAGE;
    let out = [
        0,
        64,
        // The head of the root, and what is not the head of another inode.
        PAGE,
        PAGE + 128 + 8,
        PAGE + 128 + 64,
        START,
        DATA - 64,
        DATA + 8,
        DATA + 1,
        last,
        u64::MAX,
        !63,
    ];
    for at in out {
        for words in [vec![(at, 0)], vec![(DATA, 0), (at, 7)]] {
            let words = with_record(&volume, &record(&words));
            let mem = Mem::from_words(words.clone());
            let error = open(&mem).map(drop).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            assert!(error.to_string().contains("journal"), "{error}");
            assert!(mem.words() == words, "nothing is written");
        }
    }
    let odd = with_record(&volume, &[0; 15]);
    assert!(open(&Mem::from_words(odd)).is_err());
}

#[test]
fn a_record_of_the_words_that_are_there_changes_nothing() {
    let volume = volume();
    let at = DATA + 64;
    let word = volume.pmem().words()[at as usize / 8];
    let words = with_record(&volume, &record(&[(at, word)]));
    let (again, _) = open(&Mem::from_words(words)).unwrap();
    assert_eq!(again.list(), volume.list());
    // The journal is empty: opening writes nothing.
    let before = again.pmem().words();
    assert!(reopen(&again).pmem().words() == before);
    again.rename("c", "d/c").unwrap();
    assert!(reopen(&again).exists("d/c"));
}

#[test]
fn a_forged_journal_is_damage_or_a_volume() {
    let volume = volume();
    volume.rename("d/a", "e/a").unwrap();
    let mut opened = 0;
    for seed in 1..=scaled(2000) as u64 {
        let mut rng = Rng::new(seed);
        let mut words = match seed % 2 {
            0 => volume.pmem().words(),
            _ => {
                let page = DATA + rng.below(PAGES - 8) * PAGE;
                let at = page + rng.below(63) * 64;
                with_record(&volume, &record(&[(at, rng.next())]))
            }
        };
        for _ in 0..rng.below(4) {
            let at = START + 8 * rng.below((DATA - START) / 8);
            words[at as usize / 8] = rng.next();
        }
        match open(&Mem::from_words(words)) {
            Ok((volume, _)) => {
                opened += 1;
                // What a forged mark has damaged was found, so the rest works.
                let _ = volume.exchange("c", "e/b");
                reopen(&volume);
            }
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
        }
    }
    assert!(opened > 100, "{opened}");
}

/// Makes each operation on the region panic in turn, then uses the volume.
fn each_panic(act: fn(&Volume) -> Result<(), Error>) {
    for operation in 1.. {
        let volume = volume();
        let before = volume.list();
        volume.pmem().panic_at(operation);
        let result = catch_unwind(AssertUnwindSafe(|| act(&volume)));
        volume.pmem().panic_at(0);
        if let Ok(result) = result {
            result.unwrap();
            assert!(operation > 10, "it touched the region too few times");
            return;
        }
        assert_eq!(volume.list(), before, "{operation}");
        let found = reopen(&volume).list();
        assert_eq!(found.len(), 3, "{operation}: {found:?}");
        // Whatever the thread had stored, these refuse or leave what recovery finds.
        let _ = volume.rename("d/a", "a");
        for directory in ["d", "e"] {
            let _ = volume.remove_dir(directory);
        }
        if volume.create("new").is_ok() {
            let file = volume.open_file("new").unwrap();
            while file.append(&[7; 4096]).is_ok() {}
            assert_eq!(
                content(&reopen(&volume).open_file("new").unwrap()),
                content(&file)
            );
        }
        let again = reopen(&volume);
        for (path, _) in again.list() {
            again.open_file(&path).unwrap();
        }
        let moved = ["c", "e/x"][usize::from(!again.exists("c"))];
        // A panic before the first store poisons only one log, so "d" may be empty and removed.
        let to = ["moved", "d/moved"][usize::from(again.exists("d"))];
        again.rename(moved, to).unwrap();
        assert!(reopen(&again).exists(to));
    }
}

#[test]
fn a_panic_in_a_rename_across_directories_loses_nothing() {
    each_panic(|volume| volume.rename("d/a", "e/x"));
    each_panic(|volume| volume.rename("c", "e/x"));
}

#[test]
fn a_panic_in_an_exchange_loses_nothing() {
    each_panic(|volume| volume.exchange("d/a", "e/b"));
}

fn contents(volume: &Volume) -> Vec<(String, Vec<u8>)> {
    let names = volume.list().into_iter().map(|(name, _)| name);
    names
        .map(|name| (name.clone(), content(&volume.open_file(&name).unwrap())))
        .collect()
}

/// A crash while the journal is truncated can leave the record in one of its superblocks. The pages
/// that it names are then used for something else.
#[test]
fn a_record_of_an_older_superblock_is_never_redone() {
    for operation in 1.. {
        let volume = volume();
        volume.rename("c", "d/c").unwrap();
        volume.pmem().panic_at(operation);
        let result = catch_unwind(AssertUnwindSafe(|| volume.rename("d/a", "e/x")));
        volume.pmem().panic_at(0);
        let again = reopen(&volume);
        for (name, _) in again.list() {
            again.remove(&name).unwrap();
        }
        ["d", "e"]
            .iter()
            .for_each(|name| again.remove_dir(name).unwrap());
        again.clean().unwrap();
        let file = again.create("full").unwrap();
        while file.append(&[7; PAGE as usize]).is_ok() {}
        let expected = contents(&again);
        for superblock in [START, START + PAGE] {
            let mem = Mem::from_words(again.pmem().words());
            mem.flip((superblock as usize + 30) * 8);
            let (found, _) = open(&mem).unwrap();
            assert!(contents(&found) == expected, "{operation}, {superblock}");
        }
        if result.is_ok() {
            assert!(operation > 20, "it touched the region too few times");
            return;
        }
    }
}

/// Files and their sizes.
type Files = Vec<(String, u64)>;

fn list_read_only(mem: &Arc<Mem>) -> Files {
    let options = OpenOptions::new().read_only(true);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    let (volume, report) = Volume::open_with(Arc::clone(mem), &options, lock).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    volume.list()
}

/// Calls `each` with the bytes that each interruption of a change leaves, and with the names that
/// recovery finds in them.
fn each_interruption(mut each: impl FnMut(Vec<u64>, Files)) {
    type Act = fn(&Volume) -> Result<(), Error>;
    let acts: [Act; 3] = [
        |volume| volume.rename("d/a", "e/x"),
        |volume| volume.rename("d/a", "e/b"),
        |volume| volume.exchange("d/a", "c"),
    ];
    for act in acts {
        let mut seen = Vec::new();
        for operation in 1.. {
            let volume = volume();
            volume.pmem().panic_at(operation);
            let result = catch_unwind(AssertUnwindSafe(|| act(&volume)));
            volume.pmem().panic_at(0);
            if result.is_ok() {
                break;
            }
            let words = volume.pmem().words();
            let found = reopen(&volume).list();
            seen.push(found.clone());
            each(words, found);
        }
        seen.dedup();
        assert_eq!(seen.len(), 2, "the old names, then the new ones");
    }
}

#[test]
fn an_interrupted_change_is_read_as_if_it_were_complete() {
    each_interruption(|words, expected| {
        let mem = Mem::from_words(words.clone());
        assert_eq!(list_read_only(&mem), expected);
        let report = fsck::check(&*mem).unwrap();
        assert!(report.is_sound(), "{:?}", report.findings);
        assert!(fsck::repair(&*mem).unwrap().is_sound());
        assert!(mem.words() == words, "nothing is written");
    });
}

#[test]
fn a_repair_of_other_damage_completes_an_interrupted_change() {
    let mut count = 0;
    each_interruption(|mut words, expected| {
        // Damages the first superblock.
        words[1] ^= 1;
        let mem = Mem::from_words(words);
        let report = fsck::repair(&*mem).unwrap();
        assert!(
            !report.is_sound() && report.is_repaired(),
            "{:?}",
            report.findings
        );
        assert_eq!(list_read_only(&mem), expected);
        assert_eq!(open(&mem).unwrap().0.list(), expected);
        count += 1;
    });
    assert!(count > 30, "{count}");
}

#[test]
fn a_damaged_journal_is_found_and_emptied() {
    let volume = volume();
    let expected = volume.list();
    let mem = Mem::from_words(with_record(&volume, &record(&[(0, 0)])));
    let before = mem.words();
    assert!(open(&mem).is_err());
    let report = fsck::check(&*mem).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].repair, Repair::EmptyJournal);
    assert_eq!(report.findings[0].place.at, START);
    let options = OpenOptions::new().read_only(true);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    let (read_only, report) = Volume::open_with(Arc::clone(&mem), &options, lock).unwrap();
    assert_eq!(
        (read_only.list(), report.findings.len()),
        (expected.clone(), 1)
    );
    assert_eq!(read_only.exchange("c", "d/a"), Err(Error::ReadOnly));
    assert_eq!(read_only.rename("c", "d/c"), Err(Error::ReadOnly));
    drop(read_only);
    assert!(mem.words() == before, "nothing is written");

    assert!(fsck::repair(&*mem).unwrap().is_repaired());
    let journal = START as usize / 8..DATA as usize / 8;
    assert!(mem.words()[journal].iter().all(|word| *word == 0));
    let (volume, _) = open(&mem).unwrap();
    assert_eq!(volume.list(), expected);
    volume.rename("c", "d/c").unwrap();
    assert!(reopen(&volume).exists("d/c"));
}

#[test]
fn equal_operations_leave_equal_bytes() {
    let clock = || FormatOptions::new().inodes(64).clock(|| 0);
    let make = || {
        let volume = format(PAGES, &clock());
        volume.create_dir("d").unwrap();
        volume.create("a").unwrap();
        volume.rename("a", "d/b").unwrap();
        volume.create("a").unwrap();
        volume.exchange("a", "d/b").unwrap();
        volume.pmem().words()
    };
    assert!(make() == make());
}

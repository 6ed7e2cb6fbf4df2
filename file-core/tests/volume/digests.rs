//! Files whose logs change on the medium while they are not in memory. Their pages may belong to
//! other files then.

use std::sync::Arc;

use crate::changed::change;
use crate::common::{Mem, PAGE, Rng, Volume, content, format, open, segments};
use spanlock_file_core::{Error, FileCore, FormatOptions, OpenOptions};

/// The first bytes of the record of a checkpoint.
const RECORD: usize = 64;
const ONE_PAGE: usize = PAGE as usize;

/// Opens a volume in which no file stays in memory unless it is open.
fn open_caching_none(mem: &Arc<Mem>) -> Volume {
    let options = OpenOptions::new().cached_files(0);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    let opened = FileCore::open_with(Arc::clone(mem), &options, lock);
    opened.unwrap().0
}

/// Calls `act`, and returns the position of the mark that it stores, in words.
fn mark_of(volume: &Volume, act: impl FnOnce()) -> usize {
    let before = volume.pmem().words();
    act();
    let after = volume.pmem().words();
    let is_mark = |at: &usize| before[*at] == 0 && after[*at] >> 56 == 0x4D;
    let marks: Vec<_> = (0..before.len()).filter(is_mark).collect();
    assert_eq!(marks.len(), 1);
    marks[0]
}

/// A volume with the file "a", whose first page was written twice. Also returns the position of the
/// second mark.
fn written_twice() -> (Volume, usize) {
    let volume = format(64, &FormatOptions::new().inodes(32));
    let a = volume.create("a").unwrap();
    a.write_at(&[1; ONE_PAGE], 0).unwrap();
    let mark = mark_of(&volume, || a.write_at(&[2; ONE_PAGE], 0).unwrap());
    drop(a);
    (volume, mark)
}

/// Closes the volume, loses the mark at `mark`, and opens the volume again.
fn reopened_without(volume: Volume, mark: usize) -> Volume {
    let mem = Arc::clone(volume.pmem());
    volume.close().unwrap();
    let mut words = mem.words();
    words[mark] = 0;
    let (volume, report) = open(&Mem::from_words(words)).unwrap();
    assert!(report.from_checkpoint);
    volume
}

/// Checks that the file "a" is refused, by its inode, and that nothing is freed when it is removed.
#[track_caller]
fn assert_refuses_a(volume: &Volume) {
    let free = volume.stats().pages_free;
    for _ in 0..2 {
        let error = volume.open_file("a").unwrap_err();
        let Error::Corrupt { what, place } = &error else {
            panic!("{error}");
        };
        assert!(what.contains("changed"), "{error}");
        assert_eq!(place.inode, Some(1), "{error}");
    }
    volume.remove("a").unwrap();
    assert_eq!(volume.stats().pages_free, free);
}

/// Fills the volume with files, and checks that they and those in `files` keep their content, also
/// when all logs are read.
#[track_caller]
fn assert_goes_on(volume: &Volume, files: &[(&str, u8)]) {
    let mut files: Vec<_> = (files.iter())
        .map(|(name, byte)| ((*name).to_owned(), *byte))
        .collect();
    for byte in 100..=u8::MAX {
        let name = format!("file {byte}");
        let Ok(file) = volume.create(&name) else {
            break;
        };
        if file.write_at(&[byte; ONE_PAGE], 0).is_err() {
            drop(file);
            volume.remove(&name).unwrap();
            break;
        }
        files.push((name, byte));
    }
    assert!(files.len() > 10);
    let (again, report) = open(&Mem::from_words(volume.pmem().words())).unwrap();
    assert!(!report.from_checkpoint);
    for volume in [volume, &again] {
        for (name, byte) in &files {
            let content = content(&volume.open_file(name).unwrap());
            assert!(content == [*byte; ONE_PAGE], "{name}");
        }
    }
}

/// Closes the volume, erases the mark, and opens it: "a" is refused, and the rest goes on.
fn assert_refuses_a_without(volume: Volume, mark: usize, others: &[(&str, u8)]) {
    let volume = reopened_without(volume, mark);
    assert_refuses_a(&volume);
    assert_goes_on(&volume, others);
}

#[test]
fn a_file_that_lost_a_mark_does_not_take_a_page_of_another_file() {
    let (volume, mark) = written_twice();
    let b = volume.create("b").unwrap();
    // It takes the page that the second write to "a" has freed.
    b.write_at(&[7; ONE_PAGE], 0).unwrap();
    drop(b);
    assert_refuses_a_without(volume, mark, &[("b", 7)]);
}

#[test]
fn a_file_that_lost_a_mark_does_not_take_a_free_page() {
    let (volume, mark) = written_twice();
    assert_refuses_a_without(volume, mark, &[]);
}

#[test]
fn a_file_that_lost_a_mark_does_not_have_a_page_twice() {
    let (volume, mark) = written_twice();
    let a = volume.open_file("a").unwrap();
    // One of these takes the page that the second write has freed.
    for page in 1..6 {
        a.write_at(&[3; ONE_PAGE], page * PAGE).unwrap();
    }
    drop(a);
    assert_refuses_a_without(volume, mark, &[]);
}

#[test]
fn a_file_that_is_refused_stays_refused_in_the_next_checkpoint() {
    let (volume, mark) = written_twice();
    let volume = reopened_without(volume, mark);
    volume.open_file("a").unwrap_err();
    let mem = Arc::clone(volume.pmem());
    volume.close().unwrap();
    let (volume, report) = open(&mem).unwrap();
    assert!(report.from_checkpoint);
    assert_refuses_a(&volume);
    assert_goes_on(&volume, &[]);
}

/// The pointer to the second page of a log becomes zero, which ends the log early.
#[test]
fn a_file_that_lost_a_page_of_its_log_is_refused() {
    let volume = format(64, &FormatOptions::new().inodes(32));
    let a = volume.create("a").unwrap();
    for byte in 0..63 {
        a.write_at(&[byte; 8], 0).unwrap();
    }
    let before = volume.pmem().words();
    a.write_at(&[63; 8], 0).unwrap();
    let after = volume.pmem().words();
    let is_next = |at: &usize| at % 512 == 504 && before[*at] == 0 && after[*at] != 0;
    let next: Vec<_> = (0..before.len()).filter(is_next).collect();
    assert_eq!(next.len(), 1);
    drop(a);
    let volume = reopened_without(volume, next[0]);
    assert_refuses_a(&volume);
    assert_goes_on(&volume, &[]);
}

#[test]
fn a_file_whose_log_changes_after_it_left_memory_is_refused() {
    let (volume, _) = written_twice();
    volume.create("other").unwrap();
    let volume = open_caching_none(volume.pmem());
    let a = volume.open_file("a").unwrap();
    let mark = mark_of(&volume, || a.write_at(&[3; ONE_PAGE], 0).unwrap());
    drop(a);
    // The openings evict "a", which memory does not know any more.
    for _ in 0..3 {
        volume.open_file("other").unwrap();
    }
    let flip = |bits: u64| {
        let is_set = |bit: &usize| bits >> bit & 1 == 1;
        let bits = (0..64).filter(is_set);
        bits.for_each(|bit| volume.pmem().flip(mark * 64 + bit));
    };
    let word = volume.pmem().words()[mark];
    flip(word);
    assert_eq!(volume.pmem().words()[mark], 0);
    let error = volume.open_file("a").unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    // The error is not remembered.
    flip(word);
    assert_eq!(content(&volume.open_file("a").unwrap()), [3; ONE_PAGE]);
    for _ in 0..3 {
        volume.open_file("other").unwrap();
    }
    flip(word);
    assert_refuses_a(&volume);
    volume.remove("other").unwrap();
    assert_goes_on(&volume, &[]);
}

/// A file that another thread evicts cannot be opened before its digest is known.
#[test]
fn threads_may_evict_open_and_remove_the_same_files() {
    const FILES: u64 = 3;
    let volume = format(2000, &FormatOptions::new().inodes(32));
    let volume = open_caching_none(volume.pmem());
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (volume, mut rng) = (&volume, Rng::new(seed));
            scope.spawn(move || {
                for _ in 0..2000 {
                    let name = format!("file {}", rng.below(FILES));
                    if rng.below(20) == 0 {
                        // Another thread may have removed it.
                        let removed = volume.remove(&name);
                        let is_gone = matches!(removed, Ok(()) | Err(Error::NotFound { .. }));
                        assert!(is_gone, "{removed:?}");
                        continue;
                    }
                    let file = volume.open_or_create(&name).unwrap();
                    file.write_at(&[1; 10], rng.below(100) * PAGE).unwrap();
                }
            });
        }
    });
    let (again, _) = open(&Mem::from_words(volume.pmem().words())).unwrap();
    assert_eq!(again.list(), volume.list());
    assert_eq!(again.stats().pages_free, volume.stats().pages_free);
    for (name, _) in volume.list() {
        let [one, other] = [&volume, &again].map(|it| content(&it.open_file(&name).unwrap()));
        assert!(one == other, "{name}");
    }
}

/// A checkpoint of an earlier layout had no digests, and another mark.
#[test]
fn a_checkpoint_of_an_earlier_layout_is_not_used() {
    let (volume, _) = written_twice();
    let mem = Arc::clone(volume.pmem());
    volume.close().unwrap();
    let mut bytes = mem.bytes();
    assert_eq!(&bytes[RECORD + 4..RECORD + 8], b"CLS2");
    bytes[RECORD + 4..RECORD + 8].copy_from_slice(b"CLSD");
    let (volume, report) = open(&Mem::from_bytes(&bytes)).unwrap();
    assert!(!report.from_checkpoint);
    assert_eq!(content(&volume.open_file("a").unwrap()), [2; ONE_PAGE]);
}

/// The digest of a file in memory must be that of its log, whatever the file's history. Otherwise a
/// sound file would be refused.
#[test]
fn sound_files_are_never_refused() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let checksums = seed % 2 == 0;
        let options = FormatOptions::new().inodes(32).data_checksums(checksums);
        let mem = Arc::clone(format(500, &options).pmem());
        for session in 0..6 {
            let volume = match rng.below(2) {
                0 => open_caching_none(&mem),
                _ => open(&mem).unwrap().0,
            };
            for _ in 0..rng.below(150) {
                let name = format!("file {}", rng.below(6));
                // It is loaded, and evicts others.
                let Ok(file) = volume.open_or_create(&name) else {
                    continue;
                };
                for _ in 0..rng.below(8) {
                    change(&file, &mut rng);
                }
                drop(file);
                match rng.below(60) {
                    0 => drop(volume.remove(&name)),
                    1 => drop(volume.clean().unwrap()),
                    _ => {}
                }
            }
            if rng.below(3) > 0 {
                volume.close().unwrap();
                let copy = Mem::from_bytes(&mem.bytes());
                let (closed, report) = open(&copy).unwrap();
                assert!(report.from_checkpoint, "seed {seed}, session {session}");
                let unclosed = Mem::from_bytes(&copy.bytes());
                let (scanned, report) = open(&unclosed).unwrap();
                assert!(!report.from_checkpoint, "seed {seed}, session {session}");
                for (name, _) in closed.list() {
                    let [one, other] = [&closed, &scanned].map(|it| {
                        let file = it.open_file(&name);
                        content(&file.unwrap_or_else(|why| panic!("seed {seed}: {why}")))
                    });
                    assert!(one == other, "seed {seed}, session {session}, {name}");
                }
            }
        }
    }
}

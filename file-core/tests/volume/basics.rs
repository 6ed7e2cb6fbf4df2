//! Each operation of a volume, on one thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::common::{Mem, PAGE, content, format, open, reopen};
use spanlock_file_core::{Error, FormatOptions, MAX_NAME_BYTES, MAX_WRITE_BYTES, Volume};
use spanlock_range_lock::{RangeError, RwCounter};

fn options() -> FormatOptions {
    FormatOptions::new()
}

#[test]
fn a_read_returns_the_last_write() {
    let volume = format(256, &options());
    let file = volume.create("a").unwrap();
    assert_eq!(file.size(), 0);
    assert_eq!(file.read_at(&mut [0; 8], 0), Ok(0));
    file.write_at(b"hello world", 0).unwrap();
    file.write_at(b"WORLD", 6).unwrap();
    assert_eq!(content(&file), b"hello WORLD");
    let mut tail = [9; 8];
    assert_eq!(file.read_at(&mut tail, 6), Ok(5));
    assert_eq!(&tail, b"WORLD\x09\x09\x09");
    assert_eq!(file.read_at(&mut tail, 11), Ok(0));
    assert_eq!(file.read_at(&mut tail, u64::MAX), Ok(0));
    assert_eq!(
        content(&reopen(&volume).open_file("a").unwrap()),
        b"hello WORLD"
    );
}

#[test]
fn writes_around_page_borders_match_a_model() {
    let volume = format(512, &options());
    let near = [
        0,
        1,
        8,
        PAGE - 1,
        PAGE,
        PAGE + 1,
        2 * PAGE - 5,
        2 * PAGE,
        3 * PAGE + 7,
    ];
    for (i, offset) in near.into_iter().enumerate() {
        for (j, len) in near.into_iter().enumerate() {
            let name = format!("{offset}+{len}");
            let file = volume.create(&name).unwrap();
            let mut model = vec![7_u8; 2 * PAGE as usize + 100];
            file.write_at(&model, 0).unwrap();
            let data: Vec<u8> = (0..len)
                .map(|b| (b + i as u64 * 16 + j as u64) as u8)
                .collect();
            file.write_at(&data, offset).unwrap();
            if len > 0 {
                model.resize(model.len().max((offset + len) as usize), 0);
                model[offset as usize..][..len as usize].copy_from_slice(&data);
            }
            assert_eq!(content(&file), model, "{name}");
            assert_eq!(
                content(&reopen(&volume).open_file(&name).unwrap()),
                model,
                "{name} reopened"
            );
            drop(file);
            volume.remove(&name).unwrap();
        }
    }
    assert_eq!(
        volume.stats().pages_free + volume.stats().log_pages,
        volume.stats().pages_total
    );
}

#[test]
fn holes_read_as_zeros() {
    let volume = format(64, &options().max_file_size(1 << 40));
    let file = volume.create("sparse").unwrap();
    file.write_at(b"x", (1 << 40) - 1).unwrap();
    file.write_at(b"y", 5 * PAGE + 3).unwrap();
    assert_eq!(file.size(), 1 << 40);
    let mut bytes = [1; 2 * PAGE as usize];
    assert_eq!(file.read_at(&mut bytes, 4 * PAGE), Ok(bytes.len()));
    assert!(
        bytes
            .iter()
            .enumerate()
            .all(|(i, &b)| b == if i as u64 == PAGE + 3 { b'y' } else { 0 })
    );
    let volume = reopen(&volume);
    assert_eq!(volume.list(), [("sparse".to_owned(), 1 << 40)]);
}

#[test]
fn appends_follow_each_other() {
    let volume = format(64, &options());
    let file = volume.create("log").unwrap();
    let mut model = Vec::new();
    for i in 0..100_u8 {
        assert_eq!(file.append(&vec![i; i as usize]), Ok(model.len() as u64));
        model.extend(vec![i; i as usize]);
    }
    assert_eq!(content(&file), model);
}

#[test]
fn names_can_be_created_removed_and_reused() {
    let volume = format(64, &options());
    let a = volume.create("a").unwrap();
    assert_eq!(
        volume.create("a").unwrap_err(),
        Error::Exists { name: "a".into() }
    );
    assert_eq!(
        volume.open_file("b").unwrap_err(),
        Error::NotFound { name: "b".into() }
    );
    volume
        .open_or_create("b")
        .unwrap()
        .write_at(b"bb", 0)
        .unwrap();
    a.write_at(b"a", 0).unwrap();
    assert_eq!(content(&volume.open_or_create("a").unwrap()), b"a");
    assert_eq!(volume.list(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    assert!(volume.exists("b") && !volume.exists("c"));
    volume.remove("b").unwrap();
    assert_eq!(
        volume.remove("b"),
        Err(Error::NotFound { name: "b".into() })
    );
    assert_eq!(volume.list(), [("a".to_owned(), 1)]);
    assert_eq!(reopen(&volume).list(), [("a".to_owned(), 1)]);
}

#[test]
fn a_removed_file_lives_as_long_as_its_handles() {
    let volume = format(64, &options());
    let before = volume.stats();
    let file = volume.create("a").unwrap();
    let again = file.clone();
    file.write_at(&[1; 3 * PAGE as usize], 0).unwrap();
    volume.remove("a").unwrap();
    assert!(!volume.exists("a"));
    let other = volume.create("a").unwrap();
    other.write_at(b"other", 0).unwrap();
    file.write_at(b"still here", 0).unwrap();
    assert_eq!(&content(&again)[..11], b"still here\x01");
    assert_eq!(content(&other), b"other");
    // A crash now completes the removal.
    let reopened = reopen(&volume);
    assert_eq!(reopened.list(), [("a".to_owned(), 5)]);
    assert_eq!(reopened.stats().inodes_free, before.inodes_free - 1);
    drop((file, again));
    let after = volume.stats();
    assert_eq!(after.inodes_free, before.inodes_free - 1);
    assert_eq!(after.pages_free, reopened.stats().pages_free);
}

#[test]
fn exceeding_a_limit_is_an_error() {
    let volume = format(64, &options().max_file_size(10 * PAGE - 5).inodes(2));
    assert_eq!(volume.max_file_size(), 10 * PAGE);
    let file = volume.create("a").unwrap();
    let max = 10 * PAGE;
    file.write_at(b"x", max - 1).unwrap();
    for offset in [max, u64::MAX, u64::MAX - 1] {
        let error = file.write_at(b"x", offset).unwrap_err();
        assert_eq!(
            error,
            Error::FileTooLarge {
                offset,
                len: 1,
                max
            }
        );
    }
    assert_eq!(
        file.append(b"x"),
        Err(Error::FileTooLarge {
            offset: max,
            len: 1,
            max
        })
    );
    assert_eq!(file.write_at(&[], u64::MAX), Ok(()));
    for name in ["", "nul\0"] {
        assert!(matches!(
            volume.create(name),
            Err(Error::NameInvalid { .. })
        ));
    }
    let long = "n".repeat(MAX_NAME_BYTES + 1);
    let error = Error::NameTooLong {
        path: long.clone(),
        len: MAX_NAME_BYTES + 1,
        max: MAX_NAME_BYTES,
    };
    assert_eq!(volume.create(&long).unwrap_err(), error);
    for i in 1..31 {
        volume.create(&i.to_string()).unwrap();
    }
    assert_eq!(
        volume.create("one more").unwrap_err(),
        Error::NoInodes { total: 31 }
    );
    volume.remove("7").unwrap();
    volume.create("one more").unwrap();
}

#[test]
fn a_write_longer_than_the_volume_is_an_error() {
    let volume = format(64, &options().max_file_size(1 << 40));
    let file = volume.create("a").unwrap();
    let data = vec![0; (1 << 20) + 1];
    // The same bytes again and again, so that this test needs little memory.
    let bufs = vec![std::io::IoSlice::new(&data); 1 << 10];
    let error = file.write_vectored_at(&bufs, 0).unwrap_err();
    assert!(
        matches!(
            error,
            Error::NoSpace {
                needed: 262_145,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(file.size(), 0);
    const { assert!(MAX_WRITE_BYTES > 1 << 38) };
}

#[test]
fn a_lock_that_is_too_small_is_an_error() {
    struct Small;
    // SAFETY: it never grants a range.
    unsafe impl spanlock_range_lock::RawRangeLock for Small {
        fn capacity(&self) -> u64 {
            0
        }
        fn lock(
            &self,
            span: spanlock_range_lock::Span,
            _: spanlock_range_lock::Access,
        ) -> Result<spanlock_range_lock::Token, RangeError> {
            Err(RangeError::PastCapacity {
                start: span.start(),
                end: span.end(),
                capacity: 0,
            })
        }
        fn try_lock(
            &self,
            span: spanlock_range_lock::Span,
            access: spanlock_range_lock::Access,
        ) -> Result<spanlock_range_lock::Token, spanlock_range_lock::TryLockError> {
            Ok(self.lock(span, access)?)
        }
        unsafe fn unlock(
            &self,
            _: spanlock_range_lock::Span,
            _: spanlock_range_lock::Access,
            _: spanlock_range_lock::Token,
        ) {
        }
    }
    let volume = Volume::format(Mem::new(1 << 20), &options(), |_| Small).unwrap();
    let file = volume.create("a").unwrap();
    let wanted = RangeError::PastCapacity {
        start: 0,
        end: PAGE,
        capacity: 0,
    };
    assert_eq!(file.write_at(b"x", 5), Err(Error::Lock(wanted)));
    // The directory's log has a page; the failed write has none.
    assert_eq!(volume.stats().pages_free, volume.stats().pages_total - 1);
}

#[test]
fn a_failed_lock_creation_is_an_error() {
    let refusing = Arc::new(AtomicBool::new(false));
    let factory = || {
        let refusing = Arc::clone(&refusing);
        move |_| match refusing.load(Ordering::Relaxed) {
            true => Err("no memory for it"),
            false => Ok(RwCounter::new()),
        }
    };
    let mem = Mem::new(1 << 20);
    let volume = Volume::try_format(mem.clone(), &options(), factory()).unwrap();
    volume.create("a").unwrap().write_at(b"a", 0).unwrap();
    let (words, stats) = (mem.words(), volume.stats());
    refusing.store(true, Ordering::Relaxed);
    let refused = |name: &str| Error::NoLock {
        name: name.to_owned(),
        capacity: 1 << 20,
        why: "no memory for it".to_owned(),
    };
    assert_eq!(volume.create("b").unwrap_err(), refused("b"));
    assert_eq!(volume.open_or_create("b").unwrap_err(), refused("b"));
    // Opening a volume creates no lock, but opening a file does.
    let (opened, _) = Volume::try_open(mem.clone(), factory()).unwrap();
    assert_eq!(opened.open_file("a").unwrap_err(), refused("a"));
    drop(opened);
    assert!(mem.words() == words);
    assert_eq!(volume.stats(), stats);
    // An existing file needs no new lock.
    assert!(matches!(volume.create("a"), Err(Error::Exists { .. })));
    volume.open_or_create("a").unwrap().append(b"b").unwrap();
    refusing.store(false, Ordering::Relaxed);
    volume.create("b").unwrap();
    let (volume, _) = Volume::try_open(mem, factory()).unwrap();
    assert_eq!(volume.list(), [("a".to_owned(), 2), ("b".to_owned(), 0)]);
}

#[test]
fn a_lock_factory_may_use_the_volume() {
    let shared: Arc<OnceLock<Volume<Arc<Mem>, RwCounter>>> = Arc::default();
    let meanwhile: Arc<Mutex<Option<&str>>> = Arc::default();
    let factory = {
        let (shared, meanwhile) = (Arc::clone(&shared), Arc::clone(&meanwhile));
        move |_| {
            let name = meanwhile.lock().unwrap().take();
            if let (Some(volume), Some(name)) = (shared.get(), name) {
                volume.create(name).unwrap().write_at(b"first", 0).unwrap();
            }
            RwCounter::new()
        }
    };
    let volume = Volume::format(Mem::new(1 << 20), &options(), factory).unwrap();
    shared.set(volume.clone()).unwrap();
    // Another thread has then created the file by the time its lock exists.
    *meanwhile.lock().unwrap() = Some("a");
    assert!(matches!(volume.create("a"), Err(Error::Exists { .. })));
    *meanwhile.lock().unwrap() = Some("b");
    assert_eq!(volume.open_or_create("b").unwrap().size(), 5);
    let wanted = [("a".to_owned(), 5), ("b".to_owned(), 5)];
    assert_eq!(volume.list(), wanted);
    let (reopened, _) = Volume::open(volume.pmem().clone(), |_| RwCounter::new()).unwrap();
    assert_eq!(reopened.list(), wanted);
    assert_eq!(reopened.stats(), volume.stats());
}

/// The pages past such a size begin at 2^32, which 32 bits do not hold.
#[test]
fn a_truncation_to_the_largest_size_loses_nothing() {
    for size in [1_u64 << 44, (1 << 44) - 1, (1 << 44) - PAGE] {
        let mem = Mem::new(64 * PAGE);
        let options = options().max_file_size(1 << 44);
        let volume = Volume::format(mem.clone(), &options, |_| RwCounter::new()).unwrap();
        let file = volume.create("a").unwrap();
        file.write_at(b"precious", 0).unwrap();
        file.truncate(size).unwrap();
        let (again, _) = Volume::open(mem, |_| RwCounter::new()).unwrap();
        let mut found = [0; 8];
        again
            .open_file("a")
            .unwrap()
            .read_at(&mut found, 0)
            .unwrap();
        assert_eq!(&found, b"precious");
        assert_eq!(again.stats(), volume.stats());
    }
}

#[test]
fn the_last_page_of_the_largest_file_works() {
    let max = 1 << 44;
    let mem = Mem::new(64 * PAGE);
    let options = options().max_file_size(max);
    let volume = Volume::format(mem.clone(), &options, |_| RwCounter::new()).unwrap();
    let file = volume.create("a").unwrap();
    file.write_at(b"xy", max - 2).unwrap();
    file.write_at(b"z", max - 1).unwrap();
    assert_eq!(file.size(), max);
    let mut read = [9; 4];
    assert_eq!(file.read_at(&mut read, max - 2), Ok(2));
    assert_eq!(&read, b"xz\x09\x09");
    for result in [file.write_at(b"zz", max - 1), file.append(b"z").map(drop)] {
        assert!(
            matches!(result, Err(Error::FileTooLarge { .. })),
            "{result:?}"
        );
    }
    let many = volume.create("b").unwrap();
    many.write_at(&[7; 3 * PAGE as usize], max - 3 * PAGE)
        .unwrap();

    let (volume, _) = Volume::open(mem, |_| RwCounter::new()).unwrap();
    for (name, wanted) in [("a", *b"\0xz"), ("b", [7; 3])] {
        let file = volume.open_file(name).unwrap();
        let mut read = [9; 3];
        assert_eq!(file.read_at(&mut read, max - 3), Ok(3));
        assert_eq!(read, wanted, "{name}");
    }
    // Writing a new page is growth, so it may not use the reserve for overwrites.
    let hog = volume.create("hog").unwrap();
    while hog.append(&[9; PAGE as usize]).is_ok() {}
    for offset in [hog.size(), max - 1] {
        let result = hog.write_at(b"x", offset);
        assert!(
            matches!(result, Err(Error::NoSpace { .. })),
            "{offset}: {result:?}"
        );
    }
    volume
        .open_file("a")
        .unwrap()
        .write_at(b"w", max - 1)
        .unwrap();
}

#[test]
fn impossible_format_options_are_errors() {
    let make = |len, options: &FormatOptions| {
        Volume::format(Mem::new(len), options, |_| RwCounter::new())
            .map(drop)
            .unwrap_err()
    };
    for error in [
        make(15 * PAGE, &options()),
        make(16 * PAGE, &options().inodes(1000)),
        make(16 * PAGE, &options().max_file_size(0)),
        make(16 * PAGE, &options().max_file_size(u64::MAX)),
    ] {
        assert!(matches!(error, Error::BadFormat { .. }), "{error}");
    }
    let smallest = format(16, &options());
    smallest
        .create("a")
        .unwrap()
        .write_at(&[1; PAGE as usize], 0)
        .unwrap();
    assert_eq!(reopen(&smallest).list(), [("a".to_owned(), PAGE)]);
}

#[test]
fn a_volume_can_be_reformatted() {
    let volume = format(64, &options());
    volume.create("old").unwrap().write_at(b"old", 0).unwrap();
    let mem = volume.pmem().clone();
    let volume = Volume::format(mem.clone(), &options(), crate::common::segments).unwrap();
    assert_eq!(volume.list(), []);
    let (volume, report) = open(&mem).unwrap();
    assert_eq!(
        (volume.list().len(), report.files, report.committed_groups),
        (0, 0, 0)
    );
}

#[test]
fn the_recovery_report_counts_groups_slots_and_pages() {
    let volume = format(128, &options());
    for i in 0..10 {
        let file = volume.create(&i.to_string()).unwrap();
        file.write_at(&[i; 2 * PAGE as usize], 0).unwrap();
    }
    volume.remove("3").unwrap();
    let (reopened, report) = open(&Mem::from_bytes(&volume.pmem().bytes())).unwrap();
    assert_eq!((report.files, report.inodes), (9, 64));
    assert_eq!(report.committed_groups, 9 + 9);
    assert_eq!((report.log_pages, report.pages_used), (10, 28));
    // The removed name.
    assert_eq!(
        (report.uncommitted_slots, report.superblock_repaired),
        (1, false)
    );
    assert_eq!(reopened.stats(), volume.stats());
}

#[test]
fn a_check_finds_flipped_data() {
    let volume = format(64, &options().data_checksums(true));
    let file = volume.create("a").unwrap();
    file.write_at(&[5; 3 * PAGE as usize], 100).unwrap();
    file.write_at(&[6; PAGE as usize], PAGE).unwrap();
    let report = volume.check().unwrap();
    assert_eq!(
        (report.files, report.pages, report.damaged.len()),
        (1, 4, 0)
    );
    let mut bytes = volume.pmem().bytes();
    let at = bytes.windows(64).position(|it| it == [6; 64]).unwrap();
    bytes[at + 77] ^= 4;
    let (volume, _) = open(&Mem::from_bytes(&bytes)).unwrap();
    let damaged = volume.check().unwrap().damaged;
    assert_eq!(damaged.len(), 1);
    assert_eq!(
        (damaged[0].name.as_str(), damaged[0].offset, damaged[0].at),
        ("a", PAGE, at as u64)
    );

    let volume = format(64, &options().data_checksums(false));
    volume.create("a").unwrap().write_at(&[5; 999], 0).unwrap();
    assert_eq!(volume.check().unwrap().pages, 0);
    assert_eq!(content(&reopen(&volume).open_file("a").unwrap()), [5; 999]);
}

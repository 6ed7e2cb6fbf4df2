//! Operations on a file besides plain reads and writes: sizes, holes, appends, buffers, times.

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{Mem, PAGE, Volume, content, format, lock_kinds, open, reopen, segments};
use spanlock_file_core::{Error, FormatOptions, OpenOptions};

/// Checks that memory and another recovery agree in content, size and free space.
fn assert_recovers(volume: &Volume, name: &str, expected: &[u8]) {
    let again = reopen(volume);
    for volume in [volume, &again] {
        assert_eq!(content(&volume.open_file(name).unwrap()), expected);
    }
    assert_eq!(again.stats().pages_free, volume.stats().pages_free);
    assert!(again.check().unwrap().damaged.is_empty());
}

#[test]
fn truncating_cuts_frees_and_grows_with_zeros() {
    for checksums in [false, true] {
        let volume = format(200, &FormatOptions::new().data_checksums(checksums));
        let file = volume.create("a").unwrap();
        let mut expected = vec![7; 10 * PAGE as usize + 5];
        file.write_at(&expected, 0).unwrap();
        let sizes = [
            9 * PAGE,
            3 * PAGE + 9,
            3 * PAGE + 20,
            8 * PAGE,
            1,
            5000,
            0,
            0,
            77,
        ];
        for size in sizes {
            let before = volume.stats().pages_free;
            let pages = expected.len().div_ceil(PAGE as usize) as u64;
            file.truncate(size).unwrap();
            expected.resize(size as usize, 0);
            assert_recovers(&volume, "a", &expected);
            assert!(volume.stats().pages_free >= before || pages * PAGE < size);
        }
        file.write_at(b"end", 9000).unwrap();
        expected.resize(9000, 0);
        expected.extend(b"end");
        assert_recovers(&volume, "a", &expected);
    }
}

#[test]
fn truncating_everything_gives_the_space_back() {
    let volume = format(200, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    file.write_at(b"x", 0).unwrap();
    let before = volume.stats().pages_free;
    file.write_at(&vec![1; 100 * PAGE as usize], 0).unwrap();
    file.truncate(0).unwrap();
    assert_eq!(volume.stats().pages_free, before + 1);
}

#[test]
fn a_size_past_the_largest_is_refused_and_the_largest_is_not() {
    let options = FormatOptions::new().max_file_size(16 * PAGE);
    let volume = format(64, &options);
    let file = volume.create("a").unwrap();
    let error = file.truncate(16 * PAGE + 1).unwrap_err();
    assert!(matches!(error, Error::FileTooLarge { .. }), "{error}");
    file.truncate(16 * PAGE).unwrap();
    assert_recovers(&volume, "a", &[0; 16 * PAGE as usize]);
    assert!(file.allocate(0..16 * PAGE + 1).is_err());
    file.punch_hole(0..u64::MAX).unwrap();
    file.punch_hole(u64::MAX - 1..u64::MAX).unwrap();
}

#[test]
fn holes_read_as_zeros_and_free_whole_pages() {
    for checksums in [false, true] {
        let volume = format(200, &FormatOptions::new().data_checksums(checksums));
        let file = volume.create("a").unwrap();
        let mut expected = vec![7; 8 * PAGE as usize + 100];
        file.write_at(&expected, 0).unwrap();
        let free = volume.stats().pages_free;
        let ranges = [
            (PAGE, 2 * PAGE, 1),
            (5, 10, 1),
            (PAGE / 2, 3 * PAGE + 9, 2),
            (4 * PAGE, 4 * PAGE + 1, 2),
            (7 * PAGE + 1, 20 * PAGE, 3),
            (30 * PAGE + 1, 31 * PAGE, 3),
            (3, 3, 3),
        ];
        for (start, end, freed) in ranges {
            file.punch_hole(start..end).unwrap();
            let size = expected.len();
            expected[size.min(start as usize)..size.min(end as usize)].fill(0);
            assert_recovers(&volume, "a", &expected);
            assert_eq!(volume.stats().pages_free, free + freed, "{start}..{end}");
        }
        file.write_at(b"again", PAGE + 1).unwrap();
        expected[PAGE as usize + 1..][..5].copy_from_slice(b"again");
        assert_recovers(&volume, "a", &expected);
    }
}

#[test]
#[allow(clippy::reversed_empty_ranges, reason = "they are the subject")]
fn reversed_ranges_are_errors() {
    let volume = format(64, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    assert!(matches!(file.punch_hole(9..8), Err(Error::Lock(_))));
    let max = volume.max_file_size();
    let modified = file.metadata().modified;
    for past in [max + 1, max + PAGE + 1, u64::MAX] {
        assert_eq!(file.punch_hole(past..past), Ok(()));
        assert!(matches!(file.punch_hole(past..max), Err(Error::Lock(_))));
    }
    assert_eq!(file.metadata().modified, modified);
    assert!(matches!(file.allocate(9..8), Err(Error::Lock(_))));
}

#[test]
fn allocating_fills_holes_and_keeps_bytes() {
    for checksums in [false, true] {
        let volume = format(200, &FormatOptions::new().data_checksums(checksums));
        let file = volume.create("a").unwrap();
        file.write_at(&[9; PAGE as usize], 2 * PAGE).unwrap();
        file.write_at(&[8; 10], 4 * PAGE).unwrap();
        let mut expected = content(&file);
        let free = volume.stats().pages_free;
        file.allocate_keeping_size(PAGE..9 * PAGE).unwrap();
        assert_eq!(volume.stats().pages_free, free - 6);
        assert_recovers(&volume, "a", &expected);
        file.allocate(0..5 * PAGE + 1).unwrap();
        assert_eq!(volume.stats().pages_free, free - 7);
        expected.resize(5 * PAGE as usize + 1, 0);
        assert_recovers(&volume, "a", &expected);
        // A second time, there is nothing to do.
        file.allocate(0..5 * PAGE + 1).unwrap();
        file.truncate(6 * PAGE).unwrap();
        assert_eq!(volume.stats().pages_free, free - 4);
        file.truncate(0).unwrap();
        assert_recovers(&volume, "a", &[]);
        let error = file.allocate(0..199 * PAGE).unwrap_err();
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    }
}

#[test]
fn allocated_pages_past_the_end_survive_cleanings_of_the_log() {
    let volume = format(200, &FormatOptions::new().data_checksums(true));
    let file = volume.create("a").unwrap();
    file.write_at(&[1; 100], 0).unwrap();
    file.allocate_keeping_size(0..9 * PAGE).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1 << 33))
        .unwrap();
    let mut seed = fastrand::Rng::with_seed(5);
    while volume.stats().compactions < 3 {
        file.write_at(&[seed.u8(..); 9], seed.u64(..90)).unwrap();
        if seed.u8(..) < 9 {
            file.truncate(100).unwrap();
            file.allocate_keeping_size(0..9 * PAGE).unwrap();
        }
    }
    assert_recovers(&volume, "a", &content(&file));
    let again = reopen(&volume).open_file("a").unwrap();
    assert_eq!(again.metadata(), file.metadata());
    assert_eq!(again.size(), 100);
}

#[test]
fn truncating_and_punching_work_on_a_full_volume() {
    let volume = format(64, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    while file.append(&[3; PAGE as usize]).is_ok() {}
    let size = file.size();
    file.punch_hole(1..PAGE - 1).unwrap();
    file.punch_hole(PAGE + 1..3 * PAGE - 1).unwrap();
    file.truncate(size - 7).unwrap();
    file.truncate(PAGE).unwrap();
    file.append(&vec![4; size as usize - 2 * PAGE as usize])
        .unwrap();
    assert_recovers(&volume, "a", &content(&file));
}

#[test]
fn appends_of_several_threads_and_a_truncation_never_overlap() {
    for (name, lock) in lock_kinds() {
        let region = Mem::new(2000 * PAGE);
        let volume = Volume::format(region, &FormatOptions::new(), lock).unwrap();
        let file = volume.create("a").unwrap();
        let starts: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u8)
                .map(|thread| {
                    let file = file.clone();
                    scope.spawn(move || {
                        let append = |_| file.append(&[thread + 1; 3000]).unwrap();
                        (0..40).map(append).collect::<Vec<_>>()
                    })
                })
                .collect();
            let done = threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap());
            done.collect()
        });
        let mut starts = starts;
        starts.sort_unstable();
        let expected: Vec<u64> = (0..160).map(|nth| nth * 3000).collect();
        assert_eq!(starts, expected, "{name}");
        for part in content(&file).chunks(3000) {
            assert!(
                part.iter().all(|byte| *byte == part[0] && *byte > 0),
                "{name}"
            );
        }
    }
}

#[test]
fn buffers_are_written_and_read_as_one() {
    for checksums in [false, true] {
        let volume = format(200, &FormatOptions::new().data_checksums(checksums));
        let file = volume.create("a").unwrap();
        let mut rng = fastrand::Rng::with_seed(1);
        let mut expected = Vec::new();
        for _ in 0..100 {
            let parts: Vec<Vec<u8>> = (0..rng.usize(..6))
                .map(|_| vec![rng.u8(..); [0, 1, 100, 4096, 5000, 9000][rng.usize(..6)]])
                .collect();
            let bufs: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let offset = rng.usize(..9000);
            file.write_vectored_at(&bufs, offset as u64).unwrap();
            let whole = parts.concat();
            if !whole.is_empty() {
                let end = offset + whole.len();
                expected.resize(expected.len().max(end), 0);
                expected[offset..end].copy_from_slice(&whole);
            }
            let mut read = [vec![0; 3000], vec![], vec![0; 5], vec![0; 9000]];
            let mut bufs: Vec<_> = read.iter_mut().map(|it| IoSliceMut::new(it)).collect();
            let count = file.read_vectored_at(&mut bufs, offset as u64).unwrap();
            let found = &read.concat()[..count];
            let there = expected.get(offset..).unwrap_or_default();
            assert_eq!(found, &there[..there.len().min(12_005)]);
        }
        assert_recovers(&volume, "a", &expected);
    }
}

#[test]
fn a_cursor_reads_writes_and_seeks() {
    let volume = format(64, &FormatOptions::new());
    let mut cursor = volume.create("a").unwrap().cursor();
    cursor.write_all(b"hello ").unwrap();
    let bufs = [IoSlice::new(b"wor"), IoSlice::new(b"ld")];
    assert_eq!(cursor.write_vectored(&bufs).unwrap(), 5);
    cursor.flush().unwrap();
    assert_eq!(cursor.seek(SeekFrom::End(-5)).unwrap(), 6);
    let mut text = String::new();
    cursor.read_to_string(&mut text).unwrap();
    assert_eq!(
        (text.as_str(), cursor.stream_position().unwrap()),
        ("world", 11)
    );
    assert_eq!(cursor.seek(SeekFrom::Current(-11)).unwrap(), 0);
    let error = cursor.seek(SeekFrom::Current(-1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    cursor.seek(SeekFrom::Start(u64::MAX)).unwrap();
    assert_eq!(
        cursor.write(b"x").unwrap_err().kind(),
        io::ErrorKind::FileTooLarge
    );
    assert_eq!(cursor.file().size(), 11);
}

#[test]
fn damaged_data_is_an_error_and_the_rest_stays_readable() {
    let volume = format(64, &FormatOptions::new().data_checksums(true));
    let file = volume.create("a").unwrap();
    for page in 0..4_u8 {
        file.write_at(&[page + 1; PAGE as usize], u64::from(page) * PAGE)
            .unwrap();
    }
    let words = volume.pmem().words();
    let damaged = words
        .iter()
        .position(|word| *word == u64::from_le_bytes([3; 8]))
        .unwrap();
    volume.pmem().flip(damaged * 64 + 5);
    let mut buf = [0; PAGE as usize];
    let error = file.read_at(&mut buf[..1], 3 * PAGE - 1).unwrap_err();
    let Error::Corrupt { place, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (place.offset, place.at),
        (Some(2 * PAGE), damaged as u64 * 8)
    );
    let text = error.to_string();
    assert!(
        text.contains("file data") && text.contains("file offset 8192"),
        "{text}"
    );
    assert_eq!(
        io::Error::from(error.clone()).kind(),
        io::ErrorKind::InvalidData
    );
    for page in [0, 1, 3] {
        assert_eq!(file.read_at(&mut buf, page * PAGE), Ok(buf.len()));
        assert_eq!(buf, [page as u8 + 1; PAGE as usize]);
    }
    // Nothing gives the damaged bytes a correct checksum.
    let before = volume.stats();
    assert_eq!(file.write_at(b"part", 2 * PAGE + 9), Err(error.clone()));
    assert_eq!(file.write_at(&[0; 5000], PAGE), Err(error.clone()));
    assert_eq!(file.punch_hole(2 * PAGE + 1..9 * PAGE), Err(error.clone()));
    assert_eq!(file.punch_hole(0..2 * PAGE + 1), Err(error.clone()));
    assert_eq!(file.truncate(2 * PAGE + 1), Err(error.clone()));
    assert_eq!(volume.stats(), before);
    assert_eq!(reopen(&volume).check().unwrap().damaged.len(), 1);
    // A write of the whole page mends it.
    file.write_at(&[9; PAGE as usize], 2 * PAGE).unwrap();
    assert_eq!(volume.check().unwrap().damaged, []);
}

static NOW: AtomicU64 = AtomicU64::new(1000);

fn now() -> u64 {
    NOW.fetch_add(1, Ordering::Relaxed)
}

fn at(nanoseconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}

#[test]
fn times_come_from_the_clock_and_survive_recovery() {
    let options = FormatOptions::new().clock(now);
    let volume = format(64, &options);
    let file = volume.create("a").unwrap();
    let metadata = |bytes: &[u8]| {
        let mem = Mem::from_bytes(bytes);
        let lock = |capacity| Ok::<_, Error>(segments(capacity));
        let options = OpenOptions::new().clock(|| 1 << 40);
        let (volume, _) = Volume::open_with(mem, &options, lock).unwrap();
        volume.open_file("a").unwrap().metadata()
    };
    let assert_found = || assert_eq!(metadata(&volume.pmem().bytes()), file.metadata());
    let created = file.metadata();
    assert_eq!((created.size, created.created), (0, created.modified));
    assert_found();
    file.write_at(b"x", 0).unwrap();
    assert!(file.metadata().modified > created.modified);
    assert_eq!(file.metadata().created, created.created);
    assert_found();
    file.set_modified(at(5)).unwrap();
    assert_eq!(file.metadata().modified, at(5));
    assert_found();
    file.truncate(10).unwrap();
    assert!(file.metadata().modified > created.modified);
    assert_found();
    file.set_modified(at(1 << 50)).unwrap();
    file.set_modified(UNIX_EPOCH - Duration::from_secs(1))
        .unwrap();
    assert_eq!(file.metadata().modified, UNIX_EPOCH);
    file.set_modified(at(1 << 50)).unwrap();
    // The time is kept when its group is the only thing in its page, and when the log is cleaned.
    for _ in 0..2000 {
        file.write_at(b"y", 0).unwrap();
    }
    assert!(volume.stats().compactions + volume.stats().unlinked_pages > 0);
    assert_eq!(file.metadata().modified, at(1 << 50));
    assert_found();
    let (again, _) = open(&Mem::from_bytes(&volume.pmem().bytes())).unwrap();
    again.open_file("a").unwrap().write_at(b"z", 0).unwrap();
    assert!(again.open_file("a").unwrap().metadata().modified > at(1 << 50));
}

#[test]
fn the_time_of_the_last_change_survives_a_clock_that_goes_back() {
    static TIME: AtomicU64 = AtomicU64::new(1000);
    let options = FormatOptions::new().clock(|| TIME.load(Ordering::Relaxed));
    let volume = format(64, &options);
    let file = volume.create("a").unwrap();
    // The group that made the file longer stays, so the next ones must be in another page.
    (0..70).for_each(|_| file.write_at(b"x", 0).unwrap());
    TIME.store(2000, Ordering::Relaxed);
    file.write_at(b"y", 0).unwrap();
    TIME.store(1500, Ordering::Relaxed);
    while volume.stats().unlinked_pages + volume.stats().compactions == 0 {
        file.write_at(b"z", 0).unwrap();
    }
    assert_eq!(file.metadata().modified, at(2000));
    let again = crate::common::reopen(&volume).open_file("a").unwrap();
    assert_eq!(again.metadata(), file.metadata());
}

#[test]
fn a_clock_that_panics_takes_no_pages() {
    static FAILS: AtomicU64 = AtomicU64::new(0);
    fn clock() -> u64 {
        assert_eq!(FAILS.load(Ordering::Relaxed), 0, "the clock fails");
        1
    }
    let volume = format(64, &FormatOptions::new().inodes(32).clock(clock));
    let file = volume.create("a").unwrap();
    file.write_at(b"before", 0).unwrap();
    let before = volume.stats();
    FAILS.store(1, Ordering::Relaxed);
    let acts: [&dyn Fn() -> Result<(), Error>; 3] = [
        &|| file.write_at(&[1; 9000], 0),
        &|| volume.create("b").map(drop),
        &|| volume.create_dir("c"),
    ];
    for act in acts {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_err();
    }
    FAILS.store(0, Ordering::Relaxed);
    assert_eq!(volume.stats(), before);
    file.append(b", after").unwrap();
    assert_recovers(&volume, "a", b"before, after");
}

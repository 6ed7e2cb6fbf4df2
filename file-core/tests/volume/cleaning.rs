//! Cleaning on request: how many pages logs take, and that nothing is lost.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{
    Mem, PAGE, Rng, Volume, content, format, reopen, segments, write_some_that_stay,
};
use crate::fsck::new_mark;
use spanlock_file_core::{CleanReport, Error, FormatOptions, Kind, Metadata};

/// Creates directories in each other, with files in them, until the volume is full. Returns the
/// paths of the directories, and then of the files, in the order in which they were created.
fn fill(volume: &Volume) -> (Vec<String>, Vec<String>) {
    let (mut directories, mut files) = (vec![String::new()], Vec::new());
    let mut rng = Rng::new(9);
    for i in 0.. {
        let parent = &directories[rng.below(directories.len() as u64) as usize];
        let path = format!("{parent}{i:0100}");
        let done = match i % 4 {
            0 => volume.create_dir(&path).map(|()| {
                directories.push(format!("{path}/"));
            }),
            _ => volume.create(&path).and_then(|file| {
                files.push(path);
                file.write_at(&[1; 100], rng.below(3) * PAGE)
            }),
        };
        match done {
            Ok(()) => {}
            Err(Error::NoSpace { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    (directories, files)
}

#[test]
fn a_volume_of_which_everything_is_removed_is_as_a_new_one() {
    for pages in [96, 600] {
        let volume = format(pages, &FormatOptions::new().inodes(1024));
        let fresh = volume.stats();
        let reopened_first = reopen(&volume);
        for volume in [&volume, &reopened_first] {
            let (directories, files) = fill(volume);
            assert!(directories.len() > 2 && files.len() > 8);
            for file in &files {
                volume.remove(file).unwrap();
            }
            for directory in directories[1..].iter().rev() {
                volume.remove_dir(directory.trim_end_matches('/')).unwrap();
            }
            // The root's log keeps a page until it is cleaned.
            assert_eq!(volume.stats().log_pages, 1);
            let after_crash = reopen(volume);
            for volume in [volume, &after_crash] {
                let report = volume.clean().unwrap();
                assert_eq!((report.pages_unlinked, report.pages_freed), (1, 1));
                let stats = volume.stats();
                assert_eq!(stats.log_pages, 0);
                assert_eq!(stats.pages_free, fresh.pages_free);
                assert_eq!(stats.inodes_free, fresh.inodes_free);
                assert_eq!(volume.clean(), Ok(CleanReport::default()));
                let reopened = reopen(volume);
                assert_eq!(reopened.stats().pages_free, fresh.pages_free);
                reopened.create("a").unwrap().append(b"works").unwrap();
                assert_eq!(reopen(&reopened).list(), [("a".to_owned(), 5)]);
            }
        }
    }
}

/// Changes files in every way, under names in several directories.
fn change_files(volume: &Volume, rounds: u64) {
    let mut rng = Rng::new(rounds);
    volume.create_dir_all("d/e").unwrap();
    for i in 0..rounds {
        let directory = ["", "d/", "d/e/"][rng.below(3) as usize];
        let path = format!("{directory}{}", rng.below(4));
        let other = format!("{directory}{}", rng.below(4));
        let done = volume.open_or_create(&path).and_then(|file| {
            let (from, len) = (rng.below(20 * PAGE), rng.below(4 * PAGE));
            match rng.below(9) {
                0 => file.write_at(&vec![i as u8; len as usize], from),
                1 => (0..70).try_for_each(|_| file.write_at(&[i as u8], from)),
                2 => file.append(&vec![i as u8; len as usize]).map(drop),
                3 => file.truncate(from),
                4 => file.punch_hole(from..from + 3 * len),
                5 => file.allocate_keeping_size(from..from + len),
                6 => file.set_modified(UNIX_EPOCH + Duration::from_secs(i)),
                7 => volume.rename(&path, &other),
                _ => volume.link(&path, &format!("d/{}", rng.below(4))),
            }
        });
        match done {
            Ok(()) | Err(Error::NoSpace { .. } | Error::Exists { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn files_of_every_shape_give_all_their_space_back() {
    let volume = format(400, &FormatOptions::new().data_checksums(true));
    let fresh = volume.stats();
    for rounds in [100, 1000] {
        change_files(&volume, rounds);
        // Cleaning what is in use loses nothing.
        let before = contents(&volume);
        volume.clean().unwrap();
        assert_eq!(contents(&volume), before);
        let reopened = reopen(&volume);
        assert_eq!(contents(&reopened), before);
        assert_eq!(reopened.stats().pages_free, volume.stats().pages_free);

        let removed_while_open = volume.open_or_create("last").unwrap();
        removed_while_open.write_at(&[1; 9000], 5).unwrap();
        for (path, _) in volume.list() {
            volume.remove(&path).unwrap();
        }
        volume.remove_dir("d/e").unwrap();
        volume.remove_dir("d").unwrap();
        drop(removed_while_open);
        volume.clean().unwrap();
        for stats in [volume.stats(), reopen(&volume).stats()] {
            assert_eq!(stats.pages_free, fresh.pages_free);
            assert_eq!(stats.inodes_free, fresh.inodes_free);
        }
    }
}

fn contents(volume: &Volume) -> Vec<(String, Metadata, Vec<u8>)> {
    let read = |(path, _): (String, u64)| {
        let file = volume.open_file(&path).unwrap();
        (path, file.metadata(), content(&file))
    };
    volume.list().into_iter().map(read).collect()
}

#[test]
fn an_empty_directory_keeps_at_most_one_page() {
    let volume = format(256, &FormatOptions::new().inodes(320));
    volume.create_dir("d").unwrap();
    for i in 0..300 {
        volume.create(&format!("d/{i}")).unwrap();
    }
    assert!(volume.stats().log_pages > 4);
    for i in 0..300 {
        volume.remove(&format!("d/{i}")).unwrap();
    }
    assert!(volume.stats().log_pages <= 2, "the root has the other one");
    volume.create("d/again").unwrap();
    assert_eq!(reopen(&volume).list(), [("d/again".to_owned(), 0)]);
}

#[test]
fn a_cleaned_log_has_the_fewest_pages() {
    let volume = format(2048, &FormatOptions::new().data_checksums(true));
    let file = volume.create("a").unwrap();
    // Of each page of the log, one group stays needed.
    write_some_that_stay(&file, 6000, 100);
    let before = (content(&file), volume.stats());
    let report = file.clean().unwrap();
    let after = volume.stats();
    assert_eq!(content(&file), before.0);
    assert_eq!(content(&reopen(&volume).open_file("a").unwrap()), before.0);
    // A page for the file, and one for the root.
    assert_eq!(after.log_pages, 2);
    let freed = before.1.log_pages - after.log_pages;
    assert!(freed > 4, "{:?}", before.1);
    assert_eq!(report.pages_freed, freed);
    assert_eq!(after.pages_free, before.1.pages_free + freed);
    assert_eq!(file.clean(), Ok(CleanReport::default()));
    assert_eq!(volume.clean(), Ok(CleanReport::default()));
}

#[test]
fn a_file_without_pages_keeps_its_size_and_its_time() {
    // Each change has a time of its own.
    static NOW: AtomicU64 = AtomicU64::new(1);
    let options = FormatOptions::new().clock(|| NOW.fetch_add(1, Ordering::Relaxed));
    let volume = format(256, &options);
    for (name, size) in [("long", 100_000), ("short", 0)] {
        let file = volume.create(name).unwrap();
        write_some_that_stay(&file, 300, 1);
        file.truncate(0).unwrap();
        file.truncate(size).unwrap();
    }
    let punched = volume.create("punched").unwrap();
    punched.write_at(&[1; 5000], 300).unwrap();
    punched.punch_hole(0..u64::MAX).unwrap();
    // A hole changes only the time of a file that never had a byte.
    let untouched = volume.create("untouched").unwrap();
    untouched.punch_hole(0..PAGE).unwrap();
    let names = ["long", "short", "punched", "untouched"];
    let before = names.map(|it| volume.open_file(it).unwrap().metadata());
    assert!(volume.clean().unwrap().pages_freed > 0);
    for volume in [&volume, &reopen(&volume)] {
        for (name, before) in names.iter().zip(&before) {
            let file = volume.open_file(name).unwrap();
            assert_eq!(file.metadata(), *before, "{name}");
            assert!(content(&file).iter().all(|byte| *byte == 0), "{name}");
        }
        // One page of each log, and no data.
        let stats = volume.stats();
        assert_eq!(
            (stats.log_pages, stats.pages_total - stats.pages_free),
            (5, 5)
        );
    }
}

#[test]
fn a_cleaning_keeps_pages_past_the_size() {
    let volume = format(256, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    file.truncate(100).unwrap();
    file.allocate_keeping_size(0..9 * PAGE).unwrap();
    (0..200).for_each(|i| file.write_at(&[i], 0).unwrap());
    assert!(file.clean().unwrap().pages_copied > 0);
    let reopened = reopen(&volume);
    assert_eq!(reopened.stats().pages_free, volume.stats().pages_free);
    assert_eq!(reopened.open_file("a").unwrap().size(), 100);
}

#[test]
fn an_emptied_file_that_is_as_it_was_created_takes_no_page() {
    let volume = format(256, &FormatOptions::new().clock(|| 7));
    let file = volume.create("a").unwrap();
    file.write_at(&[1; 10_000], 0).unwrap();
    file.truncate(0).unwrap();
    volume.clean().unwrap();
    for volume in [&volume, &reopen(&volume)] {
        assert_eq!(volume.stats().log_pages, 1, "the root's");
        let file = volume.open_file("a").unwrap();
        assert_eq!(file.size(), 0);
        file.append(b"again").unwrap();
        assert_eq!(content(&reopen(volume).open_file("a").unwrap()), b"again");
    }
}

#[test]
fn logs_are_cleaned_while_others_write() {
    let volume = format(1024, &FormatOptions::new().data_checksums(true));
    volume.create_dir("d").unwrap();
    let shared = volume.create("shared").unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u64)
            .map(|thread| {
                let (volume, shared) = (&volume, &shared);
                scope.spawn(move || {
                    let own = volume.create(&format!("d/{thread}")).unwrap();
                    for i in 0..2000_u64 {
                        let page = thread + 3 * (i % 7);
                        shared.write_at(&i.to_le_bytes(), page * PAGE).unwrap();
                        own.write_at(&i.to_le_bytes(), 0).unwrap();
                        if i % 9 == 0 {
                            own.truncate(0).unwrap();
                        }
                        let passing = format!("d/{thread} passes");
                        volume.create(&passing).unwrap();
                        volume.remove(&passing).unwrap();
                    }
                })
            })
            .collect();
        let cleaner = scope.spawn(|| {
            let mut freed = 0;
            while !ended.load(Ordering::Relaxed) {
                freed += volume.clean().unwrap().pages_freed;
            }
            freed
        });
        writers.into_iter().for_each(|it| it.join().unwrap());
        ended.store(true, Ordering::Relaxed);
        assert!(cleaner.join().unwrap() > 0);
    });
    volume.clean().unwrap();
    let reopened = reopen(&volume);
    assert_eq!(reopened.stats().pages_free, volume.stats().pages_free);
    for volume in [&volume, &reopened] {
        assert_eq!(volume.check().unwrap().damaged, []);
        let shared = content(&volume.open_file("shared").unwrap());
        for (page, bytes) in shared.chunks(PAGE as usize).enumerate() {
            let last = (1993..2000).rfind(|i| i % 7 == page as u64 / 3).unwrap();
            assert_eq!(bytes[..8], last.to_le_bytes(), "page {page}");
        }
        assert_eq!(volume.read_dir("d").unwrap().len(), 3);
        for thread in 0..3 {
            // 1,998 is divisible by 9.
            let own = content(&volume.open_file(&format!("d/{thread}")).unwrap());
            assert_eq!(own, 1999_u64.to_le_bytes());
        }
    }
}

#[test]
fn a_cleaning_passes_over_a_path_that_leads_through_a_file_meanwhile() {
    static VOLUME: OnceLock<Volume> = OnceLock::new();
    let volume = format(64, &FormatOptions::new());
    volume.create_dir("d").unwrap();
    volume.create("d/f").unwrap();
    let mem = Mem::from_words(volume.pmem().words());
    let (volume, _) = Volume::open(mem, |capacity| {
        // The volume holds no mutex while it creates a lock.
        if let Some(volume) = VOLUME.get()
            && volume.kind("d") == Ok(Kind::Directory)
        {
            volume.remove("d/f").unwrap();
            volume.remove_dir("d").unwrap();
            volume.create("d").unwrap();
        }
        segments(capacity)
    })
    .unwrap();
    let volume = VOLUME.get_or_init(|| volume);
    assert!(volume.clean().is_ok());
    assert_eq!(volume.kind("d"), Ok(Kind::File));
}

#[test]
fn a_cleaning_that_lacks_pages_leaves_the_room_in_the_last_page() {
    let volume = format(512, &FormatOptions::new());
    volume.create_dir("d").unwrap();
    let file = volume.create("f").unwrap();
    // Of each three names in a page of the log, one stays.
    let long = |i: u32| format!("d/{i:01000}");
    (0..120).for_each(|i| volume.link("f", &long(i)).unwrap());
    (0..120)
        .filter(|i| i % 3 > 0)
        .for_each(|i| volume.remove(&long(i)).unwrap());
    // Then only the reserve is free, which a new name may not take.
    for _ in 0..3 {
        while file.append(&[1; PAGE as usize]).is_ok() {}
        file.clean().unwrap();
    }
    let before = volume.stats();
    assert_eq!(before.pages_free, before.pages_reserved, "{before:?}");
    volume.clean().unwrap();
    assert!(
        volume.stats().log_pages > 120 / 9,
        "{before:?}, {:?}",
        volume.stats()
    );
    volume.link("f", "d/short").unwrap();
}

#[test]
fn an_empty_file_with_its_creation_as_its_time_of_change_needs_no_page() {
    let volume = format(64, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    volume.clean().unwrap();
    let before = volume.stats();
    let created = file.metadata().created;
    for was_written in [false, true] {
        if was_written {
            file.write_at(b"a", 0).unwrap();
            file.truncate(0).unwrap();
        }
        file.set_modified(created).unwrap();
        assert!(volume.stats().log_pages > before.log_pages);
        file.clean().unwrap();
        assert_eq!(volume.stats().log_pages, before.log_pages, "{was_written}");
    }
    let volume = reopen(&volume);
    assert_eq!(volume.stats().log_pages, before.log_pages);
    let file = volume.open_file("a").unwrap();
    assert_eq!(file.metadata().modified, created);
}

#[test]
fn a_damaged_file_does_not_keep_other_logs_from_being_cleaned() {
    let volume = format(256, &FormatOptions::new());
    volume.create("a").unwrap().write_at(b"a", 0).unwrap();
    let before = volume.pmem().words();
    volume.open_file("a").unwrap().write_at(b"A", 0).unwrap();
    let mark = new_mark(&before, &volume.pmem().words());
    let file = volume.create("b").unwrap();
    write_some_that_stay(&file, 200, 3);
    drop(file);
    let volume = reopen(&volume);
    // The file is not in memory.
    volume.pmem().flip(mark * 64 + 3);
    let before = volume.stats().log_pages;
    assert!(matches!(volume.clean(), Err(Error::Corrupt { .. })));
    assert!(volume.stats().log_pages < before);
}

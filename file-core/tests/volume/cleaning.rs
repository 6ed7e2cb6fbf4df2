//! Cleaning on demand: how many pages logs take, and that nothing is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{PAGE, Rng, Volume, content, format, reopen, write_some_that_stay};
use spanlock_file_core::{CleanReport, CleanerOptions, Error, FormatOptions};

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
    let volume = format(256, &FormatOptions::new());
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
    let (writes, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u64)
            .map(|thread| {
                let (volume, shared, writes) = (&volume, &shared, &writes);
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
                        writes.fetch_add(1, Ordering::Relaxed);
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

/// Returns a volume with a file whose log has pages to win, and the number of log pages.
fn with_garbage() -> (Volume, u64) {
    let volume = format(256, &FormatOptions::new().clock(|| 7));
    let file = volume.create("a").unwrap();
    write_some_that_stay(&file, 6 * 63, 10);
    let pages = volume.stats().log_pages;
    (volume, pages)
}

fn eager() -> CleanerOptions {
    let options = CleanerOptions::new().free_below(u64::MAX);
    options.interval(Duration::from_millis(1))
}

#[test]
fn a_thread_cleans_logs_when_few_pages_are_free() {
    let (volume, before) = with_garbage();
    let idle = volume.start_cleaner(&eager().free_below(1));
    assert_eq!(volume.stats().log_pages, before);
    assert_eq!(idle.stop(), CleanReport::default());

    let expected = content(&volume.open_file("a").unwrap());
    let cleaner = volume.start_cleaner(&eager());
    while volume.stats().log_pages > 2 {
        std::thread::yield_now();
    }
    // It goes on when pages were taken since.
    write_some_that_stay(&volume.open_file("a").unwrap(), 2 * 63, 10);
    while volume.stats().log_pages > 2 {
        volume.create("b").unwrap().append(&[1]).unwrap();
        volume.remove("b").unwrap();
    }
    assert!(cleaner.stop().pages_freed >= before - 2);
    let reopened = reopen(&volume);
    assert_eq!(content(&reopened.open_file("a").unwrap()), expected);
}

#[test]
fn a_thread_that_sleeps_stops_at_once() {
    let (volume, _) = with_garbage();
    let long = CleanerOptions::new().interval(Duration::MAX);
    drop(volume.start_cleaner(&long));
    assert_eq!(volume.start_cleaner(&long).stop(), CleanReport::default());
}

#[test]
fn a_panic_in_the_thread_that_cleans_is_reported_and_nobody_waits() {
    for stops in [true, false] {
        let (volume, _) = with_garbage();
        let before = content(&volume.open_file("a").unwrap());
        let file = volume.open_file("a").unwrap();
        volume.pmem().panic_at(2);
        let cleaner = volume.start_cleaner(&eager());
        while volume.pmem().will_panic() {
            std::thread::yield_now();
        }
        match stops {
            true => {
                let stopped = catch_unwind(AssertUnwindSafe(|| cleaner.stop()));
                assert!(stopped.is_err());
            }
            false => drop(cleaner),
        }
        volume.pmem().panic_at(0);
        let refused = file.write_at(b"after", 0);
        assert_eq!(refused, Err(Error::Poisoned { inode: 1 }));
        volume.create("b").unwrap().write_at(b"after", 0).unwrap();
        let reopened = reopen(&volume);
        assert_eq!(content(&reopened.open_file("a").unwrap()), before);
        assert_eq!(content(&reopened.open_file("b").unwrap()), b"after");
    }
}

//! Several threads on one file: every page must hold one thread's whole write.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{
    Handle, Mem, PAGE, Rng, Volume, content, format, lock_kinds, reopen, segments,
};
use spanlock_file_core::{Error, FormatOptions};

fn volumes(pages: u64) -> impl Iterator<Item = (&'static str, Volume)> {
    lock_kinds().into_iter().map(move |(name, make)| {
        let options = FormatOptions::new().data_checksums(true);
        (
            name,
            Volume::format(Mem::new(pages * PAGE), &options, make).unwrap(),
        )
    })
}

/// Returns `pages` pages filled with a stamp that encodes the writer and the write.
fn stamped(stamp: u64, pages: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat((pages * PAGE / 8) as usize)
}

/// Returns the stamp that all of `bytes` share.
fn stamp_of(bytes: &[u8]) -> u64 {
    let mut words = bytes
        .chunks_exact(8)
        .map(|w| u64::from_le_bytes(w.try_into().unwrap()));
    let stamp = words.next().unwrap();
    assert!(words.all(|w| w == stamp), "torn: {stamp:x} and others");
    stamp
}

#[test]
fn disjoint_writes_of_several_threads_are_all_present() {
    const THREADS: u64 = 4;
    for (lock, volume) in volumes(2048) {
        let file = volume.create("shared").unwrap();
        thread::scope(|scope| {
            for t in 0..THREADS {
                let file = &file;
                scope.spawn(move || {
                    for i in 0..300_u64 {
                        for page in 0..8 {
                            let stamp = t << 32 | i;
                            file.write_at(&stamped(stamp, 1), (page * THREADS + t) * PAGE)
                                .unwrap();
                        }
                    }
                });
            }
        });
        for volume in [&volume, &reopen(&volume)] {
            let bytes = content(&volume.open_file("shared").unwrap());
            assert_eq!(bytes.len() as u64, 8 * THREADS * PAGE, "{lock}");
            for (i, page) in bytes.chunks_exact(PAGE as usize).enumerate() {
                assert_eq!(
                    stamp_of(page),
                    (i as u64 % THREADS) << 32 | 299,
                    "{lock}, page {i}"
                );
            }
            assert!(volume.check().unwrap().damaged.is_empty());
        }
        let stats = volume.stats();
        assert!(
            stats.unlinked_pages > 0,
            "{lock}: 9,600 writes do not fit the log"
        );
        assert_eq!(stats, reopen_stats(&volume, &stats));
    }
}

/// Returns the statistics of the reopened volume, with the numbers of `before` that reopening
/// resets.
fn reopen_stats(volume: &Volume, before: &spanlock_file_core::Stats) -> spanlock_file_core::Stats {
    let mut stats = reopen(volume).stats();
    stats.compactions = before.compactions;
    stats.unlinked_pages = before.unlinked_pages;
    stats
}

#[test]
fn overlapping_writes_are_atomic() {
    const PAGES: u64 = 16;
    for (lock, volume) in volumes(1024) {
        let file = volume.create("shared").unwrap();
        file.write_at(&stamped(0, PAGES), 0).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let writers: Vec<_> = (1..=3_u64)
                .map(|t| {
                    let file = &file;
                    scope.spawn(move || {
                        let mut rng = Rng::new(t);
                        for i in 0..1000 {
                            let first = rng.below(PAGES);
                            let pages = 1 + rng.below(PAGES - first);
                            file.write_at(&stamped(t << 32 | i, pages), first * PAGE)
                                .unwrap();
                        }
                    })
                })
                .collect();
            for t in 0..2 {
                let (file, done) = (&file, &done);
                scope.spawn(move || read_whole_pages(file, PAGES, t, done));
            }
            writers.into_iter().for_each(|w| w.join().unwrap());
            done.store(true, Ordering::Release);
        });
        let before = content(&file);
        before
            .chunks_exact(PAGE as usize)
            .for_each(|page| _ = stamp_of(page));
        assert_eq!(
            content(&reopen(&volume).open_file("shared").unwrap()),
            before,
            "{lock}"
        );
        assert!(volume.check().unwrap().damaged.is_empty());
    }
}

fn read_whole_pages(file: &Handle, pages: u64, seed: u64, done: &AtomicBool) {
    let mut rng = Rng::new(seed + 100);
    while !done.load(Ordering::Acquire) {
        let first = rng.below(pages);
        let mut bytes = vec![0; ((1 + rng.below(pages - first)) * PAGE) as usize];
        assert_eq!(file.read_at(&mut bytes, first * PAGE), Ok(bytes.len()));
        bytes
            .chunks_exact(PAGE as usize)
            .for_each(|page| _ = stamp_of(page));
    }
}

#[test]
fn readers_see_a_write_of_several_pages_as_a_whole() {
    const PAGES: u64 = 8;
    for (lock, volume) in volumes(512) {
        let file = volume.create("shared").unwrap();
        file.write_at(&stamped(0, PAGES), 0).unwrap();
        thread::scope(|scope| {
            let writers: Vec<_> = (1..=2_u64)
                .map(|t| {
                    let file = &file;
                    scope.spawn(move || {
                        for i in 0..300 {
                            file.write_at(&stamped(t << 32 | i, PAGES), 0).unwrap();
                        }
                    })
                })
                .collect();
            let mut bytes = vec![0; (PAGES * PAGE) as usize];
            while !writers.iter().all(|w| w.is_finished()) {
                assert_eq!(file.read_at(&mut bytes, 0), Ok(bytes.len()), "{lock}");
                stamp_of(&bytes);
            }
        });
    }
}

#[test]
fn writes_within_one_page_do_not_lose_each_other() {
    for (lock, volume) in volumes(512) {
        let file = volume.create("shared").unwrap();
        thread::scope(|scope| {
            for t in 0..4_u64 {
                let file = &file;
                scope.spawn(move || {
                    for i in 1..=200_u64 {
                        // 1,000 bytes each, so neighbours share pages.
                        file.write_at(&i.to_le_bytes().repeat(125), t * 1000)
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(stamp_of(&content(&file)), 200, "{lock}");
        assert_eq!(content(&file).len(), 4000);
    }
}

#[test]
fn appends_neither_overlap_nor_leave_gaps() {
    for (lock, volume) in volumes(2048) {
        let file = volume.create("log").unwrap();
        thread::scope(|scope| {
            for t in 0..4_u8 {
                let file = &file;
                scope.spawn(move || {
                    for _ in 0..100 {
                        let record = [&[b'[', t, 70][..], &[t; 70], b"]"].concat();
                        let at = file.append(&record).unwrap();
                        assert_eq!(at % 74, 0);
                    }
                });
            }
        });
        let bytes = content(&file);
        assert_eq!(bytes.len(), 4 * 100 * 74, "{lock}");
        let mut counts = [0; 4];
        for record in bytes.chunks_exact(74) {
            let t = record[1];
            assert!(
                record[0] == b'[' && record[73] == b']' && record[3..73] == [t; 70],
                "{lock}"
            );
            counts[t as usize] += 1;
        }
        assert_eq!(counts, [100; 4]);
    }
}

#[test]
fn bytes_below_an_observed_size_can_be_read() {
    for (lock, volume) in volumes(2048) {
        let file = volume.create("growing").unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn({
                let file = &file;
                move || (0..500).for_each(|i| file.write_at(&stamped(i + 1, 1), i * PAGE).unwrap())
            });
            while !writer.is_finished() {
                let size = file.size();
                if size > 0 {
                    let mut last = vec![0; PAGE as usize];
                    assert_eq!(file.read_at(&mut last, size - PAGE), Ok(last.len()));
                    assert_eq!(stamp_of(&last), size / PAGE, "{lock}");
                }
            }
        });
    }
}

#[test]
fn many_threads_create_and_remove_files() {
    for (lock, volume) in volumes(2048) {
        let failures = AtomicU64::new(0);
        thread::scope(|scope| {
            for t in 0..4_u64 {
                let (volume, failures) = (&volume, &failures);
                scope.spawn(move || {
                    let mut rng = Rng::new(t);
                    for i in 0..300 {
                        // Only ten names, so that threads collide.
                        let name = format!("file {}", rng.below(10));
                        match rng.below(3) {
                            0 => match volume.create(&name) {
                                Ok(file) => file.write_at(&stamped(t << 32 | i, 3), 0).unwrap(),
                                Err(error) => assert_eq!(error, Error::Exists { name }),
                            },
                            1 => match volume.remove(&name) {
                                Ok(()) => {}
                                Err(error) => assert_eq!(error, Error::NotFound { name }),
                            },
                            _ => {
                                let file = volume.open_or_create(&name).unwrap();
                                if file.write_at(&stamped(t << 32 | i, 3), 0).is_err() {
                                    failures.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(failures.into_inner(), 0, "{lock}");
        let reopened = reopen(&volume);
        assert_eq!(reopened.list(), volume.list(), "{lock}");
        for (name, _) in volume.list() {
            let bytes = content(&volume.open_file(&name).unwrap());
            if !bytes.is_empty() {
                stamp_of(&bytes);
            }
            assert_eq!(content(&reopened.open_file(&name).unwrap()), bytes);
        }
        let mut stats = reopened.stats();
        stats.compactions = volume.stats().compactions;
        assert_eq!(stats, volume.stats(), "{lock}: nothing leaks");
    }
}

#[test]
fn a_link_and_a_renaming_of_three_directories_do_not_wait_for_each_other() {
    let (_, volume) = volumes(256).next().unwrap();
    // A renaming locks them in the order of their numbers, and the one that it replaces last.
    for name in ["low", "low/middle", "high", "high/other"] {
        volume.create_dir(name).unwrap();
    }
    volume.create("high/file").unwrap();
    volume.create("low/middle/stays").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                let renamed = volume.rename("high/other", "low/middle");
                assert!(
                    matches!(renamed, Err(Error::NotEmpty { .. })),
                    "{renamed:?}"
                );
            }
        });
        scope.spawn(|| {
            for _ in 0..20_000 {
                let linked = volume.link("high/file", "low/middle/stays");
                assert!(matches!(linked, Err(Error::Exists { .. })), "{linked:?}");
            }
        });
    });
}

/// Returns a volume in which another thread performs `step` while the first file is opened, after
/// its names were listed. Files: `a`; `b`, which is also `c`, with a damaged page and a log of two
/// pages; `d` with a damaged page; `x/y`.
fn with_step(step: fn(&Volume)) -> Volume {
    let (_, volume) = volumes(256).next().unwrap();
    volume.create("a").unwrap().write_at(b"a", 0).unwrap();
    let file = volume.create("b").unwrap();
    (0..63).for_each(|_| file.write_at(&[1; PAGE as usize], 0).unwrap());
    file.write_at(&[0xBB; PAGE as usize], 0).unwrap();
    volume.link("b", "c").unwrap();
    let file = volume.create("d").unwrap();
    file.write_at(&[0xDD; PAGE as usize], 0).unwrap();
    volume.create_dir("x").unwrap();
    volume.create("x/y").unwrap();
    let mut bytes = volume.pmem().bytes();
    for byte in [0xBB, 0xDD] {
        let at = bytes.windows(64).position(|it| it == [byte; 64]).unwrap();
        bytes[at] ^= 1;
    }
    let shared = Arc::new(Mutex::new(None::<Volume>));
    let beside = Arc::clone(&shared);
    let (volume, _) = Volume::open(Mem::from_bytes(&bytes), move |capacity| {
        // The volume holds no mutex while it creates a lock.
        let volume = beside.lock().unwrap().take();
        volume.iter().for_each(step);
        segments(capacity)
    })
    .unwrap();
    *shared.lock().unwrap() = Some(volume.clone());
    volume
}

/// Returns the names of the files that a check finds damaged while `step` is performed.
fn damaged_beside(step: fn(&Volume)) -> Vec<String> {
    let damaged = with_step(step).check().unwrap().damaged;
    damaged.into_iter().map(|it| it.name).collect()
}

#[test]
fn a_check_finds_a_file_by_any_of_its_names() {
    assert_eq!(damaged_beside(|_| ()), ["b", "d"]);
    assert_eq!(damaged_beside(|it| it.remove("b").unwrap()), ["c", "d"]);
    let step = |it: &Volume| it.rename("b", "e").unwrap();
    assert_eq!(damaged_beside(step), ["c", "d"]);
    // Each name is found to stand for another file than the one that was listed.
    let step = |it: &Volume| it.exchange("b", "d").unwrap();
    assert_eq!(damaged_beside(step), ["b", "c"]);
    let step = |it: &Volume| it.exchange("c", "d").unwrap();
    assert_eq!(damaged_beside(step), ["b", "c"]);
}

#[test]
fn a_check_passes_over_a_path_that_leads_through_a_file_meanwhile() {
    let step = |it: &Volume| it.exchange("d", "x").unwrap();
    assert_eq!(damaged_beside(step), ["b"]);
    let step = |it: &Volume| {
        it.rename("x", "z").unwrap();
        it.rename("d", "x").unwrap();
    };
    assert_eq!(damaged_beside(step), ["b"]);
}

#[test]
fn a_cleaning_finds_a_file_by_any_of_its_names() {
    for step in [
        (|_| ()) as fn(&Volume),
        |it| it.remove("b").unwrap(),
        |it| it.exchange("c", "d").unwrap(),
    ] {
        let volume = with_step(step);
        assert!(volume.clean().unwrap().pages_freed > 0);
        assert_eq!(volume.clean().unwrap().pages_freed, 0);
    }
}

/// A name is counted before it can be found.
#[test]
fn a_file_that_can_be_found_has_a_name() {
    let volume = format(4096, &FormatOptions::new().inodes(5000));
    thread::scope(|scope| {
        let creates = scope.spawn(|| {
            (0..4000).for_each(|number| drop(volume.create(&format!("{number}")).unwrap()));
        });
        let mut number = 0;
        while !creates.is_finished() {
            if let Ok(links) = volume.links(&format!("{number}")) {
                assert_eq!(links, 1);
                number += 1;
            }
        }
    });
}

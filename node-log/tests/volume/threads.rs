//! Several threads at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spanlock_journal_commit::testing::Recorded;
use spanlock_node_log::{Error, Lookup};

use crate::common::{BLOCK, InMemory, SEGMENTS, World, check, content, for_each_world, options};

/// Each writer stamps pages of its own, half of them partly written, in one file; others read,
/// sync, clean and make checkpoints. A reader never finds a page in part, nor an older stamp.
fn writers_of_disjoint_pages_share_a_file<W: World>() {
    const WRITERS: usize = 3;
    const PAGES: usize = 16;
    for lookup in [Lookup::Optimistic, Lookup::Shared, Lookup::Exclusive] {
        let world = W::new(SEGMENTS);
        let options = options().lookup(lookup).cached_nodes(2);
        let mut volume = world.create(&options).unwrap();
        volume.create_file("file").unwrap();
        let is_done = AtomicBool::new(false);
        // Pages of different nodes.
        let at = |page: usize| ((page + 900) * 4 * BLOCK) as u64;
        std::thread::scope(|scope| {
            let (volume, is_done) = (&volume, &is_done);
            let others = scope.spawn(move || {
                let file = volume.open_file("file").unwrap();
                let mut last = [0; WRITERS * PAGES];
                for nth in 0.. {
                    for (page, last) in last.iter_mut().enumerate() {
                        let mut found = [0; BLOCK];
                        file.read_at(&mut found, at(page)).unwrap();
                        let words = found.as_chunks::<4>().0.iter();
                        let stamps: Vec<u32> = words.map(|it| u32::from_le_bytes(*it)).collect();
                        assert!(stamps.iter().all(|it| *it == stamps[0]), "{stamps:?}");
                        assert!(stamps[0] >= *last);
                        *last = stamps[0];
                    }
                    match nth % 3 {
                        0 => drop(volume.clean().unwrap()),
                        1 => volume.checkpoint().unwrap(),
                        _ => file.fsync().unwrap(),
                    }
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let writers = (0..WRITERS).map(|writer| {
                scope.spawn(move || {
                    let file = volume.open_file("file").unwrap();
                    for round in 1..100_u32 {
                        let page = writer * PAGES + round as usize % PAGES;
                        file.write_at(&round.to_le_bytes().repeat(BLOCK / 4), at(page))
                            .unwrap();
                        if round % 20 == 0 {
                            file.fsync().unwrap();
                        }
                    }
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().for_each(|it| it.join().unwrap());
            is_done.store(true, Ordering::Relaxed);
            others.join().unwrap();
        });
        volume.open_file("file").unwrap().fsync().unwrap();
        check::<W>(&mut volume);
        let before = content::<W>(&volume, "file");
        drop(volume);
        let volume = world.open(&options).unwrap();
        assert!(content::<W>(&volume, "file") == before);
    }
}

fn appends_do_not_overlap<W: World>() {
    const THREADS: u8 = 4;
    let world = W::new(2 * SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    volume.create_file("file").unwrap();
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let volume = &volume;
            scope.spawn(move || {
                let file = volume.open_file("file").unwrap();
                for len in 1..60 {
                    let at = file.append(&vec![thread; len * 17]).unwrap();
                    let mut found = vec![0; len * 17];
                    assert_eq!(file.read_at(&mut found, at).unwrap(), found.len());
                    assert!(found.iter().all(|it| *it == thread));
                    if len % 10 == 0 {
                        file.fsync().unwrap();
                    }
                }
            });
        }
    });
    let mut counts = [0; THREADS as usize + 1];
    let found = content::<W>(&volume, "file");
    found.iter().for_each(|it| counts[usize::from(*it)] += 1);
    assert_eq!(counts, [0, 30_090, 30_090, 30_090, 30_090]);
    check::<W>(&mut volume);
    drop(volume);
    let volume = world.open(&options()).unwrap();
    assert!(content::<W>(&volume, "file") == found);
}

/// Threads append while another one moves the end on by whole pages. All bytes are where they were
/// written.
fn appends_keep_to_their_pages_when_the_end_moves<W: World>() {
    const THREADS: usize = 3;
    let world = W::new(2 * SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    for _ in 0..100 {
        let file = volume.create_file("file").unwrap();
        let appended = std::thread::scope(|scope| {
            let file = &file;
            let threads = (1..=THREADS).map(|thread| {
                scope.spawn(move || {
                    let appends = (0..20).map(|nth| {
                        let bytes = vec![(thread * 50 + nth) as u8; 100];
                        (file.append(&bytes).unwrap() as usize, bytes)
                    });
                    appends.collect::<Vec<_>>()
                })
            });
            let threads: Vec<_> = threads.collect();
            for page in (0..80).step_by(2) {
                file.write_at(&[1; BLOCK], page * BLOCK as u64).unwrap();
            }
            let threads = threads.into_iter();
            threads
                .flat_map(|it| it.join().unwrap())
                .collect::<Vec<_>>()
        });
        let found = content::<W>(&volume, "file");
        let mut ends: Vec<(usize, usize)> = Vec::new();
        for (at, bytes) in appended {
            ends.push((at, at + bytes.len()));
            // The thread that moves the end may have written over it since.
            let is_right = |(found, byte): (&u8, &u8)| found == byte || *found == 1;
            assert!(found[at..].iter().zip(&bytes).all(is_right), "at {at}");
        }
        ends.sort_unstable();
        assert!(ends.windows(2).all(|it| it[0].1 <= it[1].0), "{ends:?}");
        drop(file);
        volume.remove("file").unwrap();
        volume.checkpoint().unwrap();
    }
    check::<W>(&mut volume);
}

/// Grows and shrinks a file at both ends of a hole, whose bytes are zero at all times.
fn truncations_and_writes_exclude_each_other<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    std::thread::scope(|scope| {
        let write = |offset: u64| {
            let file = &file;
            scope.spawn(move || {
                for _ in 0..150 {
                    file.write_at(&[1; 100], offset).unwrap();
                    file.fsync().unwrap();
                }
            });
        };
        write(4000);
        write(20_000);
        write(950 * BLOCK as u64);
        for size in [0, 4050, 30_000].repeat(30) {
            file.truncate(size).unwrap();
        }
    });
    for (at, byte) in content::<W>(&volume, "file").into_iter().enumerate() {
        let starts = [4000, 20_000, 950 * BLOCK];
        let is_written = starts.iter().any(|it| (*it..it + 100).contains(&at));
        assert!(byte == 0 || is_written && byte == 1, "{byte} at {at}");
    }
    check::<W>(&mut volume);
}

fn names_come_and_go<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let volume = &volume;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..150 {
                    let name = random.u32(0..3).to_string();
                    let result = match random.u32(0..5) {
                        0 => volume.create_file(&name).map(drop),
                        1 => volume.remove(&name),
                        _ => volume.open_file(&name).and_then(|file| {
                            file.append(&[1; 3000])?;
                            file.write_at(&[2; 10], 1 << 23)?;
                            file.truncate(random.u64(0..5000))?;
                            file.fsync()
                        }),
                    };
                    match result {
                        Ok(()) => {}
                        Err(
                            Error::Exists { .. } | Error::NotFound { .. } | Error::Removed { .. },
                        ) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    check::<W>(&mut volume);
    volume.checkpoint().unwrap();
    let names = volume.names();
    drop(volume);
    let mut volume = world.open(&options()).unwrap();
    assert_eq!(volume.names(), names);
    check::<W>(&mut volume);
}

#[test]
fn syncs_share_flushes_and_commits() {
    const THREADS: u64 = 16;
    let device = Recorded::new(8000 * BLOCK).flush_takes(Duration::from_millis(3));
    let world = InMemory {
        data: Arc::new(device),
        ..InMemory::new(SEGMENTS)
    };
    let volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    let before = world.data.flushes();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = &file;
            scope.spawn(move || {
                for round in 0..10 {
                    let page = thread * 10 + round;
                    file.write_at(&[1; BLOCK], page * BLOCK as u64).unwrap();
                    file.fsync().unwrap();
                }
            });
        }
    });
    let (flushes, commits) = (
        world.data.flushes() - before,
        world.nodes.lock().unwrap().commits,
    );
    assert!(flushes < THREADS * 10 / 2, "{flushes} flushes");
    assert!(commits < THREADS * 10 / 2, "{commits} commits");
}

for_each_world! {
    writers_of_disjoint_pages_share_a_file
    appends_do_not_overlap
    appends_keep_to_their_pages_when_the_end_moves
    truncations_and_writes_exclude_each_other
    names_come_and_go
}

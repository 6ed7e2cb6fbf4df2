//! Several threads at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::testing::Recorded;
use spanlock_object_store::space::{Disk, Medium, Persistent, Vector};
use spanlock_pmem::simulated::Simulated;

use crate::common::{BLOCK, Locked, MEDIUM, create, open, options};

/// Each writer stamps two blocks, its own and one that all share, with one number. Readers never
/// see two numbers in one batch's blocks of a writer, nor a number that goes back.
fn writers_and_a_reader<M: Medium>(space: &Locked<M>, rounds: u64) {
    const WRITERS: u64 = 3;
    let is_done = AtomicBool::new(false);
    let stamp = |number: u64| number.to_le_bytes().repeat(64);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = [0; WRITERS as usize];
            while !is_done.load(Ordering::Relaxed) {
                for writer in 0..WRITERS {
                    let mut found = vec![0; 2 * BLOCK as usize];
                    space.read(writer * 10 * BLOCK, &mut found).unwrap();
                    let words = found
                        .chunks_exact(8)
                        .map(|it| u64::from_le_bytes(it.try_into().unwrap()));
                    let words: Vec<u64> = words.collect();
                    assert!(words.iter().all(|it| *it == words[0]), "{words:?}");
                    assert!(words[0] >= last[writer as usize]);
                    last[writer as usize] = words[0];
                }
            }
        });
        let writers = (0..WRITERS).map(|writer| {
            scope.spawn(move || {
                for round in 1..=rounds {
                    let (data, at) = (stamp(round), writer * 10 * BLOCK);
                    let shared = (writer * rounds + round).to_le_bytes();
                    let batch = [
                        Vector::write(at, &data),
                        Vector::write(1 << 40, &shared),
                        Vector::write(at + BLOCK, &data),
                    ];
                    space.write_batch(&batch).unwrap();
                }
            })
        });
        writers
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|it| it.join().unwrap());
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(space.stats().free, space.stats().places - 2 * WRITERS - 1);
}

#[test]
fn threads_share_a_disk_and_its_flushes() {
    let device = Recorded::new(MEDIUM).flush_takes(Duration::from_micros(200));
    let device = Arc::new(device);
    let space = create(Disk::new(device.clone()), &options());
    writers_and_a_reader(&space, 40);
    drop(space);
    open(Disk::new(device)).unwrap();
}

#[test]
fn threads_use_several_rings_at_once() {
    let region = Simulated::new(&vec![0; MEDIUM + 16_384]);
    let space = create(Persistent::new(region.clone()), &options().rings(2, 16_384));
    writers_and_a_reader(&space, 300);
    assert!(space.stats().checkpoints > 10);
    let mut before = [0; 1024];
    space.read(0, &mut before).unwrap();
    drop(space);
    let space = open(Persistent::new(region)).unwrap();
    let mut after = [0; 1024];
    space.read(0, &mut after).unwrap();
    assert_eq!(before, after);
}

/// A thread commits to one ring, another one to the other ring changes one of its blocks, twice: so
/// the block has its first place again. Recovery must not take the first record, which is the last
/// one of its ring, for one without data.
#[test]
fn a_place_that_is_used_again_does_not_discredit_a_record_of_another_ring() {
    for rounds in 1..8 {
        let device = Arc::new(Recorded::new(MEDIUM + 16_384));
        let space = create(Disk::new(device.clone()), &options().rings(2, 16_384));
        let in_a_thread = |work: &(dyn Fn() + Sync)| {
            std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        };
        in_a_thread(&|| {
            let both = [
                Vector::write(0, &[1; 512]),
                Vector::write(100 * BLOCK, &[2; 512]),
            ];
            space.write_batch(&both).unwrap();
        });
        in_a_thread(&|| {
            for round in 0..rounds {
                space
                    .write_batch(&[Vector::write(0, &[3 + round; 512])])
                    .unwrap();
            }
        });
        drop(space);
        let space = open(Disk::new(Arc::new(Recorded::from_image(device.visible())))).unwrap();
        let mut found = [0; 512];
        space.read(100 * BLOCK, &mut found).unwrap();
        assert_eq!(found, [2; 512], "after {rounds} rounds");
        space.read(0, &mut found).unwrap();
        assert_eq!(found, [2 + rounds; 512]);
    }
}

/// Twelve threads whose records fit into the ring one by one, but not together: some make a
/// checkpoint first, and none fails.
#[test]
fn records_that_fill_the_ring_together_wait_for_room() {
    const THREADS: u64 = 12;
    let device = Recorded::new(2 << 20).flush_takes(Duration::from_millis(2));
    let space = create(Disk::new(Arc::new(device)), &options());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let space = &space;
            scope.spawn(move || {
                for round in 0..5 {
                    let at = |nth: u64| (thread << 36) + (nth << 20);
                    let data = [round; 8];
                    let apart: Vec<_> = (0..30).map(|nth| Vector::write(at(nth), &data)).collect();
                    space.write_batch(&apart).unwrap();
                }
            });
        }
    });
    let stats = space.stats();
    assert_eq!(stats.places - stats.free, THREADS * 30);
    assert!(stats.checkpoints > 5, "{stats:?}");
}

/// A device whose flush waits until so many writes were made, and then for those who made them to
/// ask for a flush of their own.
struct Patient {
    device: Recorded,
    writes: AtomicU64,
}

impl Storage for Patient {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.device.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_at(data, offset)
    }

    fn flush(&self) -> io::Result<()> {
        while self.device.writes() < self.writes.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        self.device.flush()
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_fua(data, offset)
    }
}

/// Alone, each of these batches would take a flush.
#[test]
fn writers_of_disjoint_blocks_share_flushes() {
    const WRITERS: u64 = 16;
    let device = Arc::new(Patient {
        device: Recorded::new(1 << 20),
        writes: AtomicU64::new(0),
    });
    let space = create(Disk::new(device.clone()), &options().rings(1, 65_536));
    let before = device.device.flushes();
    let wanted = device.device.writes() + WRITERS;
    device.writes.store(wanted, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for thread in 0..WRITERS {
            let vector = Vector::write(thread * BLOCK, &[1]);
            scope.spawn(|| space.write_batch(&[vector]).unwrap());
        }
    });
    let flushes = device.device.flushes() - before;
    assert!(flushes < WRITERS, "{flushes} flushes for {WRITERS} batches");
}

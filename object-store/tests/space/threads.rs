//! Several threads at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let device = Recorded::new(MEDIUM).flush_takes(std::time::Duration::from_micros(200));
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

/// Sixteen threads that write disjoint blocks share flushes: far fewer than two for each batch.
#[test]
fn writers_of_disjoint_blocks_share_flushes() {
    let device = Recorded::new(1 << 20).flush_takes(std::time::Duration::from_millis(2));
    let device = Arc::new(device);
    let space = create(Disk::new(device.clone()), &options());
    let before = device.flushes();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let space = &space;
            scope.spawn(move || {
                for _ in 0..8 {
                    space
                        .write_batch(&[Vector::write(thread * BLOCK, &[1])])
                        .unwrap();
                }
            });
        }
    });
    let flushes = device.flushes() - before;
    assert!(flushes < 16 * 8, "{flushes} flushes for 128 batches");
}

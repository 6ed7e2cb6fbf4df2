//! What reads, batches and trims do, and what they cost.

use std::sync::Arc;

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::testing::Recorded;
use spanlock_object_store::space::{Disk, Options, Persistent, Space, Vector};
use spanlock_pmem::simulated::Simulated;
use spanlock_range_lock::{Access, RwCounter};

use crate::common::{BLOCK, MEDIUM, WINDOWS, create, open, options};

#[test]
fn a_batch_writes_and_trims_far_apart() {
    let device = Arc::new(Recorded::new(MEDIUM));
    let space = create(Disk::new(device.clone()), &options());
    assert_eq!((space.block(), space.size()), (512, 1 << 41));
    let free = space.stats().free;
    space
        .write_batch(&[
            Vector::write(0, &[1; 1024]),
            Vector::write(WINDOWS[1] + 5, &[2; 3]),
        ])
        .unwrap();
    assert_eq!(space.stats().free, free - 3);
    space
        .write_batch(&[Vector::write(WINDOWS[1], &[3; 6]), Vector::trim(512..1024)])
        .unwrap();
    assert_eq!(space.stats().free, free - 2);
    let check = |space: &Space<_, _>| {
        let mut found = [9; 1536];
        space.read(0, &mut found).unwrap();
        assert_eq!(
            (&found[..512], &found[512..]),
            (&[1; 512][..], &[0; 1024][..])
        );
        let mut found = [9; 10];
        space.read(WINDOWS[1], &mut found).unwrap();
        assert_eq!(found, [3, 3, 3, 3, 3, 3, 2, 2, 0, 0]);
        assert_eq!(space.stats().free, free - 2);
    };
    check(&space);
    drop(space);
    check(&open(Disk::new(device)).unwrap());
}

/// All of a batch's data is written by one call if the places are neighbours; the record takes
/// another write. One flush makes both durable.
#[test]
fn a_batch_on_a_disk_takes_one_flush() {
    let device = Arc::new(Recorded::new(MEDIUM));
    let space = create(Disk::new(device.clone()), &options());
    let before = (device.writes(), device.flushes());
    let heads: Vec<_> = (0..16)
        .map(|nth| Vector::write(nth << 20, &[7; 64]))
        .collect();
    space.write_batch(&heads).unwrap();
    assert_eq!(
        (device.writes() - before.0, device.flushes() - before.1),
        (2, 1)
    );
    // Entries of a table that lie in one block cost one block.
    let free = space.stats().free;
    let entries: Vec<_> = (0..8)
        .map(|nth| Vector::write((1 << 35) + nth * 64, &[8; 64]))
        .collect();
    space.write_batch(&entries).unwrap();
    assert_eq!(free - space.stats().free, 1);
}

/// A block that is written in part, and is all zeros then, takes no place.
#[test]
fn a_block_that_becomes_zeros_loses_its_place() {
    let device = Arc::new(Recorded::new(MEDIUM));
    let space = create(Disk::new(device.clone()), &options());
    let free = space.stats().free;
    space.write_batch(&[Vector::write(0, &[1; 600])]).unwrap();
    space.write_batch(&[Vector::write(0, &[0; 511])]).unwrap();
    assert_eq!(space.stats().free, free - 2);
    space.write_batch(&[Vector::write(511, &[0; 2])]).unwrap();
    assert_eq!(space.stats().free, free - 1);
    let mut found = [9; 600];
    open(Disk::new(device))
        .unwrap()
        .read(0, &mut found)
        .unwrap();
    assert_eq!(
        (&found[..513], &found[513..]),
        (&[0; 513][..], &[1; 87][..])
    );
}

#[test]
fn a_trim_of_everything_frees_everything() {
    let space = create(
        Persistent::new(Simulated::new(&vec![0; MEDIUM])),
        &options(),
    );
    let free = space.stats().free;
    for nth in 0..45 {
        space
            .write_batch(&[Vector::write(nth << 33, &[nth as u8 + 1; 700])])
            .unwrap();
    }
    assert_eq!(space.stats().free, free - 90);
    space.trim(0..space.size()).unwrap();
    assert_eq!(space.stats().free, free);
    let mut found = [1; 700];
    space.read(44 << 33, &mut found).unwrap();
    assert_eq!(found, [0; 700]);
}

/// A ring of 16 KiB has room for 16 blocks of records.
#[test]
fn checkpoints_keep_the_rings_from_filling() {
    let region = Simulated::new(&vec![0; MEDIUM]);
    let space = create(Persistent::new(region.clone()), &options());
    for round in 1..=200_u64 {
        space
            .write_batch(&[Vector::write(round % 20 * BLOCK, &round.to_le_bytes())])
            .unwrap();
    }
    let stats = space.stats();
    assert!((20..60).contains(&stats.checkpoints), "{stats:?}");
    assert_eq!(stats.commits, 200);
    drop(space);
    let space = open(Persistent::new(region)).unwrap();
    for nth in 0..20 {
        let mut found = [0; 8];
        space.read(nth * BLOCK, &mut found).unwrap();
        assert_eq!(
            u64::from_le_bytes(found),
            180 + if nth == 0 { 20 } else { nth }
        );
    }
    // Opening has made a checkpoint, so numbers go on.
    assert_eq!(space.stats().checkpoints, 1);
    space.checkpoint().unwrap();
    assert_eq!(space.stats().checkpoints, 2);
}

#[test]
fn several_rings_have_one_sequence() {
    let region = Simulated::new(&vec![0; MEDIUM + 3 * 16_384]);
    let options = options().rings(4, 16_384);
    let space = create(Persistent::new(region.clone()), &options);
    // Each write comes from another thread, so from another ring.
    for round in 0..30_u64 {
        let write = || space.write_batch(&[Vector::write(0, &round.to_le_bytes())]);
        std::thread::scope(|scope| scope.spawn(write).join().unwrap()).unwrap();
        if round % 7 == 0 {
            space.checkpoint().unwrap();
        }
        let space = open(Persistent::new(Simulated::new(&region.bytes()))).unwrap();
        let mut found = [0; 8];
        space.read(0, &mut found).unwrap();
        assert_eq!(u64::from_le_bytes(found), round);
    }
}

#[test]
fn reads_and_batches_under_one_hold_are_one_step() {
    let space = create(
        Persistent::new(Simulated::new(&vec![0; MEDIUM])),
        &options(),
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let mut held = space.hold([(100..108, Access::Write)]).unwrap();
                    let mut found = [0; 8];
                    held.read(100, &mut found).unwrap();
                    let next = u64::from_le_bytes(found) + 1;
                    held.write_batch(&[Vector::write(100, &next.to_le_bytes())])
                        .unwrap();
                }
            });
        }
    });
    let mut found = [0; 8];
    space.read(100, &mut found).unwrap();
    assert_eq!(u64::from_le_bytes(found), 100);
}

/// On a medium that holds other data: only the superblocks must not be sound.
#[test]
fn blocks_have_any_size_and_media_any_content() {
    for block in [512, 4096, 65_536] {
        let device = Arc::new(Recorded::from_image(vec![0xA5; 4 << 20]));
        let options = Options::new().block(block);
        let space = create(Disk::new(device.clone()), &options);
        let data: Vec<u8> = (0..300_000_u32).map(|nth| (nth % 251) as u8).collect();
        let at = u64::from(block) * 1000 - 100;
        for round in 0..3 {
            space.write_batch(&[Vector::write(at, &data)]).unwrap();
            space
                .trim(0..at / u64::from(block) * u64::from(block))
                .unwrap();
            if round == 1 {
                space.checkpoint().unwrap();
            }
        }
        let check = |space: &Space<_, _>| {
            let mut found = vec![1; data.len() + 300];
            space.read(at - 100, &mut found).unwrap();
            assert_eq!(found[100..][..data.len()], data);
            assert!(
                found[..100]
                    .iter()
                    .chain(&found[100 + data.len()..])
                    .all(|it| *it == 0)
            );
        };
        check(&space);
        let free = space.stats().free;
        drop(space);
        let space = open(Disk::new(device)).unwrap();
        check(&space);
        assert_eq!(space.stats().free, free);
    }
}

#[test]
fn any_lock_of_batches_will_do() {
    let device = Disk::new(Recorded::new(1 << 20));
    let space = Space::create(device, &Options::new().size(1 << 30), RwCounter::new()).unwrap();
    space
        .write_batch(&[Vector::write(4096, b"one word locks all")])
        .unwrap();
    let mut found = [0; 3];
    space.read(4096, &mut found).unwrap();
    assert_eq!(&found, b"one");
    let space = Space::create(
        Disk::new(Recorded::new(1 << 20)),
        &Options::new(),
        IntervalLock::new(),
    );
    assert_eq!(space.unwrap().size(), 1 << 56);
}

#[test]
fn a_relocation_moves_places_and_saves_what_the_batch_overwrites() {
    let device = Arc::new(Recorded::new(MEDIUM));
    let space = create(Disk::new(device.clone()), &options());
    space.write_batch(&[Vector::write(0, &[1; 1024])]).unwrap();
    let (free, written) = (space.stats().free, device.writes());
    // One block is overwritten in part, the other only moves away; a hole moves too.
    let vectors = [
        Vector::relocate(0..1536, WINDOWS[1]),
        Vector::write(10, &[2; 3]),
    ];
    space.write_batch(&vectors).unwrap();
    assert_eq!(
        (space.stats().free, device.writes()),
        (free - 1, written + 2)
    );
    let check = |space: &Space<_, _>| {
        let mut found = [9; 1536];
        space.read(WINDOWS[1], &mut found).unwrap();
        assert_eq!(
            (&found[..1024], &found[1024..]),
            (&[1; 1024][..], &[0; 512][..])
        );
        space.read(0, &mut found).unwrap();
        let mut block = [1; 512];
        block[10..13].fill(2);
        assert_eq!((&found[..512], &found[512..]), (&block[..], &[0; 1024][..]));
    };
    check(&space);
    drop(space);
    let space = open(Disk::new(device)).unwrap();
    check(&space);
    space.checkpoint().unwrap();
    check(&space);
}

#[test]
fn a_relocation_that_makes_no_sense_is_refused() {
    let space = create(Disk::new(Arc::new(Recorded::new(MEDIUM))), &options());
    let refused = |vectors: &[Vector<'_>]| space.write_batch(vectors).unwrap_err().to_string();
    for (vectors, part) in [
        (vec![Vector::relocate(0..1000, 4096)], "0..1000"),
        (vec![Vector::relocate(0..1024, 100)], "100..1124"),
        (vec![Vector::relocate(0..1024, 512)], "overlap"),
        (
            vec![
                Vector::relocate(0..512, 1024),
                Vector::relocate(0..512, 2048),
            ],
            "overlap",
        ),
        (
            vec![
                Vector::relocate(0..512, 1024),
                Vector::relocate(1024..1536, 2048),
            ],
            "overlap",
        ),
        (
            vec![Vector::relocate(0..512, 1024), Vector::write(1025, &[1])],
            "overlap",
        ),
        (vec![Vector::relocate(0..512, u64::MAX - 511)], "the space"),
        (
            vec![Vector::relocate(1 << 41..(1 << 41) + 512, 0)],
            "the space",
        ),
    ] {
        let why = refused(&vectors);
        assert!(why.contains(part), "{why}");
    }
}

/// A relocation costs what its blocks with places cost, not what its addresses span.
#[test]
fn a_relocation_may_span_half_of_the_space() {
    let space = create(Disk::new(Arc::new(Recorded::new(MEDIUM))), &options());
    let half = space.size() / 2;
    space.write_batch(&[Vector::write(700, &[5; 9])]).unwrap();
    let free = space.stats().free;
    space
        .write_batch(&[Vector::relocate(0..half, half)])
        .unwrap();
    assert_eq!(space.stats().free, free);
    let mut found = [0; 9];
    space.read(half + 700, &mut found).unwrap();
    assert_eq!(found, [5; 9]);
    let (start, end) = (1024, 512);
    let reversed = space.write_batch(&[Vector::relocate(start..end, 4096)]);
    assert!(reversed.unwrap_err().to_string().contains("1024..512"));
}

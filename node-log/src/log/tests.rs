//! Tests of the log.

use std::collections::BTreeSet;
use std::thread;

use super::*;

const SIZE: u32 = 8;

fn owner(block: Block) -> Owner {
    Owner {
        nid: block + 1,
        slot: (block % 7) as u16,
    }
}

/// Allocates blocks and sets their owners.
fn allocate(log: &Log, blocks: u32, heat: Heat) -> Vec<Block> {
    let mut room = log.reserve(blocks, heat).expect("there is room");
    let mut all = Vec::new();
    while (all.len() as u32) < blocks {
        let (first, count) = room.allocate(blocks - all.len() as u32);
        all.extend(first..first + count);
    }
    all.iter().for_each(|&it| log.set_owner(it, owner(it)));
    all
}

#[test]
fn every_block_is_given_out_once_and_again_after_its_free() {
    let log = Log::new(512, 6, SIZE);
    assert_eq!(log.room(), 32);
    for _ in 0..3 {
        let mut all = allocate(&log, 30, Heat::Hot);
        all.extend(allocate(&log, 15, Heat::Cold));
        all.extend(allocate(&log, 2, Heat::Hot));
        assert!(all.iter().all(|it| (512..560).contains(it)));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 47);
        assert_eq!((log.room(), log.used()), (0, 47));
        assert!(log.reserve(1, Heat::Hot).is_none());
        assert!(log.reserve(2, Heat::Cold).is_none());
        all.extend(allocate(&log, 1, Heat::Cold));
        assert!(all.iter().all(|&it| log.owner(it) == Some(owner(it))));
        log.free(&all);
        assert_eq!((log.room(), log.used()), (32, 0));
        assert!(all.iter().all(|&it| log.owner(it).is_none()));
    }
}

#[test]
fn allocations_are_consecutive_and_end_with_the_segment() {
    let log = Log::new(1, 4, SIZE);
    let mut room = log.reserve(16, Heat::Hot).unwrap();
    let (first, count) = room.allocate(5);
    assert_eq!((first, count), (1, 5));
    assert_eq!(room.allocate(11), (6, 3));
    let (next, count) = room.allocate(8);
    assert_eq!(count, 8);
    assert_eq!((next - 1) % SIZE, 0);
}

#[test]
fn a_dropped_room_gives_back_what_was_not_allocated() {
    let log = Log::new(0, 4, SIZE);
    let mut room = log.reserve(16, Heat::Hot).unwrap();
    assert_eq!(log.room(), 0);
    let _ = room.allocate(3);
    drop(room);
    assert_eq!(log.room(), 13);
    drop(log.reserve(13, Heat::Hot).unwrap());
    assert!(log.reserve(14, Heat::Hot).is_none());
}

#[test]
#[should_panic(expected = "3 of 2 blocks")]
fn more_than_the_room_is_refused() {
    let log = Log::new(0, 4, SIZE);
    let _ = log.reserve(2, Heat::Hot).unwrap().allocate(3);
}

/// Cold blocks take the segments that are kept for them, and then whole segments of the hot head.
#[test]
fn cold_blocks_may_use_every_segment() {
    let log = Log::new(0, 6, SIZE);
    let hot = allocate(&log, 9, Heat::Hot);
    assert_eq!(log.room(), 23);
    // Two segments are kept, and two are free. The rest of the hot head's segment is out of reach.
    assert!(log.reserve(33, Heat::Cold).is_none());
    let cold = allocate(&log, 17, Heat::Cold);
    assert_eq!(log.room(), 15);
    // The cold head has less than its share, so two segments go there, and the next one does not.
    log.free(&cold);
    assert_eq!(log.room(), 15);
    log.free(&hot);
    assert_eq!(log.room(), 23);
    assert_eq!(log.used(), 0);
}

#[test]
fn the_victim_is_full_and_has_the_fewest_blocks() {
    let log = Log::new(0, 6, SIZE);
    assert!(log.victim().is_none());
    let first = allocate(&log, 8, Heat::Hot);
    let second = allocate(&log, 8, Heat::Hot);
    assert!(log.victim().is_none(), "nothing is free in them");
    let third = allocate(&log, 7, Heat::Hot);
    log.free(&third[..6]);
    assert!(log.victim().is_none(), "a head's segment is no victim");
    log.free(&first[..3]);
    log.free(&second[..5]);
    let kept: Vec<_> = second[5..].iter().map(|&it| (it, owner(it))).collect();
    assert_eq!(log.victim(), Some(kept.clone()));
    // It stays in place.
    assert_eq!(log.victim(), Some(kept));
    log.free(&second[5..]);
    assert_eq!(log.victim().unwrap().len(), 5);
    let last = allocate(&log, 1, Heat::Hot);
    assert_eq!(last, [23]);
    assert_eq!(log.victim().unwrap().len(), 2, "now it is full");
}

#[test]
fn recovery_claims_what_nodes_name() {
    let log = Log::new(100, 4, SIZE);
    log.claim(100, owner(1)).unwrap();
    log.claim(107, owner(2)).unwrap();
    log.claim(119, owner(3)).unwrap();
    assert_eq!(log.claim(107, owner(4)), Err(Some(owner(2))));
    assert_eq!(log.claim(99, owner(4)), Err(None));
    assert_eq!(log.claim(132, owner(4)), Err(None));
    assert_eq!((log.used(), log.room()), (3, 0));
    assert_eq!(log.victim(), Some(vec![(119, owner(3))]));
    let cold = allocate(&log, 2, Heat::Cold);
    assert!(cold.iter().all(|it| !(100..108).contains(it)));
    assert!(cold.iter().all(|it| !(116..124).contains(it)));
    log.free(&[100, 107]);
    log.free(&[119]);
    log.free(&cold);
    assert_eq!(log.used(), 0);
    // The cold head got back its share first, less what it has left behind.
    assert_eq!(log.room(), 8);
    drop(log.reserve(22, Heat::Cold).unwrap());
    assert_eq!(log.room(), 8);
}

#[test]
fn claims_leave_the_cold_head_its_share() {
    let log = Log::new(0, 6, SIZE);
    for segment in 0..4 {
        log.claim(segment * SIZE, owner(segment)).unwrap();
    }
    assert_eq!(log.room(), 0);
    drop(log.reserve(16, Heat::Cold).unwrap());
}

#[test]
fn threads_share_the_log() {
    let log = Log::new(0, 10, SIZE);
    let work = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut mine: Vec<Block> = Vec::new();
        for _ in 0..20_000 {
            let heat = [Heat::Hot, Heat::Cold][random.usize(0..2)];
            let blocks = random.u32(1..6);
            if mine.len() < 12
                && let Some(mut room) = log.reserve(blocks, heat)
            {
                let (first, count) = room.allocate(random.u32(1..=blocks));
                for block in first..first + count {
                    assert_eq!(log.owner(block), None, "nobody else has it");
                    log.set_owner(block, owner(seed as u32));
                    mine.push(block);
                }
            }
            let at = random.usize(..=mine.len().saturating_sub(1));
            let freed = mine.split_off(at);
            assert!((freed.iter()).all(|&it| log.owner(it) == Some(owner(seed as u32))));
            log.free(&freed);
        }
        log.free(&mine);
    };
    thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || work(seed));
        }
    });
    assert_eq!(log.used(), 0);
    // Only what is left behind in the heads' segments is out of reach.
    let hot = log.reserve(log.room() as u32, Heat::Hot).unwrap();
    let (mut cold, mut room) = (Vec::new(), u64::from(hot.blocks));
    while let Some(block) = log.reserve(1, Heat::Cold) {
        cold.push(block);
        room += 1;
    }
    assert!(
        (80 - 2 * u64::from(SIZE) + 2..=80).contains(&room),
        "{room}"
    );
}

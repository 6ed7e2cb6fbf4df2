//! The segment tree: shapes, growth, memory, and ranges of any size.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::error::Error;
use std::mem::forget;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use proptest::prelude::*;
use spanlock_range_lock::{RangeError, RangeLockExt};
use spanlock_srl::{SegmentError, Segments, Shape, SrlArray, SrlTree, SrlTreePacked};

const TB: u64 = 1 << 40;
const GB: u64 = 1 << 30;
/// The paper's largest file.
const LARGEST: u64 = 3 * TB / 2;
/// A root of 48 slots.
const ROOT: usize = 48 * size_of::<usize>();
/// An inner node has 64 slots.
const INNER: usize = 64 * size_of::<usize>();

fn tree(capacity: u64, size: u64, levels: &[u32]) -> Result<SrlTree, SegmentError> {
    SrlTree::with_shape(capacity, &Shape::new(size, levels)?)
}

#[test]
fn the_default_shape_is_that_of_the_paper() {
    let paper = Shape::default();
    assert_eq!(
        (paper.segment_size(), paper.levels()),
        (4096, &[6, 6, 6, 6, 5][..])
    );
    assert_eq!(paper.covers(), 2 * TB);
    assert_eq!(Shape::for_capacity(LARGEST, 4096).unwrap(), paper);
    let lock = SrlTree::new(LARGEST).unwrap();
    assert_eq!(lock.capacity(), LARGEST);
    assert_eq!(lock.segments(), Segments::new(LARGEST, 4096).unwrap());
    assert_eq!(lock.memory_usage(), ROOT);
    // The smallest capacity and the largest capacity.
    assert_eq!(SrlTree::new(1).unwrap().memory_usage(), size_of::<usize>());
    for size in [1, 4096, 1 << 63] {
        let shape = Shape::for_capacity(u64::MAX, size).unwrap();
        assert_eq!(shape.covers(), u64::MAX);
    }
}

#[test]
fn every_constructor_error() {
    for size in [0, 3, 4097, u64::MAX] {
        let error = SegmentError::Size { size };
        assert_eq!(Shape::new(size, &[6]), Err(error));
        assert_eq!(Shape::for_capacity(GB, size), Err(error));
        assert_eq!(SrlTree::with_segment_size(GB, size).unwrap_err(), error);
    }
    assert_eq!(Shape::new(4096, &[]), Err(SegmentError::NoLevels));
    for (level, levels) in [(0, [0, 5, 5]), (1, [5, 17, 5]), (2, [5, 5, u32::MAX])] {
        let error = SegmentError::Level {
            level,
            bits: levels[level],
            least: 1,
            most: 16,
        };
        assert_eq!(Shape::new(4096, &levels), Err(error));
    }
    // The sixteen states of a word must lie in one leaf.
    let shape = Shape::new(1, &[4, 3]).unwrap();
    let error = SegmentError::Level {
        level: 1,
        bits: 3,
        least: 4,
        most: 16,
    };
    assert_eq!(SrlTreePacked::with_shape(100, &shape).unwrap_err(), error);
    assert!(error.to_string().contains("level 1 has 3 bits"), "{error}");
    drop(SrlTree::with_shape(100, &shape).unwrap());
}

#[test]
fn levels_that_do_not_cover_the_capacity() {
    for (levels, size, capacity, missing) in [
        (&[6, 6, 6, 6, 5][..], 4096, 2 * TB + 1, 1),
        (&[1], 1, 5, 2),
        (&[16, 16, 16, 15], 1, u64::MAX, 1),
    ] {
        let error = tree(capacity, size, levels).unwrap_err();
        let covered = size << levels.iter().sum::<u32>();
        assert_eq!(
            error,
            SegmentError::Coverage {
                covered,
                capacity,
                missing
            }
        );
        let message = error.to_string();
        for number in [covered, capacity, missing.into()] {
            assert!(message.contains(&number.to_string()), "{message}");
        }
        assert!(error.source().is_none());
        // Each change that the message proposes suffices.
        drop(tree(capacity, size << missing, levels).unwrap());
        let more = [levels, &[missing][..]].concat();
        drop(tree(capacity, size, &more).unwrap());
        drop(tree(covered, size, levels).unwrap());
    }
}

#[test]
fn zero_and_full_capacity() {
    let lock = SrlTree::new(0).unwrap();
    drop(lock.write(0..0).unwrap());
    assert_eq!(lock.shrink(), 0);
    let expected = RangeError::PastCapacity {
        start: 0,
        end: 1,
        capacity: 0,
    };
    assert_eq!(lock.write(0..1).err(), Some(expected));

    let lock = SrlTree::with_segment_size(u64::MAX, 1).unwrap();
    let last = lock.write(u64::MAX - 1..u64::MAX).unwrap();
    assert!(lock.try_read(0..u64::MAX).is_err());
    drop(lock.try_write(0..u64::MAX - 1).unwrap());
    drop(last);
    let all = lock.write(0..u64::MAX).unwrap();
    assert!(lock.try_read(u64::MAX - 1..u64::MAX).is_err());
    drop(all);
    assert!(lock.shrink() > 0);
    drop(lock.try_write(u64::MAX - 1..u64::MAX).unwrap());
}

/// The first use of a segment creates the missing nodes on its path.
#[test]
fn first_use_creates_the_missing_nodes() {
    let lock = SrlTree::new(LARGEST).unwrap();
    let touch = |segment: u64| {
        let before = lock.memory_usage();
        drop(lock.write(segment << 12..(segment << 12) + 1).unwrap());
        lock.memory_usage() - before
    };
    let leaf = 32 * 4;
    assert_eq!(touch(0), 3 * INNER + leaf);
    assert_eq!((touch(0), touch(31)), (0, 0));
    assert_eq!(touch(32), leaf);
    assert_eq!(touch(1 << 11), INNER + leaf);
    assert_eq!(touch(1 << 17), 2 * INNER + leaf);
    assert_eq!(touch(1 << 23), 3 * INNER + leaf);
    assert_eq!(touch((LARGEST >> 12) - 1), 3 * INNER + leaf);
    // Half a byte per segment.
    let packed = SrlTreePacked::new(LARGEST).unwrap();
    drop(packed.write(0..1).unwrap());
    assert_eq!(packed.memory_usage(), ROOT + 3 * INNER + 16);
}

/// Threads that need the same missing nodes at the same time share one set of them.
#[test]
fn threads_that_create_the_same_leaf_share_it() {
    for _ in 0..200 {
        let lock = SrlTree::new(LARGEST).unwrap();
        let (start, entered) = (Barrier::new(4), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    let _hold = lock.write(TB..TB + 1).unwrap();
                    // If the segment had two words, updates would be lost.
                    let seen = entered.load(Relaxed);
                    thread::yield_now();
                    entered.store(seen + 1, Relaxed);
                });
            }
        });
        assert_eq!(entered.into_inner(), 4);
        assert_eq!(lock.memory_usage(), ROOT + 3 * INNER + 128);
    }
}

#[test]
fn wide_ranges_create_no_nodes() {
    let lock = SrlTree::new(LARGEST).unwrap();
    for range in [0..LARGEST, 1..LARGEST - 1, GB..3 * GB] {
        let all = lock.write(range.clone()).unwrap();
        assert!(lock.try_read(2 * GB..2 * GB + 1).is_err());
        drop(all);
        drop((lock.read(range.clone()).unwrap(), lock.read(range).unwrap()));
    }
    // The failed tries have created their leaf.
    assert_eq!(lock.memory_usage(), ROOT + 3 * INNER + 128);
    lock.shrink();
    assert_eq!(lock.memory_usage(), ROOT);
}

#[test]
fn wide_ranges_on_a_populated_tree() {
    let lock = SrlTree::new(LARGEST).unwrap();
    for segment in 0..GB >> 12 {
        drop(lock.write(segment << 12..(segment + 1) << 12).unwrap());
    }
    for at in [0, GB - 1, TB, LARGEST - 1] {
        let small = lock.read(at..at + 1).unwrap();
        assert!(lock.try_write(0..LARGEST).is_err());
        drop(lock.try_read(0..LARGEST).unwrap());
        drop(small);
        drop(lock.try_write(0..LARGEST).unwrap());
    }
    let wide = lock.read(0..LARGEST).unwrap();
    assert!(lock.try_write(TB..TB + 1).is_err());
    drop(lock.read(TB..TB + 1).unwrap());
    drop(wide);
}

/// Writers of the whole range and writers of one segment exclude each other.
#[test]
fn wide_and_small_writers_exclude_each_other() {
    let lock = SrlTree::new(LARGEST).unwrap();
    let shared = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (lock, shared) = (&lock, &shared);
            scope.spawn(move || {
                for round in 0..200 {
                    let range = match (thread + round) % 4 {
                        0 => 0..LARGEST,
                        _ => TB..TB + 1,
                    };
                    let _hold = lock.write(range).unwrap();
                    let seen = shared.load(Relaxed);
                    thread::yield_now();
                    shared.store(seen + 1, Relaxed);
                }
            });
        }
    });
    assert_eq!(shared.into_inner(), 800);
}

/// Computes [SRL] Equation 3 for levels with equal numbers of bits, with `d - l` instead of
/// `d - l - 1` in Equation 2.
///
/// So each level has as many nodes as the working set needs.
fn equation_3(index: u32, depth: u32, segment: u32, working_set: u32) -> u64 {
    let pointers = |level: u32| {
        let n = (working_set - segment).saturating_sub(index * (depth - level));
        (1 << n) * (1 << index) * 8
    };
    (0..depth).map(pointers).sum::<u64>() + (1 << (working_set - segment)) * 4
}

#[test]
fn the_papers_memory() {
    let shape = Shape::new(4096, &[5; 5]).unwrap();
    for working_set in 12..=37 {
        assert_eq!(
            shape.paper_memory(1 << working_set),
            equation_3(5, 5, 12, working_set)
        );
    }
    // §VI-B on Figure 11: the array takes about 1.5 GB, and the tree less for files below 512 GB.
    let array = SrlArray::new(LARGEST).unwrap().memory_usage() as u64;
    assert_eq!(array, 3 * GB / 2);
    let paper = Shape::default();
    for working_set in [GB, 64 * GB, 256 * GB, 480 * GB] {
        assert!(paper.paper_memory(working_set) < array);
    }
    let crossing = paper.paper_memory(512 * GB);
    assert!(array < crossing && crossing < array * 103 / 100);
    // For a working set of 1 GiB: a word and a pointer per segment, and the nodes above.
    let above = 8192 / 64 * 512 + 2 * 512 + 512 + 512;
    assert_eq!(paper.paper_memory(GB), (4 + 8) * (GB >> 12) + above);
}

#[test]
fn ours_is_at_most_half_of_the_papers() {
    let lock = SrlTree::new(LARGEST).unwrap();
    let packed = SrlTreePacked::new(LARGEST).unwrap();
    for leaf in 0..GB >> 17 {
        drop(lock.write(leaf << 17..(leaf << 17) + 1).unwrap());
        drop(packed.write(leaf << 17..(leaf << 17) + 1).unwrap());
    }
    let paper = Shape::default().paper_memory(GB) as usize;
    assert_eq!(
        lock.memory_usage(),
        ROOT + (1 << 20) + (8192 / 64 + 2 + 1) * INNER
    );
    assert!(2 * lock.memory_usage() <= paper);
    assert!(10 * packed.memory_usage() <= paper);
}

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Try { start: u64, len: u64, write: bool },
    Release(usize),
    Shrink { start: u64, len: u64 },
}

fn step(capacity: u64) -> impl Strategy<Value = Step> {
    let range = move || (0..capacity, 1..=capacity);
    prop_oneof![
        6 => (range(), 1..8_u64, any::<bool>()).prop_map(|((start, long), short, write)| {
            let len = if long % 4 == 0 { long } else { short };
            Step::Try { start, len, write }
        }),
        4 => any::<usize>().prop_map(Step::Release),
        1 => range().prop_map(|(start, len)| Step::Shrink { start, len }),
    ]
}

proptest! {
    /// A tree of any shape grants what the array grants, for any shrinks and any `wide_above`.
    #[test]
    fn any_shape_grants_what_the_array_grants(
        levels in prop::collection::vec(1..4_u32, 1..6),
        size_bits in 0..3_u32,
        wide_above in 1..20_u64,
        steps in prop::collection::vec(step(200), 1..80),
    ) {
        let size = 1 << size_bits;
        let shape = Shape::new(size, &levels).unwrap();
        let capacity = shape.covers().min(200);
        let tree = SrlTree::with_shape(capacity, &shape).unwrap().wide_above(wide_above);
        let array = SrlArray::with_segment_size(capacity, size).unwrap().wide_above(u64::MAX);
        let (mut writes, mut reads) = (Vec::new(), Vec::new());
        let clamp = |start: u64, len: u64| {
            let start = start % capacity;
            start..(start + len).min(capacity)
        };
        for step in steps {
            match step {
                Step::Try { start, len, write: true } => {
                    let range = clamp(start, len);
                    match (tree.try_write(range.clone()), array.try_write(range)) {
                        (Ok(ours), Ok(theirs)) => writes.push((ours, theirs)),
                        (ours, theirs) => prop_assert_eq!(ours.err(), theirs.err()),
                    }
                }
                Step::Try { start, len, write: false } => {
                    let range = clamp(start, len);
                    match (tree.try_read(range.clone()), array.try_read(range)) {
                        (Ok(ours), Ok(theirs)) => reads.push((ours, theirs)),
                        (ours, theirs) => prop_assert_eq!(ours.err(), theirs.err()),
                    }
                }
                Step::Release(which) if which % 2 == 0 && !writes.is_empty() => {
                    drop(writes.swap_remove(which / 2 % writes.len()));
                }
                Step::Release(which) if !reads.is_empty() => {
                    drop(reads.swap_remove(which / 2 % reads.len()));
                }
                Step::Release(_) => {}
                Step::Shrink { start, len } => {
                    let before = tree.memory_usage();
                    let freed = tree.shrink_range(clamp(start, len)).unwrap();
                    prop_assert_eq!(tree.memory_usage(), before - freed);
                }
            }
        }
        drop((writes, reads));
        tree.shrink();
        prop_assert_eq!(tree.memory_usage(), SrlTree::with_shape(capacity, &shape).unwrap().memory_usage());
        drop(tree.try_write(0..capacity).unwrap());
    }
}

#[test]
fn a_forgotten_guard_keeps_its_leaf() {
    let lock = SrlTree::new(LARGEST).unwrap();
    forget(lock.read(TB..TB + 1).unwrap());
    drop(lock.write(0..1).unwrap());
    lock.shrink();
    assert_eq!(lock.memory_usage(), ROOT + 3 * INNER + 128);
    assert!(lock.try_write(TB..TB + 1).is_err());
    assert!(lock.try_write(0..LARGEST).is_err());
    drop(lock.read(TB..TB + 1).unwrap());
}

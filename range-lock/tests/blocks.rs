//! Blocks: what they contain, and what they reject.

use std::sync::Arc;

use spanlock_range_lock::{Access, Block, RangeBatchGuard, RangeError, RangeLock, RwCounter};

const WRITE: Access = Access::Write;

fn plane<T>(data: Vec<T>) -> RangeLock<T, RwCounter> {
    RangeLock::with_lock(data, RwCounter::new()).unwrap()
}

/// Returns the parts of a batch for this block, all of which must be held for writing.
fn rows_of(block: Block<u8>) -> Vec<std::ops::Range<usize>> {
    let plane = plane(vec![0; 100]);
    let guard = plane.lock_all(block.rows(WRITE)).unwrap();
    assert_eq!(block.rows(WRITE).len(), guard.parts().len());
    let rows = guard.parts().map(|(range, how)| {
        assert_eq!(how, WRITE);
        range
    });
    rows.collect()
}

#[test]
fn a_block_is_columns_of_rows() {
    let block = Block::new(1..4, 2..6, 10).unwrap();
    assert_eq!(rows_of(block), [12..16, 22..26, 32..36]);
    let moved = block.starting_at(5).unwrap();
    assert_eq!(rows_of(moved), [17..21, 27..31, 37..41]);
    assert_eq!(format!("{moved:?}"), "3 rows of 4 from 17 on, one every 10");
    // Rows that touch are rows all the same.
    let whole = Block::new(0..3, 0..10, 10).unwrap();
    assert_eq!(rows_of(whole), [0..10, 10..20, 20..30]);
    for (rows, columns, stride) in [(4..4, 2..6, 10), (1..4, 6..6, 10), (0..9, 0..0, 0)] {
        let nothing = Block::new(rows, columns, stride).unwrap();
        assert_eq!(rows_of(nothing), []);
    }
}

#[test]
#[allow(clippy::reversed_empty_ranges)]
fn a_wrong_shape_is_rejected() {
    let new = |rows, columns, stride| Block::<u8>::new(rows, columns, stride).err();
    let reversed = |start, end| Some(RangeError::Reversed { start, end });
    assert_eq!(new(4..1, 2..6, 10), reversed(4, 1));
    assert_eq!(new(1..4, 6..2, 10), reversed(6, 2));
    // The columns fit, but not where they begin.
    let error = new(1..4, 7..11, 10).unwrap();
    assert_eq!(
        error,
        RangeError::Stride {
            end: 11,
            stride: 10
        }
    );
    assert_eq!(
        error.to_string(),
        "columns up to 11 do not fit into a stride of 10 elements: rows would overlap"
    );
    let error = new(0..3, 0..1, usize::MAX / 2).unwrap();
    assert!(matches!(error, RangeError::Rows { rows: 3, .. }), "{error}");
    assert_eq!(new(0..2, 0..1, usize::MAX / 2), None);
    let far = Block::<u8>::new(0..2, 0..1, 10).unwrap();
    let error = far.starting_at(usize::MAX - 10).err();
    let start = usize::MAX as u64 - 10;
    assert_eq!(error, Some(RangeError::Overflow { start, len: 11 }));
    assert!(far.starting_at(usize::MAX - 11).is_ok());
}

#[test]
fn a_block_past_the_end_locks_nothing() {
    let plane = plane(vec![0_u32; 100]);
    // A stride in bytes where elements are meant.
    let block = Block::new(0..10, 0..4, 40).unwrap();
    let expected = RangeError::PastCapacity {
        start: 120,
        end: 124,
        capacity: 100,
    };
    assert_eq!(plane.lock_all(block.rows(WRITE)).err(), Some(expected));
    drop(plane.try_write(..).unwrap());
}

#[test]
fn blocks_of_a_batch_do_not_overlap() {
    let plane = plane(vec![0_u8; 100]);
    let block = |rows, columns| Block::new(rows, columns, 10).unwrap();
    let [left, right] = [block(0..3, 0..5), block(0..3, 5..10)];
    // Rows come in ascending order, whatever the order of the blocks.
    let mut both = plane
        .lock_all(right.rows(Access::Read).chain(left.rows(WRITE)))
        .unwrap();
    assert_eq!(both.parts_mut().count(), 3);
    let parts = Vec::from_iter(both.parts());
    assert_eq!(parts[..2], [(0..5, WRITE), (5..10, Access::Read)]);
    // A range may cover rows that touch.
    assert_eq!(both.get(..).map(<[u8]>::len), Some(30));
    assert!(both.get_mut(0..6).is_none());
    drop(both);
    let across = block(2..4, 4..6);
    let error = plane
        .lock_all(left.rows(WRITE).chain(across.rows(WRITE)))
        .err();
    let expected = RangeError::Overlap {
        start: 20,
        end: 25,
        other_start: 24,
        other_end: 26,
    };
    assert_eq!(error, Some(expected));
    assert_eq!(
        error.unwrap().to_string(),
        "row 20..25 overlaps row 24..26 of the same batch"
    );
    assert!(
        plane
            .try_lock_all(left.rows(WRITE).chain(left.rows(WRITE)))
            .is_err()
    );
    drop(plane.try_write(..).unwrap());
}

#[test]
fn elements_of_any_size_have_blocks() {
    let units = plane(vec![(); 100]);
    let mut guard = units
        .lock_all(Block::new(2..5, 1..4, 10).unwrap().rows(WRITE))
        .unwrap();
    let rows = Vec::from_iter(guard.parts_mut().map(|row| row.len()));
    assert_eq!(rows, [3, 3, 3]);
    drop(guard);
    // More rows than have a place in the guard.
    let tall = Arc::new(plane(vec![[0_u64; 3]; 2000]));
    let block = Block::new(0..200, 3..7, 10).unwrap();
    let mut guard = RangeBatchGuard::lock(tall.clone(), block.rows(WRITE)).unwrap();
    let rows = Vec::from_iter(guard.parts_mut());
    assert_eq!(rows.len(), 200);
    // The guard owns a share of the lock, and can be moved while it is held.
    rows.into_iter()
        .flatten()
        .for_each(|element| element[1] = 1);
    let moved = Box::new(guard);
    std::thread::spawn(move || drop(moved)).join().unwrap();
    let sum: u64 = tall
        .read(..)
        .unwrap()
        .iter()
        .map(|element| element[1])
        .sum();
    assert_eq!(sum, 800);
}

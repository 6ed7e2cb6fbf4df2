//! A two-dimensional block, as one batch and row by row, beside slices that nobody checks.
//!
//! A thread fills a tile of 64 rows of 64 bytes, then the next tile of the plane. A plane of one
//! tile stays in the nearest cache, and one of 4 MiB does not. A stride of 4096 bytes puts all rows
//! of a tile into the same set of that cache, so what a form costs there depends on what else is
//! in that set. Rows that are 12352 bytes apart lie in segments that do not touch.
//!
//! The forms take turns, and the table shows medians, because only their ratios count.

use std::hint::black_box;
use std::time::{Duration, Instant};

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{
    Access, Block, RangeLock, RangeLockExt, RawRangeLockBatch, RwCounter, RwDistributed,
};
use spanlock_srl::{SrlArray, SrlPacked, SrlTree, SrlTreePacked};

const ROWS: usize = 64;
const COLUMNS: usize = 64;

/// Tiles that are filled between two readings of the clock.
const TILES: usize = 200;

/// A plane of bytes under a lock. The forms differ in how they reach a tile.
struct Plane<L: RawRangeLockBatch> {
    lock: RangeLock<u8, L>,
    first: *mut u8,
    stride: usize,
    tiles: usize,
    /// The last tile.
    at: usize,
}

impl<L: RawRangeLockBatch> Plane<L> {
    /// Returns the number of tiles side by side.
    fn across(&self) -> usize {
        self.stride / COLUMNS - 1
    }

    /// Moves to the next tile; returns its first row and column, the stride, and the number of
    /// columns. No form knows them at compile time.
    fn next(&mut self) -> (usize, usize, usize, usize) {
        self.at = (self.at + 1) % self.tiles;
        let across = self.across();
        let (y, x) = (self.at / across * ROWS, self.at % across * COLUMNS);
        // A row is one cache line, wherever the allocator has put the plane.
        let x = x + self.first.align_offset(COLUMNS);
        black_box((y, x, self.stride, COLUMNS))
    }

    /// # Safety
    /// The row lies within the plane, and nobody else uses it.
    unsafe fn fill_unchecked(&self, start: usize, columns: usize, value: u8) {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(start), columns) }.fill(value);
    }

    #[inline(never)]
    fn unchecked(&mut self, value: u8) {
        let (y, x, stride, columns) = self.next();
        for row in y..y + ROWS {
            // SAFETY: a tile lies within the plane, which has one user.
            unsafe { self.fill_unchecked(row * stride + x, columns, value) };
        }
    }

    #[inline(never)]
    fn holds(&mut self, value: u8) {
        let (y, x, stride, columns) = self.next();
        for row in y..y + ROWS {
            let start = row * stride + x;
            let _hold = self.lock.raw().write(start..start + columns).unwrap();
            // SAFETY: as above.
            unsafe { self.fill_unchecked(start, columns, value) };
        }
    }

    #[inline(never)]
    fn rows(&mut self, value: u8) {
        let (y, x, stride, columns) = self.next();
        for row in y..y + ROWS {
            let start = row * stride + x;
            self.lock.write(start..start + columns).unwrap().fill(value);
        }
    }

    #[inline(never)]
    fn block(&mut self, value: u8) {
        let (y, x, stride, columns) = self.next();
        let block = Block::new(y..y + ROWS, x..x + columns, stride).unwrap();
        let mut tile = self.lock.lock_all(block.rows(Access::Write)).unwrap();
        tile.parts_mut().for_each(|row| row.fill(value));
    }

    #[inline(never)]
    fn ranges(&mut self, value: u8) {
        let (y, x, stride, columns) = self.next();
        let range = |row: usize| row * stride + x..row * stride + x + columns;
        let rows = (y..y + ROWS).map(|row| (range(row), Access::Write));
        let mut tile = self.lock.lock_all(rows).unwrap();
        for row in y..y + ROWS {
            tile.get_mut(range(row)).unwrap().fill(value);
        }
    }
}

/// How a tile is filled.
type Form<L> = fn(&mut Plane<L>, u8);

/// Prints the row of a lock: nanoseconds for a tile in each form, and the ratios of the block.
fn measure<L: RawRangeLockBatch>(name: &str, lock: L, stride: usize, down: usize, turns: usize) {
    let mut lock = RangeLock::with_lock(vec![0; ROWS * down * stride], lock).unwrap();
    let first = lock.get_mut().as_mut_ptr();
    let mut plane = Plane {
        lock,
        first,
        stride,
        tiles: 1,
        at: 0,
    };
    if down > 1 {
        plane.tiles = down * plane.across();
    }
    let forms: [Form<L>; 5] = [
        Plane::unchecked,
        Plane::holds,
        Plane::rows,
        Plane::block,
        Plane::ranges,
    ];
    let mut samples = [const { Vec::new() }; 5];
    for _ in 0..turns {
        for (form, samples) in forms.iter().zip(&mut samples) {
            (0..TILES / 10).for_each(|tile| form(&mut plane, tile as u8));
            let start = Instant::now();
            (0..TILES).for_each(|tile| form(&mut plane, tile as u8));
            samples.push(start.elapsed());
        }
    }
    let [unchecked, holds, rows, block, ranges] = samples.map(|mut samples: Vec<Duration>| {
        samples.sort();
        samples[samples.len() / 2].as_secs_f64() * 1e9 / TILES as f64
    });
    println!(
        "| {name} | {stride} | {down} | {unchecked:.0} | {holds:.0} | {rows:.0} | {block:.0} | \
         {ranges:.0} | {:.2} | {:.2} | {:.2} |",
        block / rows,
        block / holds,
        block / unchecked
    );
}

fn main() {
    // `cargo test --benches` runs each form once.
    let turns = if std::env::args().any(|arg| arg == "--bench") {
        200
    } else {
        1
    };
    println!(
        "| lock | stride | tiles down | unchecked, ns | holds | row by row | block | ranges | \
         block / rows | block / holds | block / unchecked |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    );
    for (stride, down) in [
        (1024, 1),
        (4096, 1),
        (4160, 1),
        (4096, 16),
        (4160, 16),
        (12352, 1),
    ] {
        let capacity = (ROWS * down * stride) as u64;
        measure("rw-counter", RwCounter::new(), stride, down, turns);
        measure("rw-distributed", RwDistributed::new(), stride, down, turns);
        measure(
            "srl-array",
            SrlArray::new(capacity).unwrap(),
            stride,
            down,
            turns,
        );
        measure(
            "srl-packed",
            SrlPacked::new(capacity).unwrap(),
            stride,
            down,
            turns,
        );
        measure(
            "srl-tree",
            SrlTree::new(capacity).unwrap(),
            stride,
            down,
            turns,
        );
        measure(
            "srl-tree-packed",
            SrlTreePacked::new(capacity).unwrap(),
            stride,
            down,
            turns,
        );
        measure("interval-tree", IntervalLock::new(), stride, down, turns);
    }
}

//! Which overwrites allocate heap memory: none that replaces a whole page, if the log has room.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use spanlock_file_core::{File, FormatOptions, Volume};
use spanlock_pmem::{MappedFile, Options};
use spanlock_range_lock::{RawRangeLock, RwCounter};
use spanlock_srl::{SrlArray, SrlTree};

const PAGE: usize = 4096;
/// Slots of a log page.
const SLOTS: u64 = 63;
/// Pages of the file.
const PAGES: u64 = 1024;

/// The system's allocator, which counts the allocations of each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count_one() {
    COUNT.set(COUNT.get() + 1);
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns how often this thread allocates in `f`.
fn allocations(f: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    f();
    COUNT.get() - before
}

/// Calls `test` with a file of [`PAGES`] pages, each written on its own.
fn with_file<L: RawRangeLock + 'static>(
    locks: fn(u64) -> L,
    test: impl FnOnce(&File<MappedFile, L>),
) {
    let folder = tempfile::tempdir().unwrap();
    let region = MappedFile::create(folder.path().join("v"), 16 << 20, Options::default()).unwrap();
    let volume = Volume::format(region, &FormatOptions::new(), locks).unwrap();
    let file = volume.create("a").unwrap();
    for page in 0..PAGES {
        file.write_at(&[1; PAGE], page * PAGE as u64).unwrap();
    }
    test(&file);
}

/// Overwrites whole pages. Only if the log needs a page, once in 63 overwrites, may one allocate.
fn overwrite<L: RawRangeLock + 'static>(locks: fn(u64) -> L, page_of: fn(u64) -> u64) {
    with_file(locks, |file| {
        let mut for_log_pages = 0;
        for nth in PAGES..3 * PAGES {
            let at = page_of(nth) * PAGE as u64;
            let found = allocations(|| file.write_at(&[2; PAGE], at).unwrap());
            if nth % SLOTS == 0 {
                for_log_pages += found;
            } else {
                assert_eq!(found, 0, "overwrite {nth}");
            }
        }
        assert!(for_log_pages > 0, "allocations are counted");
    });
}

#[test]
fn overwriting_a_whole_page_allocates_nothing() {
    let patterns: [fn(u64) -> u64; 3] = [|_| 5, |nth| nth % PAGES, |nth| nth * 7919 % 1009];
    for page_of in patterns {
        overwrite(|_| RwCounter::new(), page_of);
        overwrite(|capacity| SrlArray::new(capacity).unwrap(), page_of);
        overwrite(|capacity| SrlTree::new(capacity).unwrap(), page_of);
    }
}

#[test]
fn overwriting_a_whole_page_in_a_lane_allocates_nothing() {
    with_file(
        |capacity| SrlArray::new(capacity).unwrap(),
        |file| {
            // Whatever number this thread has.
            let lanes: Vec<usize> = (0..16).collect();
            file.give_lanes(&lanes).unwrap();
            let pages = 10;
            let allocating = (0..pages * SLOTS).filter(|nth| {
                let at = nth % PAGES * PAGE as u64;
                allocations(|| file.write_at(&[2; PAGE], at).unwrap()) > 0
            });
            let allocating = allocating.count() as u64;
            // One slot of the lane's first page is skipped.
            assert!((pages..=pages + 1).contains(&allocating), "{allocating}");
        },
    );
}

#[test]
fn overwriting_a_part_of_a_page_allocates_its_copy() {
    with_file(
        |_| RwCounter::new(),
        |file| {
            let writes = [
                (9, 7, 1),
                (PAGE, 7, 2),
                (2 * PAGE - 9, PAGE, 1),
                (16 * PAGE, 0, 0),
            ];
            for (len, at, copies) in writes {
                let data = vec![3; len];
                let found = allocations(|| file.write_at(&data, at as u64).unwrap());
                assert_eq!(found, copies, "{len} bytes at {at}");
            }
        },
    );
}

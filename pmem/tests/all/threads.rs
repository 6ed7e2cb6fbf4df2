//! Threads share a region: data that `publish` makes reachable is complete when `load` on another
//! thread finds it.

use std::thread;

use crate::common::{assert_holds, folder, pattern, region};
use spanlock_pmem::{MappedFile, Options, Pmem};

const ROUNDS: u64 = 10_000;
const SLOT_BYTES: usize = 192;
const SLOTS: u64 = 16;

/// A ring of slots. The writer publishes its count at 0, the reader at 64.
fn slot(round: u64) -> u64 {
    128 + round % SLOTS * SLOT_BYTES as u64
}

fn write_all(region: &dyn Pmem) {
    for round in 0..ROUNDS {
        while round - region.load(64) >= SLOTS {
            thread::yield_now();
        }
        let data = pattern(round as usize, SLOT_BYTES);
        // SAFETY: the reader's count says that it is done with this slot, and it reads the slot
        // again only after this thread's count says so.
        let flushed = unsafe {
            if round % 2 == 0 {
                region.write_streaming(slot(round), &data)
            } else {
                region.flush(region.write(slot(round), &data))
            }
        };
        let mark = region.publish(0, round + 1, region.fence(flushed));
        region.persist(mark);
    }
}

fn read_all(region: &dyn Pmem) {
    for round in 0..ROUNDS {
        while region.load(0) <= round {
            thread::yield_now();
        }
        assert_holds(region, slot(round), &pattern(round as usize, SLOT_BYTES));
        let mark = region.publish(64, round + 1, spanlock_pmem::Durable::at_rest());
        region.persist(mark);
    }
}

#[test]
fn published_data_is_complete() {
    let folder = folder();
    let region = region(&folder, 4096);
    thread::scope(|scope| {
        scope.spawn(|| write_all(&region));
        scope.spawn(|| read_all(&region));
    });
    assert_eq!((region.load(0), region.load(64)), (ROUNDS, ROUNDS));
}

#[test]
fn threads_sync_their_own_pages() {
    let folder = folder();
    let options = Options::new().msync(true);
    let region = MappedFile::create(folder.path().join("region"), 4 * 4096, options).unwrap();
    thread::scope(|scope| {
        for page in 0..4 {
            let region = &region;
            scope.spawn(move || {
                for round in 0..5 {
                    // SAFETY: each thread has a page of its own.
                    let written = unsafe { region.write(page * 4096, &pattern(round, 4096)) };
                    region.persist(written);
                }
            });
        }
    });
    for page in 0..4 {
        assert_holds(&region, page * 4096, &pattern(4, 4096));
    }
}

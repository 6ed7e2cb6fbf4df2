//! The contract can be implemented outside the crate: a region in ordinary memory, and code that
//! accepts any region.

use std::cell::UnsafeCell;
use std::sync::Arc;

use crate::common::{folder, get, put, region};
use spanlock_pmem::{Durable, Flushed, Pmem, RegionId, Written};

/// Durable only as long as the process lives. Used by this test's single thread.
struct Heap {
    id: RegionId,
    bytes: Box<[UnsafeCell<u8>]>,
}

// SAFETY: the test below uses it from one thread.
unsafe impl Sync for Heap {}

impl Heap {
    fn new(len: usize) -> Self {
        Self {
            id: RegionId::new(),
            bytes: (0..len).map(|_| UnsafeCell::new(0)).collect(),
        }
    }

    fn cells(&self, at: u64, len: usize) -> &[UnsafeCell<u8>] {
        &self.bytes[at as usize..][..len]
    }
}

// SAFETY: it promises to survive nothing, and the slice checks every range.
unsafe impl Pmem for Heap {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        for (cell, byte) in self.cells(at, into.len()).iter().zip(into) {
            // SAFETY: by the caller's promise no thread writes.
            *byte = unsafe { *cell.get() };
        }
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        for (cell, &byte) in self.cells(at, data.len()).iter().zip(data) {
            // SAFETY: by the caller's promise no other thread accesses it.
            unsafe { *cell.get() = byte };
        }
        // SAFETY: PM-I1: stored above, inside the slice.
        unsafe { Written::new(self.id, at..at + data.len() as u64) }
    }

    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        // SAFETY: the caller gives the same promise.
        self.flush(unsafe { self.write(at, data) })
    }

    fn flush(&self, written: Written) -> Flushed {
        written.into_range(self.id);
        // SAFETY: PM-I2: there is nothing to write back.
        unsafe { Flushed::new() }
    }

    fn fence(&self, _: Flushed) -> Durable {
        // SAFETY: PM-I3: there is nothing to wait for.
        unsafe { Durable::new() }
    }

    fn publish(&self, at: u64, value: u64, _: Durable) -> Written {
        assert!(at.is_multiple_of(8));
        // SAFETY: only one thread runs.
        unsafe { self.write(at, &value.to_le_bytes()) }
    }

    fn load(&self, at: u64) -> u64 {
        assert!(at.is_multiple_of(8));
        u64::from_le_bytes(get(self, at, 8).try_into().unwrap())
    }
}

/// Code that knows no particular region.
fn append(region: &dyn Pmem, record: &[u8]) {
    let end = region.load(0).max(64);
    let durable = put(region, end, record);
    let mark = region.publish(0, end + record.len() as u64, durable);
    region.persist(mark);
}

fn check(region: &dyn Pmem) {
    append(region, b"one, ");
    append(region, b"two");
    assert_eq!(region.load(0), 72);
    assert_eq!(get(region, 64, 8), b"one, two");
}

#[test]
fn code_for_any_region_works_on_this_one() {
    let folder = folder();
    check(&region(&folder, 4096));
    check(&Heap::new(4096));
    check(&&Heap::new(4096));
    let shared: Arc<dyn Pmem> = Arc::new(Heap::new(4096));
    check(&shared);
}

#[test]
#[should_panic(expected = "belong to another region")]
fn a_token_of_another_region_is_refused() {
    let (ours, theirs) = (Heap::new(64), Heap::new(64));
    // SAFETY: only one thread runs.
    let written = unsafe { theirs.write(0, b"theirs") };
    let _ = ours.flush(written);
}

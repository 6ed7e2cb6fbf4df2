//! The bare work of an overwrite: what no file core that copies on write can avoid.
//!
//! ```text
//!   limit:  stream the data ─┐
//!           store a slot     ┴─ flush ── fence ── store the slot's mark ── flush ── fence
//!   copy:   stream the data ─── fence
//! ```
//!
//! `limit` stores, flushes and fences the same bytes as the file core does: the data, a slot of 64
//! bytes that says where the data is, and the mark in this slot. It has no lock, no index and no
//! free space. `copy` leaves the slot and the mark out, so that both costs can be told apart.
//!
//! Each thread streams to two places in turn, as the file core does when it overwrites one page,
//! and uses the slots of sixteen pages one after another.

use spanlock_pmem::{LINE_BYTES, PAGE_BYTES, Pmem};

/// The most bytes in a write.
pub const MOST_BYTES: usize = 64 << 10;

/// Bytes of a thread's slots.
const SLOTS_BYTES: u64 = 16 * PAGE_BYTES;
/// Bytes of the region for each thread: two places for data, and the slots.
const AREA_BYTES: u64 = 2 * MOST_BYTES as u64 + SLOTS_BYTES;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// The data, a slot, and its mark.
    Limit,
    /// The data alone.
    Copy,
}

impl Bare {
    /// Both kinds, in the order in which they are reported.
    pub const ALL: [Bare; 2] = [Bare::Limit, Bare::Copy];

    /// Returns the name in the column of locks.
    pub fn name(self) -> &'static str {
        match self {
            Bare::Limit => "limit",
            Bare::Copy => "copy",
        }
    }
}

/// A thread's part of the region.
#[derive(Debug)]
pub struct Writer<'r, P> {
    region: &'r P,
    kind: Bare,
    /// The first byte of the part.
    start: u64,
    /// Writes so far.
    count: u64,
}

/// Returns the size in bytes of a region for `threads` writers.
pub fn region_bytes(threads: usize) -> u64 {
    threads as u64 * AREA_BYTES
}

/// Splits a region into parts for `threads` writers.
///
/// # Panics
/// Panics if the region is smaller than [`region_bytes`] says.
pub fn writers<P: Pmem>(region: &mut P, kind: Bare, threads: usize) -> Vec<Writer<'_, P>> {
    assert!(region.len() >= region_bytes(threads), "the region is small");
    let region = &*region;
    let writer = |thread| Writer {
        region,
        kind,
        start: thread as u64 * AREA_BYTES,
        count: 0,
    };
    (0..threads).map(writer).collect()
}

impl<P: Pmem> Writer<'_, P> {
    /// Writes `data` durably.
    ///
    /// # Panics
    /// Panics if `data` has more than [`MOST_BYTES`] bytes.
    pub fn write(&mut self, data: &[u8]) {
        assert!(data.len() <= MOST_BYTES, "too much data");
        let region = self.region;
        let to = self.start + self.count % 2 * MOST_BYTES as u64;
        let slots = self.start + 2 * MOST_BYTES as u64;
        let slot = slots + self.count * LINE_BYTES % SLOTS_BYTES;
        self.count += 1;
        // SAFETY: only this writer accesses its part of the region: `writers` borrowed the region
        // exclusively and gave each part to one writer. This call fences before it returns.
        let streamed = unsafe { region.write_streaming(to, data) };
        if self.kind == Bare::Copy {
            region.fence(streamed);
            return;
        }
        let mut entry = [0; LINE_BYTES as usize];
        entry[8..16].copy_from_slice(&to.to_le_bytes());
        entry[16..24].copy_from_slice(&(data.len() as u64).to_le_bytes());
        // SAFETY: as above. Nothing was streamed to the slots.
        let written = unsafe { region.write(slot, &entry) };
        let durable = region.fence(streamed.and(region.flush(written)));
        region.persist(region.publish(slot, self.count, durable));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_core::counting::Counting;
    use crate::scratch::Scratch;

    #[test]
    fn writers_stay_in_their_parts_and_flush_what_they_write() {
        let scratch = Scratch::new(None, region_bytes(2)).unwrap();
        let mut region = Counting::new(scratch.map().unwrap());
        let mut all = writers(&mut region, Bare::Limit, 2);
        for _ in 0..3 {
            all[1].write(&[7; MOST_BYTES]);
        }
        drop(all);
        let counts = region.counts();
        assert_eq!((counts.flushes, counts.fences), (6, 6));
        let mut first = vec![1; AREA_BYTES as usize];
        // SAFETY: no other thread uses the region, and everything is fenced.
        unsafe { region.read(0, &mut first) };
        assert!(first.iter().all(|&it| it == 0));
        let slot = AREA_BYTES + 2 * MOST_BYTES as u64 + 2 * LINE_BYTES;
        assert_eq!(region.load(slot), 3, "the mark of the third write");

        let before = region.counts();
        writers(&mut region, Bare::Copy, 1)[0].write(&[8; 4096]);
        let after = region.counts();
        assert_eq!((after.flushes, after.fences), (before.flushes, 7));
    }
}

//! One request of a space: the blocks that it holds, and what it does with them.

use std::fmt;
use std::ops::Range;

use crc32c::{crc32c, crc32c_append};
use spanlock_range_lock::{Access, BatchHold, RawRangeLockBatch};
use spanlock_sync::injected_bug;

use super::Space;
use super::batch::{Batch, Move, Piece, Vector, blocks, check_count, check_range};
use super::error::Error;
use super::format::{self, Change};
use super::medium::Medium;
use super::runs::Run;

/// Blocks of a space that are held: [`Space::hold`] makes one. Dropping it releases them.
#[must_use = "dropping it at once releases the blocks"]
pub struct Held<'s, M: Medium, L: RawRangeLockBatch> {
    space: &'s Space<M, L>,
    hold: BatchHold<&'s L>,
}

impl<'s, M: Medium, L: RawRangeLockBatch> Held<'s, M, L> {
    pub(super) fn new(space: &'s Space<M, L>, hold: BatchHold<&'s L>) -> Self {
        Held { space, hold }
    }

    /// Reads as [`Space::read`] does.
    ///
    /// # Errors
    /// As for [`Space::read`], and [`Error::NotHeld`].
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        let space = self.space;
        let range = at..at.saturating_add(into.len() as u64);
        check_range(&range, space.size)?;
        let size = u64::from(space.block);
        let all = blocks(&range, size);
        self.check(&all, Access::Read)?;
        for (part, run) in space.parts.map.parts(all) {
            let start = (part.start * size).max(range.start);
            let end = (part.end * size).min(range.end);
            let into = &mut into[(start - at) as usize..(end - at) as usize];
            let Some(place) = run.and_then(|it| it.target) else {
                into.fill(0);
                continue;
            };
            let from = self.place_at(place) + (start - part.start * size);
            // SAFETY: the blocks are held, so no other thread has their places (O-S3).
            let read = unsafe { space.parts.medium.read(from, into) };
            read.map_err(Error::io("reading data"))?;
        }
        Ok(())
    }

    /// Reads a few bytes of one block, and keeps the block in memory.
    pub(crate) fn read_kept(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        let size = u64::from(self.space.block);
        let (block, offset) = (at / size, (at % size) as usize);
        if !self.space.parts.recent.read(block, offset, into) {
            let mut bytes = vec![0; size as usize];
            self.read(block * size, &mut bytes)?;
            into.copy_from_slice(&bytes[offset..offset + into.len()]);
            self.space.parts.recent.keep(block, bytes);
        }
        Ok(())
    }

    /// Writes and trims as [`Space::write_batch`] does.
    ///
    /// # Errors
    /// As for [`Space::write_batch`], and [`Error::NotHeld`].
    pub fn write_batch(&mut self, vectors: &[Vector<'_>]) -> Result<(), Error> {
        check_count(vectors)?;
        self.write_many(vectors)
    }

    /// Writes a batch of any number of vectors.
    pub(crate) fn write_many(&mut self, vectors: &[Vector<'_>]) -> Result<(), Error> {
        let batch = Batch::new(vectors, self.space.block, self.space.size)?;
        for range in batch.blocks() {
            self.check(&range, Access::Write)?;
        }
        self.commit(&batch)
    }

    /// Checks that the blocks are held with this access or a stronger one.
    fn check(&self, blocks: &Range<u64>, access: Access) -> Result<(), Error> {
        let mut at = blocks.start;
        for (span, how) in self.hold.spans() {
            if how >= access && (span.start()..span.end()).contains(&at) {
                at = span.end();
            }
        }
        if at >= blocks.end {
            return Ok(());
        }
        let size = u64::from(self.space.block);
        let range = blocks.start * size..blocks.end * size;
        let how = match access {
            Access::Write => "exclusively",
            Access::Read | Access::Upgradable => "at all",
        };
        Err(Error::NotHeld { range, how })
    }

    fn place_at(&self, place: u64) -> u64 {
        self.space.first_place + place * u64::from(self.space.block)
    }

    /// Commits a batch whose blocks are held exclusively: steps W2 to W6 of the format.
    pub(super) fn commit(&self, batch: &Batch<'_>) -> Result<(), Error> {
        let space = self.space;
        let (medium, free) = (&space.parts.medium, &space.parts.free);
        let size = u64::from(space.block);
        let is_kept = injected_bug!(
            "kept-stale",
            "a commit leaves the old content of its blocks in memory",
            killed_by = "objects-packed/create-create"
        );
        if !is_kept {
            batch.blocks().for_each(|it| space.parts.recent.forget(it));
        }
        let pieces = batch.pieces(|block, into| self.read(block * size, into))?;
        let (zeros, pieces): (Vec<_>, Vec<_>) = pieces.into_iter().partition(Piece::is_zero);
        let len = |piece: &Piece<'_>| piece.data.len() as u64 / size;
        let needed = pieces.iter().map(len).sum();
        let taken = match needed {
            0 => Vec::new(),
            needed => free.take(needed, self.is_shrinking(batch))?,
        };
        let release = || taken.iter().for_each(|extent| free.release(extent.clone()));
        let mut changes = self.moves_and_trims(batch);
        let with_place = |it: &Piece<'_>| space.parts.map.has_places(it.block..it.block + 1);
        for piece in zeros.iter().filter(|it| with_place(it)) {
            changes.push(Change::new(piece.block, Run::new(None, 1)));
        }
        let writes = self.place(&pieces, &taken, &mut changes);
        if changes.is_empty() {
            return Ok(());
        }
        let record = format::record(&changes);
        if record.len() as u64 > space.max_record {
            release();
            let record = record.len() as u64;
            return Err(Error::TooLong {
                record,
                max: space.max_record,
            });
        }
        if !writes.is_empty() {
            // SAFETY: this thread alone has these places (O-S3).
            let written = unsafe { medium.write_all(&writes) };
            written
                .inspect_err(|_| release())
                .map_err(Error::io("writing data"))?;
        }
        let is_early = injected_bug!(
            "released-early",
            "the old places are free before the record is durable",
            killed_by = "objects-packed/patch-other, objects-packed/create-create"
        );
        if is_early {
            for it in &changes {
                let blocks = it.block..it.block + it.run.len;
                for (_, run) in space.parts.map.parts(blocks) {
                    let place = run.and_then(|it| Some(it.target?..it.target? + it.len));
                    place.into_iter().for_each(|places| free.release(places));
                }
            }
        }
        let mut old = Vec::new();
        let apply = || self.apply(batch, &changes, &mut old);
        let last = taken.iter().map(|it| it.end - 1).max().unwrap_or(0);
        let committed = space.parts.commits.commit(medium, record, last, apply);
        if let Err(error) = committed {
            // A record that may be durable names the places: they stay taken.
            if !matches!(error, Error::Failed { .. }) {
                release();
            }
            return Err(error);
        }
        for (block, places) in old {
            let is_trimmed = batch.trims().iter().any(|it| it.contains(&block));
            if is_trimmed {
                let bytes = self.place_at(places.start)..self.place_at(places.end);
                // The trim is durable. A hole that is not punched only takes room.
                let _ = medium.discard(bytes);
            }
            if !is_early {
                free.release(places);
            }
        }
        // The batch is durable. If the checkpoint fails, the next one reports it, at the latest
        // when the ring is full.
        let _ = space.parts.commits.checkpoint_if_due(medium);
        Ok(())
    }

    /// Returns whether the batch gives places back, so that it may use those that are kept for
    /// this.
    fn is_shrinking(&self, batch: &Batch<'_>) -> bool {
        let map = &self.space.parts.map;
        batch.trims().iter().any(|it| map.has_places(it.clone()))
    }

    /// Returns the changes of the map by which blocks move, and lose their places. They come before
    /// those of [`place`](Self::place): a block may be moved, and then written.
    fn moves_and_trims(&self, batch: &Batch<'_>) -> Vec<Change> {
        let map = &self.space.parts.map;
        let mut changes = Vec::new();
        let moved = batch
            .moves()
            .iter()
            .flat_map(|it| [it.from.clone(), it.to()]);
        for blocks in moved.chain(batch.trims().iter().cloned()) {
            // Blocks without places have nothing to lose.
            if map.has_places(blocks.clone()) {
                let run = Run::new(None, blocks.end - blocks.start);
                changes.push(Change::new(blocks.start, run));
            }
        }
        for Move { from, to } in batch.moves() {
            for (block, run) in map.mapped(from.clone()) {
                changes.push(Change::new(to + (block - from.start), run));
            }
        }
        changes
    }

    /// Gives the pieces places, and adds the changes of the map. Returns what is to be written
    /// where.
    fn place<'p>(
        &self,
        pieces: &'p [Piece<'_>],
        taken: &[Range<u64>],
        changes: &mut Vec<Change>,
    ) -> Vec<(u64, &'p [u8])> {
        let size = self.space.block as usize;
        let (mut writes, first) = (Vec::new(), changes.len());
        // Data that is durable before the record needs no checksum there.
        let has_sums = !self.space.parts.medium.is_synchronous();
        let mut extents = taken.iter().cloned();
        let mut extent = 0..0;
        for piece in pieces {
            let (mut block, mut rest) = (piece.block, &piece.data[..]);
            while !rest.is_empty() {
                if extent.is_empty() {
                    extent = extents.next().expect("places for all blocks");
                }
                let len = (extent.end - extent.start).min((rest.len() / size) as u64);
                let (now, later) = rest.split_at(len as usize * size);
                writes.push((self.place_at(extent.start), now));
                let run = Run::new(Some(extent.start), len);
                match changes[first..].last_mut() {
                    Some(last) if last.block + last.run.len == block && last.run.continues(run) => {
                        last.run.len += len;
                        last.sum = last.sum.map(|sum| crc32c_append(sum, now));
                    }
                    _ => changes.push(Change {
                        sum: has_sums.then(|| crc32c(now)),
                        ..Change::new(block, run)
                    }),
                }
                extent.start += len;
                (block, rest) = (block + len, later);
            }
        }
        writes
    }

    /// Changes the map (W5). Returns the entries of the table that change, and adds the old places
    /// of each block to `old`.
    fn apply(
        &self,
        batch: &Batch<'_>,
        changes: &[Change],
        old: &mut Vec<(u64, Range<u64>)>,
    ) -> Vec<(u64, Run)> {
        let map = &self.space.parts.map;
        let mut entries = Vec::new();
        let are_old = injected_bug!(
            "moved-as-old",
            "the places of blocks that move are released",
            killed_by = "objects-versions/write-write, objects-versions/sequences-of-1"
        );
        for it in batch.moves().iter().filter(|_| !are_old) {
            // Their places are not old: other blocks get them.
            map.remove(it.from.clone());
        }
        for &Change { block, run, .. } in changes {
            let before = match run.target {
                Some(_) => map.insert(block, run),
                None => map.remove(block..block + run.len),
            };
            for (block, run) in before {
                let Some(place) = run.target else { continue };
                entries.push((place, Run::new(None, run.len)));
                old.push((block, place..place + run.len));
            }
            if let Some(place) = run.target {
                entries.push((place, Run::new(Some(block), run.len)));
            }
        }
        entries
    }
}

impl<M: Medium, L: RawRangeLockBatch> fmt::Debug for Held<'_, M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.hold).finish()
    }
}

//! One request of a space: the blocks that it holds, and what it does with them.

use std::fmt;
use std::ops::Range;

use spanlock_range_lock::{Access, BatchHold, RawRangeLockBatch};
use spanlock_sync::injected_bug;

use super::Space;
use super::batch::{Batch, Piece, Vector, blocks, check_range};
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
        let mut parts = Vec::new();
        space
            .parts
            .map
            .for_each(all, |part, run| parts.push((part, run)));
        for (part, run) in parts {
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

    /// Writes and trims as [`Space::write_batch`] does.
    ///
    /// # Errors
    /// As for [`Space::write_batch`], and [`Error::NotHeld`].
    pub fn write_batch(&mut self, vectors: &[Vector<'_>]) -> Result<(), Error> {
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
        let pieces = batch.pieces(|block, into| self.read(block * size, into))?;
        let len = |piece: &Piece<'_>| piece.data.len() as u64 / size;
        let needed = pieces.iter().map(len).sum();
        let taken = match needed {
            0 => Vec::new(),
            needed => free.take(needed)?,
        };
        let release = || taken.iter().for_each(|extent| free.release(extent.clone()));
        let (writes, mut changes) = self.place(&pieces, &taken);
        let trims: Vec<_> = batch.trims().collect();
        changes.extend(trims.iter().map(|it| Change {
            block: it.start,
            run: Run::new(None, it.end - it.start),
        }));
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
                space.parts.map.for_each(blocks, |_, run| {
                    let place = run.and_then(|it| Some(it.target?..it.target? + it.len));
                    place.into_iter().for_each(|places| free.release(places));
                });
            }
        }
        let mut old = Vec::new();
        let apply = || self.apply(&changes, &mut old);
        let committed = space.parts.commits.commit(medium, record, apply);
        if let Err(error) = committed {
            // A record that may be durable names the places: they stay taken.
            if !matches!(error, Error::Failed { .. }) {
                release();
            }
            return Err(error);
        }
        for (block, places) in old {
            let is_trimmed = trims.iter().any(|it| it.contains(&block));
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

    /// Gives the pieces places. Returns what is to be written where, and the changes of the map.
    fn place<'p>(
        &self,
        pieces: &'p [Piece<'_>],
        taken: &[Range<u64>],
    ) -> (Vec<(u64, &'p [u8])>, Vec<Change>) {
        let size = self.space.block as usize;
        let (mut writes, mut changes) = (Vec::new(), Vec::<Change>::new());
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
                match changes.last_mut() {
                    Some(last) if last.block + last.run.len == block && last.run.continues(run) => {
                        last.run.len += len;
                    }
                    _ => changes.push(Change { block, run }),
                }
                extent.start += len;
                (block, rest) = (block + len, later);
            }
        }
        (writes, changes)
    }

    /// Changes the map (W5). Returns the entries of the table that change, and adds the old places
    /// of each block to `old`.
    fn apply(&self, changes: &[Change], old: &mut Vec<(u64, Range<u64>)>) -> Vec<(u64, Run)> {
        let map = &self.space.parts.map;
        let mut entries = Vec::new();
        for &Change { block, run } in changes {
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

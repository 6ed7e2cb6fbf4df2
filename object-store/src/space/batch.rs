//! The vectors of a batch, and the plan to write them: whole blocks, in ascending order.

use std::borrow::Cow;
use std::ops::Range;

use super::MAX_VECTORS;
use super::error::Error;

/// One part of a batch: bytes to be written, or blocks to be trimmed or relocated.
#[derive(Clone, Debug)]
pub struct Vector<'a> {
    range: Range<u64>,
    content: Content<'a>,
}

/// What a range gets.
#[derive(Clone, Debug)]
enum Content<'a> {
    Data(&'a [u8]),
    Nothing,
    /// What these bytes had, which are as many.
    Of(Range<u64>),
}

impl<'a> Vector<'a> {
    /// Writes `data` at byte `at`. It may begin and end within a block. Empty data writes nothing.
    pub fn write(at: u64, data: &'a [u8]) -> Self {
        // A range past 2^64 lies outside of every space, which the batch refuses.
        let range = at..at.saturating_add(data.len() as u64);
        Vector {
            range,
            content: Content::Data(data),
        }
    }

    /// Trims a range of bytes, which begins and ends at a block: it reads as zeros then, and takes
    /// no room.
    pub fn trim(range: Range<u64>) -> Self {
        Vector {
            range,
            content: Content::Nothing,
        }
    }

    /// Moves a range of bytes, which begins and ends at a block, to `to`. Only addresses change; no
    /// data is copied. Afterwards, `from` reads as zeros, unless the batch writes it too: a block
    /// that the batch writes in part keeps its other bytes. So the batch can save what it
    /// overwrites.
    pub fn relocate(from: Range<u64>, to: u64) -> Self {
        let len = from.end.saturating_sub(from.start);
        Vector {
            range: to..to.saturating_add(len),
            content: Content::Of(from),
        }
    }

    /// Returns the bytes that are written, trimmed, or moved to.
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

/// Blocks to be moved.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) from: Range<u64>,
    pub(super) to: u64,
}

/// Whole blocks to be written.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) block: u64,
    pub(super) data: Cow<'a, [u8]>,
}

impl Piece<'_> {
    /// Returns whether this is a block that was written in part, and is all zeros now: it needs no
    /// place. Larger writes are not searched for zeros.
    pub(super) fn is_zero(&self) -> bool {
        matches!(&self.data, Cow::Owned(data) if data.iter().all(|byte| *byte == 0))
    }
}

/// The vectors of a batch in ascending order, checked.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    writes: Vec<(Range<u64>, &'a [u8])>,
    trims: Vec<Range<u64>>,
    moves: Vec<Move>,
    block: u64,
}

impl<'a> Batch<'a> {
    /// Checks vectors for a space of `size` bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Unaligned`], [`Error::Overlap`].
    pub(super) fn new(vectors: &[Vector<'a>], block: u32, size: u64) -> Result<Self, Error> {
        let mut batch = Batch {
            writes: Vec::new(),
            trims: Vec::new(),
            moves: Vec::new(),
            block: block.into(),
        };
        for Vector { range, content } in vectors {
            check_range(range, size)?;
            if let Content::Of(from) = content {
                check_range(from, size)?;
            }
            match content {
                _ if range.is_empty() => {}
                Content::Data(data) => batch.writes.push((range.clone(), data)),
                Content::Nothing => batch.trims.push(batch.whole(range)?),
                Content::Of(from) => {
                    let (from, to) = (batch.whole(from)?, batch.whole(range)?.start);
                    batch.moves.push(Move { from, to });
                }
            }
        }
        batch.writes.sort_unstable_by_key(|(range, _)| range.start);
        let bytes = |it: &Range<u64>| it.start * batch.block..it.end * batch.block;
        let trims = batch.trims.iter().map(bytes);
        let writes = batch.writes.iter().map(|(range, _)| range.clone());
        // What the batch changes; and what it moves, and where.
        let moved_to: Vec<_> = batch.moves.iter().map(|it| bytes(&it.to())).collect();
        check_apart(writes.chain(trims).chain(moved_to.clone()))?;
        check_apart((batch.moves.iter().map(|it| bytes(&it.from))).chain(moved_to))?;
        Ok(batch)
    }

    /// Returns the blocks of a range that begins and ends at a block.
    fn whole(&self, range: &Range<u64>) -> Result<Range<u64>, Error> {
        let is_aligned = |at: u64| at.is_multiple_of(self.block);
        if is_aligned(range.start) && is_aligned(range.end) {
            return Ok(blocks(range, self.block));
        }
        Err(Error::Unaligned {
            range: range.clone(),
            block: self.block as u32,
        })
    }

    /// Returns the blocks that the batch changes.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<u64>> {
        let writes = self
            .writes
            .iter()
            .map(|(range, _)| blocks(range, self.block));
        let moves = self.moves.iter().flat_map(|it| [it.from.clone(), it.to()]);
        writes.chain(self.trims.iter().cloned()).chain(moves)
    }

    /// Returns the blocks to be trimmed.
    pub(super) fn trims(&self) -> &[Range<u64>] {
        &self.trims
    }

    /// Returns the blocks to be moved.
    pub(super) fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Returns the whole blocks to be written, in ascending order. `read` fills the old content of
    /// a block of which only a part is written.
    pub(super) fn pieces(
        &self,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<Vec<Piece<'a>>, Error> {
        let mut pieces: Vec<Piece<'a>> = Vec::new();
        for (range, data) in &self.writes {
            let (mut at, mut rest): (u64, &'a [u8]) = (range.start, data);
            while !rest.is_empty() {
                let (block, within) = (at / self.block, at % self.block);
                let whole = rest.len() as u64 / self.block * self.block;
                let len = match within == 0 && whole > 0 {
                    true => whole,
                    false => (self.block - within).min(rest.len() as u64),
                };
                let (now, later) = rest.split_at(len as usize);
                if len == whole && within == 0 {
                    pieces.push(Piece {
                        block,
                        data: Cow::Borrowed(now),
                    });
                } else {
                    // An earlier vector may have begun this block.
                    if pieces.last().is_none_or(|it| it.block != block) {
                        let mut old = vec![0; self.block as usize];
                        read(block, &mut old)?;
                        pieces.push(Piece {
                            block,
                            data: Cow::Owned(old),
                        });
                    }
                    let piece = pieces.last_mut().expect("just added");
                    let bytes = &mut piece.data.to_mut()[within as usize..];
                    bytes[..now.len()].copy_from_slice(now);
                }
                (at, rest) = (at + len, later);
            }
        }
        Ok(pieces)
    }
}

impl Move {
    pub(super) fn to(&self) -> Range<u64> {
        self.to..self.to + (self.from.end - self.from.start)
    }
}

/// Checks the number of vectors.
pub(super) fn check_count(vectors: &[Vector<'_>]) -> Result<(), Error> {
    match vectors.len() {
        ..=MAX_VECTORS => Ok(()),
        found => Err(Error::TooManyVectors { found }),
    }
}

/// Checks that ranges do not overlap.
fn check_apart(ranges: impl Iterator<Item = Range<u64>>) -> Result<(), Error> {
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_unstable_by_key(|it| it.start);
    match ranges.windows(2).find(|pair| pair[0].end > pair[1].start) {
        Some(pair) => Err(Error::Overlap {
            first: pair[0].clone(),
            second: pair[1].clone(),
        }),
        None => Ok(()),
    }
}

/// Returns the blocks that contain the bytes.
pub(super) fn blocks(bytes: &Range<u64>, block: u64) -> Range<u64> {
    bytes.start / block..bytes.end.div_ceil(block)
}

pub(super) fn check_range(range: &Range<u64>, size: u64) -> Result<(), Error> {
    if range.start > range.end || range.end > size {
        let range = range.clone();
        return Err(Error::OutOfRange { range, size });
    }
    Ok(())
}

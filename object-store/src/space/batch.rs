//! The vectors of a batch, and the plan to write them: whole blocks, in ascending order.

use std::borrow::Cow;
use std::ops::Range;

use super::MAX_VECTORS;
use super::error::Error;

/// One part of a batch: bytes to be written, or blocks to be trimmed.
#[derive(Clone, Debug)]
pub struct Vector<'a> {
    range: Range<u64>,
    /// `None`: the range is trimmed.
    data: Option<&'a [u8]>,
}

impl<'a> Vector<'a> {
    /// Writes `data` at byte `at`. It may begin and end within a block. Empty data writes nothing.
    pub fn write(at: u64, data: &'a [u8]) -> Self {
        // A range past 2^64 lies outside of every space, which the batch refuses.
        let range = at..at.saturating_add(data.len() as u64);
        Vector {
            range,
            data: Some(data),
        }
    }

    /// Trims a range of bytes, which begins and ends at a block: it reads as zeros then, and takes
    /// no room.
    pub fn trim(range: Range<u64>) -> Self {
        Vector { range, data: None }
    }
}

/// Whole blocks to be written.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) block: u64,
    pub(super) data: Cow<'a, [u8]>,
}

/// The vectors of a batch in ascending order, checked.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    vectors: Vec<(Range<u64>, Option<&'a [u8]>)>,
    block: u64,
}

impl<'a> Batch<'a> {
    /// Checks vectors for a space of `size` bytes.
    ///
    /// # Errors
    /// [`Error::TooManyVectors`], [`Error::OutOfRange`], [`Error::Unaligned`], [`Error::Overlap`].
    pub(super) fn new(vectors: &[Vector<'a>], block: u32, size: u64) -> Result<Self, Error> {
        if vectors.len() > MAX_VECTORS {
            return Err(Error::TooManyVectors {
                found: vectors.len(),
            });
        }
        for Vector { range, data } in vectors {
            check_range(range, size)?;
            let is_aligned = |at: u64| at.is_multiple_of(block.into());
            if data.is_none() && !(is_aligned(range.start) && is_aligned(range.end)) {
                return Err(Error::Unaligned {
                    range: range.clone(),
                    block,
                });
            }
        }
        let filled = vectors.iter().filter(|it| !it.range.is_empty());
        let mut vectors: Vec<_> = filled.map(|it| (it.range.clone(), it.data)).collect();
        vectors.sort_unstable_by_key(|(range, _)| range.start);
        let overlap = vectors
            .windows(2)
            .find(|pair| pair[0].0.end > pair[1].0.start);
        if let Some([(first, _), (second, _)]) = overlap {
            let (first, second) = (first.clone(), second.clone());
            return Err(Error::Overlap { first, second });
        }
        Ok(Batch {
            vectors,
            block: block.into(),
        })
    }

    /// Returns the blocks that the batch changes, for each vector.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<u64>> {
        self.vectors
            .iter()
            .map(|(range, _)| blocks(range, self.block))
    }

    /// Returns the blocks to be trimmed.
    pub(super) fn trims(&self) -> impl Iterator<Item = Range<u64>> {
        let trims = self.vectors.iter().filter(|(_, data)| data.is_none());
        trims.map(|(range, _)| blocks(range, self.block))
    }

    /// Returns the whole blocks to be written, in ascending order. `read` fills the old content of
    /// a block of which only a part is written.
    pub(super) fn pieces(
        &self,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<Vec<Piece<'a>>, Error> {
        let mut pieces: Vec<Piece<'a>> = Vec::new();
        for (range, data) in &self.vectors {
            let Some(data) = data else { continue };
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

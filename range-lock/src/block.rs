//! [`Block`]: rows of equal length at equal distances, as one request.

use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ops::Range;

use crate::error::RangeError;
use crate::positions::{Bounds, IntoRange, sealed};
use crate::raw::Access;

/// A two-dimensional part of a slice of `T`: some columns of some rows.
///
/// The slice of a [`RangeLock<T>`](crate::RangeLock) is a plane of rows, one every `stride`
/// elements. [`rows`](Self::rows) are requests for
/// [`lock_all`](crate::RangeLock::lock_all) and its forms. The guard lends each row by
/// [`parts_mut`](crate::RangeBatchGuard::parts_mut).
///
/// ```text
///            columns 2..6, stride 10
///   row 0   · · · · · · · · · ·
///   row 1   · · █ █ █ █ · · · ·      rows 1..4, columns 2..6:
///   row 2   · · █ █ █ █ · · · ·      elements 12..16, 22..26 and 32..36
///   row 3   · · █ █ █ █ · · · ·
/// ```
///
/// ```
/// use spanlock_range_lock::{Access, Block, RangeLock, RwCounter};
///
/// let plane = RangeLock::with_lock(vec![0_u8; 10 * 10], RwCounter::new())?;
/// let mut tile = plane.lock_all(Block::new(1..4, 2..6, 10)?.rows(Access::Write))?;
/// for (y, row) in tile.parts_mut().enumerate() {
///     row.fill(y as u8);
/// }
/// drop(tile);
/// assert_eq!(plane.read(30..40)?[..], [0, 0, 2, 2, 2, 2, 0, 0, 0, 0]);
/// # Ok::<(), spanlock_range_lock::RangeError>(())
/// ```
///
/// Several blocks are locked together by [`chain`](Iterator::chain). Blocks of one batch must not
/// overlap ([`RangeError::Overlap`]), because each row is lent as a whole.
///
/// # Units
/// Everything is in elements of `T`, never in bytes, or in segments of a lock. The type says so: a
/// block of bytes is no request for a lock of wider elements.
///
/// ```compile_fail,E0277
/// use spanlock_range_lock::{Access, Block, RangeLock, RwCounter};
///
/// let plane = RangeLock::with_lock(vec![0_u32; 100], RwCounter::new()).unwrap();
/// let bytes = Block::<u8>::new(1..4, 8..24, 40).unwrap();
/// let tile = plane.lock_all(bytes.rows(Access::Write));
/// ```
pub struct Block<T> {
    /// The index of the first element of the first row.
    start: usize,
    rows: usize,
    columns: usize,
    stride: usize,
    of: PhantomData<fn(T)>,
}

impl<T> Block<T> {
    /// Returns the block of these columns in these rows. A row begins every `stride` elements, from
    /// element 0 on. A block without columns has no rows.
    ///
    /// # Errors
    /// - [`RangeError::Reversed`] if `rows` or `columns` ends before it starts.
    /// - [`RangeError::Stride`] if the columns end past the stride.
    /// - [`RangeError::Rows`] if the rows end past `usize::MAX`.
    pub const fn new(
        rows: Range<usize>,
        columns: Range<usize>,
        stride: usize,
    ) -> Result<Self, RangeError> {
        if rows.start > rows.end {
            return Err(reversed(rows));
        }
        if columns.start > columns.end {
            return Err(reversed(columns));
        }
        if columns.end > stride {
            let (end, stride) = (columns.end as u64, stride as u64);
            return Err(RangeError::Stride { end, stride });
        }
        if rows.end.checked_mul(stride).is_none() {
            let (rows, stride) = (rows.end as u64, stride as u64);
            return Err(RangeError::Rows { rows, stride });
        }
        let len = columns.end - columns.start;
        let start = (rows.start * stride).wrapping_add(columns.start);
        let rows = if len == 0 { 0 } else { rows.end - rows.start };
        Ok(Block {
            // Without rows, `start` may lie past the last row, where nothing has been checked.
            start: if rows == 0 { 0 } else { start },
            rows,
            columns: len,
            stride,
            of: PhantomData,
        })
    }

    /// Returns the block in a plane whose first element is at `start` instead of 0.
    ///
    /// # Errors
    /// [`RangeError::Overflow`] if the block would end past `usize::MAX`.
    pub const fn starting_at(mut self, start: usize) -> Result<Self, RangeError> {
        if let Some(last) = self.rows.checked_sub(1) {
            let end = self.start + last * self.stride + self.columns;
            if start.checked_add(end).is_none() {
                let (start, len) = (start as u64, end as u64);
                return Err(RangeError::Overflow { start, len });
            }
            self.start += start;
        }
        Ok(self)
    }

    /// Returns a request for each row, in order.
    pub const fn rows(self, access: Access) -> Rows<T> {
        Rows {
            block: self,
            access,
        }
    }
}

const fn reversed(range: Range<usize>) -> RangeError {
    let (start, end) = (range.start as u64, range.end as u64);
    RangeError::Reversed { start, end }
}

impl<T> Clone for Block<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Block<T> {}

impl<T> fmt::Debug for Block<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Block {
            start,
            rows,
            columns,
            stride,
            ..
        } = self;
        write!(
            f,
            "{rows} rows of {columns} from {start} on, one every {stride}"
        )
    }
}

/// The rows of a [`Block`], each as a request with the same access.
#[derive(Clone, Debug)]
#[must_use = "iterators do nothing unless consumed"]
pub struct Rows<T> {
    /// The rows to come.
    block: Block<T>,
    access: Access,
}

impl<T> Iterator for Rows<T> {
    type Item = (Row<T>, Access);

    #[inline]
    fn next(&mut self) -> Option<(Row<T>, Access)> {
        let block = &mut self.block;
        block.rows = block.rows.checked_sub(1)?;
        let (start, of) = (block.start, PhantomData);
        let end = start + block.columns;
        // Past the last row, it may wrap, and is not used.
        block.start = start.wrapping_add(block.stride);
        Some((Row { start, end, of }, self.access))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.block.rows, Some(self.block.rows))
    }
}

impl<T> ExactSizeIterator for Rows<T> {}
impl<T> FusedIterator for Rows<T> {}

/// A row of a [`Block<T>`]: a range of elements of `T`.
pub struct Row<T> {
    start: usize,
    end: usize,
    of: PhantomData<fn(T)>,
}

impl<T> fmt::Debug for Row<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A range of a slice of `T`: any [`IntoRange`], whose positions are then elements, or a row of a
/// [`Block<T>`]. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range of elements of `{T}`",
    note = "a `Block<T>` counts elements of its `T`, and a lock of other elements rejects it"
)]
pub trait RangeOf<T>: sealed::Sealed {
    /// Whether ranges of one batch must not overlap.
    #[doc(hidden)]
    const APART: bool;

    /// Returns the bounds in elements.
    #[doc(hidden)]
    fn range(self) -> Result<Bounds, RangeError>;
}

impl<T, R: IntoRange> RangeOf<T> for R {
    const APART: bool = false;

    #[inline(always)]
    fn range(self) -> Result<Bounds, RangeError> {
        self.bounds()
    }
}

impl<T> sealed::Sealed for Row<T> {}
impl<T> RangeOf<T> for Row<T> {
    const APART: bool = true;

    #[inline(always)]
    fn range(self) -> Result<Bounds, RangeError> {
        Ok(Bounds::between(self.start as u64, self.end as u64))
    }
}

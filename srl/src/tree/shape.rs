//! The shape of a tree: how large a segment is, and how many children a node of each level has.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use spanlock_range_lock::words::Word;

use crate::segment::{SegmentError, Segments};

/// The segment size of a tree, and the bits of a segment's number that each level takes, from the root down. The last level is the leaves'.
///
/// ```
/// use spanlock_srl::{Shape, SrlTree};
///
/// // A flatter tree: fewer steps down, larger nodes.
/// let shape = Shape::new(4096, &[10, 10, 8])?;
/// assert_eq!(shape.covers(), 1 << 40);
/// let lock = SrlTree::with_shape(1 << 40, &shape)?;
/// # drop(lock);
/// # Ok::<(), spanlock_srl::SegmentError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    size: u64,
    levels: Vec<u32>,
}

/// Bits of a leaf in shapes that are made for a capacity, and of the levels above: the paper's.
const LEAF_BITS: u32 = 5;
const INNER_BITS: u32 = 6;

impl Default for Shape {
    /// The paper's: 4 KiB segments, levels of 6, 6, 6, 6 and 5 bits, for positions up to 2 TiB ([SRL] §IV-A; its largest file has 1.5).
    ///
    /// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
    fn default() -> Self {
        Shape {
            size: Segments::DEFAULT_SIZE,
            levels: vec![INNER_BITS, INNER_BITS, INNER_BITS, INNER_BITS, LEAF_BITS],
        }
    }
}

impl Shape {
    /// Levels have this many bits at least.
    pub const LEAST_BITS: u32 = 1;
    /// Levels have this many bits at most: a node of 2¹⁶ slots takes 512 KiB.
    pub const MOST_BITS: u32 = 16;

    /// Segments of `size`, a power of two, and levels of so many bits each, from the root down.
    ///
    /// # Errors
    /// [`SegmentError::Size`], [`SegmentError::NoLevels`] or [`SegmentError::Level`].
    pub fn new(size: u64, levels: &[u32]) -> Result<Self, SegmentError> {
        Segments::new(0, size)?;
        if levels.is_empty() {
            return Err(SegmentError::NoLevels);
        }
        let shape = Shape {
            size,
            levels: levels.to_vec(),
        };
        shape.check(Self::LEAST_BITS)?;
        Ok(shape)
    }

    /// Segments of `size`, leaves of 5 bits, and above them levels of 6 bits, as many as `capacity` needs: for 1.5 TB in segments of 4 KiB
    /// the paper's shape.
    ///
    /// # Errors
    /// [`SegmentError::Size`].
    pub fn for_capacity(capacity: u64, size: u64) -> Result<Self, SegmentError> {
        let count = Segments::new(capacity, size)?.count();
        let above = index_bits(count).saturating_sub(LEAF_BITS);
        let mut levels = vec![INNER_BITS; above.div_ceil(INNER_BITS).max(1) as usize];
        levels.push(LEAF_BITS);
        Ok(Shape { size, levels })
    }

    /// Whether every level has bits enough and not too many, and the leaves at least `leaf`.
    pub(super) fn check(&self, leaf: u32) -> Result<(), SegmentError> {
        let last = self.levels.len() - 1;
        for (level, &bits) in self.levels.iter().enumerate() {
            let least = if level == last {
                leaf
            } else {
                Self::LEAST_BITS
            };
            if !(least..=Self::MOST_BITS).contains(&bits) {
                return Err(SegmentError::Level {
                    level,
                    bits,
                    least,
                    most: Self::MOST_BITS,
                });
            }
        }
        Ok(())
    }

    /// The levels that `segments` need.
    pub(super) fn above_leaves(&self, segments: Segments) -> Result<Levels, SegmentError> {
        let needed = index_bits(segments.count());
        let missing = needed.saturating_sub(self.levels.iter().sum());
        if missing > 0 {
            return Err(SegmentError::Coverage {
                covered: self.covers(),
                capacity: segments.capacity(),
                missing,
            });
        }
        let mut levels = self.levels.iter().rev().copied();
        let leaf_bits = levels.next().unwrap_or_default();
        let (mut inner, mut below) = (Vec::new(), leaf_bits);
        for bits in levels {
            // This level and those below are enough: it is the root's.
            if below + bits >= needed {
                break;
            }
            inner.push(Level { shift: below, bits });
            below += bits;
        }
        inner.reverse();
        Ok(Levels {
            root_shift: below,
            inner: inner.into(),
            leaf_bits,
        })
    }

    /// Positions in a segment.
    pub fn segment_size(&self) -> u64 {
        self.size
    }

    /// Bits of each level, from the root down.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// Positions that the levels cover: `0..covers`; `u64::MAX` if they cover all there are.
    pub fn covers(&self) -> u64 {
        let bits = self.levels.iter().sum::<u32>();
        let segments = 1_u64.checked_shl(bits).unwrap_or(u64::MAX);
        segments.saturating_mul(self.size)
    }

    /// Bytes that the paper's tree of this shape takes for a file of which the first `working_set` positions are in use: pointers of 8 bytes
    /// down to the segments, and a word of 4 bytes for each of these ([SRL] Equation 3).
    ///
    /// Equation 2 as printed has one level more in its exponent than Figure 11: by that, a file's pointers to its words would number 2ᴵ times
    /// its words. Here a level has as many nodes as its bits and those below leave, at least one; with that the tree overtakes the array at
    /// 512 GB, as §VI-B says. And levels may differ in their bits.
    ///
    /// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
    pub fn paper_memory(&self, working_set: u64) -> u64 {
        let segments = working_set.div_ceil(self.size);
        let (mut below, mut bytes) = (0, segments.saturating_mul(4));
        for bits in self.levels.iter().rev() {
            below += bits;
            let span = 1_u64.checked_shl(below).unwrap_or(u64::MAX);
            let nodes = segments.div_ceil(span).max(1);
            bytes = bytes.saturating_add(nodes.saturating_mul(8 << bits));
        }
        bytes
    }
}

/// A shape, made ready for the way down.
#[derive(Debug)]
pub(super) struct Levels {
    /// How far a segment's number is shifted to be a slot of the root.
    pub(super) root_shift: u32,
    /// The levels of inner nodes below the root, from the top.
    pub(super) inner: Box<[Level]>,
    /// Bits of a segment's number within its leaf.
    pub(super) leaf_bits: u32,
}

impl Levels {
    /// Words of a leaf.
    pub(super) fn leaf_len<W: Word>(&self) -> usize {
        (1 << self.leaf_bits) / W::LANES as usize
    }
}

/// A level of inner nodes: which bits of a segment's number are the slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) shift: u32,
    bits: u32,
}

impl Level {
    /// Slots of a node.
    #[inline]
    pub(super) fn len(self) -> usize {
        1 << self.bits
    }

    /// The slot of a segment: below [`len`](Self::len).
    #[inline]
    pub(super) fn slot(self, segment: u64) -> usize {
        (segment >> self.shift) as usize & ((1 << self.bits) - 1)
    }
}

/// Bits of the numbers below `count`.
fn index_bits(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

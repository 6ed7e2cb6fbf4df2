//! The shape of a tree: the size of a segment, and the number of children of a node at each level.

use alloc::vec;
use alloc::vec::Vec;

use spanlock_range_lock::words::Word;

use crate::segment::{SegmentError, Segments};

/// The segment size of a tree, and the bits of a segment's number that each level indexes.
///
/// Levels are listed from the root down. The last level is that of the leaves.
///
/// ```
/// use spanlock_srl::{Shape, SrlTree};
///
/// // A flatter tree: a shorter path, larger nodes.
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

/// The bits of the leaf level in the paper, and in shapes chosen for a capacity.
const LEAF_BITS: u32 = 5;
/// The bits of each level above the leaves, in the same shapes.
const INNER_BITS: u32 = 6;

impl Default for Shape {
    /// Returns the paper's shape: 4 KiB segments, levels of 6, 6, 6, 6 and 5 bits.
    ///
    /// This shape covers 2 TiB; the paper's largest file has 1.5 TB ([SRL] §IV-A).
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
    /// The least number of bits of a level.
    pub const LEAST_BITS: u32 = 1;
    /// The greatest number of bits of a level: a node of 2¹⁶ slots takes 512 KiB.
    pub const MOST_BITS: u32 = 16;

    /// Creates a shape with segments of `size`, a power of two, and levels with these numbers of
    /// bits.
    ///
    /// Levels are listed from the root down.
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

    /// Creates a shape with segments of `size`, leaves of 5 bits, and levels of 6 bits above them.
    ///
    /// The shape has as many levels as `capacity` needs, at least two. For 1.5 TB in segments of
    /// 4 KiB, this is the paper's shape.
    ///
    /// # Errors
    /// [`SegmentError::Size`], or [`SegmentError::Memory`] if there is no memory for the list of
    /// levels.
    pub fn for_capacity(capacity: u64, size: u64) -> Result<Self, SegmentError> {
        let segments = Segments::new(capacity, size)?;
        let above = index_bits(segments.count()).saturating_sub(LEAF_BITS);
        let above = above.div_ceil(INNER_BITS).max(1) as usize;
        let mut levels = Vec::new();
        let memory = levels.try_reserve_exact(above + 1);
        memory.map_err(|_| segments.no_memory())?;
        levels.resize(above, INNER_BITS);
        levels.push(LEAF_BITS);
        Ok(Shape { size, levels })
    }

    /// Checks that the bits of every level are within bounds, and that the leaf level has at least
    /// `leaf` bits.
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

    /// Returns the levels that `segments` need.
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
        let memory = inner.try_reserve_exact(self.levels.len());
        memory.map_err(|_| segments.no_memory())?;
        for bits in levels {
            // This level and the levels below it suffice, so this level is the root's.
            if below + bits >= needed {
                break;
            }
            inner.push(Level { shift: below, bits });
            below += bits;
        }
        inner.reverse();
        Ok(Levels {
            root_shift: below,
            inner,
            leaf_bits,
        })
    }

    /// Returns the number of positions in a segment.
    pub fn segment_size(&self) -> u64 {
        self.size
    }

    /// Returns the bits of each level, from the root down.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// Returns the end of the positions that the levels cover, or `u64::MAX` if they cover all
    /// positions.
    pub fn covers(&self) -> u64 {
        let bits = self.levels.iter().sum::<u32>();
        let segments = 1_u64.checked_shl(bits).unwrap_or(u64::MAX);
        segments.saturating_mul(self.size)
    }

    /// Returns the bytes that the paper's tree of this shape takes ([SRL] Equation 3).
    ///
    /// The first `working_set` positions of the file are in use. The paper's tree has a word of 4
    /// bytes for each segment in use, and nodes of 8-byte pointers, down to the words.
    ///
    /// As printed, the exponent of Equation 2 is too large by *I*, the bits of one level
    /// (`d - l - 1` should be `d - l`). The tree would then have 2ᴵ times as many pointers to words
    /// as it has words. That also contradicts Figure 11. Here, a level has only as many nodes as
    /// the working set needs, at least one. From 512 GB on, the tree then takes more memory than
    /// the array, as §VI-B says. Unlike in the paper, each level may have its own number of bits.
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

/// The levels of a shape, prepared for descents.
#[derive(Debug)]
pub(super) struct Levels {
    /// A segment's number, shifted right by this, is its slot in the root.
    pub(super) root_shift: u32,
    /// The levels of inner nodes below the root, from the top down.
    pub(super) inner: Vec<Level>,
    /// The number of low bits of a segment's number, which select its place in the leaf.
    pub(super) leaf_bits: u32,
}

impl Levels {
    /// Returns the number of words in a leaf.
    pub(super) fn leaf_len<W: Word>(&self) -> usize {
        (1 << self.leaf_bits) / W::LANES as usize
    }
}

/// A level of inner nodes: the bits of a segment's number that select its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) shift: u32,
    bits: u32,
}

impl Level {
    /// Returns the number of slots in a node.
    #[inline]
    pub(super) fn len(self) -> usize {
        1 << self.bits
    }

    /// Returns the index of a segment's slot, which is below [`len`](Self::len).
    #[inline]
    pub(super) fn slot(self, segment: u64) -> usize {
        (segment >> self.shift) as usize & ((1 << self.bits) - 1)
    }
}

/// Returns the number of bits that the numbers below `count` need.
fn index_bits(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

//! The operations of random histories.
//!
//! An operation refers to points and holds by small numbers, each taken modulo the number of points
//! or holds that exist. So every list of operations is meaningful for every lock, and stays
//! meaningful when operations are removed. Shrinking a failing history depends on this.
//!
//! Ranges start and end at numbered **points**. A **gap** is the range between two neighbouring
//! points.

use core::fmt;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use spanlock_range_lock::{Access, Span};

use crate::Driven;
use crate::owner::span;

/// A range and an access. The range covers the gap after the point `start`, and `more` gaps after
/// that one.
#[derive(Clone, Copy)]
pub struct Extent {
    start: u8,
    more: u8,
    /// The access.
    pub access: Access,
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}+{}", self.access, self.start, self.more)
    }
}

/// Selects an item by its position among the suitable items, modulo their number.
#[derive(Clone, Copy)]
pub struct Pick(u8);

impl fmt::Debug for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl Pick {
    /// Returns the index of the picked item, or `None` if none is suitable.
    pub fn among<T>(self, all: &[T], suitable: impl Fn(&T) -> bool) -> Option<usize> {
        let found = all.iter().filter(|one| suitable(one)).count();
        let nth = usize::from(self.0).checked_rem(found)?;
        (0..all.len()).filter(|&i| suitable(&all[i])).nth(nth)
    }
}

/// An operation of an owner. An operation is drawn only for locks with the capability that it
/// needs.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Tries to lock a range.
    Try(Extent),
    /// Locks a range, blocking.
    Lock(Extent),
    /// Requests an empty range, or a range that the lock must refuse because it is reversed or ends
    /// past the capacity.
    Odd(Extent),
    /// Releases a hold.
    Unlock(Pick),
    /// Begins a request, and polls it once.
    Ask(Extent),
    /// Polls a request.
    Poll(Pick),
    /// Cancels a request.
    Cancel(Pick),
    /// Requests a range, polls at most this many times, and cancels if no poll granted it. Real
    /// threads sleep briefly between polls.
    Within(Extent, u8),
    /// Downgrades a hold to a read.
    Downgrade(Pick),
    /// Upgrades a hold to a write, if that is possible at once.
    TryUpgrade(Pick),
    /// Upgrades an upgradable hold to a write, blocking.
    Upgrade(Pick),
    /// Shrinks a hold.
    Shrink(Pick, u8, u8),
    /// Splits a hold in two.
    Split(Pick, u8),
    /// Tries to lock several ranges.
    TryAll([Extent; 3]),
    /// Locks several ranges, blocking.
    LockAll([Extent; 3]),
}

/// The operations of each of several threads.
pub type Program = Vec<Vec<Op>>;

/// The parts of an operation, taken from the bytes of one number. Drawing one number per operation
/// is many times faster than choosing between generators. Shrinking the number simplifies the
/// operation.
struct Parts([u8; 8]);

impl Parts {
    fn pick(&self) -> Pick {
        Pick(self.0[2])
    }

    fn extent(&self, nth: usize) -> Extent {
        let [start, shape] = [self.0[2 + 2 * nth], self.0[3 + 2 * nth]];
        // Most ranges are short, so that many of them are disjoint.
        let more = if shape < 224 { shape / 3 % 5 } else { shape };
        Extent {
            start,
            more,
            access: [Access::Read, Access::Upgradable, Access::Write][usize::from(shape % 3)],
        }
    }

    fn extents(&self) -> [Extent; 3] {
        [0, 1, 2].map(|nth| self.extent(nth))
    }
}

/// Builds an operation from its parts.
type Read = fn(&Parts) -> Op;

/// Returns the operations that `lock` supports, each repeated according to its weight.
fn repertoire(lock: &Driven) -> Vec<Read> {
    let ops: [(bool, usize, Read); 15] = [
        (true, 6, |p| Op::Try(p.extent(0))),
        (true, 4, |p| Op::Lock(p.extent(0))),
        (true, 1, |p| Op::Odd(p.extent(0))),
        (true, 8, |p| Op::Unlock(p.pick())),
        (lock.wait.is_some(), 8, |p| Op::Ask(p.extent(0))),
        (lock.wait.is_some(), 6, |p| Op::Poll(p.pick())),
        (lock.wait.is_some(), 3, |p| Op::Cancel(p.pick())),
        (lock.wait.is_some(), 2, |p| {
            Op::Within(p.extent(0), p.0[4] % 4)
        }),
        (lock.downgrade.is_some(), 2, |p| Op::Downgrade(p.pick())),
        (lock.upgrade.is_some(), 2, |p| Op::TryUpgrade(p.pick())),
        (lock.upgrade_wait.is_some(), 2, |p| Op::Upgrade(p.pick())),
        (lock.split.is_some(), 2, |p| {
            Op::Shrink(p.pick(), p.0[3], p.0[4])
        }),
        (
            lock.split.is_some() && lock.raw.granularity() < u64::MAX,
            2,
            |p| Op::Split(p.pick(), p.0[3]),
        ),
        (lock.batch.is_some(), 3, |p| Op::TryAll(p.extents())),
        (lock.batch.is_some(), 3, |p| Op::LockAll(p.extents())),
    ];
    let has = ops.into_iter().filter(|&(has, ..)| has);
    has.flat_map(|(_, often, read)| core::iter::repeat_n(read, often))
        .collect()
}

/// Returns a strategy for the operations that `lock` supports.
pub fn op(lock: &Driven) -> impl Strategy<Value = Op> + Clone + use<> {
    let repertoire: Arc<[Read]> = repertoire(lock).into();
    any::<u64>().prop_map(move |number| {
        let parts = Parts(number.to_be_bytes());
        let kind = usize::from(u16::from_be_bytes([parts.0[0], parts.0[1]]));
        repertoire[kind % repertoire.len()](&parts)
    })
}

/// Returns a strategy for histories with this range of threads, and at most `operations` operations
/// per thread.
pub fn program(
    lock: &Driven,
    threads: core::ops::RangeInclusive<usize>,
    operations: usize,
) -> impl Strategy<Value = Program> + use<> {
    vec(vec(op(lock), 1..=operations), threads)
}

/// The points where the ranges of a history may start and end. They lie around the borders of the
/// first and the last [strides](Driven::stride) that the lock covers.
#[derive(Clone, Debug)]
pub struct Points(Vec<u64>);

impl Points {
    /// The number of strides at each end.
    const STRIDES: u64 = 12;

    /// Returns the points for `lock`.
    pub fn of(lock: &Driven) -> Self {
        let (stride, capacity) = (lock.stride(), lock.raw.capacity());
        let border = |n: u64| n.saturating_mul(stride);
        let around = |at: u64| [at.saturating_sub(1), at, at.saturating_add(1)];
        let low = (0..=Self::STRIDES).flat_map(|n| around(border(n)));
        let high = (0..=Self::STRIDES).flat_map(|n| around(capacity.saturating_sub(border(n))));
        let mut points: Vec<u64> = low.chain(high).filter(|&at| at <= capacity).collect();
        points.sort_unstable();
        points.dedup();
        Points(points)
    }

    /// Returns the number of gaps between points.
    pub fn gaps(&self) -> usize {
        self.0.len() - 1
    }

    /// Returns the gaps that a span covers. The span must start and end at points.
    pub fn gaps_of(&self, span: Span) -> core::ops::Range<usize> {
        let at = |point| self.0.binary_search(&point).expect("a point");
        at(span.start())..at(span.end())
    }

    /// Returns the span that an extent stands for.
    pub fn span(&self, extent: Extent) -> Span {
        let start = usize::from(extent.start) % self.gaps();
        let end = (start + 1 + usize::from(extent.more)).min(self.gaps());
        span(self.0[start]..self.0[end])
    }

    /// Returns an empty range, a reversed range, or a range that ends past the lock's capacity. If
    /// the capacity is `u64::MAX`, no range can end past it, and the result may be a valid range.
    pub fn odd(&self, extent: Extent) -> core::ops::Range<u64> {
        let start = self.0[usize::from(extent.start) % self.0.len()];
        let end = self.0[usize::from(extent.more) % self.0.len()];
        let capacity = self.0[self.gaps()];
        if start < end {
            start..capacity.saturating_add(end - start)
        } else {
            start..end
        }
    }

    /// Returns the part of `whole` that the numbers `a` and `b` select.
    pub fn part(&self, whole: Span, a: u8, b: u8) -> Span {
        let gaps = self.gaps_of(whole);
        let start = gaps.start + usize::from(a) % gaps.len();
        let end = start + 1 + usize::from(b) % (gaps.end - start);
        span(self.0[start]..self.0[end])
    }

    /// Returns the position that the number `at` selects for splitting `whole`. The position is a
    /// point strictly within `whole` and a multiple of `unit`; `None` if there is no such point.
    pub fn cut(&self, whole: Span, at: u8, unit: u64) -> Option<u64> {
        let gaps = self.gaps_of(whole);
        let cuts = &self.0[gaps.start + 1..gaps.end];
        let i = Pick(at).among(cuts, |cut| cut.is_multiple_of(unit))?;
        Some(cuts[i])
    }

    /// Returns the batch that three extents stand for, in ascending order. An extent that shares a
    /// unit with an earlier one is left out.
    pub fn batch(&self, lock: &Driven, extents: [Extent; 3]) -> Vec<(Span, Access)> {
        let mut all = extents.map(|extent| (self.span(extent), extent.access));
        all.sort_by_key(|(span, _)| (span.start(), span.end()));
        let mut batch: Vec<(Span, Access)> = Vec::new();
        for one in all {
            if batch.last().is_none_or(|last| !lock.meet(last.0, one.0)) {
                batch.push(one);
            }
        }
        batch
    }
}

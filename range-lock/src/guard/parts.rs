//! The ranges of a batch: put in order once, then rounded for the lock on the fly.

use alloc::vec::Vec;
use core::ops::Range;

use smallvec::{CollectionAllocErr, SmallVec};

use crate::error::{NoMemory, RangeError};
use crate::raw::{Access, Span};

/// A list that allocates only for more than [`INLINE`] items.
pub(crate) type List<T> = SmallVec<[T; INLINE]>;

/// As many ranges as a block of 64 rows has. A guard of a batch is about 2 KiB for it.
pub(crate) const INLINE: usize = 64;

/// Requested ranges, in ascending order and disjoint. Each position has the strongest access that
/// was requested for it. Of ranges that overlap, adjacent positions of equal access form one part.
/// Any other range is a part of its own.
#[derive(Default)]
pub(crate) struct Parts(List<(Span, Access)>);

impl Parts {
    /// Puts `requests` in their place. Empty ones are left out.
    ///
    /// # Errors
    /// The first error of `requests`; a range that is reversed, or ends past `capacity`; no memory;
    /// and [`RangeError::Overlap`] if `apart` is set and two ranges overlap.
    pub(crate) fn fill(
        &mut self,
        requests: impl Iterator<Item = Result<(Range<u64>, Access), RangeError>>,
        capacity: u64,
        apart: bool,
    ) -> Result<(), RangeError> {
        let (mut end, mut ordered) = (0, true);
        for request in requests {
            let (Range { start, end: last }, access) = request?;
            let Some(span) = Span::new(start..last)? else {
                continue;
            };
            if span.end() > capacity {
                let end = span.end();
                return Err(RangeError::PastCapacity {
                    start,
                    end,
                    capacity,
                });
            }
            if self.0.len() == self.0.capacity() {
                self.0.try_reserve(1).map_err(|_| NoMemory.at(span))?;
            }
            self.0.push((span, access));
            ordered &= end <= start;
            end = span.end();
        }
        if ordered { Ok(()) } else { self.order(apart) }
    }

    #[cold]
    fn order(&mut self, apart: bool) -> Result<(), RangeError> {
        self.0.sort_unstable_by_key(|&(span, _)| span.start());
        let overlap = (self.0.windows(2)).find(|pair| pair[0].0.overlaps(pair[1].0));
        let Some(&[(low, _), (high, _)]) = overlap.and_then(|pair| pair.first_chunk()) else {
            return Ok(());
        };
        if apart {
            let [Range { start, end }, other] = [low.range(), high.range()];
            let (other_start, other_end) = (other.start, other.end);
            return Err(RangeError::Overlap {
                start,
                end,
                other_start,
                other_end,
            });
        }
        self.0 = merged(&self.0).map_err(|NoMemory| NoMemory.in_batch(&self.0))?;
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[(Span, Access)] {
        &self.0
    }

    /// Returns whether the parts can be acquired as they are: each has a span of its own.
    pub(crate) fn are_apart(&self, granularity: u64, capacity: u64) -> bool {
        self.0.windows(2).all(|pair| {
            let [(low, access), (high, how)] = [pair[0], pair[1]];
            let end = low.rounded(granularity, capacity).end();
            high.start() >= end && (how != access || high.start() - end >= granularity)
        })
    }

    /// Returns the spans that a lock of this granularity acquires, which is at most one for each
    /// part: in ascending order and disjoint, each unit with the strongest access of any part that
    /// touches it. Parts that meet and have equal access share a span.
    pub(crate) fn spans(&self, granularity: u64, capacity: u64) -> Spans<'_> {
        Spans {
            parts: self.0.iter(),
            granularity,
            capacity,
            from: 0,
        }
    }
}

/// Merges ranges that may overlap.
fn merged(requests: &[(Span, Access)]) -> Result<List<(Span, Access)>, NoMemory> {
    // Where the ranges begin (+1) and end (-1). Ends come first, so that ranges which only touch
    // stay apart.
    let mut borders = Vec::new();
    borders.try_reserve_exact(2 * requests.len())?;
    for &(span, access) in requests {
        borders.push((span.start(), 1, access));
        borders.push((span.end(), -1_isize, access));
    }
    borders.sort_unstable_by_key(|&(at, step, _)| (at, step));
    let mut parts = List::<(Span, Access)>::new();
    // Each part ends at a border. So adding the parts allocates nothing.
    parts.try_reserve_exact(borders.len())?;
    let (mut depth, mut from, mut joins) = ([0; 3], 0, false);
    for (at, step, access) in borders {
        let strongest = [Access::Write, Access::Upgradable, Access::Read];
        let strongest = strongest.iter().find(|&&how| depth[how as usize] > 0);
        if let (Some(&how), Some(span)) = (strongest, span(from..at)) {
            match parts.last_mut() {
                Some((last, access)) if joins && *access == how => *last = last.up_to(span),
                _ => parts.push((span, how)),
            }
            joins = true;
        }
        depth[access as usize] += step;
        joins &= depth != [0; 3];
        from = at;
    }
    Ok(parts)
}

impl From<CollectionAllocErr> for NoMemory {
    fn from(_: CollectionAllocErr) -> Self {
        NoMemory
    }
}

/// See [`Parts::spans`].
#[derive(Clone)]
pub(crate) struct Spans<'a> {
    parts: core::slice::Iter<'a, (Span, Access)>,
    granularity: u64,
    capacity: u64,
    /// The end of the last span.
    from: u64,
}

impl Spans<'_> {
    #[inline(always)]
    fn rounded(&self, part: Span) -> Span {
        part.rounded(self.granularity, self.capacity)
    }
}

impl Iterator for Spans<'_> {
    type Item = (Span, Access);

    #[inline(always)]
    fn next(&mut self) -> Option<(Span, Access)> {
        loop {
            let &(part, mut access) = self.parts.next()?;
            let part = self.rounded(part);
            // The last span may have kept the first unit, or all of them.
            let (start, mut end) = (part.start().max(self.from), part.end());
            while let Some(&(part, how)) = self.parts.as_slice().first() {
                if part.start() < end {
                    // They share a unit, which gets the stronger access.
                    if how > access {
                        let part = self.rounded(part);
                        if part.start() > start {
                            end = part.start();
                            break;
                        }
                        (access, end) = (how, part.end());
                    } else if part.end() > end {
                        if how < access {
                            break;
                        }
                        end = self.rounded(part).end();
                    }
                } else if how == access && part.start() - end < self.granularity {
                    end = self.rounded(part).end();
                } else {
                    break;
                }
                self.parts.next();
            }
            self.from = end;
            if let Some(span) = span(start..end) {
                return Some((span, access));
            }
        }
    }
}

fn span(range: Range<u64>) -> Option<Span> {
    Span::new(range).ok().flatten()
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;

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

/// The spans that a lock acquires for parts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// The parts as they are: no two touch a common unit, or neighbouring ones.
    Parts,
    /// One span for all parts.
    One((Span, Access)),
    /// Those that [`Parts::spans`] computes.
    Spans,
}

impl Form {
    /// Returns the spans if they need no list of their own.
    #[inline]
    pub(crate) fn batch<'a>(&'a self, parts: &'a Parts) -> Option<&'a [(Span, Access)]> {
        match self {
            Form::Parts => Some(parts.as_slice()),
            Form::One(span) => Some(core::slice::from_ref(span)),
            Form::Spans => None,
        }
    }
}

impl Parts {
    /// Puts `requests` in their place. Empty ones are left out. Returns the spans to acquire.
    ///
    /// # Errors
    /// The first error of `requests`; a range that is reversed, or ends past `capacity`; no memory;
    /// and [`RangeError::Overlap`] if `apart` is set and two ranges overlap.
    pub(crate) fn fill(
        &mut self,
        requests: impl Iterator<Item = Result<(Range<u64>, Access), RangeError>>,
        (granularity, capacity): (u64, u64),
        apart: bool,
    ) -> Result<Form, RangeError> {
        let (mut end, mut ordered) = (0, true);
        // Local, because a push to the list would load and store its length each time.
        let (mut len, mut room) = (0, self.0.capacity());
        let mut list = self.0.as_mut_ptr();
        for request in requests {
            let (range, access) = request?;
            let Some(span) = Span::new(range)? else {
                continue;
            };
            if span.end() > capacity {
                let Range { start, end } = span.range();
                return Err(RangeError::PastCapacity {
                    start,
                    end,
                    capacity,
                });
            }
            if len == room {
                // SAFETY: the list has room for that many, and all of them have been written.
                unsafe { self.0.set_len(len) };
                self.0.try_reserve(1).map_err(|_| NoMemory.at(span))?;
                room = self.0.capacity();
                list = self.0.as_mut_ptr();
            }
            // SAFETY: `list` points to room for `room` items, and `len` is below that.
            unsafe { list.add(len).write((span, access)) };
            len += 1;
            ordered &= end <= span.start();
            end = span.end();
        }
        // SAFETY: as above.
        unsafe { self.0.set_len(len) };
        if !ordered {
            self.order(apart)?;
        }
        Ok(self.form(granularity.max(1), capacity))
    }

    /// Returns the spans for the parts.
    fn form(&self, granularity: u64, capacity: u64) -> Form {
        let unit = |at: u64| match granularity.is_power_of_two() {
            true => at >> granularity.trailing_zeros(),
            false => at / granularity,
        };
        // They touch a common unit, or neighbouring ones. The first comparison saves a lock of the
        // whole range the division.
        let is_near = |low: Span, high: Span| {
            high.start() - low.end() < granularity || unit(high.start()) - unit(low.end() - 1) <= 1
        };
        let pairs = || self.0.windows(2).map(|pair| [pair[0], pair[1]]);
        match self.0[..] {
            [(first, access), .., (last, _)]
                if pairs().all(|[(low, _), (high, how)]| how == access && is_near(low, high)) =>
            {
                Form::One((first.up_to(last).rounded(granularity, capacity), access))
            }
            _ if pairs().all(|[(low, _), (high, _)]| !is_near(low, high)) => Form::Parts,
            _ => Form::Spans,
        }
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

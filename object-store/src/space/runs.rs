//! A map from numbers to numbers that keeps runs of consecutive numbers together: blocks to places,
//! or places to blocks.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a run of keys is mapped to: consecutive numbers from this one on, or nothing.
///
/// A key that is mapped to nothing is not the same as a key without an entry.
pub(crate) type Target = Option<u64>;

/// What consecutive keys are mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) target: Target,
    pub(crate) len: u64,
}

impl Run {
    pub(crate) fn new(target: Target, len: u64) -> Self {
        Run { target, len }
    }

    /// Returns the part from `from` on, of `len` keys.
    pub(crate) fn part(self, from: u64, len: u64) -> Run {
        Run::new(self.target.map(|it| it + from), len)
    }

    /// Returns whether `next` continues this run.
    pub(crate) fn continues(self, next: Run) -> bool {
        self.target.map(|it| it + self.len) == next.target
    }
}

/// The map. Its runs do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Runs(BTreeMap<u64, Run>);

impl Runs {
    /// Maps the keys from `key` on. Returns the runs that they had before.
    pub(crate) fn insert(&mut self, key: u64, run: Run) -> Vec<(u64, Run)> {
        let before = self.remove(key..key + run.len);
        if let Some((&last, it)) = self.0.range_mut(..key).next_back()
            && last + it.len == key
            && it.continues(run)
        {
            it.len += run.len;
        } else {
            self.0.insert(key, run);
        }
        before
    }

    /// Removes the entries of `keys`, and returns them.
    pub(crate) fn remove(&mut self, keys: Range<u64>) -> Vec<(u64, Run)> {
        let mut removed = Vec::new();
        if keys.is_empty() {
            return removed;
        }
        let mut next = self.first_from(keys.start);
        while let Some((&at, _)) = self.0.range(next..keys.end).next() {
            let run = self.0.remove(&at).expect("just found");
            let end = at + run.len;
            next = end.min(keys.end);
            let (from, to) = (at.max(keys.start), end.min(keys.end));
            if at < from {
                self.0.insert(at, run.part(0, from - at));
            }
            if to < end {
                self.0.insert(to, run.part(to - at, end - to));
            }
            removed.push((from, run.part(from - at, to - from)));
        }
        removed
    }

    /// Calls `each` for the parts of `keys` in order: with the run of a part, or `None` if its keys
    /// have no entry.
    pub(crate) fn for_each(&self, keys: Range<u64>, mut each: impl FnMut(Range<u64>, Option<Run>)) {
        let mut at = keys.start;
        for (&start, run) in self.0.range(self.first_from(keys.start)..keys.end) {
            let (from, to) = (start.max(at), (start + run.len).min(keys.end));
            if at < from {
                each(at..from, None);
            }
            each(from..to, Some(run.part(from - start, to - from)));
            at = to;
        }
        if at < keys.end {
            each(at..keys.end, None);
        }
    }

    /// Returns whether the key has an entry.
    pub(crate) fn contains(&self, key: u64) -> bool {
        let run = self.0.range(..=key).next_back();
        run.is_some_and(|(start, run)| key < start + run.len)
    }

    /// Returns the parts of the runs that have some of the keys.
    pub(crate) fn overlapping(&self, keys: Range<u64>) -> Vec<(u64, Run)> {
        let first = self.first_from(keys.start);
        let runs = self.0.range(first..keys.end.max(first));
        let part = |(&start, run): (&u64, &Run)| {
            let (from, to) = (start.max(keys.start), (start + run.len).min(keys.end));
            (from, run.part(from - start, to - from))
        };
        runs.map(part).collect()
    }

    /// Returns whether any of the keys has an entry.
    pub(crate) fn has_any(&self, keys: Range<u64>) -> bool {
        let first = self.first_from(keys.start);
        self.0.range(first..keys.end.max(first)).next().is_some()
    }

    /// Returns the runs in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, Run)> {
        self.0.iter().map(|(&key, &run)| (key, run))
    }

    /// Returns the start of the first run that ends after `key`, or `key`.
    fn first_from(&self, key: u64) -> u64 {
        let before = self.0.range(..key).next_back();
        before.map_or(key, |(&start, run)| match start + run.len > key {
            true => start,
            false => key,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a map of single keys, over random changes.
    #[test]
    fn runs_agree_with_single_keys() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut runs, mut keys) = (Runs::default(), BTreeMap::new());
        for _ in 0..20_000 {
            let start = random.u64(0..60);
            let range = start..start + random.u64(1..12);
            let before: Vec<_> = (keys.range(range.clone()))
                .map(|(&key, &it)| (key, it))
                .collect();
            if random.bool() {
                let target = random.bool().then(|| random.u64(0..1000));
                for (nth, key) in (0..).zip(range.clone()) {
                    keys.insert(key, target.map(|it| it + nth));
                }
                let len = range.end - range.start;
                assert_eq!(single(runs.insert(start, Run { target, len })), before);
            } else {
                keys.retain(|key, _| !range.contains(key));
                assert_eq!(single(runs.remove(range)), before);
            }
            let mut found = Vec::new();
            runs.for_each(0..80, |range, run| match run {
                Some(run) => found.push((range.start, run)),
                None => assert!(range.clone().all(|key| !runs.contains(key))),
            });
            assert!(single(found).into_iter().eq(keys.clone()));
            assert!((0..80).all(|key| runs.contains(key) == keys.contains_key(&key)));
            let some = random.u64(0..70)..random.u64(70..80);
            let mut some_keys = keys.range(some.clone()).map(|(&key, &it)| (key, it));
            assert!(
                some_keys
                    .by_ref()
                    .eq(single(runs.overlapping(some.clone())))
            );
            let has_any = keys.range(some.clone()).next().is_some();
            assert_eq!(runs.has_any(some), has_any);
        }
    }

    fn single(runs: Vec<(u64, Run)>) -> Vec<(u64, Target)> {
        let keys = |(start, run): (u64, Run)| {
            (0..run.len).map(move |nth| (start + nth, run.target.map(|it| it + nth)))
        };
        runs.into_iter().flat_map(keys).collect()
    }
}

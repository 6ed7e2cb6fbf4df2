//! A map from numbers to numbers that keeps runs of consecutive numbers together: blocks to places,
//! or places to blocks.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a run of keys is mapped to: consecutive numbers from this one on, or nothing.
///
/// A key that is mapped to nothing is not the same as a key without an entry.
pub(super) type Target = Option<u64>;

/// What consecutive keys are mapped to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) target: Target,
    pub(super) len: u64,
    /// The checksums of the blocks, if they have any.
    pub(super) sums: Vec<u32>,
}

impl Run {
    pub(super) fn new(target: Target, len: u64) -> Self {
        Run {
            target,
            len,
            sums: Vec::new(),
        }
    }

    /// Returns the part from `from` on, of `len` keys.
    pub(super) fn part(&self, from: u64, len: u64) -> Run {
        let sums = match self.sums.is_empty() {
            true => Vec::new(),
            false => self.sums[from as usize..(from + len) as usize].to_vec(),
        };
        Run {
            target: self.target.map(|it| it + from),
            len,
            sums,
        }
    }

    /// Adds a run that [continues](Self::continues) this one.
    pub(super) fn append(&mut self, next: Run) {
        self.len += next.len;
        self.sums.extend(next.sums);
    }

    /// Returns whether `next` continues this run.
    pub(super) fn continues(&self, next: &Run) -> bool {
        self.target.map(|it| it + self.len) == next.target
            && self.sums.is_empty() == next.sums.is_empty()
    }
}

/// The map. Its runs do not overlap.
#[derive(Debug, Default)]
pub(super) struct Runs(BTreeMap<u64, Run>);

impl Runs {
    /// Maps the keys from `key` on. Returns the runs that they had before.
    pub(super) fn insert(&mut self, key: u64, run: Run) -> Vec<(u64, Run)> {
        let before = self.remove(key..key + run.len);
        if let Some((&last, it)) = self.0.range_mut(..key).next_back()
            && last + it.len == key
            && it.continues(&run)
        {
            it.append(run);
            return before;
        }
        self.0.insert(key, run);
        before
    }

    /// Removes the entries of `keys`, and returns them.
    pub(super) fn remove(&mut self, keys: Range<u64>) -> Vec<(u64, Run)> {
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
            match (from, to) == (at, end) {
                true => removed.push((at, run)),
                false => removed.push((from, run.part(from - at, to - from))),
            }
        }
        removed
    }

    /// Calls `each` for the parts of `keys` in order: with the run of a part, or `None` if its keys
    /// have no entry.
    pub(super) fn for_each(&self, keys: Range<u64>, mut each: impl FnMut(Range<u64>, Option<Run>)) {
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
    pub(super) fn contains(&self, key: u64) -> bool {
        let run = self.0.range(..=key).next_back();
        run.is_some_and(|(start, run)| key < start + run.len)
    }

    /// Returns the runs in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Run)> {
        self.0.iter().map(|(&key, run)| (key, run))
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
        for step in 0..20_000 {
            let start = random.u64(0..60);
            let range = start..start + random.u64(1..12);
            let has = |it: &BTreeMap<u64, (Target, u32)>, key| it.get(&key).copied();
            let mut before = Vec::new();
            if random.bool() {
                let target = random.bool().then(|| random.u64(0..1000));
                let mut run = Run::new(target, range.end - range.start);
                run.sums = (0..run.len).map(|_| random.u32(..)).collect();
                for (nth, key) in range.clone().enumerate() {
                    before.push((key, has(&keys, key)));
                    let target = target.map(|it| it + nth as u64);
                    keys.insert(key, (target, run.sums[nth]));
                }
                assert_same(runs.insert(range.start, run), &before, step);
            } else {
                for key in range.clone() {
                    before.push((key, keys.remove(&key)));
                }
                assert_same(runs.remove(range), &before, step);
            }
            let all: Vec<_> = (0..80).map(|key| (key, has(&keys, key))).collect();
            let mut found = Vec::new();
            runs.for_each(0..80, |range, run| match run {
                Some(run) => found.push((range.start, run)),
                None => assert!(range.clone().all(|key| !runs.contains(key))),
            });
            assert_same(found, &all, step);
            assert!((0..80).all(|key| runs.contains(key) == keys.contains_key(&key)));
        }
    }

    fn assert_same(runs: Vec<(u64, Run)>, keys: &[(u64, Option<(Target, u32)>)], step: u32) {
        let single = runs.iter().flat_map(|(start, run)| {
            (0..run.len).map(move |nth| {
                let target = run.target.map(|it| it + nth);
                (start + nth, (target, run.sums[nth as usize]))
            })
        });
        let there = keys
            .iter()
            .filter_map(|(key, value)| Some((*key, (*value)?)));
        assert!(single.eq(there), "step {step}");
    }
}

//! The pages that a file has, while its log is replayed.
//!
//! A log may contain any number of groups that later groups replace, and each may name as many
//! pages as the volume has. Entering all of them into an index, page by page, would take time and
//! memory in proportion to the product of the two. Here a group costs as much as it has extents,
//! because adjacent pages form a *run*. Only the runs that are left in the end go into the index.

use core::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::medium::extent::Extent;
use crate::object::index::node::Mapping;

/// Consecutive pages of a file in consecutive data pages.
struct Run {
    pages: Extent,
    /// The checksums of the run's group, and the position of the run's first page in them.
    checksums: Rc<[u32]>,
    at: usize,
    /// The log page that has the run's group.
    log_page: u32,
    /// The number of groups before the run's.
    group: u64,
}

impl Run {
    /// Returns the run without its first `count` pages.
    fn skip(&self, count: u64) -> Run {
        Run {
            pages: Extent {
                start: self.pages.start + count as u32,
                len: self.pages.len - count as u32,
            },
            checksums: Rc::clone(&self.checksums),
            at: self.at + count as usize,
            log_page: self.log_page,
            group: self.group,
        }
    }

    /// Returns its pages. In the file, the first one is `first`.
    fn mappings(&self, first: u64) -> impl Iterator<Item = (u32, Mapping)> {
        let checksum = |i| self.checksums.get(self.at + i).copied().unwrap_or(0);
        let mapping = move |i| Mapping {
            page: self.pages.start + i,
            checksum: checksum(i as usize),
        };
        (0..self.pages.len).map(move |i| (first as u32 + i, mapping(i)))
    }

    fn len(&self) -> u64 {
        self.pages.len.into()
    }
}

/// The pages of a file. Runs never overlap in the file.
#[derive(Default)]
pub(super) struct Runs {
    /// By the first page of the file.
    runs: BTreeMap<u64, Run>,
    pages: u64,
    /// The number of groups so far.
    groups: u64,
}

impl Runs {
    /// Returns the number of pages that the file has.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Replaces the pages of the file from `first` on by `extents`, as a group in `log_page` says.
    /// `checksums` has one entry for each page that is not in a hole, or none. No extent is empty.
    pub(super) fn replace(
        &mut self,
        first: u32,
        extents: &[Extent],
        checksums: Vec<u32>,
        log_page: u32,
    ) {
        let checksums: Rc<[u32]> = checksums.into();
        let (mut file_page, mut at) = (u64::from(first), 0);
        for &pages in extents {
            let end = file_page + u64::from(pages.len);
            if pages.is_hole() {
                self.remove(file_page, end);
            } else {
                let run = Run {
                    pages,
                    checksums: Rc::clone(&checksums),
                    at,
                    log_page,
                    group: self.groups,
                };
                self.put(file_page, end, run);
                at += pages.len as usize;
            }
            file_page = end;
        }
        self.groups += 1;
    }

    /// Replaces the pages of the file from `first` to `end` by a run of as many.
    fn put(&mut self, first: u64, end: u64, run: Run) {
        match self.runs.get_mut(&first) {
            // Overwrites of the same pages leave the tree as it is: one search instead of four.
            Some(same) if same.len() == run.len() => *same = run,
            _ => {
                self.remove(first, end);
                self.insert(first, run);
            }
        }
    }

    fn insert(&mut self, first: u64, run: Run) {
        self.pages += run.len();
        self.runs.insert(first, run);
    }

    /// Removes the pages of the file from `first` to `end`.
    pub(super) fn remove(&mut self, first: u64, end: u64) {
        if let Some((&at, _)) = self.runs.range(..first).next_back() {
            self.cut(at, first, end);
        }
        while let Some((&at, _)) = self.runs.range(first..end).next() {
            self.cut(at, first, end);
        }
    }

    /// Removes from the run at `at` the pages from `first` to `end`.
    fn cut(&mut self, at: u64, first: u64, end: u64) {
        let run = self.runs.remove(&at).expect("the caller has found it");
        let run_end = at + run.len();
        self.pages -= run.len();
        if run_end > end {
            self.insert(end, run.skip(end - at));
        }
        if at < first {
            let mut before = run;
            before.pages.len = u64::from(before.pages.len).min(first - at) as u32;
            self.insert(at, before);
        }
    }

    /// Calls `each` with the first file page and the data pages of every run, in the order of the
    /// file.
    pub(super) fn each_extent<E>(
        &self,
        mut each: impl FnMut(u32, Extent) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut runs = self.runs.iter();
        runs.try_for_each(|(&first, run)| each(first as u32, run.pages))
    }

    /// Calls `each` for every page, in the order of the file, with its log page.
    pub(super) fn each<E>(
        &self,
        mut each: impl FnMut(u32, Mapping, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        for (&first, run) in &self.runs {
            for (file_page, mapping) in run.mappings(first) {
                each(file_page, mapping, run.log_page)?;
            }
        }
        Ok(())
    }

    /// Calls `each` for every page. Those that later groups have mapped come first.
    pub(super) fn each_latest_first<E>(
        &self,
        mut each: impl FnMut(u32, Mapping) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut runs: Vec<_> = self.runs.iter().collect();
        runs.sort_by_key(|(_, run)| Reverse(run.group));
        let mut pages = runs.iter().flat_map(|(first, run)| run.mappings(**first));
        pages.try_for_each(|(file_page, mapping)| each(file_page, mapping))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Replays the same groups page by page: the data page, its checksum, and the log page.
    fn plainly(groups: &[(u32, Vec<Extent>)]) -> BTreeMap<u32, (u32, u32, u32)> {
        let mut pages = BTreeMap::new();
        for (nth, (first, extents)) in groups.iter().enumerate() {
            let (mut file_page, mut data) = (*first, 0);
            for extent in extents {
                for i in 0..extent.len {
                    if extent.is_hole() {
                        pages.remove(&file_page);
                    } else {
                        let to = (extent.start + i, checksum(nth, data), nth as u32);
                        pages.insert(file_page, to);
                        data += 1;
                    }
                    file_page += 1;
                }
            }
        }
        pages
    }

    fn checksum(group: usize, page: usize) -> u32 {
        (group * 1000 + page) as u32
    }

    fn starts() -> impl Strategy<Value = u32> {
        prop_oneof![Just(0), 1..1000_u32]
    }

    proptest! {
        #[test]
        fn runs_hold_what_a_table_of_pages_holds(
            groups in prop::collection::vec(
                (0..40_u32, prop::collection::vec((starts(), 1..9_u32), 1..5)),
                0..30,
            ),
        ) {
            let extent = |&(start, len): &(u32, u32)| Extent { start, len };
            let groups: Vec<(u32, Vec<Extent>)> = (groups.iter())
                .map(|(first, extents)| (*first, extents.iter().map(extent).collect()))
                .collect();
            let mut runs = Runs::default();
            for (nth, (first, extents)) in groups.iter().enumerate() {
                let data = extents.iter().filter(|it| !it.is_hole());
                let pages: u32 = data.map(|it| it.len).sum();
                let checksums = (0..pages as usize).map(|i| checksum(nth, i)).collect();
                runs.replace(*first, extents, checksums, nth as u32);
            }
            let mut found = BTreeMap::new();
            runs.each(|page, to, log_page| {
                let to = (to.page, to.checksum, log_page);
                prop_assert!(found.insert(page, to).is_none());
                Ok(())
            })?;
            let expected = plainly(&groups);
            prop_assert_eq!(runs.pages(), expected.len() as u64);
            prop_assert_eq!(found, expected);
        }
    }
}

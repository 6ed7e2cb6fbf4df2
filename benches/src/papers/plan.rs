//! What to measure.

use std::path::PathBuf;

use super::published::Said;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The chosen rows of the papers.
    pub said: Vec<&'static Said>,
    /// Seconds for each row of a comparison, in each half.
    pub seconds: f64,
    /// The folder for files on a disk. `None` for the default.
    pub dir: Option<PathBuf>,
}

impl Plan {
    /// Returns the chosen rows of a paper that are shown here.
    pub(super) fn of<'s>(
        &'s self,
        papers: &'s [&str],
    ) -> impl Iterator<Item = &'static Said> + use<'s> {
        let all = self.said.iter().copied();
        all.filter(|it| papers.contains(&it.paper) && it.case.is_some())
    }

    /// Returns the distinct values that `of` finds in the chosen rows of papers.
    pub(super) fn distinct<T: Ord>(
        &self,
        papers: &[&str],
        of: impl Fn(&Said) -> Option<T>,
    ) -> Vec<T> {
        let mut all: Vec<_> = self.of(papers).filter_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

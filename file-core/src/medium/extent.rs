//! Runs of consecutive pages, single and in lists.

/// Consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first page.
    pub(crate) start: u32,
    /// The number of pages.
    pub(crate) len: u32,
}

impl Extent {
    /// Returns whether the extent stands for pages that a file does not have. No data lies in page
    /// 0, which is the superblock's.
    pub(crate) fn is_hole(&self) -> bool {
        self.start == 0
    }

    pub(super) fn overlaps(self, other: Extent) -> bool {
        self.start < other.start + other.len && other.start < self.start + self.len
    }
}

/// Extents in order. A single extent needs no heap allocation.
#[derive(Debug, Default)]
pub(crate) struct ExtentList {
    first: Option<Extent>,
    rest: Vec<Extent>,
}

impl ExtentList {
    /// Appends `extent`, joining it to the last one if they are contiguous.
    #[inline]
    pub(crate) fn push(&mut self, extent: Extent) {
        match self.rest.last_mut().or(self.first.as_mut()) {
            None => self.first = Some(extent),
            Some(last) if last.start + last.len == extent.start => last.len += extent.len,
            Some(_) => self.rest.push(extent),
        }
    }

    /// Returns the extents in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.first.into_iter().chain(self.rest.iter().copied())
    }

    /// Returns the pages in order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter().flat_map(|e| e.start..e.start + e.len)
    }

    /// Returns the number of extents.
    pub(crate) fn count(&self) -> u32 {
        self.first.is_some() as u32 + self.rest.len() as u32
    }
}

//! What a change has replaced.

use crate::alloc::Extent;
use crate::medium::Medium;

/// What a change has replaced: pages, which it frees, and references to log pages, which it takes
/// away. Neighbours are joined into runs.
#[derive(Default)]
pub(super) struct Replaced {
    run: Option<Extent>,
    /// A log page, and how many references.
    references: (u32, u32),
}

impl Replaced {
    pub(super) fn push<P>(&mut self, page: u32, medium: &Medium<P>) {
        match &mut self.run {
            Some(run) if run.start + run.len == page => run.len += 1,
            run => {
                // M7: the mark of the change that replaced these pages is durable.
                if let Some(run) = run.replace(Extent {
                    start: page,
                    len: 1,
                }) {
                    medium.space.alloc.release(run);
                }
            }
        }
    }

    pub(super) fn push_reference<P>(&mut self, log_page: u32, medium: &Medium<P>) {
        if self.references.0 != log_page {
            self.take_references(medium);
            self.references.0 = log_page;
        }
        self.references.1 += 1;
    }

    fn take_references<P>(&mut self, medium: &Medium<P>) {
        let (log_page, count) = core::mem::take(&mut self.references);
        if count > 0 {
            // P1: the mark of the change that replaced them is durable.
            medium.space.take_live(log_page, count);
        }
    }

    pub(super) fn flush<P>(mut self, medium: &Medium<P>) {
        self.take_references(medium);
        if let Some(run) = self.run {
            // M7, as in `push`.
            medium.space.alloc.release(run);
        }
    }
}

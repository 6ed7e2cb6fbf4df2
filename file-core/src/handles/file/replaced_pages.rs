//! What a change has replaced.

use crate::medium::bytes::Medium;
use crate::medium::extent::Extent;
use crate::medium::log_page::PageUse;

/// What a change has replaced: pages, which become free, and references to log pages, which are
/// taken away. Neighbouring pages are joined into runs.
#[derive(Default)]
pub(super) struct ReplacedPages {
    /// The log page of the change's group, and how many of the replaced references are to it.
    /// [`page_use`](Self::page_use) subtracts them, which saves a change of the page's state.
    own: (u32, u32),
    run: Option<Extent>,
    /// A log page, and the number of references to it.
    references: (u32, u32),
}

impl ReplacedPages {
    /// Creates an empty one, for a change whose group is in `log_page`. What is pushed becomes free
    /// at once, so the mark of the change must be durable.
    pub(super) fn new(log_page: u32) -> Self {
        ReplacedPages {
            own: (log_page, 0),
            ..ReplacedPages::default()
        }
    }

    pub(super) fn push<P>(&mut self, page: u32, medium: &Medium<P>) {
        match &mut self.run {
            Some(run) if run.start + run.len == page => run.len += 1,
            run => {
                let before = run.replace(Extent {
                    start: page,
                    len: 1,
                });
                release(before, medium);
            }
        }
    }

    pub(super) fn push_reference<P>(&mut self, log_page: u32, medium: &Medium<P>) {
        if self.own.0 == log_page {
            self.own.1 += 1;
            return;
        }
        if self.references.0 != log_page {
            self.take_references(medium);
            self.references.0 = log_page;
        }
        self.references.1 += 1;
    }

    fn take_references<P>(&mut self, medium: &Medium<P>) {
        let (log_page, count) = core::mem::take(&mut self.references);
        if count > 0 {
            // F-P1: the mark of the change that replaced them is durable.
            medium.space.take_live(log_page, count);
        }
    }

    /// Returns how the change affects its log page. Its group maps `live` pages. `tombs` is 1 if
    /// it takes something away, else 0.
    pub(super) fn page_use(&self, live: u32, tombs: u32) -> PageUse {
        PageUse {
            live: i64::from(live) - i64::from(self.own.1),
            tombs,
        }
    }

    /// Frees what is left.
    #[inline]
    pub(super) fn flush<P>(&mut self, medium: &Medium<P>) {
        self.take_references(medium);
        release(self.run.take(), medium);
    }
}

fn release<P>(run: Option<Extent>, medium: &Medium<P>) {
    if let Some(run) = run {
        // F-M7: the mark of the change that replaced these pages is durable.
        medium.space.alloc.release(run);
    }
}

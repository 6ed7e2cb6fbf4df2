//! What a change has replaced.

use crate::alloc::Extent;
use crate::log_page::Gained;
use crate::medium::Medium;
use crate::pending::Old;

/// What a change has replaced: pages, which become free, and references to log pages, which are
/// taken away. Neighbouring pages are joined into runs.
#[derive(Default)]
pub(super) struct Replaced {
    /// The log page of the change's group, and how many of the replaced references are to it.
    /// [`gained`](Self::gained) subtracts them, which saves a change of the page's state.
    own: (u32, u32),
    run: Option<Extent>,
    /// A log page, and the number of references to it.
    references: (u32, u32),
    /// What waits until the change is durable, if it is not durable yet.
    kept: Option<Old>,
}

impl Replaced {
    /// Creates an empty one, for a change whose group is in `log_page`. If `is_durable`, the mark
    /// of the change is durable, so what the change replaces becomes free at once.
    pub(super) fn new(log_page: u32, is_durable: bool) -> Self {
        Replaced {
            own: (log_page, 0),
            kept: (!is_durable).then(Old::default),
            ..Replaced::default()
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
                self.release(before, medium);
            }
        }
    }

    fn release<P>(&mut self, run: Option<Extent>, medium: &Medium<P>) {
        match (&mut self.kept, run) {
            (_, None) => {}
            (Some(kept), Some(run)) => kept.pages.push(run),
            // M7: the mark of the change that replaced these pages is durable.
            (None, Some(run)) => medium.space.alloc.release(run),
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
        match &mut self.kept {
            _ if count == 0 => {}
            Some(kept) => kept.references.push((log_page, count)),
            // F-P1: the mark of the change that replaced them is durable.
            None => medium.space.take_live(log_page, count),
        }
    }

    /// Returns how the change affects its log page. Its group maps `live` pages. `tombs` is 1 if
    /// it takes something away, else 0.
    pub(super) fn gained(&self, live: u32, tombs: u32) -> Gained {
        Gained {
            live: i64::from(live) - i64::from(self.own.1),
            tombs,
        }
    }

    /// Frees what is left or, if the change is not durable yet, keeps it for later.
    #[inline]
    pub(super) fn flush<P>(&mut self, medium: &Medium<P>) {
        self.take_references(medium);
        let run = self.run.take();
        self.release(run, medium);
    }

    /// Returns what waits until the change is durable.
    pub(super) fn into_old<P>(mut self, medium: &Medium<P>) -> Old {
        self.flush(medium);
        self.kept.unwrap_or_default()
    }
}

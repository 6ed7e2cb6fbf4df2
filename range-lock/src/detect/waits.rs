//! Which requests wait for each other, so that none of them ever ends.
//!
//! A request has a [`Wait`] for each hold and each earlier request in its way. A wait for a place
//! among a limited number of readers is different: it ends as soon as *one* of these readers
//! leaves. So a thread is stuck if it has a wait all of whose threads are stuck. The threads that
//! are left after all others have been removed, one by one, are stuck for ever.

use std::collections::{HashMap, HashSet};

use spanlock_sync::thread::ThreadId;

use super::{Held, Registry, Request, Site};
use crate::raw::{Access, Span};

/// A reason why a request waits. It lasts until one of `threads` goes on.
pub(super) struct Wait {
    pub(super) wanted: (Span, Access),
    pub(super) requested: Site,
    threads: Vec<ThreadId>,
    pub(super) cause: Cause,
}

/// What stands in the way of a request.
pub(super) enum Cause {
    /// A hold, or an earlier request, that conflicts.
    Behind {
        span: Span,
        access: Access,
        /// `held` or `requested`.
        how: &'static str,
        site: Site,
    },
    /// As many readers as the lock admits. These are the places where they were taken.
    Full { readers: Vec<Site> },
}

impl Registry {
    /// Returns why a request would wait for ever: its own wait, and those of the threads that it
    /// waits for, directly or not. Returns none if it would not.
    pub(super) fn endless(&self, number: u64) -> Vec<Wait> {
        let me = self.requests[&number].thread;
        // Usually the request waits for nobody, or for threads that do not wait.
        let mut waits = HashMap::new();
        let mut open = vec![(me, number)];
        while let Some((thread, number)) = open.pop() {
            if waits.contains_key(&thread) {
                continue;
            }
            let found = self.waits(number);
            let threads = found.iter().flat_map(|wait| &wait.threads);
            open.extend(threads.filter_map(|&thread| Some((thread, self.latest(thread)?))));
            waits.insert(thread, found);
        }
        // A thread outside of `waits` does not wait. Remove the threads that it lets go on, then
        // those that these let go on, and so forth.
        loop {
            let stuck = HashSet::<ThreadId>::from_iter(waits.keys().copied());
            waits.retain(|_, waits| {
                waits.retain(|wait| wait.threads.iter().all(|thread| stuck.contains(thread)));
                !waits.is_empty()
            });
            if waits.len() == stuck.len() {
                break;
            }
        }
        // One reason per thread is enough for the message.
        let (mut steps, mut open) = (Vec::new(), vec![me]);
        while let Some(thread) = open.pop() {
            if let Some(wait) = waits.remove(&thread).into_iter().flatten().next() {
                open.extend(&wait.threads);
                steps.push(wait);
            }
        }
        steps
    }

    /// Returns the number of the request that stops a thread: its latest.
    fn latest(&self, thread: ThreadId) -> Option<u64> {
        let mut requests = self.requests.iter().rev();
        let latest = requests.find(|(_, request)| request.thread == thread);
        latest.map(|(&number, _)| number)
    }

    /// Returns why a request waits, as if the lock served conflicting requests first come, first
    /// served. The thread's own conflicting holds are not among the reasons.
    fn waits(&self, number: u64) -> Vec<Wait> {
        let request = &self.requests[&number];
        let mut waits = self.full(request);
        for (&thread, holds) in &self.threads {
            for held in holds.iter().filter(|_| thread != request.thread) {
                if held.key == request.key {
                    let held_span = [(held.span, held.access)];
                    waits.extend(request.behind(thread, &held_span, held.site, "held"));
                }
            }
        }
        for (&other, first) in &self.requests {
            // Upgrades come before all waiting requests.
            let is_before = match (first.upgrades, request.upgrades) {
                (_, Some(_)) => false,
                (Some(_), None) => true,
                (None, None) => other < number,
            };
            if is_before && first.thread != request.thread && first.key == request.key {
                waits.extend(request.behind(first.thread, &first.wanted, first.site, "requested"));
            }
        }
        waits
    }

    /// Returns the waits for a place among the readers of a position, if all places are taken.
    fn full(&self, request: &Request) -> Vec<Wait> {
        let counted =
            |held: &Held| held.counts && held.key == request.key && held.access != Access::Write;
        let holds = (self.threads.iter()).flat_map(|(&thread, holds)| {
            let counted = holds.iter().filter(|held| counted(held));
            counted.map(move |held| (thread, held))
        });
        let readers = Vec::from_iter(holds);
        let mut waits = Vec::new();
        for &(span, access) in &request.wanted {
            if access == Access::Write || readers.len() < request.reader_limit as usize {
                continue;
            }
            // Where the most readers overlap, one of them begins, or the request does.
            let starts = readers.iter().map(|(_, held)| held.span.start());
            let at = starts.filter(|at| span.range().contains(at));
            for at in at.chain([span.start()]) {
                let here = readers
                    .iter()
                    .filter(|(_, held)| held.span.range().contains(&at));
                if here.clone().count() >= request.reader_limit as usize {
                    waits.push(Wait {
                        wanted: (span, access),
                        requested: request.site,
                        threads: here.clone().map(|&(thread, _)| thread).collect(),
                        cause: Cause::Full {
                            readers: here.map(|(_, held)| held.site).collect(),
                        },
                    });
                }
            }
        }
        waits
    }
}

impl Request {
    /// Returns the wait for a thread whose hold or request of the same lock is for `others`, if one
    /// of these conflicts with this request.
    fn behind(
        &self,
        thread: ThreadId,
        others: &[(Span, Access)],
        site: Site,
        how: &'static str,
    ) -> Option<Wait> {
        let wanted = *self.wanted.iter().find(|(span, access)| {
            let conflicts =
                |&(other, by): &(Span, Access)| span.overlaps(other) && access.conflicts_with(by);
            others.iter().any(conflicts)
        })?;
        let &(span, access) = others.iter().find(|(other, _)| wanted.0.overlaps(*other))?;
        Some(Wait {
            wanted,
            requested: self.site,
            threads: vec![thread],
            cause: Cause::Behind {
                span,
                access,
                how,
                site,
            },
        })
    }
}

//! Detection switched on: one registry of all threads' holds and waiting requests, and of the
//! orders in which locks were taken.

use core::panic::Location;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::LazyLock;

use spanlock_sync::Mutex;
use spanlock_sync::thread::{self, ThreadId};

use crate::raw::{Access, RawRangeLock, Span};

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

/// The identity by which the feature `deadlock-detection` knows a lock: a field of the lock,
/// returned by its [`RawRangeLock::id`]. Without the feature it has no size.
#[derive(Debug)]
pub struct LockId {
    /// Never reused.
    number: u64,
}

impl LockId {
    /// Returns an identity that no other lock has.
    pub fn new() -> Self {
        LockId {
            number: REGISTRY.lock().number(),
        }
    }
}

impl Default for LockId {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LockId {
    fn drop(&mut self) {
        REGISTRY.lock().forget(self.number);
    }
}

/// The record of a hold: the thread that took it, and the number of its entry.
pub(crate) struct Watch(Option<(ThreadId, u64)>);

impl Watch {
    /// Returns the record of a hold that belongs to no thread.
    pub(crate) fn none() -> Self {
        Watch(None)
    }

    /// Records a hold of the calling thread.
    #[track_caller]
    pub(crate) fn begin<L: RawRangeLock + ?Sized>(lock: &L, span: Span, access: Access) -> Self {
        let (key, span, site) = (Key::of(lock), rounded(lock, span), Location::caller());
        let me = thread::id();
        let entry = REGISTRY.lock().record(me, |entry| Held {
            entry,
            key,
            span,
            access,
            site,
        });
        Watch(Some((me, entry)))
    }

    /// Records that the hold now covers `span` with `access`.
    pub(crate) fn change<L: RawRangeLock + ?Sized>(&self, lock: &L, span: Span, access: Access) {
        let span = rounded(lock, span);
        if let Some((owner, entry)) = self.0
            && let Some(held) = REGISTRY.lock().held(owner, entry)
        {
            (held.span, held.access) = (span, access);
        }
    }

    /// Records that `span` has become a hold of its own.
    pub(crate) fn split<L: RawRangeLock + ?Sized>(
        &self,
        lock: &L,
        span: Span,
        access: Access,
    ) -> Self {
        let span = rounded(lock, span);
        let mut registry = REGISTRY.lock();
        let part = self.0.and_then(|(owner, entry)| {
            let &mut Held { key, site, .. } = registry.held(owner, entry)?;
            let entry = registry.record(owner, |entry| Held {
                entry,
                key,
                span,
                access,
                site,
            });
            Some((owner, entry))
        });
        Watch(part)
    }

    /// Ends the record. Must precede the release, because afterwards the same thread may be granted
    /// the range again.
    pub(crate) fn end(&mut self) {
        if let Some((owner, entry)) = self.0.take() {
            REGISTRY.lock().end(owner, entry);
        }
    }
}

/// The record of a request that may be waiting. Dropping it ends the record.
#[must_use = "the request is recorded while it waits"]
pub(crate) struct Waiting(u64);

impl Drop for Waiting {
    fn drop(&mut self) {
        REGISTRY.lock().requests.remove(&self.0);
    }
}

/// Panics if the calling thread, which is about to wait for all of `wanted`, could wait for ever.
/// Otherwise records the request until the result is dropped.
///
/// `me` is a hold that is about to be upgraded; it does not conflict with itself.
#[track_caller]
pub(crate) fn before<L: RawRangeLock + ?Sized>(
    lock: &L,
    wanted: &[(Span, Access)],
    me: Option<&Watch>,
) -> Waiting {
    let request = Request {
        thread: thread::id(),
        key: Key::of(lock),
        wanted: Vec::from_iter(wanted.iter().map(|&(span, how)| (rounded(lock, span), how))),
        upgrades: me.and_then(|watch| watch.0).map(|(_, entry)| entry),
        site: Location::caller(),
    };
    // The registry is unlocked before the panic.
    let recorded = REGISTRY.lock().request(request);
    match recorded {
        Ok(number) => Waiting(number),
        Err(danger) => panic!("{danger}"),
    }
}

fn rounded<L: RawRangeLock + ?Sized>(lock: &L, span: Span) -> Span {
    span.rounded(lock.granularity(), lock.capacity())
}

type Site = &'static Location<'static>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Number(u64),
    Address(usize),
}

impl Key {
    fn of<L: RawRangeLock + ?Sized>(lock: &L) -> Key {
        match lock.id() {
            Some(id) => Key::Number(id.number),
            None => Key::Address(core::ptr::from_ref(lock).cast::<()>().addr()),
        }
    }
}

struct Held {
    entry: u64,
    key: Key,
    span: Span,
    access: Access,
    site: Site,
}

/// A request that is about to wait, or waits.
struct Request {
    thread: ThreadId,
    key: Key,
    wanted: Vec<(Span, Access)>,
    /// The entry of the hold that an upgrade changes. Its hold comes before all waiting requests.
    upgrades: Option<u64>,
    site: Site,
}

impl Request {
    /// Returns what this request waits for, if one of these conflicts with it.
    fn waits_for(
        &self,
        key: Key,
        others: &[(Span, Access)],
        site: Site,
        how: &'static str,
    ) -> Option<Step> {
        let conflict = |&&(span, access): &&(Span, Access)| {
            others
                .iter()
                .any(|&(other, by)| span.overlaps(other) && access.conflicts_with(by))
        };
        let wanted = *self
            .wanted
            .iter()
            .filter(|_| key == self.key)
            .find(conflict)?;
        let behind = *others.iter().find(|(other, _)| wanted.0.overlaps(*other))?;
        Some(Step {
            wanted,
            requested: self.site,
            behind,
            how,
            site,
        })
    }
}

/// A request that waits for another thread: for its hold, or for a request that came first.
struct Step {
    wanted: (Span, Access),
    requested: Site,
    behind: (Span, Access),
    /// `held` or `requested`.
    how: &'static str,
    site: Site,
}

/// The locations where the first lock of an order was taken, and then the second.
#[derive(Clone, Copy)]
struct Order {
    held: Site,
    taken: Site,
}

#[derive(Default)]
struct Registry {
    last_number: u64,
    threads: HashMap<ThreadId, Vec<Held>>,
    /// The requests that may be waiting, in order of arrival.
    requests: BTreeMap<u64, Request>,
    /// By the lock that was held, then by the lock that was taken. Contains no cycles.
    orders: BTreeMap<u64, BTreeMap<u64, Order>>,
}

impl Registry {
    /// Returns a new number, for a lock or a hold.
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn record(&mut self, owner: ThreadId, held: impl FnOnce(u64) -> Held) -> u64 {
        let entry = self.number();
        self.threads.entry(owner).or_default().push(held(entry));
        entry
    }

    fn held(&mut self, owner: ThreadId, entry: u64) -> Option<&mut Held> {
        let holds = self.threads.get_mut(&owner)?;
        holds.iter_mut().find(|held| held.entry == entry)
    }

    fn end(&mut self, owner: ThreadId, entry: u64) {
        if let Some(holds) = self.threads.get_mut(&owner) {
            holds.retain(|held| held.entry != entry);
            if holds.is_empty() {
                self.threads.remove(&owner);
            }
        }
    }

    /// Removes the orders of a lock that is dropped, and the records of its forgotten guards.
    fn forget(&mut self, number: u64) {
        self.orders.remove(&number);
        self.orders.values_mut().for_each(|after| {
            after.remove(&number);
        });
        self.threads.retain(|_, holds| {
            holds.retain(|held| held.key != Key::Number(number));
            !holds.is_empty()
        });
    }

    /// Records a request, unless it would be in [`Danger`] of waiting for ever.
    fn request(&mut self, request: Request) -> Result<u64, Danger> {
        if let Some(danger) = self.danger(&request) {
            return Err(danger);
        }
        let (number, me) = (self.number(), request.thread);
        self.requests.insert(number, request);
        let mut steps = Vec::new();
        if self.leads_to(me, number, &mut HashSet::new(), &mut steps) {
            self.requests.remove(&number);
            return Err(Danger::Threads(steps));
        }
        Ok(number)
    }

    /// Returns whether the request waits for `me`, perhaps through other threads. If so, adds the
    /// steps that lead from it to `me`, last step first.
    fn leads_to(
        &self,
        me: ThreadId,
        number: u64,
        seen: &mut HashSet<ThreadId>,
        steps: &mut Vec<Step>,
    ) -> bool {
        for (thread, step) in self.blockers(number) {
            // A thread that waits is stopped by its latest request.
            let mut requests = self.requests.iter().rev();
            let latest = requests.find(|(_, request)| request.thread == thread);
            let found = thread == me
                || seen.insert(thread)
                    && latest.is_some_and(|(&next, _)| self.leads_to(me, next, seen, steps));
            if found {
                steps.push(step);
                return true;
            }
        }
        false
    }

    /// Returns the other threads for which a request waits, as if the lock served conflicting
    /// requests first come, first served.
    fn blockers(&self, number: u64) -> Vec<(ThreadId, Step)> {
        let request = &self.requests[&number];
        let mut blockers = Vec::new();
        for (&thread, holds) in &self.threads {
            for held in holds.iter().filter(|_| thread != request.thread) {
                let (key, span) = (held.key, (held.span, held.access));
                let step = request.waits_for(key, &[span], held.site, "held");
                blockers.extend(step.map(|step| (thread, step)));
            }
        }
        for (&other, first) in &self.requests {
            // Upgrades come before all waiting requests.
            let is_before = match (first.upgrades, request.upgrades) {
                (_, Some(_)) => false,
                (Some(_), None) => true,
                (None, None) => other < number,
            };
            if is_before && first.thread != request.thread {
                let step = request.waits_for(first.key, &first.wanted, first.site, "requested");
                blockers.extend(step.map(|step| (first.thread, step)));
            }
        }
        blockers
    }

    fn danger(&mut self, asking: &Request) -> Option<Danger> {
        let Registry {
            threads, orders, ..
        } = self;
        let mine = threads.get(&asking.thread)?;
        let mine = || {
            mine.iter()
                .filter(|held| Some(held.entry) != asking.upgrades)
        };
        for held in mine().filter(|held| held.key == asking.key) {
            let conflicts = |&&(span, how): &&(Span, Access)| {
                span.overlaps(held.span) && how.conflicts_with(held.access)
            };
            if let Some(&wanted) = asking.wanted.iter().find(conflicts) {
                return Some(Danger::Itself {
                    wanted: (wanted.0, wanted.1, asking.site),
                    held: (held.span, held.access, held.site),
                });
            }
        }
        let Key::Number(taken) = asking.key else {
            return None;
        };
        for held in mine() {
            let Key::Number(first) = held.key else {
                continue;
            };
            if first == taken || orders.get(&first).is_some_and(|a| a.contains_key(&taken)) {
                continue;
            }
            let order = Order {
                held: held.site,
                taken: asking.site,
            };
            if let Some(way) = way(orders, taken, first) {
                return Some(Danger::Circle {
                    first,
                    taken,
                    order,
                    way,
                });
            }
            orders.entry(first).or_default().insert(taken, order);
        }
        None
    }
}

/// Returns the orders that lead from one lock to another, if any do.
fn way(
    orders: &BTreeMap<u64, BTreeMap<u64, Order>>,
    from: u64,
    to: u64,
) -> Option<Vec<(u64, u64, Order)>> {
    let mut seen = BTreeSet::from([from]);
    let mut ways = vec![(from, Vec::new())];
    while let Some((at, way)) = ways.pop() {
        if at == to {
            return Some(way);
        }
        for (&next, &order) in orders.get(&at).into_iter().flatten() {
            if seen.insert(next) {
                let mut longer = way.clone();
                longer.push((at, next, order));
                ways.push((next, longer));
            }
        }
    }
    None
}

/// The danger that a request would run into.
enum Danger {
    Itself {
        wanted: (Span, Access, Site),
        held: (Span, Access, Site),
    },
    Circle {
        first: u64,
        taken: u64,
        order: Order,
        way: Vec<(u64, u64, Order)>,
    },
    /// The last step first.
    Threads(Vec<Step>),
}

impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Danger::Itself { wanted, held } => {
                let ((span, how, site), (mine, held_how, since)) = (wanted, held);
                write!(
                    f,
                    "deadlock: {span:?} ({how:?}) is requested at {site} by the thread that holds \
                     {mine:?} ({held_how:?}) of the same lock since {since}: it would wait for \
                     itself; release that hold first"
                )
            }
            Danger::Circle {
                first,
                taken,
                order,
                way,
            } => {
                write!(
                    f,
                    "deadlock: locks are taken in opposite orders; choose one order everywhere"
                )?;
                let this = (*first, *taken, *order);
                for (held, taken, order) in std::iter::once(&this).chain(way) {
                    write!(
                        f,
                        "\n  lock {taken} at {}, with lock {held} held since {}",
                        order.taken, order.held
                    )?;
                }
                Ok(())
            }
            Danger::Threads(steps) => {
                write!(
                    f,
                    "deadlock: threads would wait for each other; request all ranges of a lock in \
                     one call, or release the first"
                )?;
                for step in steps.iter().rev() {
                    let ((span, access), (behind, by)) = (step.wanted, step.behind);
                    write!(
                        f,
                        "\n  {span:?} ({access:?}) is requested at {}, and waits for {behind:?} \
                         ({by:?}), {} at {}",
                        step.requested, step.how, step.site
                    )?;
                }
                Ok(())
            }
        }
    }
}

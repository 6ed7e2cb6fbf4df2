//! Detection switched on: one registry of all threads' holds and waiting requests, and of the
//! orders in which locks were taken.

#[path = "danger.rs"]
mod danger;
#[path = "waits.rs"]
mod waits;

use core::panic::Location;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{LazyLock, OnceLock};

use spanlock_sync::Mutex;
use spanlock_sync::thread::{self, ThreadId};

use super::Call;
use crate::raw::{Access, RawRangeLock, Span, Token};

use danger::Danger;

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

/// The identity by which the feature `deadlock-detection` knows a lock: a field of the lock,
/// returned by its [`RawRangeLock::id`]. Without the feature it has no size.
#[derive(Debug)]
pub struct LockId {
    /// Given when the lock is first used, and never reused.
    number: OnceLock<u64>,
    home: Home,
}

/// The address of the registry that gives the number. If a shared library has a copy of this crate,
/// that copy has a registry of its own, as it has a table of queues of its own.
#[derive(Debug, PartialEq)]
struct Home(*const ());

// SAFETY: only an address.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

impl Home {
    const HERE: Home = Home((&raw const REGISTRY).cast());
}

/// Panics if the lock was created by another copy of this crate.
#[track_caller]
pub(crate) fn check_home<L: RawRangeLock + ?Sized>(lock: &L) {
    if let Some(id) = lock.id() {
        id.number();
    }
}

impl LockId {
    /// Returns an identity that no other lock has.
    pub const fn new() -> Self {
        LockId {
            number: OnceLock::new(),
            home: Home::HERE,
        }
    }

    /// Returns the identity of a lock that another copy of this crate has created. For tests.
    #[doc(hidden)]
    pub fn of_another_copy() -> Self {
        LockId {
            number: OnceLock::new(),
            home: Home(Home::HERE.0.wrapping_byte_add(1)),
        }
    }

    #[track_caller]
    fn number(&self) -> u64 {
        assert!(
            self.home == Home::HERE,
            "this lock was created by another copy of the crate spanlock-range-lock (in a shared \
             library, or in the program that loaded this one): its waiters would never be woken, \
             because each copy has queues of its own"
        );
        *self.number.get_or_init(|| REGISTRY.lock().number())
    }
}

impl Default for LockId {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LockId {
    fn drop(&mut self) {
        let number = self.number.get().filter(|_| self.home == Home::HERE);
        if let Some(&number) = number {
            REGISTRY.lock().forget(number);
        }
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
    pub(crate) fn begin<L: RawRangeLock + ?Sized>(
        lock: &L,
        span: Span,
        access: Access,
        token: Token,
    ) -> Self {
        let (key, site) = (Key::of(lock), Location::caller());
        let counts = counts(lock, span, token);
        let span = rounded(lock, span);
        let me = thread::id();
        let entry = REGISTRY.lock().record(me, |entry| Held {
            entry,
            key,
            span,
            access,
            site,
            counts,
        });
        Watch(Some((me, entry)))
    }

    /// Records that the hold now covers `span` with `access`, by this token.
    pub(crate) fn change<L: RawRangeLock + ?Sized>(
        &self,
        lock: &L,
        span: Span,
        access: Access,
        token: Token,
    ) {
        let counts = counts(lock, span, token);
        let span = rounded(lock, span);
        if let Some((owner, entry)) = self.0 {
            if let Some(held) = REGISTRY.lock().held(owner, entry) {
                (held.span, held.access, held.counts) = (span, access, counts);
            }
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
            let &mut Held {
                key, site, counts, ..
            } = registry.held(owner, entry)?;
            let entry = registry.record(owner, |entry| Held {
                entry,
                key,
                span,
                access,
                site,
                counts,
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
#[track_caller]
pub(crate) fn before<L: RawRangeLock + ?Sized>(
    lock: &L,
    wanted: &[(Span, Access)],
    call: Call<'_>,
) -> Waiting {
    let (upgrades, reader_limit) = match call {
        Call::Lock => {
            let limits = wanted
                .iter()
                .map(|&(span, _)| lock.reader_limit(span, None));
            (None, limits.min())
        }
        Call::Batch => (None, None),
        Call::Upgrade(hold) => (hold.0.map(|(_, entry)| entry), None),
    };
    let request = Request {
        thread: thread::id(),
        key: Key::of(lock),
        wanted: Vec::from_iter(wanted.iter().map(|&(span, how)| (rounded(lock, span), how))),
        reader_limit: reader_limit.unwrap_or(u32::MAX),
        upgrades,
        site: Location::caller(),
    };
    // The registry is unlocked before the panic.
    let recorded = REGISTRY.lock().request(request);
    match recorded {
        Ok(number) => Waiting(number),
        Err(danger) => panic!("{danger}"),
    }
}

/// Returns whether a reader with this hold takes one of a limited number of places.
fn counts<L: RawRangeLock + ?Sized>(lock: &L, span: Span, token: Token) -> bool {
    lock.reader_limit(span, Some(token)) != u32::MAX
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
    #[track_caller]
    fn of<L: RawRangeLock + ?Sized>(lock: &L) -> Key {
        match lock.id() {
            Some(id) => Key::Number(id.number()),
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
    /// Whether it takes one of a limited number of places, if it reads.
    counts: bool,
}

/// A request that is about to wait, or waits.
struct Request {
    thread: ThreadId,
    key: Key,
    wanted: Vec<(Span, Access)>,
    /// The request also waits while so many readers hold one of its positions.
    reader_limit: u32,
    /// The entry of the hold that an upgrade changes. Its hold comes before all waiting requests.
    upgrades: Option<u64>,
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
        let number = self.number();
        self.requests.insert(number, request);
        let waits = self.endless(number);
        if !waits.is_empty() {
            self.requests.remove(&number);
            return Err(Danger::Threads(waits));
        }
        Ok(number)
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

//! The state of a table: its holds, its owners and its waiting requests. All of it changes under
//! one mutex, which [`crate::lock`] has.
//!
//! # Waiting
//! A request waits while a hold of another owner conflicts with it. As in `fcntl`, nothing else
//! stops it. So requests that came later may pass it, and a writer can starve behind readers.
//!
//! A request is *ready* if no hold conflicts with it. A ready request is granted by its own owner,
//! the next time that the request is polled, and not by the thread that made it ready. So a request
//! that is given up has never changed a hold.
//!
//! # Invariants
//! - **REC-I2** Waiting requests are in the order of their arrival.
//! - **REC-I3** No wake is lost. A waiter is *called* from the change that wakes it until it is
//!   polled. Every ready waiter is called, or conflicts with a called one that arrived before it.
//!   Every change calls the waiters that it makes ready. A called waiter that leaves, or finds
//!   itself passed when it is polled, calls those behind it.
//! - **REC-I4** No owner waits for itself. An owner *waits for* those whose holds conflict with a
//!   request of it that waits. A request that would close a circle fails, and a new hold ends the
//!   waits that it lets close one. Other changes only remove such pairs.
//! - **REC-I5** There is room for the wakers of all waiters among those to be woken, and for all
//!   waiting owners in a search for a circle. So a change that ends waits or wakes waiters
//!   allocates nothing, and a release never fails.
//!
//! # Cost
//! With *n* holds, *k* of which overlap the range, a request or an unlock takes O(log *n* + *k*)
//! steps. With *w* waiting requests, a change compares its range with all of theirs. Each waiter
//! that it touches and that is not called is checked in O(log *n* + *k*) steps and, if it is ready,
//! compared with the called ones before it. A request that begins to wait searches the waits of all
//! owners that it waits for, also through others, and compares each such owner that waits with all
//! waiters. A release searches the bytes between the owner's first and last one.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::task::{Poll, Waker};

use spanlock_sync::injected_bug;

use crate::error::Error;
use crate::hold::{Bytes, Hold, Mode};
use crate::holds::Holds;

/// Owners of holds and of waiting requests exist: [`Table::remove_owner`] removes the holds and
/// ends the requests.
const EXISTS: &str = "the owner exists";

/// The number of wakers that a thread takes at a time, to wake them without the mutex.
pub(crate) const BATCH: usize = 8;

/// An owner that has not been released.
struct Party {
    /// Tells this owner from earlier ones with its id.
    serial: u64,
    /// How many holds it has.
    holds: isize,
    /// Contains all bytes that it holds, and has no meaning if there are none. It grows until the
    /// owner holds nothing.
    hull: Bytes,
    /// How many requests of it wait.
    waits: usize,
    /// The last search for a circle that has reached this owner.
    reached: u64,
}

impl Party {
    fn hull(&self) -> Option<Bytes> {
        (self.holds > 0).then_some(self.hull)
    }
}

struct Waiter {
    number: u64,
    want: Hold,
    /// None if the waiter was woken and has not been polled since.
    waker: Option<Waker>,
    /// Why the request has ended before it was granted. Its owner has yet to learn so.
    ended: Option<Error>,
}

impl Waiter {
    /// See REC-I3.
    fn is_called(&self) -> bool {
        self.waker.is_none() && self.ended.is_none()
    }
}

pub(crate) struct Table {
    holds: Holds,
    owners: HashMap<u64, Party>,
    /// See REC-I2.
    waiters: Vec<Waiter>,
    /// Wakers to wake when the mutex is unlocked.
    wakes: VecDeque<Waker>,
    /// The owners whose waits a search for a circle has yet to follow.
    found: Vec<u64>,
    /// The next serial or number.
    next: u64,
}

impl Table {
    pub(crate) fn new() -> Self {
        Table {
            holds: Holds::new(),
            owners: HashMap::new(),
            waiters: Vec::new(),
            wakes: VecDeque::new(),
            found: Vec::new(),
            next: 1,
        }
    }

    /// Adds an owner; returns its serial.
    pub(crate) fn add_owner(&mut self, id: u64) -> Result<u64, Error> {
        if self.owners.contains_key(&id) {
            return Err(Error::OwnerExists { id });
        }
        self.owners.try_reserve(1)?;
        let serial = self.new_number();
        let party = Party {
            serial,
            holds: 0,
            hull: Bytes::ALL,
            waits: 0,
            reached: 0,
        };
        self.owners.insert(id, party);
        Ok(serial)
    }

    /// Removes an owner with its holds, and ends its waiting requests.
    pub(crate) fn remove_owner(&mut self, id: u64) {
        let hull = self.owners[&id].hull();
        if let Some(hull) = hull {
            self.assign(id, hull, None);
        }
        if self.owners[&id].waits > 0
            && !injected_bug!(
                "released-owner-waits",
                "the release of an owner leaves its waiting requests in the table",
                killed_by = "record-lock/release-ends-wait"
            )
        {
            for at in 0..self.waiters.len() {
                let waiter = &self.waiters[at];
                if waiter.want.owner == id && waiter.ended.is_none() {
                    self.end(at, Error::Released);
                }
            }
        }
        self.owners.remove(&id);
        if let Some(hull) = hull {
            self.call(hull);
        }
    }

    /// Returns the hold that stops a request: of those that conflict with it, the one that starts
    /// first.
    pub(crate) fn conflict(&self, want: &Hold) -> Option<Hold> {
        self.holds.conflicts(want).next()
    }

    /// Locks the bytes if no hold conflicts.
    pub(crate) fn try_lock(&mut self, want: Hold) -> Result<(), Error> {
        match self.conflict(&want) {
            Some(hold) => Err(Error::Conflict(hold)),
            None => self.grant(want),
        }
    }

    /// Unlocks the bytes, as far as the owner holds them.
    pub(crate) fn unlock(&mut self, id: u64, bytes: Bytes) -> Result<(), Error> {
        let hull = self.owners[&id].hull();
        let Some(bytes) = hull.and_then(|hull| hull.common(bytes)) else {
            return Ok(());
        };
        let mut own = self.holds.overlaps(bytes).filter(|hold| hold.owner == id);
        let splits = own.any(|hold| hold.first < bytes.first && bytes.last < hold.last);
        drop(own);
        self.holds.reserve(usize::from(splits))?;
        self.assign(id, bytes, None);
        self.call(bytes);
        Ok(())
    }

    /// Begins a request of the owner with this serial. If it has to wait, takes the waker and
    /// returns the number of the request.
    pub(crate) fn begin(
        &mut self,
        want: Hold,
        serial: u64,
        waker: &mut Option<Waker>,
    ) -> Result<Option<u64>, Error> {
        if self.owners.get(&want.owner).map(|party| party.serial) != Some(serial) {
            return Err(Error::Released);
        }
        if self.conflict(&want).is_none() {
            return self.grant(want).map(|()| None);
        }
        if let Some(hold) = self.closes_circle(&want) {
            return Err(Error::Deadlock(hold));
        }
        self.waiters.try_reserve(1)?;
        // See REC-I5. Some wakes may still be under way.
        self.wakes.try_reserve(self.waiters.len() + 1)?;
        self.found.try_reserve(self.waiters.len() + 1)?;
        let number = self.new_number();
        self.waiters.push(Waiter {
            number,
            want,
            waker: waker.take(),
            ended: None,
        });
        self.party(want.owner).waits += 1;
        Ok(Some(number))
    }

    /// Advances a waiting request: grants it, reports its end, or exchanges its waker. Leaves all
    /// wakers that it does not need in `wakers`: the new one comes first.
    pub(crate) fn poll(
        &mut self,
        number: u64,
        wakers: &mut [Option<Waker>; 2],
    ) -> Poll<Result<(), Error>> {
        let at = self.find_waiter(number);
        let Waiter { want, ended, .. } = self.waiters[at];
        if let Some(why) = ended {
            self.waiters.remove(at);
            return Poll::Ready(Err(why));
        }
        let trusts = injected_bug!(
            "woken-is-granted",
            "a request that was woken does not check again whether its bytes are free",
            killed_by = "record-lock/try-passes"
        ) && self.waiters[at].is_called();
        let stops = self.conflict(&want).is_some() && !trusts;
        // See REC-I5: if its last wake is still under way, the new waker needs room, too.
        let room = match stops {
            true => (self.wakes.try_reserve(self.waiters.len())).map_err(Error::from),
            false => self.holds.reserve(2),
        };
        if let Err(error) = room {
            wakers[1] = self.cancel(number);
            return Poll::Ready(Err(error));
        }
        if stops {
            mem::swap(&mut self.waiters[at].waker, &mut wakers[0]);
            if wakers[0].is_none() {
                self.call(want.bytes());
            }
            return Poll::Pending;
        }
        wakers[1] = self.remove_waiter(at).waker;
        Poll::Ready(self.grant(want))
    }

    /// Gives up a request that waits, or has ended; returns its waker.
    pub(crate) fn cancel(&mut self, number: u64) -> Option<Waker> {
        let waiter = self.remove_waiter(self.find_waiter(number));
        if waiter.is_called()
            && !injected_bug!(
                "cancel-calls-nobody",
                "a request that is given up after it was woken does not wake the next one",
                killed_by = "record-lock/cancel-called"
            )
        {
            self.call(waiter.want.bytes());
        }
        waiter.waker
    }

    /// Returns the holds that overlap bytes, in the order of their first bytes.
    pub(crate) fn holds(&self, bytes: Bytes) -> Result<Vec<Hold>, Error> {
        collect(self.holds.overlaps(bytes))
    }

    /// Returns all requests that wait, in the order of their arrival.
    pub(crate) fn waiting(&self) -> Result<Vec<Hold>, Error> {
        let waiters = self.waiters.iter().filter(|it| it.ended.is_none());
        collect(waiters.map(|it| it.want))
    }

    /// Returns the numbers of holds, of owners, and of requests that wait or have ended.
    pub(crate) fn counts(&self) -> [usize; 3] {
        [self.holds.len(), self.owners.len(), self.waiters.len()]
    }

    /// Takes the first wakers that are to be woken.
    pub(crate) fn take_wakes(&mut self) -> [Option<Waker>; BATCH] {
        core::array::from_fn(|_| self.wakes.pop_front())
    }

    /// Locks the bytes for a request that no hold stops.
    fn grant(&mut self, want: Hold) -> Result<(), Error> {
        self.holds.reserve(2)?;
        self.assign(want.owner, want.bytes(), Some(want.mode));
        self.end_circles(&want);
        // A downgrade frees bytes, and a granted request no longer waits.
        self.call(want.bytes());
        Ok(())
    }

    /// Sets the mode in which an owner holds bytes; see [`Holds::assign`].
    fn assign(&mut self, id: u64, bytes: Bytes, mode: Option<Mode>) {
        let party = self.owners.get_mut(&id).expect(EXISTS);
        party.hull = party.hull().map_or(bytes, |hull| hull.hull(bytes));
        party.holds += self.holds.assign(id, bytes, mode);
    }

    /// Calls the waiters that a change of these bytes has made ready (REC-I3).
    fn call(&mut self, bytes: Bytes) {
        for at in 0..self.waiters.len() {
            let (earlier, later) = self.waiters.split_at_mut(at);
            let Waiter { want, waker, .. } = &mut later[0];
            if waker.is_some()
                && want.bytes().overlaps(bytes)
                && self.holds.conflicts(want).next().is_none()
                && !(earlier.iter()).any(|it| it.is_called() && it.want.conflicts_with(want))
            {
                self.wakes.extend(waker.take());
            }
        }
    }

    /// Ends a wait.
    fn end(&mut self, at: usize, why: Error) {
        let Waiter {
            want, waker, ended, ..
        } = &mut self.waiters[at];
        *ended = Some(why);
        let (want, waker) = (*want, waker.take());
        self.party(want.owner).waits -= 1;
        match waker {
            Some(waker) => self.wakes.push_back(waker),
            None => self.call(want.bytes()),
        }
    }

    fn remove_waiter(&mut self, at: usize) -> Waiter {
        let waiter = self.waiters.remove(at);
        if waiter.ended.is_none() {
            self.party(waiter.want.owner).waits -= 1;
        }
        waiter
    }

    /// Ends the waits that the new hold has closed to a circle (REC-I4).
    fn end_circles(&mut self, new: &Hold) {
        if self.owners[&new.owner].waits == 0
            || injected_bug!(
                "circle-overlooked",
                "a new hold of an owner that waits for other bytes can close a circle of waits",
                killed_by = "record-lock/late-circle"
            )
        {
            return;
        }
        for at in 0..self.waiters.len() {
            let Waiter { want, ended, .. } = self.waiters[at];
            if ended.is_none() && want.conflicts_with(new) {
                if let Some(hold) = self.closes_circle(&want) {
                    self.end(at, Error::Deadlock(hold));
                }
            }
        }
    }

    /// Returns whether the owner of a request would wait for itself if the request waited: if so,
    /// the first hold in its way whose owner waits for it, also through others.
    fn closes_circle(&mut self, want: &Hold) -> Option<Hold> {
        // No request waits for an owner that holds nothing.
        self.owners[&want.owner].hull()?;
        let search = self.new_number();
        let Table {
            holds,
            owners,
            waiters,
            found,
            ..
        } = self;
        let mut reach = |id: u64, found: &mut Vec<u64>| {
            let party = owners.get_mut(&id).expect(EXISTS);
            if mem::replace(&mut party.reached, search) != search && party.waits > 0 {
                found.push(id);
            }
        };
        found.clear();
        // An owner that the search has reached from an earlier hold leads to no circle.
        for first in holds.conflicts(want) {
            reach(first.owner, found);
            while let Some(owner) = found.pop() {
                let waits = |it: &&Waiter| it.want.owner == owner && it.ended.is_none();
                for waiter in waiters.iter().filter(waits) {
                    for hold in holds.conflicts(&waiter.want) {
                        if hold.owner == want.owner {
                            return Some(first);
                        }
                        reach(hold.owner, found);
                    }
                }
            }
        }
        None
    }

    fn party(&mut self, id: u64) -> &mut Party {
        self.owners.get_mut(&id).expect(EXISTS)
    }

    fn find_waiter(&self, number: u64) -> usize {
        let at = self.waiters.binary_search_by_key(&number, |it| it.number);
        at.expect("a request is in the table until it is granted or its end is known")
    }

    fn new_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

/// Collects into a vector, if there is memory.
fn collect(items: impl Iterator<Item = Hold>) -> Result<Vec<Hold>, Error> {
    let mut all = Vec::new();
    for item in items {
        all.try_reserve(1)?;
        all.push(item);
    }
    Ok(all)
}

//! The state of a table: its holds, its owners and its waiting requests. All of it changes under
//! one mutex, which [`crate::lock`] has.
//!
//! # Waiting
//! A request waits while a hold of another owner conflicts with it. Like `fcntl`, nothing else
//! stops it, with one exception: requests that are granted past a conflicting waiter are counted,
//! and after [`MAX_PASSES`] of them, the waiter is *overdue*. Requests that came later and conflict
//! with it then wait behind it, unless their owner holds something. An owner with a hold might be
//! the one for whose release the waiter waits, so waiting there could be a deadlock.
//!
//! A request is *ready* if nothing stops it. A ready request is granted by its own owner, the next
//! time that the request is polled, and not by the thread that made it ready. So a request that is
//! given up has never changed a hold.
//!
//! # Invariants
//! - **REC-I2** Waiting requests are in the order of their arrival.
//! - **REC-I3** A waiter is *called* if it is ready and no called waiter before it conflicts with
//!   it. A change calls those that it makes so, and wakes each of them. The other waiters have a
//!   waker, or were woken and have not polled since. So no wake is lost: every waiter that becomes
//!   ready is called, or one before it is, whose grant or end is again such a change.
//! - **REC-I4** No owner waits for itself. An owner *waits for* those whose holds conflict with a
//!   request of it that waits. A request that would close a circle fails, and a new hold ends the
//!   waits that it lets close one. Other changes only remove such pairs. Waits behind an overdue
//!   request are in no circle, because nobody waits for an owner that holds nothing.
//!
//! # Cost
//! With *n* holds, *k* of which overlap the range, a request or an unlock takes O(log *n* + *k*)
//! steps. If *w* requests wait, each change checks them all, and compares each with the overdue and
//! called ones. A request that begins to wait searches the waits of all owners that it waits for,
//! also through others. The release of an owner with holds checks all holds.

use core::mem;
use core::task::{Poll, Waker};

use spanlock_interval_lock::shared::Wakes;
use spanlock_range_lock::words::MAX_PASSES;
use spanlock_sync::injected_bug;

use crate::error::Error;
use crate::hold::{Bytes, Hold, Mode};
use crate::holds::Holds;

/// A waiting request belongs to an owner that has not been released: [`Table::remove_owner`] ends
/// the others.
const EXISTS: &str = "the owner exists";

/// An owner that has not been released.
struct Party {
    id: u64,
    /// Tells this owner from earlier ones with its id.
    serial: u64,
    /// How many holds it has.
    holds: isize,
}

struct Waiter {
    number: u64,
    want: Hold,
    waker: Option<Waker>,
    /// How many conflicting requests that came later were granted.
    passes: u32,
    /// See REC-I3.
    called: bool,
}

/// A request that has ended before it was granted, until its owner learns so.
struct Ended {
    number: u64,
    why: Error,
}

pub(crate) struct Table {
    holds: Holds,
    /// In the order of their ids.
    owners: Vec<Party>,
    /// See REC-I2.
    waiters: Vec<Waiter>,
    /// Has room for all waiters, so that ending one allocates nothing.
    ended: Vec<Ended>,
    /// The owners that a search for a circle has found. Has room for all, so a search allocates
    /// nothing.
    found: Vec<u64>,
    /// The next serial or number.
    next: u64,
}

impl Table {
    pub(crate) const fn new() -> Self {
        Table {
            holds: Holds::new(),
            owners: Vec::new(),
            waiters: Vec::new(),
            ended: Vec::new(),
            found: Vec::new(),
            next: 0,
        }
    }

    /// Adds an owner; returns its serial.
    pub(crate) fn add_owner(&mut self, id: u64) -> Result<u64, Error> {
        let Err(at) = self.find_owner(id) else {
            return Err(Error::OwnerExists { id });
        };
        self.owners.try_reserve(1)?;
        self.found.try_reserve(self.owners.len() + 1)?;
        let serial = self.new_number();
        self.owners.insert(
            at,
            Party {
                id,
                serial,
                holds: 0,
            },
        );
        Ok(serial)
    }

    /// Removes an owner with its holds, and ends its waiting requests.
    pub(crate) fn remove_owner(&mut self, id: u64, wakes: &mut Wakes) {
        let everything = Bytes {
            first: 0,
            last: u64::MAX,
        };
        let at = self.find_owner(id).expect(EXISTS);
        if self.owners[at].holds > 0 {
            self.holds.assign(id, everything, None);
        }
        self.owners.remove(at);
        if !injected_bug!(
            "released-owner-waits",
            "the release of an owner leaves its waiting requests in the table",
            killed_by = "record-lock/release-ends-wait"
        ) {
            self.end_waits(wakes, |_, want| {
                (want.owner == id).then_some(Error::Released)
            });
        }
        self.call(wakes);
    }

    /// Returns the hold that stops a request: of those that conflict with it, the one that starts
    /// first. The tree's order does not say which, because the last two bytes share a position.
    pub(crate) fn conflict(&self, want: &Hold) -> Option<Hold> {
        self.holds.conflicts(want).min_by_key(|hold| hold.first)
    }

    /// Locks the bytes if no hold conflicts.
    pub(crate) fn try_lock(&mut self, want: Hold, wakes: &mut Wakes) -> Result<(), Error> {
        match self.conflict(&want) {
            Some(hold) => Err(Error::Conflict(hold)),
            None => self.grant(want, self.next, wakes),
        }
    }

    /// Unlocks the bytes, as far as the owner holds them.
    pub(crate) fn unlock(&mut self, id: u64, bytes: Bytes, wakes: &mut Wakes) -> Result<(), Error> {
        let mut own = self.holds.near(bytes).filter(|(_, hold)| hold.owner == id);
        let splits = own.any(|(_, hold)| hold.first < bytes.first && bytes.last < hold.last);
        drop(own);
        self.holds.reserve(usize::from(splits))?;
        self.assign(id, bytes, None);
        self.call(wakes);
        Ok(())
    }

    /// Begins a request of the owner with this serial. If it has to wait, takes the waker and
    /// returns the number of the request.
    pub(crate) fn begin(
        &mut self,
        want: Hold,
        serial: u64,
        waker: &mut Option<Waker>,
        wakes: &mut Wakes,
    ) -> Result<Option<u64>, Error> {
        match self.find_owner(want.owner) {
            Ok(at) if self.owners[at].serial == serial => {}
            _ => return Err(Error::Released),
        }
        let number = self.new_number();
        if self.is_ready(&want, number) {
            self.grant(want, number, wakes)?;
            return Ok(None);
        }
        if let Some(hold) = self.closes_circle(&want) {
            return Err(Error::Deadlock(hold));
        }
        self.waiters.try_reserve(1)?;
        self.ended.try_reserve(self.waiters.len() + 1)?;
        let (waker, passes, called) = (waker.take(), 0, false);
        self.waiters.push(Waiter {
            number,
            want,
            waker,
            passes,
            called,
        });
        Ok(Some(number))
    }

    /// Advances a waiting request: grants it, reports its end, or exchanges its waker.
    pub(crate) fn poll(
        &mut self,
        number: u64,
        waker: &mut Option<Waker>,
        wakes: &mut Wakes,
    ) -> Poll<Result<(), Error>> {
        let Ok(at) = self.find_waiter(number) else {
            let end = self.ended.iter().position(|it| it.number == number);
            let end = end.expect("a request waits or has ended");
            return Poll::Ready(Err(self.ended.swap_remove(end).why));
        };
        let want = self.waiters[at].want;
        let trusts = injected_bug!(
            "woken-is-granted",
            "a request that was woken does not check again whether its bytes are free",
            killed_by = "record-lock/try-passes"
        ) && self.waiters[at].waker.is_none();
        if !trusts && !self.is_ready(&want, number) {
            mem::swap(&mut self.waiters[at].waker, waker);
            return Poll::Pending;
        }
        *waker = self.waiters.remove(at).waker;
        let granted = self.grant(want, number, wakes);
        if granted.is_err() {
            self.call(wakes);
        }
        Poll::Ready(granted)
    }

    /// Gives up a request that waits, or has ended; returns its waker.
    pub(crate) fn cancel(&mut self, number: u64, wakes: &mut Wakes) -> Option<Waker> {
        let Ok(at) = self.find_waiter(number) else {
            self.ended.retain(|it| it.number != number);
            return None;
        };
        let waiter = self.waiters.remove(at);
        if !injected_bug!(
            "cancel-calls-nobody",
            "a request that is given up after it was woken does not wake the next one",
            killed_by = "record-lock/cancel-called"
        ) {
            self.call(wakes);
        }
        waiter.waker
    }

    /// Returns all holds, in the order of their first bytes.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        let everything = Bytes {
            first: 0,
            last: u64::MAX,
        };
        let mut holds: Vec<_> = self.holds.near(everything).map(|(_, hold)| hold).collect();
        holds.sort_by_key(|hold| hold.first); // See `conflict`.
        holds
    }

    /// Returns all requests that wait, in the order of their arrival.
    pub(crate) fn waiting(&self) -> Vec<Hold> {
        self.waiters.iter().map(|waiter| waiter.want).collect()
    }

    /// Locks the bytes for a request that no hold stops.
    fn grant(&mut self, want: Hold, number: u64, wakes: &mut Wakes) -> Result<(), Error> {
        self.holds.reserve(2)?;
        self.assign(want.owner, want.bytes(), Some(want.mode));
        let earlier = self.waiters.iter_mut().take_while(|it| it.number < number);
        for waiter in earlier.filter(|it| it.want.conflicts_with(&want)) {
            waiter.passes = waiter.passes.saturating_add(1);
        }
        self.end_circles(&want, wakes);
        self.call(wakes);
        Ok(())
    }

    /// Sets the mode in which an owner holds bytes; see [`Holds::assign`].
    fn assign(&mut self, id: u64, bytes: Bytes, mode: Option<Mode>) {
        let at = self.find_owner(id).expect(EXISTS);
        self.owners[at].holds += self.holds.assign(id, bytes, mode);
    }

    /// Returns whether nothing stops a request with this number.
    fn is_ready(&self, want: &Hold, number: u64) -> bool {
        if self.holds.conflicts(want).next().is_some() {
            return false;
        }
        let stops = |it: &Waiter| it.passes >= MAX_PASSES && it.want.conflicts_with(want);
        let mut earlier = self.waiters.iter().take_while(|it| it.number < number);
        !earlier.any(stops)
            || self
                .find_owner(want.owner)
                .is_ok_and(|at| self.owners[at].holds > 0)
    }

    /// Calls the waiters that a change has made ready (REC-I3).
    fn call(&mut self, wakes: &mut Wakes) {
        for at in 0..self.waiters.len() {
            let (earlier, waiter) = (&self.waiters[..at], &self.waiters[at]);
            let called = self.is_ready(&waiter.want, waiter.number)
                && !(earlier.iter()).any(|it| it.called && it.want.conflicts_with(&waiter.want));
            let waiter = &mut self.waiters[at];
            waiter.called = called;
            if called {
                wakes.push(waiter.waker.take());
            }
        }
    }

    /// Ends the waits for which `why` returns a reason.
    fn end_waits(
        &mut self,
        wakes: &mut Wakes,
        mut why: impl FnMut(&mut Self, &Hold) -> Option<Error>,
    ) {
        let mut at = 0;
        while let Some(&Waiter { number, want, .. }) = self.waiters.get(at) {
            match why(self, &want) {
                Some(why) => {
                    self.ended.push(Ended { number, why });
                    wakes.push(self.waiters.remove(at).waker);
                }
                None => at += 1,
            }
        }
    }

    /// Ends the waits that the new hold has closed to a circle (REC-I4).
    fn end_circles(&mut self, new: &Hold, wakes: &mut Wakes) {
        let waits = self.waiters.iter().any(|it| it.want.owner == new.owner);
        if !waits
            || injected_bug!(
                "circle-overlooked",
                "a new hold of an owner that waits for other bytes can close a circle of waits",
                killed_by = "record-lock/late-circle"
            )
        {
            return;
        }
        self.end_waits(wakes, |table, want| {
            let closes = want.conflicts_with(new).then(|| table.closes_circle(want));
            closes.flatten().map(Error::Deadlock)
        });
    }

    /// Returns whether the owner of a request would wait for itself if the request waited: if so,
    /// the hold that stops the request.
    fn closes_circle(&mut self, want: &Hold) -> Option<Hold> {
        let mut found = mem::take(&mut self.found);
        found.clear();
        let add = |want: &Hold, found: &mut Vec<u64>| {
            for hold in self.holds.conflicts(want) {
                if !found.contains(&hold.owner) {
                    found.push(hold.owner);
                }
            }
        };
        add(want, &mut found);
        let mut at = 0;
        while let Some(&owner) = found.get(at) {
            let waits = self.waiters.iter().filter(|it| it.want.owner == owner);
            waits.for_each(|waiter| add(&waiter.want, &mut found));
            at += 1;
        }
        let closes = found.contains(&want.owner);
        self.found = found;
        self.conflict(want).filter(|_| closes)
    }

    fn find_owner(&self, id: u64) -> Result<usize, usize> {
        self.owners.binary_search_by_key(&id, |owner| owner.id)
    }

    fn find_waiter(&self, number: u64) -> Result<usize, usize> {
        self.waiters
            .binary_search_by_key(&number, |waiter| waiter.number)
    }

    fn new_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

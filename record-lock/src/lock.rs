//! The public types: the table, its owners and their requests.
//!
//! Every call locks the table's mutex, changes the [`Table`], and unlocks the mutex. Wakers are
//! foreign code: this module clones, wakes and drops them while the mutex is unlocked. If a waker
//! panics while it wakes, the call unwinds after it has taken effect, and after it has woken the
//! others.

use core::fmt;
use core::future::Future;
use core::iter;
use core::ops::RangeBounds;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::time::Instant;

use spanlock_range_lock::words::for_each_surely;
use spanlock_sync::{Arc, Mutex, Park, Parker, Wakeup, wait};

use crate::error::Error;
use crate::hold::{Hold, Mode};
use crate::ranges;
use crate::table::Table;

type Shared = Arc<Mutex<Table>>;

/// The record locks of one file. See the [crate's documentation](crate).
///
/// Owners and requests keep the table alive.
pub struct RecordLock {
    table: Shared,
}

impl RecordLock {
    /// Creates a table without locks.
    pub fn new() -> Self {
        let table = Arc::new(Mutex::new(Table::new()));
        RecordLock { table }
    }

    /// Adds an owner. Other owners learn `id` if a lock of this one is in their way. An owner that
    /// is forgotten ([`core::mem::forget`]) keeps its id and its locks.
    ///
    /// # Errors
    /// [`Error::OwnerExists`] if the table has an owner of this id that has not been released.
    /// [`Error::Memory`].
    pub fn owner(&self, id: u64) -> Result<Owner, Error> {
        let serial = self.table.lock().add_owner(id)?;
        let table = self.table.clone();
        Ok(Owner { table, id, serial })
    }

    /// Returns the holds of all owners that overlap a range, in the order of their first bytes. The
    /// result is a snapshot.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Reversed`].
    pub fn holds(&self, range: impl RangeBounds<u64>) -> Result<Vec<Hold>, Error> {
        let bytes = ranges::bytes(range)?;
        bytes.map_or(Ok(Vec::new()), |bytes| self.table.lock().holds(bytes))
    }

    /// Returns what the waiting requests ask for, in the order of their arrival. The result is a
    /// snapshot.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn waiting(&self) -> Result<Vec<Hold>, Error> {
        self.table.lock().waiting()
    }
}

impl Default for RecordLock {
    fn default() -> Self {
        Self::new()
    }
}

/// Prints the numbers of holds, of owners, and of requests that wait or have to learn their end.
impl fmt::Debug for RecordLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [holds, owners, requests] = self.table.lock().counts();
        let mut f = f.debug_struct("RecordLock");
        f.field("holds", &holds).field("owners", &owners);
        f.field("requests", &requests).finish()
    }
}

/// A party that locks bytes: a process, an open file description, an NFS lock-owner, an SMB open.
///
/// Locks of one owner never conflict with each other, whatever threads request them. When an owner
/// is dropped or [released](Self::release), all its locks are.
pub struct Owner {
    table: Shared,
    id: u64,
    serial: u64,
}

impl Owner {
    /// Returns the id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Locks bytes, if no lock of another owner conflicts (`F_SETLK`).
    ///
    /// Whatever this owner held of the range, it then holds in the new mode. An upgrade or a
    /// downgrade is one step.
    ///
    /// # Errors
    /// [`Error::Conflict`] with the conflicting hold that starts first. [`Error::Reversed`],
    /// [`Error::Memory`].
    pub fn try_lock(&self, range: impl RangeBounds<u64>, mode: Mode) -> Result<(), Error> {
        let Some(bytes) = ranges::bytes(range)? else {
            return Ok(());
        };
        let want = Hold::new(self.id, bytes, mode);
        change(&self.table, |table| table.try_lock(want))
    }

    /// Returns a request for bytes, which waits while locks of other owners conflict (`F_SETLKW`).
    ///
    /// The request is a future, and can also block a thread: see [`Request`]. It does nothing until
    /// it is polled or waited for. Like [`try_lock`](Self::try_lock), it changes the mode of what
    /// the owner already holds; while it waits, the owner keeps what it held.
    pub fn lock(&self, range: impl RangeBounds<u64>, mode: Mode) -> Request {
        let state = match ranges::bytes(range) {
            Ok(Some(bytes)) => State::New(Hold::new(self.id, bytes, mode), self.serial),
            Ok(None) => State::Known(Ok(())),
            Err(error) => State::Known(Err(error)),
        };
        let table = self.table.clone();
        Request { table, state }
    }

    /// Returns the hold that would stop [`try_lock`](Self::try_lock), if there is one (`F_GETLK`):
    /// of those that conflict, the one that starts first. The result is a snapshot.
    ///
    /// # Errors
    /// [`Error::Reversed`].
    pub fn test(&self, range: impl RangeBounds<u64>, mode: Mode) -> Result<Option<Hold>, Error> {
        let bytes = ranges::bytes(range)?;
        let want = bytes.map(|bytes| Hold::new(self.id, bytes, mode));
        Ok(want.and_then(|want| self.table.lock().conflict(&want)))
    }

    /// Unlocks bytes (`F_UNLCK`), as far as the owner has locked them. Cuts its locks at the ends
    /// of the range.
    ///
    /// # Errors
    /// [`Error::Memory`] if the range lies inside one hold, whose two ends both remain.
    /// [`Error::Reversed`].
    pub fn unlock(&self, range: impl RangeBounds<u64>) -> Result<(), Error> {
        let Some(bytes) = ranges::bytes(range)? else {
            return Ok(());
        };
        change(&self.table, |table| table.unlock(self.id, bytes))
    }

    /// Unlocks everything that the owner has locked, and ends its waiting requests with
    /// [`Error::Released`]. Dropping the owner does the same. It never fails.
    ///
    /// An owner can be released only once, and not used afterwards:
    ///
    /// ```compile_fail,E0382
    /// # let table = spanlock_record_lock::RecordLock::new();
    /// let owner = table.owner(1)?;
    /// owner.release();
    /// owner.release();
    /// # Ok::<(), spanlock_record_lock::Error>(())
    /// ```
    pub fn release(self) {}
}

impl Drop for Owner {
    fn drop(&mut self) {
        change(&self.table, |table| table.remove_owner(self.id));
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("id", &self.id).finish()
    }
}

/// A request for bytes that may have to wait. Await it, or call [`wait`](Self::wait) or
/// [`wait_until`](Self::wait_until).
///
/// Its result is `Ok` when the bytes are locked. They stay locked until the owner unlocks them: a
/// request is not a guard. Dropping a request that has not returned a result cancels it, and then
/// no lock has changed.
///
/// The one exception is a foreign waker that panics. A granted request may wake others, because it
/// has downgraded a lock or because they waited behind it. If one of their wakers panics, the poll
/// or the wait of this request unwinds, and yet its bytes are locked.
///
/// # Errors
/// - [`Error::Deadlock`] if an owner whose lock is in the way waits for the owner of this request,
///   also through other owners. The request finds this when it begins to wait, and later if locks
///   have changed.
/// - [`Error::Released`] if the owner was released meanwhile.
/// - [`Error::Reversed`], [`Error::Memory`].
///
/// # Panics
/// If it is polled again after it has returned its result.
#[must_use = "a request does nothing unless it is awaited or waited for"]
pub struct Request {
    table: Shared,
    state: State,
}

enum State {
    /// The request, and the serial of its owner.
    New(Hold, u64),
    /// The number of the request.
    Waiting(u64),
    /// The result does not depend on the table.
    Known(Result<(), Error>),
    Done,
}

impl Request {
    /// Blocks the thread until the request is granted or fails.
    ///
    /// # Errors
    /// See [`Request`].
    pub fn wait(self) -> Result<(), Error> {
        self.sleep(None)
    }

    /// Blocks the thread until the request is granted or fails, or `deadline` passes.
    ///
    /// # Errors
    /// [`Error::TimedOut`] after the deadline. See also [`Request`].
    pub fn wait_until(self, deadline: Instant) -> Result<(), Error> {
        self.sleep(Some(deadline))
    }

    fn sleep(mut self, deadline: Option<Instant>) -> Result<(), Error> {
        Parker::with(|parker| {
            let mut wakeup = Wakeup::Woken;
            loop {
                if let Poll::Ready(result) = self.advance(parker.waker()) {
                    return result;
                }
                if wakeup == Wakeup::TimedOut {
                    return Err(Error::TimedOut);
                }
                wakeup = parker.park_until(deadline);
            }
        })
    }

    fn advance(&mut self, waker: &Waker) -> Poll<Result<(), Error>> {
        if let State::Known(result) = self.state {
            self.state = State::Done;
            return Poll::Ready(result);
        }
        // Dropped at the end, when the mutex is unlocked: the new waker, and the previous one.
        let mut wakers = [Some(waker.clone()), None];
        let state = &mut self.state;
        change(&self.table, |table| {
            let polled = match *state {
                State::New(want, serial) => match table.begin(want, serial, &mut wakers[0]) {
                    Ok(Some(number)) => {
                        *state = State::Waiting(number);
                        Poll::Pending
                    }
                    Ok(None) => Poll::Ready(Ok(())),
                    Err(error) => Poll::Ready(Err(error)),
                },
                State::Waiting(number) => table.poll(number, &mut wakers),
                State::Known(_) | State::Done => panic!("polled after it has returned its result"),
            };
            if polled.is_ready() {
                *state = State::Done;
            }
            polled
        })
    }
}

impl Future for Request {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.advance(context.waker())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let State::Waiting(number) = self.state {
            // The result is a waker, and dropped when the mutex is unlocked.
            drop(change(&self.table, |table| table.cancel(number)));
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = matches!(self.state, State::Waiting(_));
        f.debug_struct("Request").field("waits", &waits).finish()
    }
}

/// Changes the table under its mutex, then wakes the waiters that the change has called.
///
/// It takes their wakers in batches, because one large enough for all might need memory. Meanwhile,
/// another thread may take a batch of this one: then it wakes those.
fn change<T>(table: &Mutex<Table>, f: impl FnOnce(&mut Table) -> T) -> T {
    let mut locked = table.lock();
    let result = f(&mut locked);
    let first = locked.take_wakes();
    drop(locked);
    if first[0].is_none() || wait::is_wake_left_out() {
        return result;
    }
    let batches = iter::successors(Some(first), |batch| {
        let is_full = batch.iter().all(Option::is_some);
        is_full.then(|| table.lock().take_wakes())
    });
    for_each_surely(batches.flatten().flatten(), Waker::wake);
    result
}

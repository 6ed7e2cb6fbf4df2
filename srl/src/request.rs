//! Requests that wait: one state machine for blocking threads and for futures.
//!
//! A small request takes the words of its segments in ascending order. A wide request, for very
//! many segments, gets an entry in the [gate](crate::gate). Then it scans the words: it waits until
//! it has seen each of them free. If the gate stops a small request, the request backs off: it
//! releases its words, gets an entry of its own, and takes its words again.
//!
//! # Stages
//!
//! ```text
//!   small request                                     wide request
//!        │                                                 │ closes the gate
//!        ▼                                                 ▼
//!  ┌────────────┐ stopped by    ┌───────────────┐  ┌───────────────────┐
//!  │   Taking   │ the gate      │ AwaitingEntry │  │ AwaitingWideEntry │
//!  │            ├──────────────►│               │  │                   │
//!  └─────┬──────┘               └───────┬───────┘  └─────────┬─────────┘
//!        │                              │ entry granted      │ entry granted
//!        │                              ▼                    ▼
//!        │                     ┌─────────────────┐    ┌─────────────┐
//!        │                     │ TakingUnderEntry│    │  Scanning   │
//!        │                     └────────┬────────┘    └──────┬──────┘
//!        │ has all words                │ has all words,     │ has seen every
//!        │                              │ leaves the gate    │ word free
//!        ▼                              ▼                    ▼
//!   held by words                 held by words       held by its entry
//! ```
//!
//! | stage | the request holds | it waits for | cancelling it |
//! |---|---|---|---|
//! | `Taking` | its first words, which passed the gate | the next word | releases the words |
//! | `AwaitingEntry` | nothing | earlier entries | cancels the entry |
//! | `TakingUnderEntry` | an entry, its first words | the next word | releases both, words first |
//! | `AwaitingWideEntry` | the gate closed | earlier entries | opens the gate, cancels the entry |
//! | `Scanning` | the gate closed, an entry | the next word | opens the gate, releases the entry |
//!
//! If there is no memory for a word or for an entry, the request ends in an error: in each stage,
//! it does what cancelling it does.
//!
//! "Earlier entries" came before the request's own entry, and conflict with it. The request
//! itself makes every transition, in [`SrlRequest::poll`]. Other threads only wake it.

use core::ops::Range;
use core::pin::{Pin, pin};
use core::task::{Poll, Waker, ready};

use spanlock_interval_lock::IntervalRequest;
use spanlock_range_lock::words::Progress;
use spanlock_range_lock::{Access, NoMemory, RawRangeLock, RawRangeLockWait, Token};
use spanlock_sync::Park;
use spanlock_sync::hint::Backoff;
use spanlock_sync::unwind::and_surely;

use crate::gate::{Gate, entry_of, in_range};
use crate::segment_words::{Advance, SegmentWords};
use crate::store::SegmentStore;
use crate::token::wide_token;

/// A request for a range that has not been granted yet.
#[derive(Debug, Default)]
pub struct SrlRequest {
    stage: Stage,
    progress: Progress,
}

/// See [Stages](self#stages).
#[derive(Debug, Default)]
enum Stage {
    /// The request has not begun, or it is small and takes its words.
    #[default]
    Taking,
    AwaitingEntry(IntervalRequest),
    TakingUnderEntry(Token),
    AwaitingWideEntry(IntervalRequest),
    Scanning(Token),
}

/// The segments and the access that a request asks for.
pub(crate) struct Wanted {
    /// The segments.
    pub(crate) touched: Range<u64>,
    pub(crate) access: Access,
    /// Whether there are so many segments that the request goes through the gate.
    pub(crate) is_wide: bool,
}

impl SrlRequest {
    fn parts(self: Pin<&mut Self>) -> (&mut Stage, Pin<&mut Progress>) {
        // SAFETY: the progress is pinned with the request, and is not moved out of it. The stage is
        // not pinned.
        unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.stage, Pin::new_unchecked(&mut this.progress))
        }
    }

    /// Puts the calling thread to sleep until a poll is worthwhile. (The sleep may end spuriously,
    /// and there may be none.)
    fn park(self: Pin<&mut Self>, parker: &impl Park) {
        let (stage, progress) = self.parts();
        match stage {
            Stage::AwaitingEntry(_) | Stage::AwaitingWideEntry(_) => parker.park(),
            Stage::Taking | Stage::TakingUnderEntry(_) | Stage::Scanning(_) => {
                progress.park(parker);
            }
        }
    }

    /// Must precede each poll of a future ([`Progress::refresh`]).
    pub(crate) fn refresh(self: Pin<&mut Self>) {
        self.parts().1.refresh();
    }

    /// Asks for the next poll of a future whose waiter may be overlooked, as
    /// [`Progress::poll_again`] does.
    pub(crate) fn poll_again(&self, waker: &Waker) {
        self.progress.poll_again(waker);
    }

    /// Continues the request until it is granted or must wait.
    ///
    /// # Errors
    /// If there is no memory. The request holds nothing, and is as new.
    ///
    /// # Safety
    /// As for [`RawRangeLockWait::poll_lock`]. Each call passes the `words` and `gate` of the same
    /// lock.
    pub(crate) unsafe fn poll<S: SegmentStore, P: Park>(
        mut self: Pin<&mut Self>,
        words: &SegmentWords<S, P>,
        gate: &Gate<P>,
        wanted: &Wanted,
        waker: &Waker,
    ) -> Poll<Result<Token, NoMemory>> {
        // SAFETY: the caller's promise.
        let poll = unsafe { self.as_mut().advance(words, gate, wanted, waker) };
        if let Poll::Ready(Err(NoMemory)) = poll {
            // SAFETY: the caller's promise.
            unsafe { self.cancel(words, gate, &wanted.touched, wanted.access) };
        }
        poll
    }

    /// Does what [`poll`](Self::poll) does, but does not cancel the request if there is no memory.
    ///
    /// # Safety
    /// As for [`poll`](Self::poll).
    unsafe fn advance<S: SegmentStore, P: Park>(
        self: Pin<&mut Self>,
        words: &SegmentWords<S, P>,
        gate: &Gate<P>,
        wanted: &Wanted,
        waker: &Waker,
    ) -> Poll<Result<Token, NoMemory>> {
        let (touched, access) = (&wanted.touched, wanted.access);
        let (entries, entry) = (gate.entries(), entry_of(touched));
        let (stage, mut progress) = self.parts();
        loop {
            // A stage that waits for words clones the waker first, which may panic. By now the
            // stage says what is held.
            *stage = match stage {
                Stage::Taking if wanted.is_wide => {
                    gate.close();
                    Stage::AwaitingWideEntry(IntervalRequest::default())
                }
                Stage::Taking => {
                    progress.as_mut().listen(waker);
                    let stops = || gate.stops(touched, access);
                    // SAFETY: the caller's promise.
                    let taken =
                        unsafe { words.poll_take(touched, access, progress.as_mut(), stops) };
                    if let Some(token) = ready!(taken)? {
                        return Poll::Ready(Ok(token));
                    }
                    Stage::AwaitingEntry(IntervalRequest::default())
                }
                Stage::AwaitingEntry(waiting) => {
                    // SAFETY: the entry's request is used for this span and access only.
                    let granted =
                        unsafe { entries.poll_lock(entry, access, Pin::new(waiting), waker) };
                    Stage::TakingUnderEntry(in_range(ready!(granted))?)
                }
                Stage::TakingUnderEntry(token) => {
                    let token = *token;
                    progress.as_mut().listen(waker);
                    // SAFETY: the caller's promise.
                    let taken =
                        unsafe { words.poll_take(touched, access, progress.as_mut(), || false) };
                    let Some(taken) = ready!(taken)? else {
                        unreachable!("only the gate stops a request, and this request did not ask");
                    };
                    // Record first that the request has its words and no entry: releasing the entry
                    // runs wakers, which may panic.
                    *stage = Stage::Taking;
                    progress.as_mut().skip(touched.end - touched.start);
                    // SAFETY: the entry was granted, and is given up now that the words are taken.
                    unsafe { entries.unlock(entry, access, token) };
                    progress.restart();
                    return Poll::Ready(Ok(taken));
                }
                Stage::AwaitingWideEntry(waiting) => {
                    // SAFETY: the entry's request is used for this span and access only.
                    let granted =
                        unsafe { entries.poll_lock(entry, access, Pin::new(waiting), waker) };
                    let token = in_range(ready!(granted))?;
                    gate.before_scan();
                    Stage::Scanning(token)
                }
                Stage::Scanning(token) => {
                    let token = *token;
                    progress.as_mut().listen(waker);
                    // SAFETY: the caller's promise.
                    ready!(unsafe { words.poll_scan(touched, access, progress.as_mut()) });
                    *stage = Stage::Taking;
                    return Poll::Ready(Ok(wide_token(token)));
                }
            };
        }
    }

    /// Cancels the request: leaves its queue and releases what it holds, even if a waker panics.
    ///
    /// # Safety
    /// As for [`RawRangeLockWait::cancel`]. The call passes the same `words` and `gate` as
    /// `poll`.
    pub(crate) unsafe fn cancel<S: SegmentStore, P: Park>(
        self: Pin<&mut Self>,
        words: &SegmentWords<S, P>,
        gate: &Gate<P>,
        touched: &Range<u64>,
        access: Access,
    ) {
        let (stage, mut progress) = self.parts();
        let stage = core::mem::take(stage);
        let (entries, entry) = (gate.entries(), entry_of(touched));
        let taken = touched.start..touched.start + progress.taken();
        progress.as_mut().leave(&words.queue);
        progress.as_mut().restart();
        // SAFETY: the words and entries that the request holds have this span and access, and the
        // request gives them up.
        let release = || unsafe {
            match stage {
                Stage::Taking => words.give_up(taken, access),
                Stage::AwaitingEntry(mut waiting) => {
                    entries.cancel(entry, access, Pin::new(&mut waiting));
                }
                Stage::TakingUnderEntry(token) => {
                    let wakes = words.back_off(taken, None, access);
                    let unlock = || entries.unlock(entry, access, token);
                    and_surely(unlock, || wakes.wake());
                }
                Stage::AwaitingWideEntry(mut waiting) => {
                    gate.open();
                    entries.cancel(entry, access, Pin::new(&mut waiting));
                }
                Stage::Scanning(token) => gate.release(touched, access, token),
            }
        };
        // `release` wakes waiters of words and entries, and their wakers may panic. The waiters
        // behind this request in its queue must be woken even then.
        and_surely(release, || progress.finish(&words.queue));
    }
}

/// The request of a blocking call. Dropping it cancels the request, in case a waker panics before
/// the request is granted.
struct Attempt<'a, 'p, S: SegmentStore, P: Park> {
    words: &'a SegmentWords<S, P>,
    gate: &'a Gate<P>,
    wanted: &'a Wanted,
    request: Pin<&'p mut SrlRequest>,
}

impl<S: SegmentStore, P: Park> Drop for Attempt<'_, '_, S, P> {
    fn drop(&mut self) {
        let Wanted {
            touched, access, ..
        } = self.wanted;
        // SAFETY: the request is for these segments, with this access.
        unsafe { (self.request.as_mut()).cancel(self.words, self.gate, touched, *access) }
    }
}

/// Blocks until a request is granted. `advance` says how far the request has got already, and
/// `spin` how long it has spun.
///
/// # Errors
/// If there is no memory. Nothing is held.
#[cold]
pub(crate) fn block<S: SegmentStore, P: Park>(
    words: &SegmentWords<S, P>,
    gate: &Gate<P>,
    wanted: &Wanted,
    mut advance: Advance,
    mut spin: Backoff,
) -> Result<Token, NoMemory> {
    let (touched, access) = (&wanted.touched, wanted.access);
    while let Advance::Taken(taken) = advance {
        if !spin.round() {
            break;
        }
        advance = words.advance(touched, taken, access, || gate.stops(touched, access));
    }
    let is_stopped = matches!(advance, Advance::Stopped);
    let mut attempt = Attempt {
        words,
        gate,
        wanted,
        request: pin!(SrlRequest::default()),
    };
    match advance {
        // SAFETY: the request holds all segments.
        Advance::All(_) => return Ok(unsafe { words.token_of(touched) }),
        // Record first what the request holds: foreign code may panic.
        Advance::Taken(taken) => attempt.request.as_mut().parts().1.skip(taken),
        Advance::Stopped => {}
        Advance::NoMemory => return Err(NoMemory),
    }
    P::with(|parker| {
        if !is_stopped {
            let (_, mut progress) = attempt.request.as_mut().parts();
            progress.as_mut().listen(parker.waker());
            // SAFETY: when the attempt is dropped, it cancels the request.
            unsafe { words.enqueue(touched, access, progress) }?;
        }
        loop {
            let request = attempt.request.as_mut();
            // SAFETY: the request belongs to this call. When the attempt is dropped, it cancels the
            // request.
            match unsafe { request.poll(words, gate, wanted, parker.waker()) } {
                Poll::Ready(taken) => return taken,
                Poll::Pending => attempt.request.as_mut().park(parker),
            }
        }
    })
}

//! Batches that wait without a thread: the steps of a blocking batch ([`crate::capabilities`]), one
//! stage at a time.
//!
//! | stage | the request holds | it waits for | cancelling it |
//! |---|---|---|---|
//! | `New` | nothing | | does nothing |
//! | `AwaitingEntries` | the gate closed, once a range | earlier entries | opens it, cancels them |
//! | `Scanning` | an entry or the words of each range | the next word | releases them all |

use alloc::vec::Vec;
use core::pin::Pin;
use core::task::{Poll, Waker, ready};

use spanlock_interval_lock::IntervalBatchRequest;
use spanlock_range_lock::words::Progress;
use spanlock_range_lock::{
    Access, NoMemory, RangeError, RawRangeLockBatch, RawRangeLockBatchWait, Span, Token,
    TryLockError,
};
use spanlock_sync::unwind::and_surely;
use spanlock_sync::{Park, injected_bug};

use crate::capabilities::TakenBatch;
use crate::gate::{entry_of, in_range};
use crate::lock::Srl;
use crate::store::SegmentStore;
use crate::token::wide_token;

/// A request for several ranges that has not been granted yet.
#[derive(Debug, Default)]
pub struct SrlBatchRequest {
    stage: Stage,
    progress: Progress,
}

/// See the [module](self).
#[derive(Debug, Default)]
enum Stage {
    #[default]
    New,
    AwaitingEntries {
        request: IntervalBatchRequest,
        entries: Vec<(Span, Access)>,
        /// Room for the tokens of the entries.
        tokens: Vec<Token>,
    },
    Scanning {
        tokens: Vec<Token>,
        /// How many ranges have been scanned.
        scanned: usize,
    },
}

impl SrlBatchRequest {
    fn parts(self: Pin<&mut Self>) -> (&mut Stage, Pin<&mut Progress>) {
        // SAFETY: the progress is pinned with the request, and is not moved out of it. The stage is
        // not pinned.
        unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.stage, Pin::new_unchecked(&mut this.progress))
        }
    }
}

// SAFETY: as for `lock_batch`: each range is held by a granted entry after a scan, or by its words
// (G-I3). A forgotten request keeps its entries, and its waiter stays in its queue.
unsafe impl<S: SegmentStore, P: Park> RawRangeLockBatchWait for Srl<S, P> {
    type BatchRequest = SrlBatchRequest;

    unsafe fn poll_batch(
        &self,
        batch: &[(Span, Access)],
        mut request: Pin<&mut SrlBatchRequest>,
        waker: &Waker,
        tokens: &mut [Token],
    ) -> Poll<Result<(), RangeError>> {
        request.as_mut().parts().1.refresh();
        // SAFETY: the caller's promise.
        let poll = unsafe { self.advance_batch(batch, request.as_mut(), waker, tokens) };
        if poll.is_pending() {
            request.progress.poll_again(waker);
        }
        poll
    }

    unsafe fn cancel_batch(&self, batch: &[(Span, Access)], request: Pin<&mut SrlBatchRequest>) {
        let (stage, mut progress) = request.parts();
        let stage = core::mem::take(stage);
        progress.as_mut().leave(&self.words.queue);
        progress.as_mut().restart();
        let release = || match stage {
            Stage::New => {}
            Stage::AwaitingEntries {
                mut request,
                entries,
                ..
            } => {
                batch.iter().for_each(|_| self.gate.open());
                if injected_bug!(
                    "batch-entries-stay",
                    "a batch that gives up as a future leaves its entries",
                    killed_by = "srl-gate/batch-cancel"
                ) {
                    return;
                }
                // SAFETY: the request is for these entries only.
                unsafe { (self.gate.entries()).cancel_batch(&entries, Pin::new(&mut request)) };
            }
            Stage::Scanning { mut tokens, .. } => drop(TakenBatch {
                lock: self,
                batch,
                taken: batch.len(),
                tokens: &mut tokens,
            }),
        };
        // `release` runs wakers, which may panic. The waiters behind this request in its queue must
        // be woken even then.
        and_surely(release, || progress.finish(&self.words.queue));
    }
}

impl<S: SegmentStore, P: Park> Srl<S, P> {
    /// Continues the request until it is granted or must wait.
    ///
    /// # Safety
    /// As for [`RawRangeLockBatchWait::poll_batch`].
    unsafe fn advance_batch(
        &self,
        batch: &[(Span, Access)],
        request: Pin<&mut SrlBatchRequest>,
        waker: &Waker,
        tokens: &mut [Token],
    ) -> Poll<Result<(), RangeError>> {
        let (stage, mut progress) = request.parts();
        let no_memory = |NoMemory| NoMemory.in_batch(batch);
        loop {
            match stage {
                Stage::New => {
                    // SAFETY: the caller's promise.
                    match unsafe { self.try_lock_batch(batch, tokens) } {
                        Ok(()) => return Poll::Ready(Ok(())),
                        Err(TryLockError::Range(error)) => return Poll::Ready(Err(error)),
                        Err(_) => {}
                    }
                    *stage = self.entries_of(batch).map_err(no_memory)?;
                }
                Stage::AwaitingEntries {
                    request,
                    entries,
                    tokens,
                } => {
                    let (gate, request) = (self.gate.entries(), Pin::new(request));
                    // SAFETY: the request is for these entries only, which do not overlap.
                    let granted = unsafe { gate.poll_batch(entries, request, waker, tokens) };
                    if let Err(error) = in_range(ready!(granted)) {
                        *stage = Stage::New;
                        batch.iter().for_each(|_| self.gate.open());
                        return Poll::Ready(Err(no_memory(error)));
                    }
                    let mut tokens = core::mem::take(tokens);
                    tokens
                        .iter_mut()
                        .for_each(|token| *token = wide_token(*token));
                    self.gate.before_scan();
                    *stage = Stage::Scanning { tokens, scanned: 0 };
                }
                Stage::Scanning {
                    tokens: own,
                    scanned,
                } => {
                    let Some(&(span, access)) = batch.get(*scanned) else {
                        tokens.copy_from_slice(own);
                        *stage = Stage::New;
                        (self.words.queue.counters()).acquisitions(batch.len());
                        return Poll::Ready(Ok(()));
                    };
                    let touched = self.segments.of(span);
                    progress.as_mut().listen(waker);
                    // SAFETY: the caller's promise.
                    ready!(unsafe { (self.words).poll_scan(&touched, access, progress.as_mut()) });
                    *scanned += 1;
                    let token = &mut own[*scanned - 1];
                    // SAFETY: the range is held: its entry was granted, and the scan then saw its
                    // words free.
                    unsafe { self.narrow(&touched, access, token) };
                }
            }
        }
    }

    /// Closes the gate for a batch, and returns the stage in which it waits for its entries.
    fn entries_of(&self, batch: &[(Span, Access)]) -> Result<Stage, NoMemory> {
        let (mut entries, mut tokens) = (Vec::new(), Vec::new());
        entries.try_reserve_exact(batch.len())?;
        tokens.try_reserve_exact(batch.len())?;
        tokens.resize(batch.len(), Token::NONE);
        for &(span, access) in batch {
            entries.push((entry_of(&self.segments.of(span)), access));
            self.gate.close();
        }
        Ok(Stage::AwaitingEntries {
            request: IntervalBatchRequest::default(),
            entries,
            tokens,
        })
    }
}

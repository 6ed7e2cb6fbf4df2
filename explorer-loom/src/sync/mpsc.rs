//! The unbounded channel.

use core::fmt;
use core::panic::Location;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError};
use std::sync::{Arc as Real, Mutex, PoisonError};

use spanlock_explorer::Ordering::{AcqRel, Acquire};
use spanlock_explorer::{Condition, Op, Update, at};

use super::Arc;
use crate::execution::{Kept, kept, require};
use crate::thread::times_out;

/// Set once the last sender, or the receiver, is dropped.
const NO_SENDER: u64 = 1 << 63;
const NO_RECEIVER: u64 = 1 << 62;
const FLAGS: u64 = NO_SENDER | NO_RECEIVER;

struct Channel<T> {
    /// How many messages were sent, and the flags.
    sent: Kept,
    /// The messages, by their numbers. A sender adds its message in the step that counts it.
    messages: Mutex<BTreeMap<u64, T>>,
    made: &'static Location<'static>,
}

impl<T> Channel<T> {
    fn take(&self, number: u64) -> Option<T> {
        let messages = self.messages.lock();
        messages
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&number)
    }

    fn set(&self, flag: u64) {
        // AcqRel, as in `send`.
        let set = Update::new(Op::Or, flag);
        at(self.made, || self.sent.update(set, AcqRel));
    }
}

/// Dropped with the last sender.
struct Senders<T>(Real<Channel<T>>);

impl<T> Drop for Senders<T> {
    fn drop(&mut self) {
        self.0.set(NO_SENDER);
    }
}

/// Returns the ends of a channel.
///
/// # Panics
/// Outside a model.
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    require("sync::mpsc::channel");
    let channel = Real::new(Channel {
        sent: kept(0),
        messages: Mutex::default(),
        made: Location::caller(),
    });
    let senders = Arc::new(Senders(channel.clone()));
    (Sender(senders), Receiver(channel, Mutex::new(0)))
}

/// The end that sends.
pub struct Sender<T>(Arc<Senders<T>>);

impl<T> Sender<T> {
    /// Sends a message.
    ///
    /// # Errors
    /// The message, if the receiver has been dropped.
    #[track_caller]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let channel = &self.0.0;
        // AcqRel: pairs with the Acquire of `receive`; an earlier message stays visible.
        let sent = channel.sent.update(Update::new(Op::Add, 1), AcqRel);
        if sent & NO_RECEIVER != 0 {
            return Err(SendError(message));
        }
        let messages = channel.messages.lock();
        let mut messages = messages.unwrap_or_else(PoisonError::into_inner);
        messages.insert(sent & !FLAGS, message);
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender(self.0.clone())
    }
}

/// The end that receives.
pub struct Receiver<T>(Real<Channel<T>>, /** The next message. */ Mutex<u64>);

impl<T> Receiver<T> {
    /// Waits for a message.
    ///
    /// # Errors
    /// There is none, and no sender.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        let is_new = Condition::differs(self.next());
        let sent = self.0.sent.wait_until(is_new, Acquire);
        self.receive(sent).ok_or(RecvError)
    }

    /// Waits for a message, or times out.
    ///
    /// # Errors
    /// There is none, and the time is over or there is no sender.
    #[track_caller]
    pub fn recv_timeout(&self, _timeout: Duration) -> Result<T, RecvTimeoutError> {
        if times_out() {
            return self.try_recv().map_err(|it| match it {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            });
        }
        let is_new = Condition::differs(self.next()).timed();
        let sent = self.0.sent.wait_until(is_new, Acquire);
        self.receive(sent).ok_or(RecvTimeoutError::Disconnected)
    }

    /// Returns a message.
    ///
    /// # Errors
    /// There is none.
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let sent = self.0.sent.load(Acquire);
        self.receive(sent).ok_or(match sent & NO_SENDER {
            0 => TryRecvError::Empty,
            _ => TryRecvError::Disconnected,
        })
    }

    fn next(&self) -> u64 {
        *self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next message, if `sent` counts it.
    fn receive(&self, sent: u64) -> Option<T> {
        let mut next = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if *next >= sent & !FLAGS {
            return None;
        }
        *next += 1;
        self.0.take(*next - 1)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.set(NO_RECEIVER);
        let messages = self.0.messages.lock();
        let messages = messages.map(|mut it| core::mem::take(&mut *it));
        // Dropped without the lock, because a message may hold a sender.
        drop(messages);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

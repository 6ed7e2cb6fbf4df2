//! Sets of events that contain, with an event, all earlier events of its thread.
//!
//! Happens-before and `po ∪ rf` are closed under program order. So what happens before an event is
//! a number of events for each thread, and a set operation costs one step for each thread.

use crate::MAX_THREADS;
use crate::event::EventId;

/// How many events of each thread the set contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock([u16; MAX_THREADS]);

impl Clock {
    /// Returns whether the set contains the event. The initial value of a location is an event of
    /// no thread, and in every set.
    #[inline]
    pub fn contains(&self, event: EventId) -> bool {
        event.is_initial() || self.0[event.thread as usize] > event.index
    }

    /// Returns the number of events of a thread in the set.
    #[inline]
    pub fn of(&self, thread: usize) -> usize {
        self.0[thread] as usize
    }

    /// Makes the set contain exactly `events` events of the thread.
    #[inline]
    pub(crate) fn set(&mut self, thread: usize, events: usize) {
        self.0[thread] = events as u16;
    }

    /// Adds the event, and all earlier ones of its thread.
    #[inline]
    pub(crate) fn add(&mut self, event: EventId) {
        let events = &mut self.0[event.thread as usize];
        *events = (*events).max(event.index + 1);
    }

    /// Adds the events of another set.
    #[inline]
    pub(crate) fn join(&mut self, other: &Clock) {
        for (mine, its) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*its);
        }
    }

    /// Returns whether all events of another set are in this one.
    pub(crate) fn includes(&self, other: &Clock) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, its)| mine >= its)
    }
}

//! Moments of threads, for what a program does between events.

use core::panic;

use crate::request::Request;
use crate::run::{self, current};

/// A moment of a thread: after one event, and before the next.
///
/// What happens between events is no event, but [`Graph`](crate::Graph) orders it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    pub(crate) thread: usize,
    pub(crate) events: usize,
}

impl Moment {
    /// Returns the moment as a number.
    pub fn to_bits(self) -> u32 {
        (self.thread << 16 | self.events) as u32
    }

    /// Returns the moment of which [`to_bits`](Self::to_bits) returned the number.
    pub fn from_bits(bits: u32) -> Moment {
        Moment {
            thread: (bits >> 16) as usize,
            events: (bits & 0xffff) as usize,
        }
    }

    /// Begins a moment of the calling thread, by an event that does nothing. So what was done
    /// before has another moment than what is done from now on.
    #[track_caller]
    pub fn begin() {
        run::ask(Request::Choose(1, false), panic::Location::caller());
    }

    /// Returns the present moment of the calling thread.
    pub fn now() -> Moment {
        let Some(runtime) = current() else {
            return Moment {
                thread: 0,
                events: 0,
            };
        };
        let state = runtime.state.borrow();
        Moment {
            thread: state.current,
            events: state.threads[state.current].at,
        }
    }
}

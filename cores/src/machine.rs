//! The times of the simulated machine.
//!
//! They decide in which order cores reach a line, and so how often it moves where cores contend. A
//! count of 0 does not depend on them.
//!
//! - `NEAR`, `FAR`: Intel MLC, cache to cache, on Cascade Lake and Skylake-SP. It says 45 to 50 ns
//!   within a socket; across, 108 to 115 ns or 170 to 185 ns, by the home of the line.
//! - `FILL`: a load from the last-level cache.
//! - `HIT`, `RMW`, `PLAIN`: fitted to `cargo compare --micro` on one core.
//! - `PAUSE`: 140 cycles, since Skylake.
//! - System calls, sleeps and interrupts: typical of Linux, and not fitted.

/// The most cores of a program: a line's sharers are the bits of a `u128`.
pub const MAX_CORES: usize = 128;

/// A time in picoseconds.
pub(crate) type Time = u64;

pub(crate) const NS: Time = 1000;

/// How many cores share a socket. The machine has as many sockets as the program needs.
const CORES_PER_SOCKET: usize = 28;

/// A load or a store of a line that the core has.
pub(crate) const HIT: Time = NS / 10;
/// A read-modify-write of a line that the core has.
pub(crate) const RMW: Time = 5 * NS;
/// A plain access of a line that the core has.
#[cfg(feature = "instrumented")]
pub(crate) const PLAIN: Time = 85;
pub(crate) const FENCE: Time = 8 * NS;
/// A line that no core has.
pub(crate) const FILL: Time = 25 * NS;
/// A further core gets a line that cores share, or the only sharer gets it for itself.
pub(crate) const SHARE: Time = 6 * NS;
/// A line moves within a socket.
const NEAR: Time = 48 * NS;
/// A line moves from one socket to another.
const FAR: Time = 145 * NS;
pub(crate) const PAUSE: Time = 44 * NS;
/// A yield of the core to nobody.
pub(crate) const YIELD: Time = 300 * NS;
pub(crate) const CLOCK: Time = 20 * NS;
pub(crate) const SYSCALL: Time = 250 * NS;
/// A thread falls asleep.
pub(crate) const SLEEP: Time = 1200 * NS;
/// A thread wakes another.
pub(crate) const WAKE: Time = 1200 * NS;
/// From the wake until the woken thread runs.
pub(crate) const WAKEUP: Time = 4000 * NS;
/// A `membarrier`, for the thread that calls it.
pub(crate) const HEAVY: Time = 2000 * NS;
/// A `membarrier`, for the core of each other thread.
pub(crate) const INTERRUPT: Time = 700 * NS;

/// How long some steps take, in percent of the times above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percent {
    /// Of `NEAR` and `FAR`.
    pub(crate) transfers: u32,
    /// Of system calls, sleeps, wakes and interrupts.
    pub(crate) system: u32,
}

impl Percent {
    /// Returns how long a line takes from one core to another.
    pub(crate) fn distance(self, from: usize, to: usize) -> Time {
        let is_near = from / CORES_PER_SOCKET == to / CORES_PER_SOCKET;
        let usual = if is_near { NEAR } else { FAR };
        usual * Time::from(self.transfers) / 100
    }

    /// Returns how long a step of the system takes.
    pub(crate) fn system(self, usual: Time) -> Time {
        usual * Time::from(self.system) / 100
    }
}

impl Default for Percent {
    fn default() -> Self {
        Percent {
            transfers: 100,
            system: 100,
        }
    }
}

/// Returns when an owner loses a line to a transfer that begins at `start`: its cache answers the
/// request some way into the transfer, and until then its core uses the line.
pub(crate) fn lost(start: Time, transfer: Time) -> Time {
    start + transfer * 2 / 5
}

//! The tests of this crate that can share a process, in one program: each program takes seconds to
//! build.

#[cfg(all(feature = "std", feature = "srl"))]
mod capabilities;
mod in_flight;
mod range_lock;
#[cfg(all(feature = "std", feature = "srl"))]
mod ranges;

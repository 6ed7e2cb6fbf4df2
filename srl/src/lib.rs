#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod array;
mod batch;
mod gate;
mod lock;
pub mod packed;
mod powers;
mod request;
mod segment;
mod space;
mod surely;
mod tree;

pub use array::{Array, SrlArray, SrlPacked};
pub use lock::Srl;
pub use packed::PackedWord;
pub use request::SrlRequest;
pub use segment::{SegmentError, Segments};
pub use space::{Piece, Space};
pub use tree::{Shape, SrlTree, SrlTreePacked, Tree};

// What a user of the locks needs of the contract, so that one dependency is enough; all of it is `range_lock`.
#[doc(no_inline)]
pub use spanlock_range_lock as range_lock;
#[cfg(feature = "std")]
#[doc(no_inline)]
pub use spanlock_range_lock::TimedLockError;
#[doc(no_inline)]
pub use spanlock_range_lock::{Access, RangeError, RangeLock, RangeLockExt, TryLockError};

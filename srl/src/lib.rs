#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod array;
mod capabilities;
#[cfg(any(doc, doctest))]
pub mod docs;
mod gate;
mod lock;
pub mod packed;
mod padded;
mod request;
mod segment;
mod segment_words;
mod store;
mod token;
mod tree;

use spanlock_range_lock::RwWord;
use spanlock_sync::DefaultPark;

pub use array::Array;
pub use lock::Srl;
pub use packed::PackedWord;
pub use request::SrlRequest;
pub use segment::{SegmentError, Segments};
pub use store::{Piece, SegmentStore};
pub use tree::{Shape, Tree};

// With these re-exports, users of the locks need one dependency only. `range_lock` is the whole
// crate that defines the contract.
#[doc(no_inline)]
pub use spanlock_range_lock as range_lock;
#[cfg(feature = "std")]
#[doc(no_inline)]
pub use spanlock_range_lock::TimedLockError;
#[doc(no_inline)]
pub use spanlock_range_lock::{Access, RangeError, RangeLock, RangeLockExt, TryLockError};

/// A range lock with one reader-writer word for each segment of a fixed capacity.
///
/// The words of the first segments are allocated with the lock, and all others together when a
/// request first needs one of them.
///
/// ```
/// use spanlock_srl::{RangeError, RangeLockExt, SrlArray};
///
/// let lock = SrlArray::new(1 << 20)?; // 1 MiB in segments of 4 KiB
/// let first = lock.write(0..4096)?;
/// let second = lock.write(4096..8192)?; // another segment: does not wait
/// assert!(lock.try_read(4000..5000).is_err());
/// drop((first, second));
/// assert!(lock.try_read(4000..5000).is_ok());
/// assert!(matches!(lock.read(0..1 << 21), Err(RangeError::PastCapacity { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SrlArray<P = DefaultPark> = Srl<Array<RwWord>, P>;

/// An [`SrlArray`] that packs the states of sixteen segments into one word.
///
/// Suited to requests for many segments. At most [six readers](packed::MAX_READERS) can hold a
/// segment at a time.
///
/// ```
/// use spanlock_srl::{RangeLockExt, SrlPacked};
///
/// let lock = SrlPacked::new(1 << 20)?;
/// let megabyte = lock.write(0..1 << 20)?; // 256 segments: sixteen compare-exchanges
/// assert!(lock.try_read(4000..5000).is_err());
/// # drop(megabyte);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SrlPacked<P = DefaultPark> = Srl<Array<PackedWord>, P>;

/// A range lock that allocates a segment's reader-writer word when the segment is first used.
///
/// Suited to files that are sparse or may become very large.
///
/// ```
/// use spanlock_srl::{RangeLockExt, SrlTree};
///
/// const TB: u64 = 1 << 40;
/// let lock = SrlTree::new(3 * TB / 2)?; // in segments of 4 KiB
/// let idle = lock.memory_usage();
/// let (first, last) = (lock.write(0..1)?, lock.write(3 * TB / 2 - 1..3 * TB / 2)?);
/// assert!(lock.memory_usage() < 8192);
/// drop((first, last));
/// lock.shrink();
/// assert_eq!(lock.memory_usage(), idle);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SrlTree<P = DefaultPark> = Srl<Tree<RwWord>, P>;

/// An [`SrlTree`] that packs the states of sixteen segments into one word.
///
/// ```
/// use spanlock_srl::{RangeLockExt, SrlTreePacked};
///
/// let lock = SrlTreePacked::new(3 << 39)?;
/// let megabyte = lock.write(0..1 << 20)?; // 256 segments: sixteen words in eight leaves
/// assert!(lock.try_read(4000..5000).is_err());
/// # drop(megabyte);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SrlTreePacked<P = DefaultPark> = Srl<Tree<PackedWord>, P>;

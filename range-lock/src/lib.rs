//! range-lock
mod error;
mod raw;

pub use error::{RangeError, TryLockError};
pub use raw::{Access, RawRangeLock, Span, Token};

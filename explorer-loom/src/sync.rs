//! The types of [`std::sync`].

mod arc;
pub mod atomic;
mod barrier;
mod condvar;
mod lock;
pub mod mpsc;
mod mutex;
mod notify;
mod rwlock;

pub use arc::Arc;
pub(crate) use arc::References;
pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

#[doc(no_inline)]
pub use std::sync::{LockResult, TryLockResult};

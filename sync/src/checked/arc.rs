//! The checker's `Arc`.
//!
//! Under the explorer, a drop of a reference is a read-modify-write, and a clone is no event: the
//! order of drops decides which is the last, and the reference that is cloned keeps a drop from
//! being the last. Under loom, each of them is a step.

use core::fmt;
use core::ops::Deref;

#[cfg(spanlock_loom)]
use core::mem::ManuallyDrop;

use super::operations::{Access, note};

#[cfg(spanlock_explorer)]
use super::explorer::arc::References;

/// A reference to a shared value: std's `Arc`, as far as the code under test uses it. Under loom, a
/// leak fails the model.
pub struct Arc<T> {
    /// Loom's count of references, and its causality.
    #[cfg(spanlock_loom)]
    count: ManuallyDrop<loom::sync::Arc<()>>,
    /// `None` only while the reference is dropped.
    shared: Option<std::sync::Arc<Shared<T>>>,
}

struct Shared<T> {
    #[cfg(spanlock_explorer)]
    references: References,
    value: T,
}

impl<T> Arc<T> {
    /// Returns the first reference to the value.
    #[track_caller]
    pub fn new(value: T) -> Self {
        Arc {
            #[cfg(spanlock_loom)]
            count: ManuallyDrop::new(loom::sync::Arc::new(())),
            shared: Some(std::sync::Arc::new(Shared {
                #[cfg(spanlock_explorer)]
                references: References::new(),
                value,
            })),
        }
    }

    /// Returns the value if there is no other reference.
    #[track_caller]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        #[cfg(spanlock_loom)]
        let _ = loom::sync::Arc::get_mut(&mut this.count);
        let shared = this.shared.as_mut()?;
        #[cfg(spanlock_explorer)]
        if !shared.references.is_one() {
            return None;
        }
        note(Access::Write);
        std::sync::Arc::get_mut(shared).map(|shared| &mut shared.value)
    }

    /// Returns whether both refer to the same value.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        core::ptr::eq(&raw const **this, &raw const **other)
    }

    /// Takes the reference out, before it is dropped.
    #[track_caller]
    fn end(&mut self) -> Option<std::sync::Arc<Shared<T>>> {
        let shared = self.shared.take()?;
        #[cfg(spanlock_loom)]
        // SAFETY: this runs once for each reference, because `shared` is `None` afterwards. Nothing
        // uses the count then.
        unsafe {
            ManuallyDrop::drop(&mut self.count);
        }
        #[cfg(spanlock_explorer)]
        shared.references.drop_one();
        note(Access::Write);
        Some(shared)
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.shared {
            Some(shared) => &shared.value,
            None => unreachable!("a reference is not used while it is dropped"),
        }
    }
}

impl<T> Clone for Arc<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        let new = Arc {
            #[cfg(spanlock_loom)]
            count: self.count.clone(),
            shared: self.shared.clone(),
        };
        #[cfg(spanlock_explorer)]
        if let Some(shared) = &new.shared {
            shared.references.add();
        }
        note(Access::Read);
        new
    }
}

impl<T> Drop for Arc<T> {
    #[track_caller]
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl<T: fmt::Debug> fmt::Debug for Arc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// See the function of the same name in `world.rs`.
#[track_caller]
pub fn take_last<T>(mut arc: Arc<T>) -> Option<T> {
    let shared = std::sync::Arc::into_inner(arc.end()?)?;
    Some(shared.value)
}

//! The checker's `Arc`. It records in the [footprints](crate::footprint) what depends on the count
//! of references: whether a reference is the last one.
//!
//! The order of drops matters: it decides which is the last. Any two drops count as dependent, so
//! that the search tries each of them as the last. The result of [`get_mut`](Arc::get_mut) depends
//! on which other references exist. The order of two clones does not matter. Neither does that of a
//! clone and a drop, because the reference that is cloned keeps the drop from being the last. So an
//! `Arc` has two objects:
//!
//! | | clones | drops |
//! |---|---|---|
//! | clone | read | |
//! | drop, [`take_last`] | | write |
//! | [`get_mut`](Arc::get_mut) | write | write |
//!
//! Under the explorer, a drop is a read-modify-write, and a clone is no event.
//!
//! Loom switches before each of these operations, so there each is a step. Under shuttle, they are
//! a part of the step in which they happen.

use core::fmt;
use core::ops::Deref;

#[cfg(spanlock_loom)]
use core::mem::ManuallyDrop;

use crate::footprint::{Access, Object};

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
    clones: Object,
    drops: Object,
    value: T,
}

/// Notes an access to the count.
fn touch(object: &Object, access: Access) {
    if cfg!(spanlock_loom) {
        object.touch(access);
    } else {
        object.touch_behind(access);
    }
}

/// Notes a second object that the same operation writes.
fn touch_also(object: &Object) {
    object.touch_behind(Access::Write);
}

impl<T> Arc<T> {
    /// Returns the first reference to the value.
    #[track_caller]
    pub fn new(value: T) -> Self {
        let (clones, drops) = (Object::new(), Object::new());
        Arc {
            #[cfg(spanlock_loom)]
            count: ManuallyDrop::new(loom::sync::Arc::new(())),
            shared: Some(std::sync::Arc::new(Shared {
                #[cfg(spanlock_explorer)]
                references: References::new(),
                clones,
                drops,
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
        touch(&shared.clones, Access::Write);
        touch_also(&shared.drops);
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
        touch(&shared.drops, Access::Write);
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
        if let Some(shared) = &new.shared {
            #[cfg(spanlock_explorer)]
            shared.references.add();
            touch(&shared.clones, Access::Read);
        }
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

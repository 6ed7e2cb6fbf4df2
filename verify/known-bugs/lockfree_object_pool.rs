//! `lockfree-object-pool` 0.1.6: the pointer to the next page is read with Relaxed.
//!
//! A thread that finds a page of objects full goes to the next page, or allocates it, initializes
//! its objects and links it.
//!
//! | step | thread A | thread B |
//! |---|---|---|
//! | 1 | initializes the objects of a page | |
//! | 2 | links the page (SeqCst) | |
//! | 3 | | reads the page's address with Relaxed |
//! | 4 | | takes an object, although nothing orders step 1 before this |
//!
//! - Source: <https://docs.rs/crate/lockfree-object-pool/0.1.6/source/src/linear_page.rs>
//! - In the fixed form, both reads of the pointer are Acquire.
//!
//! Only the orderings are wrong. It is the bug that `thread_local` had.

use std::ptr;

use spanlock_sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "lockfree-object-pool",
        "https://docs.rs/crate/lockfree-object-pool/0.1.6/source/src/linear_page.rs",
    )
    .program(|form| {
        Program::new("pull", "an object is initialized when it is pulled")
            .scene(move || Pool::new(form))
            .thread(["pull"], |pool| pool.pull())
            .thread(["pull"], |pool| pool.pull())
    })
}

/// A page of two objects.
struct Page {
    /// A bit for each object that is free.
    free: AtomicU32,
    objects: [UnsafeCell<u32>; 2],
}

/// A pool whose first page is full.
struct Pool {
    form: Form,
    next: AtomicPtr<Page>,
}

impl Pool {
    fn new(form: Form) -> Self {
        Pool {
            form,
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn pull(&self) {
        let reading = match self.form {
            Form::Buggy => Relaxed,
            Form::Fixed => Acquire,
        };
        let mut page = self.next.load(reading);
        if page.is_null() {
            let new = Box::into_raw(Box::new(Page::new()));
            let linked = self
                .next
                .compare_exchange(ptr::null_mut(), new, SeqCst, reading);
            page = match linked {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: from `into_raw`, and not linked.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        // SAFETY: a page lives as long as the pool.
        unsafe { &*page }.take();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let page = self.next.load(Relaxed);
        if !page.is_null() {
            // SAFETY: from `into_raw`, and no other thread is left.
            drop(unsafe { Box::from_raw(page) });
        }
    }
}

impl Page {
    fn new() -> Self {
        let page = Page {
            free: AtomicU32::new(0b11),
            objects: [UnsafeCell::new(0), UnsafeCell::new(0)],
        };
        for object in &page.objects {
            // SAFETY: no other thread knows the page yet.
            object.with_mut(|value| unsafe { *value = 7 });
        }
        page
    }

    fn take(&self) {
        let mut free = self.free.load(Relaxed);
        while let Err(now) = self
            .free
            .compare_exchange(free, free & (free - 1), SeqCst, Relaxed)
        {
            free = now;
        }
        let object = &self.objects[free.trailing_zeros() as usize];
        // SAFETY: the object was free, and is now this thread's.
        object.with_mut(|value| assert_eq!(unsafe { *value }, 7));
    }
}

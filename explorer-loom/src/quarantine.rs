//! The global allocator: within a model, freed memory is kept until the next execution.
//!
//! So no address is used twice within an execution. Otherwise, whether a compare-exchange of
//! pointers succeeds could depend on the order of independent threads, and the search could not
//! repeat the execution. What is never freed stays valid, so statics may own memory that an
//! execution has allocated: the buffer of a log, for example.

use core::cell::Cell;
use core::ptr;
use std::alloc::{GlobalAlloc, Layout, System};

/// Freed memory of this thread of the system. It lies behind the memory itself.
struct Freed {
    next: *mut Freed,
    memory: *mut u8,
    layout: Layout,
}

std::thread_local! {
    static KEEPS: Cell<bool> = const { Cell::new(false) };
    static FREED: Cell<*mut Freed> = const { Cell::new(ptr::null_mut()) };
}

/// The allocator. Outside models, it is that of the system.
struct Quarantine;

#[cfg_attr(not(feature = "own-allocator"), global_allocator)]
#[cfg_attr(feature = "own-allocator", allow(dead_code))]
static ALLOCATOR: Quarantine = Quarantine;

/// Returns the layout with room for a [`Freed`], and its offset. `None` if that overflows.
fn extended(layout: Layout) -> Option<(Layout, usize)> {
    layout.extend(Layout::new::<Freed>()).ok()
}

// SAFETY: `alloc` returns memory of the system that has the layout and more. `dealloc` returns it
// to the system with the layout that it had there, at once or later, and once.
unsafe impl GlobalAlloc for Quarantine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match extended(layout) {
            // SAFETY: the layout is not empty.
            Some((layout, _)) => unsafe { System.alloc(layout) },
            None => ptr::null_mut(),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match extended(layout) {
            // SAFETY: the layout is not empty.
            Some((layout, _)) => unsafe { System.alloc_zeroed(layout) },
            None => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let Some((layout, offset)) = extended(layout) else {
            unreachable!("memory of this layout was allocated");
        };
        // The thread-locals are gone while the system's thread ends.
        if !KEEPS.try_with(Cell::get).unwrap_or(false) {
            // SAFETY: `alloc` has returned the memory for this layout, extended in the same way.
            return unsafe { System.dealloc(memory, layout) };
        }
        let next = FREED.get();
        // SAFETY: the memory has room for it there, aligned, and nothing else uses that.
        unsafe {
            let freed = memory.add(offset).cast::<Freed>();
            freed.write(Freed {
                next,
                memory,
                layout,
            });
            FREED.set(freed);
        }
    }
}

/// From its creation until its drop, freed memory of this thread of the system is kept.
pub(crate) struct Keeping(());

impl Keeping {
    pub(crate) fn new() -> Keeping {
        KEEPS.set(true);
        Keeping(())
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        KEEPS.set(false);
        release();
    }
}

/// Frees what has been kept. Nothing may use it any more.
pub(crate) fn release() {
    let mut freed = FREED.replace(ptr::null_mut());
    while !freed.is_null() {
        // SAFETY: `dealloc` has written it, with memory and layout of the system.
        unsafe {
            let Freed {
                next,
                memory,
                layout,
            } = freed.read();
            System.dealloc(memory, layout);
            freed = next;
        }
    }
}

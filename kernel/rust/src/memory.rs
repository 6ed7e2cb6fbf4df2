//! The global allocator: the kernel's.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

unsafe extern "C" {
    fn spanlock_alloc(size: usize, align: usize, zeroed: bool) -> *mut c_void;
    fn spanlock_free(memory: *mut c_void);
}

struct Kernel;

#[global_allocator]
static MEMORY: Kernel = Kernel;

// SAFETY: `spanlock_alloc` returns memory of this size and alignment, or null.
unsafe impl GlobalAlloc for Kernel {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the size is not 0: the caller's promise.
        unsafe { spanlock_alloc(layout.size(), layout.align(), false).cast() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { spanlock_alloc(layout.size(), layout.align(), true).cast() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: `spanlock_alloc` returned this memory: the caller's promise.
        unsafe { spanlock_free(memory.cast()) }
    }
}

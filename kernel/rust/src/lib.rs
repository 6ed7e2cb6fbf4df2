//! The locks as one object for a kernel, with the C interface of `kernel/spanlock.h`.
//!
//! The object asks the kernel for the functions of `spanlock_sync`'s kernel world, and for memory.

#![no_std]

mod interface;
mod memory;

use core::panic::PanicInfo;

unsafe extern "C" {
    safe fn spanlock_panic(file: *const u8, len: usize, line: u32);
}

/// A panic is a bug in the locks or in their caller: the kernel prints the place and stops the
/// task.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    match info.location() {
        Some(at) => spanlock_panic(at.file().as_ptr(), at.file().len(), at.line()),
        None => spanlock_panic(core::ptr::null(), 0, 0),
    }
    // Not reached. `objtool` does not know which functions of other objects return.
    loop {
        core::hint::spin_loop();
    }
}

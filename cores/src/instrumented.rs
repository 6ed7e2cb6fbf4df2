//! What instrumented code calls before its accesses: the interface of ThreadSanitizer's runtime.
//!
//! Its atomics are those of code past the facade, as `Arc`'s counts.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::line::Access::{Load, Rmw, Store};
use crate::run::{plain, reach};

macro_rules! plain {
    ($($size:literal: $read:ident $write:ident $both:ident;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $read(address: usize) {
            plain(address, $size, false);
        }

        #[unsafe(no_mangle)]
        extern "C" fn $write(address: usize) {
            plain(address, $size, true);
        }

        #[unsafe(no_mangle)]
        extern "C" fn $both(address: usize) {
            plain(address, $size, true);
        }
    )* };
}

plain! {
    1: __tsan_read1 __tsan_write1 __tsan_read_write1;
    2: __tsan_read2 __tsan_write2 __tsan_read_write2;
    4: __tsan_read4 __tsan_write4 __tsan_read_write4;
    8: __tsan_read8 __tsan_write8 __tsan_read_write8;
    16: __tsan_read16 __tsan_write16 __tsan_read_write16;
    2: __tsan_unaligned_read2 __tsan_unaligned_write2 __tsan_unaligned_read_write2;
    4: __tsan_unaligned_read4 __tsan_unaligned_write4 __tsan_unaligned_read_write4;
    8: __tsan_unaligned_read8 __tsan_unaligned_write8 __tsan_unaligned_read_write8;
    16: __tsan_unaligned_read16 __tsan_unaligned_write16 __tsan_unaligned_read_write16;
}

macro_rules! atomic {
    ($(
        $value:ty, $atomic:ty: $load:ident $store:ident $exchange:ident $compare:ident
        $($update:ident $method:ident)*;
    )*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $load(atomic: *const $atomic, _order: i32) -> $value {
            reach(atomic.addr(), size_of::<$value>(), Load);
            // SAFETY: the instrumented code is about to make this access.
            unsafe { (*atomic).load(SeqCst) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $store(atomic: *const $atomic, value: $value, _order: i32) {
            reach(atomic.addr(), size_of::<$value>(), Store);
            // SAFETY: as above.
            unsafe { (*atomic).store(value, SeqCst) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $exchange(
            atomic: *const $atomic,
            value: $value,
            _order: i32,
        ) -> $value {
            reach(atomic.addr(), size_of::<$value>(), Rmw);
            // SAFETY: as above.
            unsafe { (*atomic).swap(value, SeqCst) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $compare(
            atomic: *const $atomic,
            current: $value,
            new: $value,
            _success: i32,
            _failure: i32,
        ) -> $value {
            reach(atomic.addr(), size_of::<$value>(), Rmw);
            // SAFETY: as above.
            let result = unsafe { (*atomic).compare_exchange(current, new, SeqCst, SeqCst) };
            result.unwrap_or_else(|other| other)
        }

        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $update(
                atomic: *const $atomic,
                value: $value,
                _order: i32,
            ) -> $value {
                reach(atomic.addr(), size_of::<$value>(), Rmw);
                // SAFETY: as above.
                unsafe { (*atomic).$method(value, SeqCst) }
            }
        )*
    )* };
}

atomic! {
    u8, AtomicU8:
        __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange
        __tsan_atomic8_compare_exchange_val
        __tsan_atomic8_fetch_add fetch_add __tsan_atomic8_fetch_sub fetch_sub
        __tsan_atomic8_fetch_and fetch_and __tsan_atomic8_fetch_or fetch_or
        __tsan_atomic8_fetch_xor fetch_xor;
    u16, AtomicU16:
        __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange
        __tsan_atomic16_compare_exchange_val
        __tsan_atomic16_fetch_add fetch_add __tsan_atomic16_fetch_sub fetch_sub
        __tsan_atomic16_fetch_and fetch_and __tsan_atomic16_fetch_or fetch_or
        __tsan_atomic16_fetch_xor fetch_xor;
    u32, AtomicU32:
        __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange
        __tsan_atomic32_compare_exchange_val
        __tsan_atomic32_fetch_add fetch_add __tsan_atomic32_fetch_sub fetch_sub
        __tsan_atomic32_fetch_and fetch_and __tsan_atomic32_fetch_or fetch_or
        __tsan_atomic32_fetch_xor fetch_xor;
    u64, AtomicU64:
        __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange
        __tsan_atomic64_compare_exchange_val
        __tsan_atomic64_fetch_add fetch_add __tsan_atomic64_fetch_sub fetch_sub
        __tsan_atomic64_fetch_and fetch_and __tsan_atomic64_fetch_or fetch_or
        __tsan_atomic64_fetch_xor fetch_xor;
}

/// A fence of LLVM's ordering 5, SeqCst.
#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_thread_fence(order: i32) {
    if order == 5 {
        crate::run::drain();
    }
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_signal_fence(_order: i32) {}

#[unsafe(no_mangle)]
extern "C" fn __tsan_init() {}

#[unsafe(no_mangle)]
extern "C" fn __tsan_func_entry(_caller: usize) {}

#[unsafe(no_mangle)]
extern "C" fn __tsan_func_exit() {}

#[unsafe(no_mangle)]
extern "C" fn __tsan_vptr_update(address: usize, _value: usize) {
    plain(address, 8, true);
}

#[unsafe(no_mangle)]
extern "C" fn __tsan_vptr_read(address: usize) {
    plain(address, 8, false);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __tsan_memcpy(to: *mut u8, from: *const u8, size: usize) -> *mut u8 {
    plain(from.addr(), size, false);
    plain(to.addr(), size, true);
    // SAFETY: the caller's promise: that of `memcpy`.
    unsafe { core::ptr::copy_nonoverlapping(from, to, size) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __tsan_memmove(to: *mut u8, from: *const u8, size: usize) -> *mut u8 {
    plain(from.addr(), size, false);
    plain(to.addr(), size, true);
    // SAFETY: the caller's promise: that of `memmove`.
    unsafe { core::ptr::copy(from, to, size) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __tsan_memset(to: *mut u8, value: i32, size: usize) -> *mut u8 {
    plain(to.addr(), size, true);
    // SAFETY: the caller's promise: that of `memset`.
    unsafe { core::ptr::write_bytes(to, value as u8, size) };
    to
}

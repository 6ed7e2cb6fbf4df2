//! Memory for a program on simulated cores: handed out in a row, from a fixed address.
//!
//! So the addresses, and with them the lines that objects share and the buckets that they hash to,
//! are the same in each run, wherever the system maps libraries and stacks. A *layout* other than 0
//! leaves gaps, which are drawn. So objects share lines with other objects than before.
//!
//! To use it, make [`Arena`] the global allocator:
//!
//! ```
//! #[global_allocator]
//! static ARENA: spanlock_cores::Arena = spanlock_cores::Arena;
//! ```

use core::cell::{Cell, RefCell};
use core::ptr;
use std::alloc::{GlobalAlloc, Layout, System};

use crate::outside::{self, Place};

/// Where the arena lies: where neither Linux nor a sanitizer puts anything by itself.
const START: usize = 0x2000_0000_0000;
/// Its size. Pages that are not used cost nothing.
const SIZE: usize = 64 << 30;
/// As for an allocator of C: each allocation begins at a multiple, after a header.
const ALIGNMENT: usize = 16;
const HEADER: usize = 8;
/// The largest gap, in units of the alignment: twice a line.
const LARGEST_GAP: u64 = 8;

std::thread_local! {
    static USED: Cell<usize> = const { Cell::new(0) };
    /// The state of the generator of gaps; 0 for none.
    static GAPS: Cell<u64> = const { Cell::new(0) };
    /// The ends of all allocations, in units of bytes from the start.
    static ALLOCATIONS: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
}

/// The allocator. Outside of [`set_up`](crate::set_up) and of a program, it is that of the system.
#[derive(Debug, Default)]
pub struct Arena;

// SAFETY: `alloc` returns fresh memory of the layout, from the system or from the arena, and
// `dealloc` returns the system's memory to the system.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if outside::place() == Place::Outside {
            // SAFETY: the caller's promise about the layout.
            return unsafe { System.alloc(layout) };
        }
        let first = (START + USED.get() + HEADER + gap()).next_multiple_of(ALIGNMENT);
        let first = first.next_multiple_of(layout.align());
        let end = first.saturating_add(layout.size());
        if end > START + SIZE {
            return ptr::null_mut();
        }
        USED.set(end - START);
        let _outside = outside::enter(Place::Outside);
        ALLOCATIONS.with_borrow_mut(|all| all.push((first, end)));
        ptr::with_exposed_provenance_mut(first)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !is_in(memory.addr()) {
            // SAFETY: memory outside the arena came from the system, with this layout.
            unsafe { System.dealloc(memory, layout) };
        }
    }
}

fn is_in(address: usize) -> bool {
    (START..START + SIZE).contains(&address)
}

/// Draws the gap before the next allocation. Half of them are empty, so that most objects keep
/// their neighbours.
fn gap() -> usize {
    let drawn = GAPS.with(crate::draw::next);
    if drawn & 1 == 0 {
        0
    } else {
        (drawn >> 1 & (LARGEST_GAP - 1)) as usize * ALIGNMENT
    }
}

/// Begins anew, with this layout. All memory of the arena must be unused.
pub(crate) fn reset(layout: u64) {
    prepare();
    USED.set(0);
    GAPS.set(crate::draw::seeded(layout, 0));
    ALLOCATIONS.with_borrow_mut(Vec::clear);
}

/// Maps the arena, unless that has been done.
pub(crate) fn prepare() {
    static MAPPED: std::sync::Once = std::sync::Once::new();
    MAPPED.call_once(map);
}

fn map() {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let start = ptr::without_provenance_mut(START);
    // SAFETY: the call replaces no mapping.
    let mapped = unsafe { libc::mmap(start, SIZE, protection, flags, -1, 0) };
    assert!(
        mapped.addr() == START,
        "cannot map {SIZE} bytes at {START:#x} for the simulated memory: {}",
        std::io::Error::last_os_error()
    );
    mapped.expose_provenance();
}

/// Describes an address of the arena: by its allocation, if there is one.
pub(crate) fn describe(address: usize) -> Option<String> {
    if !is_in(address) {
        return None;
    }
    let found = ALLOCATIONS.with_borrow(|all| {
        let number = all.partition_point(|it| it.1 <= address);
        all.get(number)
            .map(|&(first, end)| (number, first, end - first))
    });
    Some(match found {
        Some((number, first, size)) if first <= address => {
            format!(
                "allocation {number} of {size} bytes, byte {}",
                address - first
            )
        }
        Some((number, first, size)) => {
            format!(
                "{} bytes before allocation {number} of {size} bytes",
                first - address
            )
        }
        None => "after all allocations".to_owned(),
    })
}

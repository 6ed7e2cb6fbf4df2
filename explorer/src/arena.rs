//! Memory of one execution: handed out in a row, never twice, and released as a whole.
//!
//! - A thread that blocks for ever is thrown away with its stack, and no destructor of it runs.
//!   What it had allocated would be lost, some bytes for each of millions of executions.
//! - No address is used twice within an execution, so a use of freed memory finds what was freed.
//! - Each thread has a region of its own. So an address depends on what the thread has allocated,
//!   and not on the order of independent threads, which differs when an execution is repeated.
//!
//! To use it, make [`Arena`] the global allocator:
//!
//! ```
//! #[global_allocator]
//! static ARENA: spanlock_explorer::arena::Arena = spanlock_explorer::arena::Arena;
//! ```
//!
//! A search works without it, too; then it leaks what blocked threads have allocated.

use core::cell::Cell;
use core::ptr;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::MAX_THREADS;

/// The most memory of one thread of an execution. Pages that no execution touches cost nothing.
const SIZE: usize = 128 << 20;
const PAGE: usize = 4096;

/// The regions of all threads, one after the other.
#[derive(Clone, Copy)]
struct Regions {
    start: usize,
    /// How much of its region each thread has used.
    used: [usize; MAX_THREADS],
    /// The thread that allocates from its region.
    thread: Option<usize>,
}

impl Regions {
    const NONE: Regions = Regions {
        start: 0,
        used: [0; MAX_THREADS],
        thread: None,
    };
}

/// Where the regions of all searching threads of the system start; 0 for none.
static STARTS: [AtomicUsize; SEARCHING] = [const { AtomicUsize::new(0) }; SEARCHING];
/// The most threads of the system that have an arena.
const SEARCHING: usize = 256;

std::thread_local! {
    static REGIONS: Cell<Regions> = const { Cell::new(Regions::NONE) };
}

/// The allocator. Outside the executions of a search, it is that of the system.
#[derive(Debug, Default)]
pub struct Arena;

// SAFETY: `alloc` returns fresh memory of the layout, from the system or from the region of the
// calling thread, and `dealloc` returns the system's memory to the system.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The thread-local is gone while the system's thread ends.
        let mut regions = REGIONS.try_with(Cell::get).unwrap_or(Regions::NONE);
        let Some(thread) = regions.thread else {
            // SAFETY: the caller's promise about the layout.
            return unsafe { System.alloc(layout) };
        };
        let start = regions.start + thread * SIZE;
        let at = (start + regions.used[thread]).next_multiple_of(layout.align());
        let end = at.saturating_add(layout.size());
        if end > start + SIZE {
            return ptr::null_mut();
        }
        regions.used[thread] = end - start;
        REGIONS.set(regions);
        ptr::with_exposed_provenance_mut(at)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let is_in = |start: usize| {
            start != 0 && (start..start + MAX_THREADS * SIZE).contains(&memory.addr())
        };
        // A thread of the system that no search has started may have the memory of one that did.
        // Relaxed: who has the memory also sees that it was reserved.
        let is_here = STARTS.iter().any(|start| is_in(start.load(Relaxed)));
        if !is_here {
            // SAFETY: memory outside the regions came from the system, with this layout.
            unsafe { System.dealloc(memory, layout) };
        }
    }
}

/// Calls `f`, whose allocations outlive the execution.
pub fn outside<R>(f: impl FnOnce() -> R) -> R {
    let _outside = Switch::to(None);
    f()
}

/// Says from which region the system's thread allocates. When dropped, that is as it was before.
pub(crate) struct Switch(Option<usize>);

impl Switch {
    pub(crate) fn to(thread: Option<usize>) -> Switch {
        let regions = REGIONS.get();
        let thread = thread.filter(|_| regions.start != 0);
        REGIONS.set(Regions { thread, ..regions });
        Switch(regions.thread)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let thread = self.0;
        REGIONS.set(Regions {
            thread,
            ..REGIONS.get()
        });
    }
}

/// Reserves the regions, unless that has been done. Returns whether [`Arena`] is the allocator.
pub(crate) fn prepare() -> bool {
    if REGIONS.get().start == 0 {
        let layout = Layout::from_size_align(MAX_THREADS * SIZE, PAGE).expect("a valid layout");
        // SAFETY: the layout is not empty. The memory is kept as long as the process lives.
        let start = unsafe { System.alloc(layout) }.expose_provenance();
        // Relaxed: see `dealloc`.
        let takes = |it: &AtomicUsize| it.compare_exchange(0, start, Relaxed, Relaxed).is_ok();
        assert!(
            STARTS.iter().any(takes),
            "more than {SEARCHING} threads of the system have searched in this process"
        );
        REGIONS.set(Regions {
            start,
            ..Regions::NONE
        });
    }
    let used = || REGIONS.get().used[0];
    let before = used();
    let _first = Switch::to(Some(0));
    drop(core::hint::black_box(Box::new(0_u8)));
    used() > before
}

/// Releases the memory of the execution. Nothing may use it any more.
pub(crate) fn reset() {
    let used = [0; MAX_THREADS];
    REGIONS.set(Regions {
        used,
        ..REGIONS.get()
    });
}

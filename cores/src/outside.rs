//! Where the thread's code runs, and what the program must not ask of the system.
//!
//! The program's clock and its threads are simulated. If code asks the system instead, the result
//! depends on the machine, or escapes the counts. So this crate replaces the C library's functions
//! for both. On a simulated core, they end the process with a message.

use core::cell::Cell;
use std::io::Write;

/// Where the thread's code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Neither for a program nor for what it needs.
    Outside,
    /// In what makes the objects for a program: its memory is the arena's.
    SetUp,
    /// On a simulated core.
    Core,
}

std::thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(Place::Outside) };
}

pub(crate) fn place() -> Place {
    // The thread-local is gone while a thread of the system ends.
    PLACE.try_with(Cell::get).unwrap_or(Place::Outside)
}

/// Says where the thread's code runs, until the result is dropped.
pub(crate) fn enter(place: Place) -> Entered {
    Entered(PLACE.replace(place))
}

pub(crate) struct Entered(Place);

impl Drop for Entered {
    fn drop(&mut self) {
        PLACE.set(self.0);
    }
}

/// Ends the process if the caller is on a simulated core.
fn refuse(what: &str, instead: &str) {
    if place() == Place::Core {
        let _outside = enter(Place::Outside);
        let trace = std::backtrace::Backtrace::force_capture();
        let _ = writeln!(
            std::io::stderr(),
            "error: on a simulated core, code {what}: use {instead}\n{trace}"
        );
        // SAFETY: the function takes an integer and does not return.
        unsafe { libc::_exit(101) };
    }
}

/// The C library's function, refused on a simulated core.
///
/// # Safety
/// That of the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    refuse(
        "reads the system's clock",
        "the simulated one, `spanlock_cores::now`",
    );
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int }
}

type Start = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;
type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    Start,
    *mut libc::c_void,
) -> libc::c_int;

/// The C library's function, refused on a simulated core.
///
/// # Safety
/// That of the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut libc::c_void,
) -> libc::c_int {
    refuse("starts a thread of the system", "the program's cores");
    // SAFETY: the name ends with a zero.
    let real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
    assert!(!real.is_null(), "the C library has threads");
    // SAFETY: the C library's function has this type; the caller's promise.
    unsafe {
        let real: Create = core::mem::transmute(real);
        real(thread, attributes, start, argument)
    }
}

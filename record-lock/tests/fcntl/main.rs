//! The table and the kernel's `fcntl` get the same random calls, and must give the same answers.
//!
//! `SPANLOCK_ROUNDS` multiplies the number of calls.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

mod descriptions;
mod processes;

use std::io::Error as OsError;
use std::sync::{Mutex, MutexGuard, PoisonError};

use spanlock_record_lock::{Error, Mode};

/// Waits until no other test runs: a process that a test creates inherits the open files of all of
/// them, and keeps their locks.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Multiplies a number by `SPANLOCK_ROUNDS`.
fn scaled(rounds: u64) -> u64 {
    let factor = std::env::var("SPANLOCK_ROUNDS").ok();
    let factor = factor.map_or(1.0, |it| it.parse().expect("SPANLOCK_ROUNDS is a number"));
    (rounds as f64 * factor).ceil() as u64
}

/// Returns the type of a `flock`; without a mode, that of an unlock.
fn kind(mode: Option<Mode>) -> i16 {
    let kind = match mode {
        Some(Mode::Read) => libc::F_RDLCK,
        Some(Mode::Write) => libc::F_WRLCK,
        None => libc::F_UNLCK,
    };
    kind as i16
}

/// Calls `fcntl`. On success, returns what the kernel has left in the `flock`.
fn fcntl(
    file: i32,
    command: i32,
    kind: i16,
    start: i64,
    len: i64,
) -> Result<libc::flock, Option<i32>> {
    let whence = libc::SEEK_SET as i16;
    let mut lock = libc::flock {
        l_type: kind,
        l_whence: whence,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: the commands of this test take a pointer to a `flock`.
    match unsafe { libc::fcntl(file, command, &mut lock) } {
        0 => Ok(lock),
        _ => Err(OsError::last_os_error().raw_os_error()),
    }
}

/// Returns the number that `fcntl` has for an error.
fn errno(error: Error) -> i32 {
    match error {
        Error::Conflict(_) => libc::EAGAIN,
        Error::Deadlock(_) => libc::EDEADLK,
        Error::BeforeFirst { .. } => libc::EINVAL,
        Error::PastLast { .. } => libc::EOVERFLOW,
        other => panic!("{other}"),
    }
}

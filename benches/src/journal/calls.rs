//! Intercepts the writes and flushes of other projects' code.
//!
//! A modelled flush, a flush count or an injected failure must work the same way for every log. Of
//! the other projects' logs, okaywal opens its files through `std::fs` and offers no way to replace
//! that. So all of them run with their unchanged file code, and this program defines `write`,
//! `pwrite`, `fdatasync` and `fsync` itself. The standard library and crate nix call libc's
//! functions by name and therefore reach these definitions. They make the system call with
//! `syscall`; for a file in a [watched](watch) folder they call a [`Hook`] instead, which may make
//! the system call itself.
//!
//! - While no folder is watched, the cost is one atomic load per call. Otherwise the file's name is
//!   read from `/proc/self/fd`, which takes about a microsecond.
//! - Not intercepted: system calls by number (as crate rustix makes them), vectored writes, mapped
//!   memory, `fallocate`, `ftruncate`, and renames. [`watch`] tests whether calls are intercepted
//!   at all and fails if they are not.
//! - A child may call `write` between `fork` and `exec`. Do not start processes while a folder is
//!   watched.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::RwLock;

/// Handles the writes and flushes of files. Called by several threads at once. Its own calls are
/// not intercepted. It must not panic, because its caller is C code.
pub trait Hook: Send + Sync {
    /// Returns whether [`write`](Self::write) should be called. If not, writes go straight to the
    /// kernel.
    fn sees_writes(&self) -> bool {
        true
    }

    /// Handles a write to a file. The caller receives the returned result.
    fn write(&self, call: &WriteCall<'_>) -> io::Result<usize> {
        call.make(call.data)
    }

    /// Handles a flush of a file or folder. The caller receives the returned result.
    fn flush(&self, call: &FlushCall<'_>) -> io::Result<()> {
        call.make()
    }
}

/// An intercepted write.
pub struct WriteCall<'a> {
    /// The file to write to.
    pub file: BorrowedFd<'a>,
    /// The byte offset.
    pub offset: u64,
    /// The data to write.
    pub data: &'a [u8],
    make: &'a dyn Fn(&[u8]) -> io::Result<usize>,
}

impl WriteCall<'_> {
    /// Performs the write with `data` in place of its own data. Returns the number of bytes
    /// written.
    pub fn make(&self, data: &[u8]) -> io::Result<usize> {
        (self.make)(data)
    }
}

/// An intercepted flush.
pub struct FlushCall<'a> {
    /// The file or folder to flush.
    pub file: BorrowedFd<'a>,
    make: &'a dyn Fn() -> io::Result<()>,
}

impl FlushCall<'_> {
    /// Performs the flush.
    pub fn make(&self) -> io::Result<()> {
        (self.make)()
    }
}

/// A watched folder. Dropping this ends the watch.
#[must_use = "dropping it ends the watch"]
pub struct Watch {
    folder: Arc<Watched>,
}

struct Watched {
    folder: PathBuf,
    hook: Arc<dyn Hook>,
    sees_writes: bool,
}

static WATCHED: RwLock<Vec<Arc<Watched>>> = RwLock::new(Vec::new());
// Relaxed, everywhere: the thread that watches a folder either writes there itself or synchronizes
// with the threads that do.
static FLUSHES_SEEN: AtomicUsize = AtomicUsize::new(0);
static WRITES_SEEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Set while this thread is in a hook or in [unseen].
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Starts calling `hook` for files in the existing folder `folder` and its subfolders.
///
/// # Errors
/// The folder does not exist or is not writable, or calls cannot be intercepted on this system.
pub fn watch(folder: &Path, hook: Arc<dyn Hook>) -> io::Result<Watch> {
    let folder = fs::canonicalize(folder)?;
    let probe = Arc::new(Probe::default());
    {
        let _watch = Watch::of(folder.clone(), probe.clone());
        let path = folder.join(".watched");
        let mut file = File::create(&path)?;
        file.write_all(b"seen?")?;
        file.sync_data()?;
        fs::remove_file(path)?;
    }
    if !probe.0.load(Ordering::Relaxed) || !probe.1.load(Ordering::Relaxed) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this program cannot intercept writes and flushes on this system",
        ));
    }
    Ok(Watch::of(folder, hook))
}

impl Watch {
    fn of(folder: PathBuf, hook: Arc<dyn Hook>) -> Self {
        let sees_writes = hook.sees_writes();
        let folder = Arc::new(Watched {
            folder,
            hook,
            sees_writes,
        });
        WATCHED.write().push(folder.clone());
        FLUSHES_SEEN.fetch_add(1, Ordering::Relaxed);
        WRITES_SEEN.fetch_add(usize::from(sees_writes), Ordering::Relaxed);
        Watch { folder }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.write().retain(|it| !Arc::ptr_eq(it, &self.folder));
        FLUSHES_SEEN.fetch_sub(1, Ordering::Relaxed);
        WRITES_SEEN.fetch_sub(usize::from(self.folder.sees_writes), Ordering::Relaxed);
    }
}

/// Records whether a write and a flush were intercepted.
#[derive(Default)]
struct Probe(AtomicBool, AtomicBool);

impl Hook for Probe {
    fn write(&self, call: &WriteCall<'_>) -> io::Result<usize> {
        self.0.store(true, Ordering::Relaxed);
        call.make(call.data)
    }

    fn flush(&self, call: &FlushCall<'_>) -> io::Result<()> {
        self.1.store(true, Ordering::Relaxed);
        call.make()
    }
}

/// Returns the hook that is responsible for a file.
fn hook_of(file: BorrowedFd<'_>) -> Option<Arc<Watched>> {
    use std::os::fd::AsRawFd;
    if WITHIN.get() {
        return None;
    }
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let watched = WATCHED.read();
    let mut of_file = watched.iter().filter(|it| path.starts_with(&it.folder));
    of_file.next().cloned()
}

/// Runs `call` without calling hooks for its writes and flushes on this thread.
pub fn unseen<T>(call: impl FnOnce() -> T) -> T {
    let was = WITHIN.replace(true);
    let result = call();
    WITHIN.set(was);
    result
}

/// The functions that replace libc's. Their signatures hold on 64-bit Linux only; elsewhere nothing
/// is intercepted.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod instead_of_libc {
    use std::os::fd::RawFd;

    use libc::{c_int, c_long, c_void, off_t, size_t, ssize_t};

    use crate::journal::calls::*;

    /// Converts the result of a system call.
    fn kernel_result(result: c_long) -> io::Result<usize> {
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }

    /// Converts a result to the form that libc's callers expect.
    fn libc_result(result: io::Result<usize>) -> ssize_t {
        match result {
            Ok(bytes) => bytes as ssize_t,
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(libc::EIO);
                // SAFETY: the thread's own `errno`, which always exists.
                unsafe { *libc::__errno_location() = number };
                -1
            }
        }
    }

    /// Calls the file's hook, or `call` if it has none.
    fn asked(
        seen: &AtomicUsize,
        fd: RawFd,
        hook: impl FnOnce(&Watched, BorrowedFd<'_>) -> io::Result<usize>,
        call: impl FnOnce() -> c_long,
    ) -> ssize_t {
        if seen.load(Ordering::Relaxed) == 0 || fd < 0 {
            return call() as ssize_t;
        }
        // SAFETY: the caller keeps the file open during the call. If it does not, the kernel
        // rejects every use of the number.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        match hook_of(file) {
            Some(watched) => libc_result(unseen(|| hook(&watched, file))),
            None => call() as ssize_t,
        }
    }

    /// # Safety
    /// As for libc's function of this name.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: passes the caller's arguments to the function that it meant to call.
        let raw = |data: *const c_void, len: size_t| unsafe {
            libc::syscall(libc::SYS_write, fd, data, len)
        };
        let hook = |watched: &Watched, file: BorrowedFd<'_>| {
            if !watched.sees_writes {
                return kernel_result(raw(data, len));
            }
            // SAFETY: queries a position and changes nothing.
            let at = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
            // SAFETY: the caller provides this many readable bytes.
            let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
            let go = |bytes: &[u8]| kernel_result(raw(bytes.as_ptr().cast(), bytes.len()));
            watched.hook.write(&WriteCall {
                file,
                offset: at.max(0) as u64,
                data: bytes,
                make: &go,
            })
        };
        asked(&WRITES_SEEN, fd, hook, || raw(data, len))
    }

    /// # Safety
    /// As for libc's function of this name.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn pwrite(fd: c_int, data: *const c_void, len: size_t, at: off_t) -> ssize_t {
        // SAFETY: as in `write`.
        let raw = |data: *const c_void, len: size_t| unsafe {
            libc::syscall(libc::SYS_pwrite64, fd, data, len, at)
        };
        let hook = |watched: &Watched, file: BorrowedFd<'_>| {
            if !watched.sees_writes {
                return kernel_result(raw(data, len));
            }
            // SAFETY: as in `write`.
            let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
            let go = |bytes: &[u8]| kernel_result(raw(bytes.as_ptr().cast(), bytes.len()));
            watched.hook.write(&WriteCall {
                file,
                offset: at as u64,
                data: bytes,
                make: &go,
            })
        };
        asked(&WRITES_SEEN, fd, hook, || raw(data, len))
    }

    /// # Safety
    /// As for libc's function of this name.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn pwrite64(
        fd: c_int,
        data: *const c_void,
        len: size_t,
        at: off_t,
    ) -> ssize_t {
        // SAFETY: the same function on this platform.
        unsafe { pwrite(fd, data, len, at) }
    }

    /// # Safety
    /// As for libc's function of this name.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
        flushed(fd, libc::SYS_fdatasync)
    }

    /// # Safety
    /// As for libc's function of this name.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fsync(fd: c_int) -> c_int {
        flushed(fd, libc::SYS_fsync)
    }

    fn flushed(fd: c_int, call: c_long) -> c_int {
        // SAFETY: the kernel accepts any number and fails if no file has it.
        let raw = || unsafe { libc::syscall(call, fd) };
        let hook = |watched: &Watched, file: BorrowedFd<'_>| {
            let go = || kernel_result(raw()).map(drop);
            let call = FlushCall { file, make: &go };
            watched.hook.flush(&call).map(|()| 0)
        };
        asked(&FLUSHES_SEEN, fd, hook, raw) as c_int
    }
}

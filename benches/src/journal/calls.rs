//! Writes and flushes of others' code, seen and changed from outside.
//!
//! Of the logs that others make, okaywal opens its files by `std::fs` and has nothing to put in between. A modelled flush, a count of flushes, or a failure must be
//! the same for all, so all are treated alike, and run with their own files' code as it is: this program defines `write`, `pwrite`, `fdatasync` and `fsync` itself, and
//! std and crate nix, which call libc's by name, reach these. They ask the kernel by `syscall`, and for a file in a [watched](watch) folder they ask
//! a [`Hook`] first.
//!
//! - Nothing is watched: an atomic load a call. Else the file's name is read from `/proc/self/fd`, about a microsecond.
//! - Calls that are not seen: those by number (crate rustix makes such), vectored writes, mapped memory, `fallocate`, `ftruncate`, renames. [`watch`] tries whether
//!   calls are seen at all, and fails where they are not.
//! - Between `fork` and `exec` a child may call `write`: while something is watched, do not start processes.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::RwLock;

/// What happens around the writes and flushes of files. Called by several threads at once; its own calls are not seen. It must not panic: its caller is C.
pub trait Hook: Send + Sync {
    /// Whether [`write`](Self::write) is wanted; if not, writes go to the kernel with no delay.
    fn sees_writes(&self) -> bool {
        true
    }

    /// A file is to be written to; what is returned is what the caller is told.
    fn write(&self, call: &WriteCall<'_>) -> io::Result<usize> {
        call.make(call.data)
    }

    /// A file, or a folder, is to be made durable; what is returned is what the caller is told.
    fn flush(&self, call: &FlushCall<'_>) -> io::Result<()> {
        call.make()
    }
}

/// A write that a file's code wants made.
pub struct WriteCall<'a> {
    /// What is written to.
    pub file: BorrowedFd<'a>,
    /// Where, in bytes.
    pub offset: u64,
    /// What.
    pub data: &'a [u8],
    make: &'a dyn Fn(&[u8]) -> io::Result<usize>,
}

impl WriteCall<'_> {
    /// Makes it, with this data in the stead of its own; says how much went.
    pub fn make(&self, data: &[u8]) -> io::Result<usize> {
        (self.make)(data)
    }
}

/// A flush that a file's code wants made.
pub struct FlushCall<'a> {
    /// What is to be durable.
    pub file: BorrowedFd<'a>,
    make: &'a dyn Fn() -> io::Result<()>,
}

impl FlushCall<'_> {
    /// Makes it.
    pub fn make(&self) -> io::Result<()> {
        (self.make)()
    }
}

/// A folder that is watched until this is dropped.
#[must_use = "dropped, nothing is watched any more"]
pub struct Watch {
    folder: Arc<Watched>,
}

struct Watched {
    folder: PathBuf,
    hook: Arc<dyn Hook>,
    sees_writes: bool,
}

static WATCHED: RwLock<Vec<Arc<Watched>>> = RwLock::new(Vec::new());
// Relaxed, all of it: who watches a folder and then writes there does so on one thread, or tells the others, which orders the two.
static FLUSHES_SEEN: AtomicUsize = AtomicUsize::new(0);
static WRITES_SEEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread is in a hook, or [unseen].
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// From now on, `hook` is asked about files in `folder`, which is there, and in the folders below.
///
/// # Errors
/// There is no such folder, or nothing can be written there; calls cannot be seen on this system.
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
            "this program cannot see the writes and flushes of others' code on this system",
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

/// Whether a write and a flush came.
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

/// Whom to ask about a file.
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

/// No hook is asked about what `call` writes and flushes on this thread.
pub fn unseen<T>(call: impl FnOnce() -> T) -> T {
    let was = WITHIN.replace(true);
    let result = call();
    WITHIN.set(was);
    result
}

/// The functions that stand in for libc's. Elsewhere than on 64-bit Linux their arguments would be others: there nothing is seen.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod instead_of_libc {
    use std::os::fd::RawFd;

    use libc::{c_int, c_long, c_void, off_t, size_t, ssize_t};

    use super::*;

    /// What the kernel says to a call.
    fn told(result: c_long) -> io::Result<usize> {
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }

    /// Tells the caller as libc does.
    fn tell(result: io::Result<usize>) -> ssize_t {
        match result {
            Ok(bytes) => bytes as ssize_t,
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(libc::EIO);
                // SAFETY: it is this thread's own, always there.
                unsafe { *libc::__errno_location() = number };
                -1
            }
        }
    }

    /// Asks the hook of a file, if it has one; else `call`.
    fn asked(
        seen: &AtomicUsize,
        fd: RawFd,
        hook: impl FnOnce(&Watched, BorrowedFd<'_>) -> io::Result<usize>,
        call: impl FnOnce() -> c_long,
    ) -> ssize_t {
        if seen.load(Ordering::Relaxed) == 0 || fd < 0 {
            return call() as ssize_t;
        }
        // SAFETY: the caller has it open for as long as its call takes; if not, the kernel says so to all that is done with it.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        match hook_of(file) {
            Some(watched) => tell(unseen(|| hook(&watched, file))),
            None => call() as ssize_t,
        }
    }

    /// # Safety
    /// As libc's of this name; so are those below.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: the caller's arguments, for the function that it meant to call.
        let raw = |data: *const c_void, len: size_t| unsafe {
            libc::syscall(libc::SYS_write, fd, data, len)
        };
        let hook = |watched: &Watched, file: BorrowedFd<'_>| {
            if !watched.sees_writes {
                return told(raw(data, len));
            }
            // SAFETY: asks for a position, and changes nothing.
            let at = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
            // SAFETY: the caller gives so many bytes to read.
            let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
            let go = |bytes: &[u8]| told(raw(bytes.as_ptr().cast(), bytes.len()));
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
    /// As above.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn pwrite(fd: c_int, data: *const c_void, len: size_t, at: off_t) -> ssize_t {
        // SAFETY: as in `write`.
        let raw = |data: *const c_void, len: size_t| unsafe {
            libc::syscall(libc::SYS_pwrite64, fd, data, len, at)
        };
        let hook = |watched: &Watched, file: BorrowedFd<'_>| {
            if !watched.sees_writes {
                return told(raw(data, len));
            }
            // SAFETY: as in `write`.
            let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
            let go = |bytes: &[u8]| told(raw(bytes.as_ptr().cast(), bytes.len()));
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
    /// As above.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn pwrite64(
        fd: c_int,
        data: *const c_void,
        len: size_t,
        at: off_t,
    ) -> ssize_t {
        // SAFETY: the same function, here.
        unsafe { pwrite(fd, data, len, at) }
    }

    /// # Safety
    /// As above.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
        flushed(fd, libc::SYS_fdatasync)
    }

    /// # Safety
    /// As above.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn fsync(fd: c_int) -> c_int {
        flushed(fd, libc::SYS_fsync)
    }

    fn flushed(fd: c_int, call: c_long) -> c_int {
        // SAFETY: it takes any number, and fails if no file has it.
        let raw = || unsafe { libc::syscall(call, fd) };
        let hook = |watched: &Watched, file: BorrowedFd<'_>| {
            let go = || told(raw()).map(drop);
            let call = FlushCall { file, make: &go };
            watched.hook.flush(&call).map(|()| 0)
        };
        asked(&FLUSHES_SEEN, fd, hook, raw) as c_int
    }
}

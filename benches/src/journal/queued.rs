//! A file whose writes the kernel performs while the caller goes on (io_uring).
//!
//! JBD2 submits the blocks of a transaction one after the other and then waits for all of them. So
//! the device works on many of them at the same time. A [`FileStorage`] waits for each write.
//!
//! # Invariants
//! - **QS-I1** The kernel reads the bytes of a write until it reports the write's completion. Until
//!   then they are in `pending`, and nothing moves, changes or frees them.
//! - **QS-I2** Two writes in flight do not overlap, so the order of their completions does not
//!   matter.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::forget;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use io_uring::{IoUring, opcode, types};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::OFlags;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::{FileMode, FileStorage};

/// Offsets and lengths of direct writes are multiples of this.
const SECTOR: usize = 512;
/// The alignment of direct writes in memory.
const ALIGN: usize = 4096;
/// The most writes in flight.
const DEPTH: usize = 256;

/// A file or a block device as a [`Storage`], written past the page cache. A write returns when it
/// has been submitted to the kernel; [`flush`](Storage::flush) waits for all of them.
///
/// Offsets and lengths of writes must be multiples of 512 and of the device's sector, as in
/// [`FileMode::Direct`]. Creating, opening and locking the file work as in [`FileStorage`].
///
/// A write blocks while 256 others are in flight, and while one that overlaps it is. A read waits
/// for all writes.
///
/// # When a write fails
/// The first failure is final: all later writes, flushes and durable writes return the same error
/// until the file is reopened. So a `flush` that succeeds covers every write that returned before.
pub struct QueuedStorage {
    queue: Mutex<Queue>,
    file: FileStorage,
}

/// Memory for direct writes.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGN];
        let start = memory.as_ptr().addr().next_multiple_of(ALIGN) - memory.as_ptr().addr();
        Aligned { memory, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

struct Queue {
    ring: IoUring,
    /// The same file as the storage's, opened once more for the kernel.
    direct: File,
    /// The writes in flight, by the number under which the kernel knows them.
    pending: Vec<Option<Pending>>,
    /// The first failure.
    failure: Option<(io::ErrorKind, String)>,
}

/// A write in flight.
struct Pending {
    data: Aligned,
    offset: u64,
    len: usize,
}

impl Pending {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len as u64
    }
}

impl QueuedStorage {
    /// Whether the kernel has io_uring, and allows this process to use it.
    pub fn is_available() -> bool {
        IoUring::new(1).is_ok()
    }

    /// Creates a file of `len` bytes, as [`FileStorage::create`] does.
    ///
    /// # Errors
    /// As there; [`Unsupported`](io::ErrorKind::Unsupported) if the kernel has no io_uring.
    pub fn create(path: impl AsRef<Path>, len: u64) -> io::Result<Self> {
        let file = FileStorage::create(&path, len, FileMode::Direct)?;
        Ok(Self::new(Queue::new(path.as_ref())?, file))
    }

    /// Opens an existing file or block device, as [`FileStorage::open`] does.
    ///
    /// # Errors
    /// As there; [`Unsupported`](io::ErrorKind::Unsupported) if the kernel has no io_uring.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = FileStorage::open(&path, FileMode::Direct)?;
        Ok(Self::new(Queue::new(path.as_ref())?, file))
    }

    fn new(queue: Queue, file: FileStorage) -> Self {
        QueuedStorage {
            queue: Mutex::new(queue),
            file,
        }
    }

    /// Waits for the writes in flight that overlap this range.
    fn without(&self, range: &Range<u64>) -> io::Result<MutexGuard<'_, Queue>> {
        let mut queue = self.queue.lock();
        while queue.overlaps(range) {
            queue.wait(&self.file)?;
        }
        Ok(queue)
    }
}

impl Queue {
    fn new(path: &Path) -> io::Result<Self> {
        let ring = IoUring::new(DEPTH as u32).map_err(|error| {
            let told = format!("io_uring cannot be used ({error}): use `FileStorage` instead");
            io::Error::new(io::ErrorKind::Unsupported, told)
        })?;
        let flags = OFlags::DIRECT.bits().cast_signed();
        let direct = (OpenOptions::new().write(true).custom_flags(flags)).open(path)?;
        Ok(Queue {
            ring,
            direct,
            pending: (0..DEPTH).map(|_| None).collect(),
            failure: None,
        })
    }

    fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some((kind, text)) => Err(io::Error::new(*kind, format!("an earlier write: {text}"))),
            None => Ok(()),
        }
    }

    fn fail(&mut self, error: &io::Error) {
        let failure = || (error.kind(), error.to_string());
        self.failure.get_or_insert_with(failure);
    }

    fn overlaps(&self, range: &Range<u64>) -> bool {
        let mut in_flight = self.pending.iter().flatten().map(Pending::range);
        in_flight.any(|it| it.start < range.end && range.start < it.end)
    }

    fn is_idle(&self) -> bool {
        self.pending.iter().all(Option::is_none)
    }

    /// Submits a write. The caller has checked that none in flight overlaps it (QS-I2).
    fn submit(&mut self, file: &FileStorage, data: &[u8], offset: u64) -> io::Result<()> {
        self.reap(file);
        let free = loop {
            match self.pending.iter().position(Option::is_none) {
                Some(free) => break free,
                None => self.wait(file)?,
            }
        };
        let mut copy = Aligned::new(data.len());
        copy.bytes().copy_from_slice(data);
        let fd = types::Fd(self.direct.as_raw_fd());
        let write = opcode::Write::new(fd, copy.bytes().as_ptr(), data.len() as u32);
        let entry = write.offset(offset).build().user_data(free as u64);
        // The memory of `copy` does not move with it (QS-I1).
        self.pending[free] = Some(Pending {
            data: copy,
            offset,
            len: data.len(),
        });
        // SAFETY: QS-I1. The file is open until this storage is dropped, which waits for all
        // writes.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            // Every entry was submitted when it was pushed, unless that failed.
            self.pending[free] = None;
            return Err(io::Error::other("the queue of io_uring is full"));
        }
        retried(|| self.ring.submit()).map(drop)
    }

    /// Waits until a write in flight ends, if there is one.
    fn wait(&mut self, file: &FileStorage) -> io::Result<()> {
        if self.is_idle() {
            return Ok(());
        }
        let waited = retried(|| self.ring.submit_and_wait(1));
        self.reap(file);
        waited.inspect_err(|error| self.fail(error)).map(drop)
    }

    /// Waits until no write is in flight.
    fn settle(&mut self, file: &FileStorage) -> io::Result<()> {
        while !self.is_idle() {
            self.wait(file)?;
        }
        Ok(())
    }

    /// Takes the completions that are there.
    fn reap(&mut self, file: &FileStorage) {
        let ended: Vec<(u64, i32)> = (self.ring.completion())
            .map(|it| (it.user_data(), it.result()))
            .collect();
        for (number, result) in ended {
            let write = self.pending[number as usize].take();
            let write = write.expect("the kernel completes what was submitted");
            if let Err(error) = completed(write, result, file) {
                self.fail(&error);
            }
        }
    }
}

/// Finishes a write of which the kernel reports this result: the bytes written, or an error number.
fn completed(mut write: Pending, result: i32, file: &FileStorage) -> io::Result<()> {
    let Ok(done) = usize::try_from(result) else {
        return Err(io::Error::from_raw_os_error(-result));
    };
    if done == write.len {
        return Ok(());
    }
    file.write_at(&write.data.bytes()[done..], write.offset + done as u64)
}

/// Repeats a call that a signal interrupts.
fn retried(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            ended => return ended,
        }
    }
}

fn check_bounds(offset: u64, len: usize, total: u64) -> io::Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= total => Ok(()),
        _ => {
            let what = format!("{len} bytes at {offset} end beyond {total}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        }
    }
}

impl Storage for QueuedStorage {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.queue.lock().settle(&self.file)?;
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        check_bounds(offset, data.len(), self.len())?;
        if !data.len().is_multiple_of(SECTOR) || !offset.is_multiple_of(SECTOR as u64) {
            let what = format!("a direct write of {} bytes at {offset}", data.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        // The kernel counts the bytes of a write in 32 bits.
        for (data, at) in data.chunks(1 << 30).zip((offset..).step_by(1 << 30)) {
            let mut queue = self.without(&(at..at + data.len() as u64))?;
            queue.check()?;
            let submitted = queue.submit(&self.file, data, at);
            submitted.inspect_err(|error| queue.fail(error))?;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut queue = self.queue.lock();
        queue.settle(&self.file)?;
        queue.check()?;
        drop(queue);
        self.file.flush()
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        check_bounds(offset, data.len(), self.len())?;
        self.without(&(offset..offset + data.len() as u64))?
            .check()?;
        self.file.write_fua(data, offset)
    }
}

impl fmt::Debug for QueuedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedStorage")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Drop for QueuedStorage {
    fn drop(&mut self) {
        let mut queue = self.queue.lock();
        if queue.settle(&self.file).is_err() {
            // QS-I1: the kernel may still read these bytes, so they are leaked.
            queue.pending.iter_mut().for_each(|it| forget(it.take()));
        }
    }
}

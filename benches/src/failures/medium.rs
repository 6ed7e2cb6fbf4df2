//! A medium beneath the files of one folder. It fails as planned and knows what a power cut would
//! leave.
//!
//! - A flush makes durable all writes to its file that returned *before the flush began*. A real
//!   disk may keep more. So a missing record is always one whose durability was not guaranteed.
//! - The durable content is kept in a second folder, in files of the same names, so it outlives
//!   this process.
//! - A flush is honest: if it succeeds, everything it covers is durable. It fails if data is lost
//!   while it runs, or was lost earlier in a failed write.
//! - File names are durable at once; a file's length becomes durable with its next flush. Files are
//!   not renamed.
//! - A flush takes a modelled time, so that other threads queue up meanwhile. The kernel is not
//!   asked to flush.
//! - Lost data may stay in the page cache as clean pages. A later write to such a page makes the
//!   whole page dirty again.
//! - Until the medium is [armed](Medium::arm), nothing fails and nothing is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;

use super::plan::{Dirty, FailurePlan, Fault};
use crate::journal::calls::{FlushCall, Hook, WriteCall};

/// The duration of a flush.
const FLUSH_TAKES: Duration = Duration::from_micros(300);
/// The granularity of dirty data in a page cache.
const PAGE: u64 = 4096;

/// A medium. See the [module](self).
pub struct Medium {
    /// The folder of the files.
    files: PathBuf,
    /// The folder of their durable content.
    durable: PathBuf,
    /// Called when the planned failure happens.
    on_failure: fn(),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_armed: bool,
    plan: Option<FailurePlan>,
    writes: u64,
    flushes: u64,
    /// Writes that are not durable, by file.
    dirty: BTreeMap<PathBuf, Vec<Write>>,
    /// The number of writes that have returned.
    written: u64,
    /// The file and offset of the rest of a write that was cut short.
    rest: Option<(PathBuf, u64)>,
    /// The file that lost data in a failed write. Whichever of its flushes ends next reports it.
    untold: Option<PathBuf>,
    /// The number of times that data was lost.
    losses: u64,
    /// Pages that hold lost data and are clean. A write to one makes the whole page dirty.
    cached: BTreeSet<(PathBuf, u64)>,
}

struct Write {
    number: u64,
    offset: u64,
    data: Vec<u8>,
}

impl Write {
    /// Replaces the bytes of this write that a later write of `data` at `offset` has overwritten.
    fn overwrite(&mut self, offset: u64, data: &[u8]) {
        let own_end = self.offset + self.data.len() as u64;
        let start = self.offset.max(offset);
        let end = own_end.min(offset + data.len() as u64);
        if start < end {
            let len = (end - start) as usize;
            let (to, from) = ((start - self.offset) as usize, (start - offset) as usize);
            self.data[to..to + len].copy_from_slice(&data[from..from + len]);
        }
    }
}

/// Returns the error that a caller receives.
fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Returns the pages that a write touches.
fn pages(offset: u64, len: usize) -> impl Iterator<Item = u64> {
    (offset / PAGE)..(offset + len as u64).div_ceil(PAGE)
}

impl State {
    /// Records that the latest write put these bytes into the file and that they are not durable.
    fn is_dirty(&mut self, name: &Path, offset: u64, data: Vec<u8>) {
        let number = self.written;
        let dirty = self.dirty.entry(name.to_owned()).or_default();
        dirty.push(Write {
            number,
            offset,
            data,
        });
    }

    /// Fails at the end of a flush if any data was lost during it, or if the file lost data earlier
    /// and no flush has reported that. `losses` is the number of losses when the flush began.
    fn check(&mut self, name: &Path, losses: u64) -> io::Result<()> {
        let is_untold = self.untold.take_if(|of| of == name).is_some();
        if is_untold || self.losses != losses {
            return Err(error(libc::EIO));
        }
        Ok(())
    }
}

impl Medium {
    /// Creates a medium beneath the files in the existing folder `files`. The folder `durable` is
    /// created.
    ///
    /// # Errors
    /// A folder cannot be created or found.
    pub fn new(files: &Path, durable: &Path, on_failure: fn()) -> Result<Self> {
        fs::create_dir_all(durable).with_context(|| format!("making {}", durable.display()))?;
        let files = fs::canonicalize(files).with_context(|| format!("{}", files.display()))?;
        Ok(Medium {
            files,
            durable: durable.to_owned(),
            on_failure,
            state: Mutex::default(),
        })
    }

    /// Declares all current content durable. From now on, writes and flushes are counted, and the
    /// planned failure happens.
    ///
    /// # Errors
    /// A file cannot be copied.
    pub fn arm(&self, plan: Option<FailurePlan>) -> Result<()> {
        let mut state = self.state.lock();
        for entry in fs::read_dir(&self.files)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), self.durable.join(entry.file_name()))?;
            }
        }
        state.plan = plan;
        state.is_armed = true;
        Ok(())
    }

    /// Returns the number of writes and flushes since the medium was armed.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.writes, state.flushes)
    }

    /// Performs a write that is durable when it returns; libc has no such function. `write` writes
    /// data at an offset. Call this only within [`unseen`](crate::journal::calls::unseen), because
    /// otherwise the hook would see these writes too.
    ///
    /// # Errors
    /// The planned error, or the file's.
    pub fn write_durably(
        &self,
        name: &Path,
        offset: u64,
        data: &[u8],
        write: &dyn Fn(&[u8], u64) -> io::Result<usize>,
    ) -> io::Result<()> {
        let losses = self.state.lock().losses;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            done += if self.is_armed() {
                self.write(name, at, &data[done..], &|data| write(data, at))?
            } else {
                write(&data[done..], at)?
            };
        }
        if !self.is_armed() {
            return Ok(());
        }
        std::thread::sleep(FLUSH_TAKES);
        let mut state = self.state.lock();
        state.check(name, losses)?;
        let dirty = state.dirty.entry(name.to_owned()).or_default();
        let end = offset + data.len() as u64;
        let own = dirty.extract_if(.., |it| offset <= it.offset && it.offset < end);
        let own: Vec<Write> = own.collect();
        // A dirty page may have been read earlier. Its older bytes must not overwrite this write.
        for older in dirty {
            older.overwrite(offset, data);
        }
        self.settle(name, &own, None)
    }

    fn write(
        &self,
        name: &Path,
        offset: u64,
        data: &[u8],
        write: &dyn Fn(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let most = self.begin_write(name, offset, data.len())?;
        let written = write(&data[..most])?;
        let mut state = self.state.lock();
        state.written += 1;
        state.is_dirty(name, offset, data[..written].to_vec());
        for page in pages(offset, written) {
            if state.cached.remove(&(name.to_owned(), page)) {
                let whole = self.page(name, page)?;
                state.is_dirty(name, page * PAGE, whole);
            }
        }
        Ok(written)
    }

    /// Returns the bytes of a page as a read would see them now.
    fn page(&self, name: &Path, page: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = File::open(self.files.join(name))?;
        file.seek(SeekFrom::Start(page * PAGE))?;
        file.take(PAGE).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns how many bytes of a write succeed.
    fn begin_write(&self, name: &Path, offset: u64, len: usize) -> io::Result<usize> {
        let mut state = self.state.lock();
        if (state.rest.as_ref()).is_some_and(|(of, at)| of == name && *at == offset) {
            state.rest = None;
            self.lose(&mut state, name)?;
            state.untold = self.takes_data(&state).then(|| name.to_owned());
            return Err(error(libc::ENOSPC));
        }
        let index = state.writes;
        state.writes += 1;
        match state.plan {
            Some(plan) if plan.index == index && plan.fault == Fault::Write => {
                (self.on_failure)();
                self.lose(&mut state, name)?;
                state.untold = self.takes_data(&state).then(|| name.to_owned());
                Err(error(libc::EIO))
            }
            Some(plan) if plan.index == index && plan.fault == Fault::ShortWrite => {
                (self.on_failure)();
                // A single byte has no half, so all of it is the rest.
                state.rest = Some((name.to_owned(), offset + len as u64 / 2));
                if len == 1 {
                    drop(state);
                    return self.begin_write(name, offset, len);
                }
                Ok(len / 2)
            }
            _ => Ok(len),
        }
    }

    fn flush(&self, name: &Path) -> io::Result<()> {
        let visible = self.files.join(name);
        let mut state = self.state.lock();
        let index = state.flushes;
        state.flushes += 1;
        let planned = (state.plan).is_some_and(|it| it.fault == Fault::Flush && it.index == index);
        if planned {
            (self.on_failure)();
            self.lose(&mut state, name)?;
            return Err(error(libc::EIO));
        }
        let (began, losses) = (state.written, state.losses);
        // The names in a folder are already durable.
        let len = fs::metadata(&visible)?;
        let len = len.is_file().then_some(len.len());
        drop(state);
        std::thread::sleep(FLUSH_TAKES);
        let Some(len) = len else {
            return Ok(());
        };
        let mut state = self.state.lock();
        state.check(name, losses)?;
        let dirty = state.dirty.entry(name.to_owned()).or_default();
        let settled = dirty.extract_if(.., |it| it.number <= began);
        let settled: Vec<Write> = settled.collect();
        self.settle(name, &settled, Some(len))
    }

    /// Makes these writes and the file's length durable.
    fn settle(&self, name: &Path, writes: &[Write], len: Option<u64>) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let file = options.open(self.durable.join(name))?;
        for write in writes {
            file.write_all_at(&write.data, write.offset)?;
        }
        let Some(len) = len else {
            return Ok(());
        };
        // Another flush may already have made a longer length durable: keep that. But if the file
        // has been truncated since, its current length is the limit.
        let now = fs::metadata(self.files.join(name))?.len();
        file.set_len(len.max(file.metadata()?.len()).min(now))
    }

    fn takes_data(&self, state: &State) -> bool {
        state.plan.is_some_and(|plan| plan.dirty != Dirty::Kept)
    }

    /// Loses the file's dirty data if the plan says so. The file operations in here must be unseen
    /// by the hook.
    fn lose(&self, state: &mut State, name: &Path) -> io::Result<()> {
        if !self.takes_data(state) {
            return Ok(());
        }
        state.losses += 1;
        let lost = state.dirty.remove(name).unwrap_or_default();
        if state.plan.is_some_and(|plan| plan.dirty == Dirty::Cached) {
            let pages = lost.iter().flat_map(|it| pages(it.offset, it.data.len()));
            (state.cached).extend(pages.map(|page| (name.to_owned(), page)));
            return Ok(());
        }
        if lost.is_empty() {
            return Ok(());
        }
        let durable = File::open(self.durable.join(name));
        let file = OpenOptions::new().write(true).open(self.files.join(name))?;
        for write in lost {
            // Bytes that never reached the medium read as zeros.
            let mut old = vec![0; write.data.len()];
            let mut at = 0;
            while let Ok(durable) = &durable {
                match durable.read_at(&mut old[at..], write.offset + at as u64)? {
                    0 => break,
                    some => at += some,
                }
            }
            file.write_all_at(&old, write.offset)?;
        }
        Ok(())
    }

    /// Returns a file's name within the folder; empty for the folder itself.
    fn name(&self, file: BorrowedFd<'_>) -> io::Result<PathBuf> {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let name = path.strip_prefix(&self.files);
        name.map(Path::to_owned).map_err(io::Error::other)
    }

    fn is_armed(&self) -> bool {
        self.state.lock().is_armed
    }
}

/// The medium's own calls bypass the hook, so its files behave as ordinary files.
impl Hook for Medium {
    fn write(&self, call: &WriteCall<'_>) -> io::Result<usize> {
        if !self.is_armed() {
            return call.make(call.data);
        }
        let name = self.name(call.file)?;
        self.write(&name, call.offset, call.data, &|data| call.make(data))
    }

    fn flush(&self, call: &FlushCall<'_>) -> io::Result<()> {
        if !self.is_armed() {
            return Ok(());
        }
        self.flush(&self.name(call.file)?)
    }
}

#[cfg(test)]
mod tests;

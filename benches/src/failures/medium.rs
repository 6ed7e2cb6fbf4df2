//! A medium below the files of one folder: it fails as planned, and knows what a power cut would leave.
//!
//! - A write is durable when a flush of its file that *began after* it returned has ended. Nothing else is, though a real disk would keep more: so what is missing later was
//!   not sure to be there.
//! - What is durable lies in a second folder, in files of the same names, and so outlives this process.
//! - A flush tells the truth: if it goes well, all that it is for is durable. If data are lost while it is under way, or were before, by a failed write, it fails.
//! - Names are durable at once; a file's length is with its next flush. Files are not renamed.
//! - Flushes take a modelled time, so that others meanwhile come to wait; the kernel is not asked to flush.
//! - What is lost and stays in the page cache is clean there; a later write makes its page dirty again, all of it.
//! - Until it is [armed](Medium::arm), nothing fails, and nothing is noted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;

use super::plan::{Dirty, Fault, Plan};
use crate::journal::calls::{FlushCall, Hook, WriteCall};

/// What a flush takes.
const FLUSH_TAKES: Duration = Duration::from_micros(300);
/// The unit in which a page cache is dirty.
const PAGE: u64 = 4096;

/// A medium. See the [module](self).
pub struct Medium {
    /// Where the files are.
    files: PathBuf,
    /// Where what is durable of them is.
    durable: PathBuf,
    /// Called when the planned failure happens.
    on_failure: fn(),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_armed: bool,
    plan: Option<Plan>,
    writes: u64,
    flushes: u64,
    /// Writes that are not durable, by file.
    dirty: BTreeMap<PathBuf, Vec<Write>>,
    /// How many writes there have been.
    written: u64,
    /// Of a write that was cut short: file and offset of the rest.
    rest: Option<(PathBuf, u64)>,
    /// The file of which a write's failure took data: the next flush of it that ends tells.
    untold: Option<PathBuf>,
    /// How often data were lost.
    losses: u64,
    /// Pages that hold lost data and are clean: a write to one makes all of it dirty.
    cached: BTreeSet<(PathBuf, u64)>,
}

struct Write {
    number: u64,
    offset: u64,
    data: Vec<u8>,
}

impl Write {
    /// Takes over what it has in common with a later write.
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

/// The failures that a caller is told.
fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// The pages that a write touches.
fn pages(offset: u64, len: usize) -> impl Iterator<Item = u64> {
    (offset / PAGE)..(offset + len as u64).div_ceil(PAGE)
}

impl State {
    /// These bytes are in the file, by the last write that there was, and not durable.
    fn is_dirty(&mut self, name: &Path, offset: u64, data: Vec<u8>) {
        let number = self.written;
        let dirty = self.dirty.entry(name.to_owned()).or_default();
        dirty.push(Write {
            number,
            offset,
            data,
        });
    }

    /// At the end of a flush: whether data of the file were lost meanwhile, or before without anybody being told.
    fn check(&mut self, name: &Path, losses: u64) -> io::Result<()> {
        let is_untold = self.untold.take_if(|of| of == name).is_some();
        if is_untold || self.losses != losses {
            return Err(error(libc::EIO));
        }
        Ok(())
    }
}

impl Medium {
    /// A medium below the files in the folder `files`, which is there; `durable` is made.
    ///
    /// # Errors
    /// A folder cannot be made or found.
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

    /// All that is there is durable. From now on writes and flushes are counted, and what is planned fails.
    ///
    /// # Errors
    /// A file cannot be copied.
    pub fn arm(&self, plan: Option<Plan>) -> Result<()> {
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

    /// How many writes and flushes there were since it was armed.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.writes, state.flushes)
    }

    /// A write that is durable when it returns, which the functions of libc do not have. `write` does it, with an offset. To be called [unseen](crate::journal::calls::unseen), as
    /// a hook is.
    ///
    /// # Errors
    /// As planned, or the file's.
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
        // A page that is dirty as a whole may have been read before: what is older must not come over this.
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

    /// What can be read of a page now.
    fn page(&self, name: &Path, page: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = File::open(self.files.join(name))?;
        file.seek(SeekFrom::Start(page * PAGE))?;
        file.take(PAGE).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// How much of a write goes.
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
                // Of one byte there is no half: the rest is all.
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
        // A folder's names are durable as it is.
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

    /// These writes are durable, and so is the file's length.
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
        // Another flush may have seen it longer, and ended before this one. A file that was cut is as long as it is now.
        let now = fs::metadata(self.files.join(name))?.len();
        file.set_len(len.max(file.metadata()?.len()).min(now))
    }

    fn takes_data(&self, state: &State) -> bool {
        state.plan.is_some_and(|plan| plan.dirty != Dirty::Kept)
    }

    /// A failure takes dirty data of this file with it, if that is planned. Its own writes must be unseen.
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
            // What the medium never had reads as zeros.
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

    /// A file's name in the folder; empty for the folder itself.
    fn name(&self, file: BorrowedFd<'_>) -> io::Result<PathBuf> {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let name = path.strip_prefix(&self.files);
        name.map(Path::to_owned).map_err(io::Error::other)
    }

    fn is_armed(&self) -> bool {
        self.state.lock().is_armed
    }
}

/// Its own calls are not seen: so its files are the kernel's.
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

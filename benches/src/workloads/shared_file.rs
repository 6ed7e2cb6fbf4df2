//! FxMark's DWOM and DRBM, and the mixes of the two in [SRL] §VI-A.
//!
//! Each thread has one page of 4 KiB in a shared file, 8 MiB from the next thread's page, and reads
//! or writes it repeatedly. No two ranges ever overlap, so a thread that waits does so only because
//! of the lock's granularity. The file is written completely beforehand.
//!
//! In the mixes, *every* thread alternates between writes and reads. [SRL] §II-B4 divides the
//! threads into readers and writers, while §VI-A does not say. With few threads, only alternating
//! keeps the ratio.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use spanlock_file_core::File;
use spanlock_pmem::MappedFile;
use spanlock_range_lock::RawRangeLock;

use crate::aligned::PageAligned;
use crate::measure::{self, Round};

/// Bytes per operation.
pub const PAGE: usize = 4096;

/// Bytes from one thread's page to the next thread's.
pub const PAGES_APART: u64 = 8 << 20;

/// A file that a workload can run on.
pub trait Bytes: Sync {
    /// Reads at an offset. Returns the number of bytes that there were.
    ///
    /// # Errors
    /// The file's error.
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all of `data` at an offset.
    ///
    /// # Errors
    /// The file's error.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()>;
}

impl<L: RawRangeLock> Bytes for File<MappedFile, L> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        Ok(File::read_at(self, into, offset)?)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        Ok(File::write_at(self, data, offset)?)
    }
}

/// A workload of writes and reads in a fixed ratio.
#[derive(Clone, Copy, Debug)]
pub struct SharedFile {
    /// The name for selection and reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// The number of writes in a cycle.
    pub writes: u32,
    /// The number of reads that follow them.
    pub reads: u32,
}

impl SharedFile {
    /// Runs one round on a file that [`fill`] has filled. `name` is for errors.
    ///
    /// # Errors
    /// An operation fails, or a page does not hold what was written last.
    pub fn round(
        &self,
        file: &impl Bytes,
        name: &str,
        threads: usize,
        duration: Duration,
    ) -> Result<Round> {
        let round = measure::timed(threads, duration, PAGE as u64, |worker| {
            self.operations(file, worker as u64)
        });
        let round = round.with_context(|| format!("{} on {name}", self.name))?;
        self.check(file, name, threads)?;
        Ok(round)
    }

    /// Checks that each thread's page holds what the thread wrote.
    ///
    /// # Errors
    /// A page does not, or cannot be read.
    pub fn check(&self, file: &(impl Bytes + ?Sized), name: &str, threads: usize) -> Result<()> {
        for worker in 0..threads as u64 {
            let mut page = PageAligned::new(PAGE);
            file.read_at(page.bytes(), worker * PAGES_APART)?;
            ensure!(
                page.bytes()[1..] == page_of(worker).bytes()[1..],
                "{}: the page of thread {worker} in {name} differs from what the thread wrote: the lock is broken, or what stores the file",
                self.name
            );
        }
        Ok(())
    }

    /// Returns the operation that thread `worker` repeats.
    pub fn operations(
        &self,
        file: &(impl Bytes + ?Sized),
        worker: u64,
    ) -> impl FnMut() -> Result<()> {
        let (writes, period) = (self.writes, self.writes + self.reads);
        let mut page = page_of(worker);
        let mut turn = 0;
        move || {
            let write = turn < writes;
            turn += 1;
            if turn == period {
                turn = 0;
            }
            if write {
                // Change the content each time, as an application would.
                let page = page.bytes();
                page[0] = page[0].wrapping_add(1);
                file.write_at(black_box(page), worker * PAGES_APART)
            } else {
                file.read_at(black_box(page.bytes()), worker * PAGES_APART)
                    .map(|read| assert_eq!(read, PAGE, "the file was written whole"))
            }
        }
    }
}

/// Fills an empty file: a page for each of `threads` threads, and the space between them.
///
/// # Errors
/// There is not enough space.
pub fn fill(file: &(impl Bytes + ?Sized), threads: usize) -> Result<()> {
    let mut filling = PageAligned::new(1 << 20);
    let filling = filling.bytes();
    for worker in 0..threads as u64 {
        let start = worker * PAGES_APART;
        for at in (start..start + PAGES_APART).step_by(filling.len()) {
            file.write_at(filling, at)?;
        }
        file.write_at(page_of(worker).bytes(), start)?;
    }
    Ok(())
}

/// Returns the content of a thread's page. It ends with the thread's number.
fn page_of(worker: u64) -> PageAligned {
    let mut page = PageAligned::new(PAGE);
    page.bytes().fill(worker as u8);
    page.bytes()[PAGE - 8..].copy_from_slice(&worker.to_le_bytes());
    page
}

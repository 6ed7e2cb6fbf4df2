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
use spanlock_file_core::{Error, File, Volume};
use spanlock_pmem::MappedFile;
use spanlock_range_lock::RawRangeLock;

use crate::measure::{self, Round};

/// Bytes per operation.
pub const PAGE: usize = 4096;

/// Bytes from one thread's page to the next thread's.
pub const PAGES_APART: u64 = 8 << 20;

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
    /// Runs one round on the file `name`, which [`preallocate`] has created.
    ///
    /// # Errors
    /// An operation fails, or a page does not hold what was written last.
    pub fn round<L: RawRangeLock + 'static>(
        &self,
        volume: &Volume<MappedFile, L>,
        name: &str,
        threads: usize,
        duration: Duration,
    ) -> Result<Round> {
        let file = volume.open_file(name)?;
        let round = measure::timed(threads, duration, PAGE as u64, |worker| {
            self.operations(&file, worker as u64)
        });
        let round = round.with_context(|| format!("{} on {name}", self.name))?;
        for worker in 0..threads as u64 {
            let mut page = [0; PAGE];
            file.read_at(&mut page, worker * PAGES_APART)?;
            ensure!(
                page[1..] == page_of(worker)[1..],
                "{}: the page of thread {worker} in {name} differs from what the thread wrote: the lock or the file core is broken",
                self.name
            );
        }
        Ok(round)
    }

    /// Returns the operation that thread `worker` repeats.
    fn operations<L: RawRangeLock>(
        &self,
        file: &File<MappedFile, L>,
        worker: u64,
    ) -> impl FnMut() -> Result<(), Error> {
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
                page[0] = page[0].wrapping_add(1);
                file.write_at(black_box(&page), worker * PAGES_APART)
            } else {
                file.read_at(black_box(&mut page), worker * PAGES_APART)
                    .map(|read| assert_eq!(read, PAGE, "the file was written whole"))
            }
        }
    }
}

/// Creates the file `name` with a page for each of `threads` threads, and fills the space between
/// them.
///
/// # Errors
/// There is not enough space.
pub fn preallocate<L: RawRangeLock>(
    volume: &Volume<MappedFile, L>,
    name: &str,
    threads: usize,
) -> Result<(), Error> {
    let file = volume.create(name)?;
    let filling = vec![0x5a; 1 << 20];
    for worker in 0..threads as u64 {
        let start = worker * PAGES_APART;
        for at in (start..start + PAGES_APART).step_by(filling.len()) {
            file.write_at(&filling, at)?;
        }
        file.write_at(&page_of(worker), start)?;
    }
    Ok(())
}

/// Returns the content of a thread's page. It ends with the thread's number.
fn page_of(worker: u64) -> [u8; PAGE] {
    let mut page = [worker as u8; PAGE];
    page[PAGE - 8..].copy_from_slice(&worker.to_le_bytes());
    page
}

//! Where the threads of a workload read and write in the shared file.

use std::hint::black_box;

use anyhow::{Result, ensure};

use super::pages::{Bytes, PAGE, PAGES_APART, page_of};
use crate::aligned::PageAligned;

/// Bytes of a write of [`Places::InOrder`].
pub(super) const IN_ORDER: usize = 1 << 20;

/// Which pages the threads of a workload access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Each thread its own page, 8 MiB from the next thread's.
    Own,
    /// The same, and threads with even numbers only write, the others only read.
    OwnByRole,
    /// Each thread its own 8 MiB, from start to end.
    InOrder,
    /// Random pages of the first `mebibytes` for each thread: of those of all threads, or if `own`
    /// only every `threads`th.
    Random {
        /// MiB for each thread, at most eight.
        mebibytes: u64,
        /// Whether no two threads access the same page.
        own: bool,
    },
}

/// Returns the operation that overwrites the next part of a thread's own bytes. Each page that it
/// writes has the content of the thread's first page.
pub(super) fn in_order(file: &impl Bytes, worker: u64) -> impl FnMut() -> Result<()> {
    let mut data = PageAligned::new(IN_ORDER);
    for page in data.bytes().chunks_mut(PAGE) {
        page.copy_from_slice(page_of(worker).bytes());
    }
    let mut at = 0;
    move || {
        let offset = worker * PAGES_APART + at;
        at = (at + IN_ORDER as u64) % PAGES_APART;
        file.write_at(black_box(data.bytes()), offset)
    }
}

/// Returns the operation that reads or overwrites a random one of the first `pages`, in this ratio:
/// with `every`, only those whose number has the remainder `worker`.
pub(super) fn random(
    file: &impl Bytes,
    (writes, reads): (u32, u32),
    pages: u64,
    every: Option<u64>,
    worker: usize,
) -> impl FnMut() -> Result<()> {
    let period = writes + reads;
    let mut random = fastrand::Rng::with_seed(worker as u64);
    let (mut page, mut turn) = (page_of(worker as u64), 0);
    move || {
        let number = match every {
            None => random.u64(..pages),
            Some(every) => random.u64(..pages / every) * every + worker as u64,
        };
        let write = turn < writes;
        turn = (turn + 1) % period;
        let page = page.bytes();
        if !write {
            let read = file.read_at(black_box(page), number * PAGE as u64)?;
            assert_eq!(read, PAGE, "the file was written whole");
            return Ok(());
        }
        page.fill(worker as u8 + 1);
        page[PAGE - 8..].copy_from_slice(&mark(number));
        file.write_at(black_box(page), number * PAGE as u64)
    }
}

/// The end of a page that was written at random.
fn mark(number: u64) -> [u8; 8] {
    (number | (1 << 63)).to_le_bytes()
}

/// Checks the pages that were written at random: each has the content of one write.
///
/// # Errors
/// A page has not, or cannot be read.
pub(super) fn check(file: &impl Bytes, mebibytes: u64) -> Result<()> {
    let mut page = PageAligned::new(PAGE);
    for number in 0..(mebibytes << 20) / PAGE as u64 {
        let page = page.bytes();
        file.read_at(page, number * PAGE as u64)?;
        let (content, end) = page.split_at(PAGE - 8);
        let marked = u64::from_le_bytes(end.try_into().expect("eight bytes")) >> 63 == 1;
        let is_whole = end == mark(number) && content.iter().all(|it| *it == content[0]);
        ensure!(
            !marked || is_whole,
            "page {number} has the content of two writes: the lock is broken, or what stores the file"
        );
    }
    Ok(())
}

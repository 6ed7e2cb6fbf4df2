//! The operations that are measured. A new one is an entry in [`operations`].

use spanlock_file_core::{Error, File, FormatOptions, Volume};
use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;

use super::limit::MOST_BYTES;
use crate::killed;
use crate::workloads::PAGES_APART;

/// The overwrite of a page.
pub const OVERWRITE_4K: &str = "overwrite-4k";
/// The overwrite of sixteen pages.
pub const OVERWRITE_64K: &str = "overwrite-64k";
/// The overwrite of pages in random order, so that the log is cleaned.
pub const CLEANING: &str = "cleaning";

/// Bytes in a page.
const PAGE: usize = 4096;
/// The file that is overwritten.
const HOT: &str = "hot";
/// The file that grows.
const GROWING: &str = "growing";
/// The directory to which files are renamed.
const ELSEWHERE: &str = "elsewhere";
/// Operations in a batch. As many files exist at a time.
pub const BATCH: usize = 1024;

/// What an operation works on.
#[derive(Debug)]
pub struct Stage<P: Pmem, L: RawRangeLock> {
    pub(super) volume: Volume<P, L>,
    /// Names for [`BATCH`] files.
    names: Vec<String>,
    /// New names for these files, in the same directory.
    new_names: Vec<String>,
    /// Their paths with the old names, but in [`ELSEWHERE`].
    elsewhere: Vec<String>,
    data: Vec<u8>,
}

/// The place of an operation in a round.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The thread's number.
    pub worker: usize,
    /// The number of operations of this thread before this one; in a batch, of this batch.
    pub nth: usize,
}

/// An operation, with what comes before and after it.
#[derive(Debug)]
pub struct Operation<P: Pmem, L: RawRangeLock> {
    /// The name for selection and reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// How often it is repeated, and what is timed.
    pub pace: Pace,
    /// The bytes of a bare write of the same size. `None` if there is none.
    pub bare_bytes: Option<usize>,
    /// Prepares a round, or a batch. Not timed. Returns the file that the steps use.
    pub begin: Begin<P, L>,
    /// Performs the operation once.
    pub step: Step<P, L>,
    /// Cleans up after a round, or a batch. Not timed.
    pub end: fn(&Stage<P, L>) -> Result<(), Error>,
}

/// Returns the file that steps use.
pub type Begin<P, L> = fn(&Stage<P, L>) -> Result<File<P, L>, Error>;

/// Performs an operation on the file.
pub type Step<P, L> = fn(&Stage<P, L>, &File<P, L>, Turn) -> Result<(), Error>;

/// How an operation is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Without a pause, by one or more threads; latencies are sampled.
    Repeated,
    /// In batches of [`BATCH`] by one thread; latencies are sampled.
    Batches,
    /// Without a pause, by one thread; every latency counts.
    EachTimed,
}

impl Pace {
    /// Returns the number of rounds of each row.
    ///
    /// Other load on the processor changes within a second, so contestants share it about equally
    /// if they take turns in many short rounds. But a round opens the volume anew, and the first
    /// access to each of its pages is slow. So the rounds of operations that use many pages are
    /// longer.
    pub fn rounds(self) -> usize {
        match self {
            Pace::Repeated => 25,
            Pace::Batches | Pace::EachTimed => 5,
        }
    }
}

/// Returns all operations, in the order in which they are reported.
pub fn operations<P: Pmem, L: RawRangeLock>() -> Vec<Operation<P, L>> {
    vec![
        Operation {
            name: OVERWRITE_4K,
            about: "each thread overwrites its own 4 KiB of one file",
            pace: Pace::Repeated,
            bare_bytes: Some(PAGE),
            begin: hot,
            step: |stage, file, turn| file.write_at(&stage.data[..PAGE], place(turn)),
            end: nothing,
        },
        Operation {
            name: OVERWRITE_64K,
            about: "each thread overwrites its own 64 KiB of one file",
            pace: Pace::Repeated,
            bare_bytes: Some(MOST_BYTES),
            begin: hot,
            step: |stage, file, turn| file.write_at(&stage.data, place(turn)),
            end: nothing,
        },
        Operation {
            name: "append",
            about: "appends 4 KiB to a file, which is replaced when it has 4 MiB",
            pace: Pace::Batches,
            bare_bytes: None,
            begin: |stage| stage.volume.create(GROWING),
            step: |stage, file, _| file.append(&stage.data[..PAGE]).map(drop),
            end: |stage| stage.volume.remove(GROWING),
        },
        Operation {
            name: "truncate",
            about: "takes the last 4 KiB off a file of at most 4 MiB",
            pace: Pace::Batches,
            bare_bytes: None,
            begin: |stage| {
                let file = stage.volume.create(GROWING)?;
                (0..BATCH).try_for_each(|_| file.append(&stage.data[..PAGE]).map(drop))?;
                Ok(file)
            },
            step: |_, file, turn| file.truncate(((BATCH - 1 - turn.nth) * PAGE) as u64),
            end: |stage| stage.volume.remove(GROWING),
        },
        Operation {
            name: "create",
            about: "creates an empty file next to up to 1,023 others",
            pace: Pace::Batches,
            bare_bytes: None,
            begin: hot,
            step: |stage, _, turn| stage.volume.create(&stage.names[turn.nth]).map(drop),
            end: |stage| each(stage, &stage.names, |volume, name| volume.remove(name)),
        },
        Operation {
            name: "remove",
            about: "removes one of up to 1,024 empty files",
            pace: Pace::Batches,
            bare_bytes: None,
            begin: with_files,
            step: |stage, _, turn| stage.volume.remove(&stage.names[turn.nth]),
            end: nothing,
        },
        Operation {
            name: "rename",
            about: "renames one of 1,024 empty files within its directory, to a name that is free",
            pace: Pace::Batches,
            bare_bytes: None,
            begin: with_files,
            step: |stage, _, turn| {
                let nth = turn.nth;
                (stage.volume).rename(&stage.names[nth], &stage.new_names[nth])
            },
            end: |stage| each(stage, &stage.new_names, |volume, name| volume.remove(name)),
        },
        Operation {
            name: "rename-across",
            about: "renames one of up to 1,024 empty files to another directory",
            pace: Pace::Batches,
            bare_bytes: None,
            begin: |stage| {
                stage.volume.create_dir(ELSEWHERE)?;
                with_files(stage)
            },
            step: |stage, _, turn| {
                let nth = turn.nth;
                (stage.volume).rename(&stage.names[nth], &stage.elsewhere[nth])
            },
            end: |stage| {
                each(stage, &stage.elsewhere, |volume, path| volume.remove(path))?;
                stage.volume.remove_dir(ELSEWHERE)
            },
        },
        Operation {
            name: CLEANING,
            about: "overwrites 4 KiB at random places of 8 MiB; the longest write shows how long cleaning stalls it",
            pace: Pace::EachTimed,
            bare_bytes: Some(PAGE),
            begin: hot,
            step: |stage, file, turn| {
                let pages = PAGES_APART / PAGE as u64;
                let page = killed::next(turn.nth as u64) % pages;
                file.write_at(&stage.data[..PAGE], page * PAGE as u64)
            },
            end: nothing,
        },
    ]
}

impl<P: Pmem, L: RawRangeLock> Stage<P, L> {
    /// Returns the stage on a volume that [`fill`](Self::fill) has filled.
    pub fn new(volume: Volume<P, L>) -> Self {
        let each_name = |before: &str| (0..BATCH).map(|nth| format!("{before}-{nth:04}")).collect();
        Stage {
            volume,
            names: each_name("file"),
            new_names: each_name("renamed"),
            elsewhere: each_name(&format!("{ELSEWHERE}/file")),
            data: vec![0x5a; MOST_BYTES],
        }
    }

    /// Creates the file that is overwritten, and writes it completely: 8 MiB for each thread.
    ///
    /// # Errors
    /// The volume is too small.
    pub fn fill(&self, threads: usize) -> Result<(), Error> {
        let file = self.volume.create(HOT)?;
        for at in (0..hot_bytes(threads)).step_by(self.data.len()) {
            file.write_at(&self.data, at)?;
        }
        Ok(())
    }
}

/// Returns the size of a volume for all operations with at most `threads` threads.
pub(super) fn volume_bytes(threads: usize) -> u64 {
    2 * hot_bytes(threads) + (64 << 20)
}

/// Returns the format of such a volume.
pub(super) fn format(threads: usize) -> FormatOptions {
    FormatOptions::new()
        .inodes(BATCH as u32 + 64)
        .max_file_size(hot_bytes(threads))
}

/// Returns the size of the file that is overwritten.
pub fn hot_bytes(threads: usize) -> u64 {
    threads as u64 * PAGES_APART
}

/// Returns where a thread overwrites.
fn place(turn: Turn) -> u64 {
    turn.worker as u64 * PAGES_APART
}

fn hot<P: Pmem, L: RawRangeLock>(stage: &Stage<P, L>) -> Result<File<P, L>, Error> {
    stage.volume.open_file(HOT)
}

fn nothing<P: Pmem, L: RawRangeLock>(_: &Stage<P, L>) -> Result<(), Error> {
    Ok(())
}

/// Creates the files that a batch removes or renames.
fn with_files<P: Pmem, L: RawRangeLock>(stage: &Stage<P, L>) -> Result<File<P, L>, Error> {
    each(stage, &stage.names, |volume, name| {
        volume.create(name).map(drop)
    })?;
    hot(stage)
}

fn each<P: Pmem, L: RawRangeLock>(
    stage: &Stage<P, L>,
    paths: &[String],
    of_one: impl Fn(&Volume<P, L>, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut paths = paths.iter();
    paths.try_for_each(|path| of_one(&stage.volume, path))
}

//! Our journal and our log, in files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use spanlock_journal_commit::jbd2::{
    CommitWay, Delay, Extent, Flushes, FormatOptions, Journal, Options, Place, format,
};
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use spanlock_journal_commit::{Storage, compact};

use super::medium::Medium;
use super::record::{Id, RECORD};
use crate::journal::calls;
use crate::journal::over::{Below, Over};
use crate::journal::peers::Peer;

/// Opens one of our contestants in a folder, on top of this medium.
pub(super) type Open = fn(&Path, &Arc<Medium>) -> Result<Box<dyn Peer>>;

/// A contestant of ours.
pub(super) struct OurKind {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) open: Open,
    pub(super) records: fn(&Path) -> Result<Vec<Vec<u8>>>,
}

pub(super) const KINDS: [OurKind; 3] = [
    OurKind {
        name: "jbd2-v3",
        about: "one block per record, two flushes per commit, cooperative with rendezvous; log and blocks in one file",
        open: |folder, medium| Blocks::open(folder, medium, Flushes::Two),
        records: blocks,
    },
    OurKind {
        name: "jbd2-v1-async",
        about: "the same with one flush per commit",
        open: |folder, medium| Blocks::open(folder, medium, Flushes::One),
        records: blocks,
    },
    OurKind {
        name: "compact",
        about: "one record per append, group commit with rendezvous",
        open: |folder, medium| Ok(Box::new(Records(log(storage(folder, medium, LOG_LEN)?)?))),
        records,
    },
];

const FILE: &str = "log";
const LOG_LEN: u64 = 1 << 20;

/// A file's writes and flushes reach the medium through libc. A durable write has no libc function,
/// so it calls the medium directly.
impl Below for Medium {
    fn write_fua(&self, file: &FileStorage, data: &[u8], offset: u64) -> io::Result<()> {
        let write = |data: &[u8], at| file.write_at(data, at).map(|()| data.len());
        calls::unseen(|| self.write_durably(Path::new(FILE), offset, data, &write))
    }
}

/// Opens or creates the file.
fn storage(folder: &Path, medium: &Arc<Medium>, len: u64) -> Result<Over<Medium>> {
    let path = folder.join(FILE);
    if !path.exists() {
        FileStorage::create(&path, len, FileMode::Buffered).context("creating the file")?;
    }
    Ok(Over::new(opened(folder)?, medium.clone()))
}

fn opened(folder: &Path) -> Result<FileStorage> {
    FileStorage::open(folder.join(FILE), FileMode::Buffered).context("opening the file")
}

struct Records<S: Storage>(compact::Log<S>);

impl<S: Storage> Peer for Records<S> {
    fn append_durable(&self, record: &[u8]) -> Result<()> {
        self.0.append_durable(record)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}

fn log<S: Storage>(storage: S) -> Result<compact::Log<S>> {
    let options = compact::Options::new();
    let mut start = [0; 8];
    storage.read_at(&mut start, 0)?;
    if start == [0; 8] {
        Ok(compact::Log::create(storage, &options)?)
    } else {
        Ok(compact::Log::open(storage, &options)?)
    }
}

fn records(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let log = compact::Log::open(opened(folder)?, &compact::Options::new())?;
    let records = log.records().map(|it| Ok(it?.data));
    records.collect()
}

const BLOCK: u32 = 1024;
/// One block for each possible record.
const HOME: u64 = (Id::THREADS * Id::RECORDS) as u64;
/// Few enough that the log wraps around during a run and blocks are written home.
const LOG_BLOCKS: u64 = 64;

struct Blocks(Journal);

impl Blocks {
    fn open(folder: &Path, medium: &Arc<Medium>, flushes: Flushes) -> Result<Box<dyn Peer>> {
        let is_new = !folder.join(FILE).exists();
        let len = (HOME + LOG_BLOCKS) * u64::from(BLOCK);
        let storage = Arc::new(storage(folder, medium, len)?);
        if is_new {
            let options = FormatOptions::new(BLOCK).place(place()).flushes(flushes);
            format(storage.clone(), &options)?;
        }
        Ok(Box::new(Blocks(journal(storage)?)))
    }
}

impl Peer for Blocks {
    fn append_durable(&self, record: &[u8]) -> Result<()> {
        let id = Id::of(record).context("not a numbered record")?;
        let handle = self.0.begin(1)?;
        let mut block = handle.get_write(id.place())?;
        block[..RECORD].copy_from_slice(record);
        block.dirty()?;
        handle.stop_durable()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}

fn place() -> Place {
    Place::extents([Extent {
        first: HOME,
        blocks: LOG_BLOCKS,
    }])
}

fn journal(storage: Arc<impl Storage + 'static>) -> Result<Journal> {
    let options = Options::new(BLOCK).place(place());
    let options = options
        .way(CommitWay::Cooperative)
        .run_bytes(1)
        .delay(Delay::Rendezvous);
    Ok(Journal::open(storage.clone(), storage, options)?)
}

/// Returns every block that is not empty.
fn blocks(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let journal = journal(Arc::new(opened(folder)?))?;
    let mut block = vec![0; BLOCK as usize];
    let mut records = Vec::new();
    for number in 0..HOME {
        journal.read(number, &mut block)?;
        if block.iter().any(|byte| *byte != 0) {
            records.push(block[..RECORD].to_vec());
        }
    }
    Ok(records)
}

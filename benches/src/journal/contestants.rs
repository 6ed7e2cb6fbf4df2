//! The contestants for durable records, behind one trait: our block journal with each of its commit
//! modes, our compact log, and the [logs of other projects](super::peers).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{self, GroupCommit, Log, Lsn};
use spanlock_journal_commit::jbd2::{
    self, CommitWay, Delay, Flushes, FormatOptions, Journal, Options,
};
use tempfile::TempDir;

use super::calls::{self, Watch};
use super::devices::{DIRECT, Device, MODELLED_WRITES};
use super::meter::{Meter, Metered};
use super::peers::{PEERS, Peer};
use super::queued::QueuedStorage;
use super::rows::COUNTS;

/// Bytes in a record.
pub const RECORD: usize = 256;
/// Bytes in a block.
pub const BLOCK: u32 = 4096;
/// Bytes in one of our logs.
pub const LOG: u64 = 16 << 20;
/// The contestant that submits its writes without waiting for each.
pub const SERIAL_QUEUED: &str = "serial-queued";
/// The most blocks that a commit changes.
const MOST: u64 = COUNTS[COUNTS.len() - 1];
/// JBD2's longest delay.
const PIGGYBACK: Delay = Delay::Piggyback(Duration::from_millis(15));

/// A contestant that can be measured.
#[derive(Clone, Copy)]
pub struct Contestant {
    /// The name for selection and reports.
    pub name: &'static str,
    /// A description.
    pub about: &'static str,
    way: Way,
}

#[derive(Clone, Copy)]
enum Way {
    Blocks(CommitWay, Delay, Flushes),
    /// Cooperative, with runs of a block each.
    SmallRuns(Delay),
    /// As `serial`, on a file whose writes are queued.
    Queued,
    Compact(GroupCommit),
    Peer(usize),
}

const fn contestant(name: &'static str, about: &'static str, way: Way) -> Contestant {
    Contestant { name, about, way }
}

/// All contestants, in the order in which they are reported. Each of the first nine differs in one
/// setting from the contestant named in its description.
pub const CONTESTANTS: [Contestant; 14] = [
    contestant(
        "serial",
        "block journal: one thread prepares everything, then writes block by block; piggyback delay, two flushes, as in Linux",
        Way::Blocks(CommitWay::Serial, PIGGYBACK, Flushes::Two),
    ),
    contestant(
        SERIAL_QUEUED,
        "serial, but each block is submitted without waiting for it (io_uring), as in Linux; on disk-direct only, because the other devices never wait",
        Way::Queued,
    ),
    contestant(
        "coalesced",
        "serial, but adjacent blocks are written together",
        Way::Blocks(CommitWay::Coalesced, PIGGYBACK, Flushes::Two),
    ),
    contestant(
        "cooperative",
        "serial, but the waiting threads write the prepared blocks in parallel",
        Way::Blocks(CommitWay::Cooperative, PIGGYBACK, Flushes::Two),
    ),
    contestant(
        "cooperative-on-the-fly",
        "cooperative, but without the delay",
        Way::Blocks(CommitWay::Cooperative, Delay::OnTheFly, Flushes::Two),
    ),
    contestant(
        "cooperative-4k",
        "cooperative, but each waiting thread writes a block of 4 KiB at a time, and not a run of 512 KiB, so that small commits are written in parallel, too",
        Way::SmallRuns(PIGGYBACK),
    ),
    contestant(
        "cooperative-on-the-fly-4k",
        "cooperative-4k, but without the delay",
        Way::SmallRuns(Delay::OnTheFly),
    ),
    contestant(
        "cooperative-rendezvous",
        "cooperative-on-the-fly, but a commit waits for the threads that the last commit woke, if that pays off",
        Way::Blocks(CommitWay::Cooperative, Delay::Rendezvous, Flushes::Two),
    ),
    contestant(
        "one-flush",
        "cooperative-on-the-fly, but checksums replace the first of the two flushes",
        Way::Blocks(CommitWay::Cooperative, Delay::OnTheFly, Flushes::One),
    ),
    contestant(
        "compact",
        "compact log of records with plain group commit",
        Way::Compact(GroupCommit::Plain),
    ),
    contestant(
        "compact-rendezvous",
        "compact, but a leader waits for the threads that the last flush woke, if that pays off",
        Way::Compact(GroupCommit::Rendezvous),
    ),
    contestant("okaywal", PEERS[0].about, Way::Peer(0)),
    contestant("raft-engine", PEERS[1].about, Way::Peer(1)),
    contestant("wal-db", PEERS[2].about, Way::Peer(2)),
];

/// Returns the contestant of this name.
pub fn find(name: &str) -> Option<&'static Contestant> {
    CONTESTANTS.iter().find(|it| it.name == name)
}

impl Contestant {
    /// Returns whether it is a block journal.
    pub fn has_blocks(&self) -> bool {
        matches!(self.way, Way::Blocks(..) | Way::SmallRuns(_) | Way::Queued)
    }

    /// Returns whether it is measured on the device of this name.
    pub fn is_on(&self, device: &str) -> bool {
        match self.way {
            Way::Queued => device == DIRECT && QueuedStorage::is_available(),
            _ => ![DIRECT, MODELLED_WRITES].contains(&device) || self.has_blocks(),
        }
    }

    /// Returns the crate's name and version if the contestant is another project's log.
    pub fn of_others(&self) -> Option<String> {
        let Way::Peer(place) = self.way else {
            return None;
        };
        Some(format!("{} {}", PEERS[place].name, PEERS[place].version))
    }

    /// Creates it for a workload with at most `threads` threads.
    ///
    /// # Errors
    /// Its files cannot be created.
    pub fn make(&self, device: &Device, workload: &str, threads: usize) -> Result<Made> {
        let of_workload = device.folder(&format!("{workload}-{}", self.name))?;
        let folder = of_workload.path();
        let meter = device.meter();
        let mut watch = None;
        let commits: Box<dyn Commits> = match self.way {
            Way::Blocks(..) | Way::SmallRuns(_) | Way::Queued => {
                let blocks = threads as u64 * MOST;
                let journal = self.journal(device, folder, &meter, blocks)?;
                Box::new(Blocks {
                    journal,
                    blocks,
                    acknowledged: AtomicU64::new(0),
                })
            }
            Way::Compact(group_commit) => {
                let path = folder.join("log");
                let storage = device.file(&path, LOG, &meter)?;
                let options = compact::Options::new().group_commit(group_commit);
                Box::new(Records {
                    log: Log::create(storage, &options)?,
                    path,
                    meter: meter.clone(),
                    acknowledged: AtomicU64::new(0),
                })
            }
            Way::Peer(place) => {
                watch = Some(calls::watch(folder, meter.clone())?);
                Box::new(Foreign((PEERS[place].open)(folder)?))
            }
        };
        Ok(Made {
            commits,
            meter,
            _watch: watch,
            _folder: of_workload,
        })
    }

    /// Creates a separate block journal for this many blocks.
    ///
    /// # Errors
    /// Its files cannot be created, or the contestant is not a block journal.
    pub fn journal(
        &self,
        device: &Device,
        folder: &Path,
        meter: &Arc<Meter>,
        blocks: u64,
    ) -> Result<Journal> {
        let (way, delay, flushes) = match self.way {
            Way::Blocks(way, delay, flushes) => (way, delay, flushes),
            Way::SmallRuns(delay) => (CommitWay::Cooperative, delay, Flushes::Two),
            Way::Queued => (CommitWay::Serial, PIGGYBACK, Flushes::Two),
            _ => bail!("{} is not a block journal", self.name),
        };
        let file = |name, len| -> Result<Arc<dyn Storage>> {
            let path = folder.join(name);
            Ok(match self.way {
                Way::Queued => Arc::new(device.queued_file(&path, len, meter)?),
                _ => Arc::new(device.file(&path, len, meter)?),
            })
        };
        let log = file("log", LOG)?;
        let home = file("home", blocks * u64::from(BLOCK))?;
        jbd2::format(log.clone(), &FormatOptions::new(BLOCK).flushes(flushes))?;
        let mut options = Options::new(BLOCK).way(way).delay(delay);
        if let Way::SmallRuns(_) = self.way {
            options = options.run_bytes(BLOCK as usize);
        }
        Ok(Journal::open(log, home, options)?)
    }
}

/// A contestant that is ready to run.
pub struct Made {
    /// The contestant.
    pub commits: Box<dyn Commits>,
    /// Its flushes.
    pub meter: Arc<Meter>,
    /// Keeps other projects' flushes metered while it exists.
    _watch: Option<Watch>,
    /// The files of the contestant, which drop last.
    _folder: TempDir,
}

/// A contestant as its threads use it.
pub trait Commits: Send + Sync {
    /// Makes one change durable, on behalf of thread number `thread`. In a block journal, the
    /// change has this many blocks, at most 64; other contestants ignore the number.
    ///
    /// # Errors
    /// The contestant's error.
    fn commit(&self, thread: usize, blocks: u64) -> Result<()>;

    /// Frees space between rounds.
    ///
    /// # Errors
    /// The contestant's error.
    fn tidy(&self) -> Result<()> {
        Ok(())
    }

    /// Ends the contestant. Checks, where possible, that everything acknowledged is present.
    ///
    /// # Errors
    /// Something is missing, or the contestant's error.
    fn end(self: Box<Self>, device: &Device) -> Result<()>;
}

/// A journal with blocks for each thread. Each block holds the number of commits that changed it.
struct Blocks {
    journal: Journal,
    blocks: u64,
    acknowledged: AtomicU64,
}

impl Commits for Blocks {
    fn commit(&self, thread: usize, blocks: u64) -> Result<()> {
        let mut handle = self.journal.begin(blocks as u32)?;
        for block in 0..blocks {
            count(&mut handle, thread as u64 * MOST + block)?;
        }
        handle.stop_durable()?;
        // Relaxed: read after the threads are joined.
        self.acknowledged.fetch_add(blocks, Ordering::Relaxed);
        Ok(())
    }

    fn end(self: Box<Self>, _: &Device) -> Result<()> {
        let mut sum = 0;
        let mut block = vec![0; BLOCK as usize];
        for number in 0..self.blocks {
            self.journal.read(number, &mut block)?;
            sum += u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
        }
        check(sum, self.acknowledged.into_inner())?;
        Ok(self.journal.close()?)
    }
}

/// Adds one to the number in a block.
///
/// # Errors
/// The journal's error.
pub fn count(handle: &mut jbd2::Handle<'_>, number: u64) -> Result<(), jbd2::Error> {
    let mut block = handle.get_write(number)?;
    let counter = u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
    block[..8].copy_from_slice(&(counter + 1).to_le_bytes());
    block.dirty()
}

struct Records {
    log: Log<Metered>,
    path: PathBuf,
    meter: Arc<Meter>,
    acknowledged: AtomicU64,
}

impl Records {
    fn truncate(&self) -> Result<()> {
        Ok(self.log.truncate(self.log.durable().next())?)
    }
}

impl Commits for Records {
    fn commit(&self, _: usize, _: u64) -> Result<()> {
        let record = [7; RECORD];
        while let Err(error) = self.log.append_durable(&record) {
            ensure!(matches!(error, compact::Error::Full { .. }), error);
            self.truncate()?;
        }
        // Relaxed: read after the threads are joined.
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn tidy(&self) -> Result<()> {
        if self.log.free() < LOG / 2 {
            self.truncate()?;
        }
        Ok(())
    }

    fn end(self: Box<Self>, device: &Device) -> Result<()> {
        self.log.close()?;
        let storage = device.file_again(&self.path, &self.meter)?;
        let log = Log::open(storage, &compact::Options::new())?;
        let acknowledged = self.acknowledged.into_inner();
        ensure!(
            log.durable() == Lsn::new(acknowledged),
            "{acknowledged} records were acknowledged, but the log ends at {:?}",
            log.durable()
        );
        Ok(())
    }
}

fn check(found: u64, acknowledged: u64) -> Result<()> {
    ensure!(
        found == acknowledged,
        "{acknowledged} commits were acknowledged, but {found} were found"
    );
    Ok(())
}

struct Foreign(Box<dyn Peer>);

impl Commits for Foreign {
    fn commit(&self, _: usize, _: u64) -> Result<()> {
        self.0.append_durable(&[7; RECORD])
    }

    fn tidy(&self) -> Result<()> {
        self.0.tidy()
    }

    fn end(self: Box<Self>, _: &Device) -> Result<()> {
        self.0.close()
    }
}

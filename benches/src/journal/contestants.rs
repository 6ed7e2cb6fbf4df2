//! Whoever makes records durable, behind one trait: our journal of blocks in its ways to commit, our compact log, and what [others make](super::peers).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use spanlock_journal_commit::compact::{self, GroupCommit, Log, Lsn};
use spanlock_journal_commit::jbd2::{
    self, CommitWay, Delay, Flushes, FormatOptions, Journal, Options,
};

use super::calls::{self, Watch};
use super::devices::Device;
use super::meter::{Meter, Metered};
use super::peers::{PEERS, Peer};

/// Bytes of a record.
pub const RECORD: usize = 256;
/// Bytes of a block.
pub const BLOCK: u32 = 4096;
/// Bytes of a log of ours.
pub const LOG: u64 = 16 << 20;
/// JBD2's longest delay.
const PIGGYBACK: Delay = Delay::Piggyback(Duration::from_millis(15));

/// Who is measured.
#[derive(Clone, Copy)]
pub struct Contestant {
    /// As it is chosen and reported.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    way: Way,
}

#[derive(Clone, Copy)]
enum Way {
    Blocks(CommitWay, Delay, Flushes),
    Compact(GroupCommit),
    Peer(usize),
}

const fn contestant(name: &'static str, about: &'static str, way: Way) -> Contestant {
    Contestant { name, about, way }
}

/// All, in the order in which they are reported. Each of the first six differs from the one that it names in one switch.
pub const CONTESTANTS: [Contestant; 11] = [
    contestant(
        "serial",
        "journal of blocks: a thread prepares all, then writes block by block; piggyback delay, two flushes, as in Linux",
        Way::Blocks(CommitWay::Serial, PIGGYBACK, Flushes::Two),
    ),
    contestant(
        "coalesced",
        "serial, but what lies together is one write",
        Way::Blocks(CommitWay::Coalesced, PIGGYBACK, Flushes::Two),
    ),
    contestant(
        "cooperative",
        "serial, but those who wait write, in parallel, what is prepared",
        Way::Blocks(CommitWay::Cooperative, PIGGYBACK, Flushes::Two),
    ),
    contestant(
        "cooperative-on-the-fly",
        "cooperative, but without a delay",
        Way::Blocks(CommitWay::Cooperative, Delay::OnTheFly, Flushes::Two),
    ),
    contestant(
        "cooperative-rendezvous",
        "cooperative-on-the-fly, but a commit waits for those whom the last one woke, if that pays",
        Way::Blocks(CommitWay::Cooperative, Delay::Rendezvous, Flushes::Two),
    ),
    contestant(
        "one-flush",
        "cooperative-on-the-fly, but checksums stand in for the first of the two flushes",
        Way::Blocks(CommitWay::Cooperative, Delay::OnTheFly, Flushes::One),
    ),
    contestant(
        "compact",
        "compact log of records, plain group commit",
        Way::Compact(GroupCommit::Plain),
    ),
    contestant(
        "compact-rendezvous",
        "compact, but a leader waits for those whom the last flush woke, if that pays",
        Way::Compact(GroupCommit::Rendezvous),
    ),
    contestant("okaywal", PEERS[0].about, Way::Peer(0)),
    contestant("raft-engine", PEERS[1].about, Way::Peer(1)),
    contestant("wal-db", PEERS[2].about, Way::Peer(2)),
];

/// The contestant of this name.
pub fn find(name: &str) -> Option<&'static Contestant> {
    CONTESTANTS.iter().find(|it| it.name == name)
}

impl Contestant {
    /// Whether it is the journal of blocks.
    pub fn has_blocks(&self) -> bool {
        matches!(self.way, Way::Blocks(..))
    }

    /// Crate and version, if others make it.
    pub fn of_others(&self) -> Option<String> {
        let Way::Peer(place) = self.way else {
            return None;
        };
        Some(format!("{} {}", PEERS[place].name, PEERS[place].version))
    }

    /// Makes it, for at most so many threads.
    ///
    /// # Errors
    /// Its files cannot be made.
    pub fn make(&self, device: &Device, threads: usize) -> Result<Made> {
        let folder = device.folder(self.name)?;
        let meter = device.meter();
        let mut watch = None;
        let commits: Box<dyn Commits> = match self.way {
            Way::Blocks(..) => {
                let blocks = (threads as u64).max(16);
                let journal = self.journal(device, &folder, &meter, blocks)?;
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
                watch = Some(calls::watch(&folder, meter.clone())?);
                Box::new(Foreign((PEERS[place].open)(&folder)?))
            }
        };
        Ok(Made {
            commits,
            meter,
            _watch: watch,
        })
    }

    /// A journal of blocks of its own, for so many blocks.
    ///
    /// # Errors
    /// Its files cannot be made; it is no journal of blocks.
    pub fn journal(
        &self,
        device: &Device,
        folder: &std::path::Path,
        meter: &Arc<Meter>,
        blocks: u64,
    ) -> Result<Journal> {
        let Way::Blocks(way, delay, flushes) = self.way else {
            bail!("{} is no journal of blocks", self.name);
        };
        let log = Arc::new(device.file(&folder.join("log"), LOG, meter)?);
        let home = device.file(&folder.join("home"), blocks * u64::from(BLOCK), meter)?;
        jbd2::format(log.clone(), &FormatOptions::new(BLOCK).flushes(flushes))?;
        let options = Options::new(BLOCK).way(way).delay(delay);
        Ok(Journal::open(log, home, options)?)
    }
}

/// A contestant, ready.
pub struct Made {
    /// It.
    pub commits: Box<dyn Commits>,
    /// Its flushes.
    pub meter: Arc<Meter>,
    /// While this lives, others' flushes are metered.
    _watch: Option<Watch>,
}

/// A contestant as a thread sees it.
pub trait Commits: Send + Sync {
    /// Makes something of thread number `thread` durable.
    ///
    /// # Errors
    /// What the contestant says.
    fn commit(&self, thread: usize) -> Result<()>;

    /// Makes room, between rounds.
    ///
    /// # Errors
    /// What the contestant says.
    fn tidy(&self) -> Result<()> {
        Ok(())
    }

    /// Ends it, and looks whether all that was acknowledged is there, where that can be known.
    ///
    /// # Errors
    /// Something is missing; or what the contestant says.
    fn end(self: Box<Self>, device: &Device) -> Result<()>;
}

/// A block for each thread, which counts.
struct Blocks {
    journal: Journal,
    blocks: u64,
    acknowledged: AtomicU64,
}

impl Commits for Blocks {
    fn commit(&self, thread: usize) -> Result<()> {
        let mut handle = self.journal.begin(1)?;
        count(&mut handle, thread as u64)?;
        handle.stop_durable()?;
        // Relaxed: read when the threads are joined.
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
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
/// The journal's.
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
    fn commit(&self, _: usize) -> Result<()> {
        let record = [7; RECORD];
        while let Err(error) = self.log.append_durable(&record) {
            ensure!(matches!(error, compact::Error::Full { .. }), error);
            self.truncate()?;
        }
        // Relaxed: read when the threads are joined.
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
            "of {acknowledged} records that were acknowledged, the log has up to {:?}",
            log.durable()
        );
        Ok(())
    }
}

fn check(found: u64, acknowledged: u64) -> Result<()> {
    ensure!(
        found == acknowledged,
        "{acknowledged} commits were acknowledged, and {found} are there"
    );
    Ok(())
}

struct Foreign(Box<dyn Peer>);

impl Commits for Foreign {
    fn commit(&self, _: usize) -> Result<()> {
        self.0.append_durable(&[7; RECORD])
    }

    fn tidy(&self) -> Result<()> {
        self.0.tidy()
    }

    fn end(self: Box<Self>, _: &Device) -> Result<()> {
        self.0.close()
    }
}

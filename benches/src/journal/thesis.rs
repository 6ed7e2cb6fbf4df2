//! The patterns in chapter 4 of H. Cui's thesis (Seoul National University, 2018), applied to our
//! journal, with the thesis' own figures.
//!
//! In the thesis, clients of Lustre write through two object servers, which force a journal commit
//! for each write. Here a server is a block journal and a data file, and both servers share one
//! device. A client first writes its data, bypassing the page cache if the device is a disk. It
//! then commits a handle durably that changes three blocks: the file's inode (in a block shared
//! with fifteen others), its bitmap, and the group descriptors of all files. A file's part on a
//! server is 2 MiB that are overwritten repeatedly, so nothing is allocated.
//!
//! | pattern | clients' files | sequential writes of |
//! |---|---|---|
//! | `fio` (Figures 4.1, 4.2; Table 3.1) | one file each, on alternating servers | 4 to 64 KiB |
//! | `ior` (Figure 4.3) | one file each, in stripes of 1 MiB over both servers | 4 KiB |
//!
//! The available text of the thesis lacks its figures; the list of
//! [published numbers](crate::papers::published) has those that the text states. The text does not
//! say how many threads Table 3.1 used; this module uses eight.

mod pattern;
mod said;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{Journal, Stats};
use tempfile::TempDir;

use super::contestants::{Contestant, count};
use super::devices::Device;
use super::load::{self, Figures, Load};
use super::meter::{Meter, Metered};
use super::rows::{Row, Transfers};

pub use pattern::{FIO, IOR, Pattern, SMALL, patterns};
pub use said::{Comparison, Measure, comparisons, ours};

/// The number of servers, as in the thesis.
const SERVERS: usize = 2;
const STRIPE: u64 = 1 << 20;
/// Bytes of a file on one server.
const REGION: u64 = 2 << 20;

/// A contestant with both of its servers.
pub(super) struct Servers {
    contestant: &'static Contestant,
    servers: Vec<Server>,
    clients: usize,
    /// The number of writes of each client.
    written: Vec<AtomicU64>,
}

struct Server {
    journal: Journal,
    data: Arc<Metered>,
    meter: Arc<Meter>,
    _folder: TempDir,
}

/// The servers' data files, which the contestants share.
pub(super) struct Data {
    files: Vec<Arc<Metered>>,
    _folder: TempDir,
}

impl Data {
    /// Creates the files.
    ///
    /// # Errors
    /// The files cannot be created.
    pub(super) fn make(device: &Device, clients: usize) -> Result<Self> {
        let folder = device.folder("thesis-data")?;
        let file = |server: usize| {
            let path = folder.path().join(server.to_string());
            let len = clients as u64 * REGION;
            Ok(Arc::new(device.direct_file(&path, len, &device.meter())?))
        };
        Ok(Data {
            files: (0..SERVERS).map(file).collect::<Result<_>>()?,
            _folder: folder,
        })
    }
}

impl Servers {
    /// Creates the servers.
    ///
    /// # Errors
    /// Their files cannot be created.
    pub(super) fn make(
        contestant: &'static Contestant,
        device: &Device,
        data: &Data,
        clients: usize,
    ) -> Result<Self> {
        // Group descriptors, bitmaps, inodes.
        let blocks = 1 + clients + clients.div_ceil(16);
        let server = |(number, data): (usize, &Arc<Metered>)| {
            let folder = device.folder(&format!("thesis-{}-{number}", contestant.name))?;
            let meter = device.meter();
            Ok(Server {
                journal: contestant.journal(device, folder.path(), &meter, blocks as u64)?,
                data: data.clone(),
                meter,
                _folder: folder,
            })
        };
        Ok(Servers {
            contestant,
            servers: data
                .files
                .iter()
                .enumerate()
                .map(server)
                .collect::<Result<_>>()?,
            clients,
            written: (0..clients).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Runs one round and adds its transactions to `stats`.
    ///
    /// # Errors
    /// A write or a commit fails.
    pub(super) fn round(
        &self,
        pattern: Pattern,
        time: Duration,
        figures: &mut Figures,
        stats: &mut Transactions,
    ) -> Result<()> {
        let load = Load {
            threads: pattern.clients,
            think: Duration::ZERO,
            time,
        };
        let content = vec![7; pattern.block_bytes as usize];
        let meters: Vec<_> = self.servers.iter().map(|it| &*it.meter).collect();
        let mut seen = Vec::new();
        let write = |client| self.write(pattern, client, &content);
        let counted = || seen.push(self.stats());
        load::round(load, write, &meters, counted, figures)?;
        for (before, after) in seen[0].iter().zip(&seen[1]) {
            stats.add(before, after);
        }
        Ok(())
    }

    fn stats(&self) -> Vec<Stats> {
        self.servers.iter().map(|it| it.journal.stats()).collect()
    }

    /// Performs a client's next write.
    fn write(&self, pattern: Pattern, client: usize, content: &[u8]) -> Result<()> {
        // Relaxed: only this client accesses it.
        let nth = self.written[client].fetch_add(1, Ordering::Relaxed);
        let at = nth * pattern.block_bytes;
        let stripe = if pattern.workload == IOR {
            at / STRIPE
        } else {
            0
        };
        let server = &self.servers[(client + stripe as usize) % SERVERS];
        let offset = client as u64 * REGION + at % REGION;
        server.data.write_at(content, offset)?;
        let mut handle = server.journal.begin(3)?;
        let inode = 1 + self.clients + client / 16;
        for block in [inode, 1 + client, 0] {
            count(&mut handle, block as u64)?;
        }
        handle.stop_durable()?;
        Ok(())
    }

    pub(super) fn row(
        &self,
        pattern: Pattern,
        device: &'static str,
        figures: &Figures,
        stats: &Transactions,
    ) -> Row {
        let who = (self.contestant.name, None);
        let load = (pattern.clients, None, None);
        let mut row = Row::new(pattern.workload, who, device, load, figures);
        let all = stats.draining + stats.committing;
        row.transfers = Some(Transfers {
            block_bytes: pattern.block_bytes,
            mb_per_s: row.commits_per_s * pattern.block_bytes as f64 / 1e6,
            transactions_per_write: (figures.commits() > 0)
                .then(|| stats.commits as f64 / figures.commits() as f64),
            startup_delay: (!all.is_zero())
                .then(|| 100.0 * stats.draining.as_secs_f64() / all.as_secs_f64()),
        });
        row
    }

    pub(super) fn end(self) -> Result<()> {
        for server in self.servers {
            server.journal.close()?;
        }
        Ok(())
    }
}

/// The work of both servers' journals during the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transactions {
    commits: u64,
    draining: Duration,
    committing: Duration,
}

impl Transactions {
    fn add(&mut self, before: &Stats, after: &Stats) {
        self.commits += after.commits - before.commits;
        self.draining += after.draining - before.draining;
        self.committing += after.committing - before.committing;
    }
}

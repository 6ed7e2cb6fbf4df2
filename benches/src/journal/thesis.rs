//! The patterns of H. Cui's thesis (Seoul National University, 2018), chapter 4, on our journal; and what it says of them.
//!
//! There, clients of Lustre write through two object servers, each of which forces a journal commit for each write. Here a server is a journal of blocks and a file of
//! data on one device, both servers on the same. A write of a client is: the data, past the page cache if there is a disk; then a handle that changes three blocks
//! (the file's inode, which shares its block with fifteen others, its bitmap, and the group descriptors of all files), durably. A file's part on a server is written over
//! and over, 2 MiB of it, so that nothing is allocated.
//!
//! | pattern | clients | their writes |
//! |---|---|---|
//! | `fio` (Figures 4.1, 4.2; Table 3.1) | a file each, on one server, in turn | one after the other, of 4 KiB to 64 KiB |
//! | `ior` (Figure 4.3) | a file each, in stripes of 1 MiB over both servers | one after the other, of 4 KiB |
//!
//! Its figures are missing in the text that is to be had; what the text says of them is in [`SAID`]. How many threads Table 3.1 had is not said; here eight.

mod said;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{Journal, Stats};

use super::contestants::{Contestant, count};
use super::devices::Device;
use super::load::{self, Figures, Load};
use super::meter::{Meter, Metered};
use super::rows::{Row, Transfers};

pub use said::{Comparison, Measure, SAID, Said, comparisons};

/// Each client has its file on one server.
pub const FIO: &str = "fio";
/// Each client has its file on both.
pub const IOR: &str = "ior";

/// Of the thesis.
const SERVERS: usize = 2;
const STRIPE: u64 = 1 << 20;
/// Of a file on a server.
const REGION: u64 = 2 << 20;
/// Bytes of a write where nothing else is said.
pub const SMALL: u64 = 4 << 10;
/// Figure 4.2's axis is not to be had.
const SIZES: [u64; 5] = [SMALL, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Of Table 3.1 and Figure 4.2.
const CLIENTS: usize = 8;

/// One load of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// [`FIO`] or [`IOR`].
    pub workload: &'static str,
    /// Each a thread.
    pub clients: usize,
    /// Bytes of a write.
    pub block_bytes: u64,
}

/// The loads of these patterns, with so many clients; block sizes with eight, or the most below.
pub fn patterns(workloads: &[&'static str], clients: &[usize]) -> Vec<Pattern> {
    let below = clients.iter().copied().filter(|&it| it <= CLIENTS).max();
    let sized = below.or(clients.iter().copied().min());
    let mut all = Vec::new();
    for &workload in workloads.iter().filter(|it| [FIO, IOR].contains(it)) {
        for &clients in clients {
            let sizes = if workload == FIO && sized == Some(clients) {
                &SIZES[..]
            } else {
                &SIZES[..1]
            };
            all.extend(sizes.iter().map(|&block_bytes| Pattern {
                workload,
                clients,
                block_bytes,
            }));
        }
    }
    all
}

/// A contestant with both of its servers.
pub(super) struct Servers {
    contestant: &'static Contestant,
    servers: Vec<Server>,
    clients: usize,
    /// Writes of each client.
    written: Vec<AtomicU64>,
}

struct Server {
    journal: Journal,
    data: Arc<Metered>,
    meter: Arc<Meter>,
}

/// The servers' files of data, which the contestants share.
///
/// # Errors
/// They cannot be made.
pub(super) fn data(device: &Device, clients: usize) -> Result<Vec<Arc<Metered>>> {
    let folder = device.folder("data")?;
    let file = |server: usize| {
        let path = folder.join(server.to_string());
        let len = clients as u64 * REGION;
        Ok(Arc::new(device.direct_file(&path, len, &device.meter())?))
    };
    (0..SERVERS).map(file).collect()
}

impl Servers {
    /// Makes them.
    ///
    /// # Errors
    /// Their files cannot be made.
    pub(super) fn make(
        contestant: &'static Contestant,
        device: &Device,
        data: &[Arc<Metered>],
        clients: usize,
    ) -> Result<Self> {
        // Group descriptors, bitmaps, inodes.
        let blocks = 1 + clients + clients.div_ceil(16);
        let server = |(number, data): (usize, &Arc<Metered>)| {
            let folder = device.folder(&format!("{}-server-{number}", contestant.name))?;
            let meter = device.meter();
            Ok(Server {
                journal: contestant.journal(device, &folder, &meter, blocks as u64)?,
                data: data.clone(),
                meter,
            })
        };
        Ok(Servers {
            contestant,
            servers: data.iter().enumerate().map(server).collect::<Result<_>>()?,
            clients,
            written: (0..clients).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// One round; the transactions of it are added to `stats`.
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

    /// A client's next write.
    fn write(&self, pattern: Pattern, client: usize, content: &[u8]) -> Result<()> {
        // Relaxed: the client's own.
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
        let load = (pattern.clients, None);
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

/// What the journals of both servers did in rounds.
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

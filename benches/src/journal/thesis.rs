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

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use spanlock_journal::Storage;
use spanlock_journal::jbd2::{Journal, Stats};

use super::contestants::{Contestant, count};
use super::devices::Device;
use super::load::{self, Figures, Load};
use super::meter::{Meter, Metered};
use super::rows::{Row, Transfers};

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

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes a second, times those of `serial` under the same load.
    Throughput,
    /// Transactions for as many writes, times those of `serial`.
    Transactions,
    /// Percent.
    StartupDelay,
}

/// A figure of the thesis, and what there is of it.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Table or figure.
    pub place: &'static str,
    /// Which load.
    pub pattern: Pattern,
    /// Ours that stands for the thesis' system.
    pub contestant: &'static str,
    /// What is compared.
    pub measure: Measure,
    /// What the thesis says.
    pub thesis: f64,
}

const fn said(
    place: &'static str,
    (workload, clients): (&'static str, usize),
    contestant: &'static str,
    measure: Measure,
    thesis: f64,
) -> Said {
    Said {
        place,
        pattern: Pattern {
            workload,
            clients,
            block_bytes: SMALL,
        },
        contestant,
        measure,
        thesis,
    }
}

const EXISTING: &str = "serial";
const PARALLEL: &str = "cooperative";
const OPTIMIZED: &str = "cooperative-on-the-fly";

/// All that its text and tables say in numbers. "Existing", "Parallel" and "Optimized Lustre" are our `serial`, `cooperative` and `cooperative-on-the-fly`.
pub const SAID: [Said; 13] = [
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        PARALLEL,
        Measure::Transactions,
        68435.0 / 50780.0,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        OPTIMIZED,
        Measure::Transactions,
        76547.0 / 50780.0,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        PARALLEL,
        Measure::Throughput,
        19.4 / 16.7,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        OPTIMIZED,
        Measure::Throughput,
        21.1 / 16.7,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        EXISTING,
        Measure::StartupDelay,
        13.9,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        PARALLEL,
        Measure::StartupDelay,
        13.8,
    ),
    said(
        "Table 3.1",
        (FIO, CLIENTS),
        OPTIMIZED,
        Measure::StartupDelay,
        5.9,
    ),
    said("Figure 4.1", (FIO, 8), PARALLEL, Measure::Throughput, 1.22),
    said("Figure 4.1", (FIO, 8), OPTIMIZED, Measure::Throughput, 1.3),
    said(
        "Figure 4.3",
        (IOR, 2),
        OPTIMIZED,
        Measure::Throughput,
        1.301,
    ),
    said(
        "Figure 4.3",
        (IOR, 4),
        OPTIMIZED,
        Measure::Throughput,
        1.202,
    ),
    said(
        "Figure 4.3",
        (IOR, 8),
        OPTIMIZED,
        Measure::Throughput,
        1.221,
    ),
    said(
        "Figure 4.3",
        (IOR, 16),
        OPTIMIZED,
        Measure::Throughput,
        1.232,
    ),
];

/// One comparison: what the thesis says, if it does, and what this run has on each device, if it has.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Table or figure.
    pub place: &'static str,
    /// Which load.
    pub pattern: Pattern,
    /// Which contestant.
    pub contestant: &'static str,
    /// What is compared.
    pub measure: Measure,
    /// What the thesis says.
    pub thesis: Option<f64>,
    /// By device.
    pub ours: Vec<Option<f64>>,
}

/// All comparisons that a run has something for: what the thesis says, then the loads of its figures that it gives no numbers for.
pub fn comparisons(rows: &[Row], devices: &[&'static str]) -> Vec<Comparison> {
    let mut all: Vec<Comparison> = Vec::new();
    let mut add = |place, pattern, contestant, measure, thesis| {
        let same = |it: &Comparison| {
            (it.place, it.pattern, it.contestant, it.measure)
                == (place, pattern, contestant, measure)
        };
        if all.iter().any(same) {
            return;
        }
        let ours: Vec<_> = devices
            .iter()
            .map(|device| measured(rows, device, pattern, contestant, measure))
            .collect();
        if ours.iter().any(Option::is_some) {
            all.push(Comparison {
                place,
                pattern,
                contestant,
                measure,
                thesis,
                ours,
            });
        }
    };
    for said in &SAID {
        let Said {
            place,
            pattern,
            contestant,
            measure,
            thesis,
        } = *said;
        add(place, pattern, contestant, measure, Some(thesis));
    }
    for row in rows.iter().filter(|it| it.contestant != EXISTING) {
        let Some(pattern) = pattern_of(row) else {
            continue;
        };
        let place = match (pattern.workload, pattern.block_bytes) {
            (FIO, SMALL) => "Figure 4.1",
            (FIO, _) => "Figure 4.2",
            _ => "Figure 4.3",
        };
        add(place, pattern, row.contestant, Measure::Throughput, None);
    }
    all.sort_by_key(|it| (it.place, it.pattern.clients, it.pattern.block_bytes));
    all
}

fn pattern_of(row: &Row) -> Option<Pattern> {
    let block_bytes = row.transfers.as_ref()?.block_bytes;
    Some(Pattern {
        workload: row.workload,
        clients: row.threads,
        block_bytes,
    })
}

fn measured(
    rows: &[Row],
    device: &str,
    pattern: Pattern,
    contestant: &str,
    measure: Measure,
) -> Option<f64> {
    let transfers = |contestant: &str| {
        let mut of_load = rows
            .iter()
            .filter(|row| row.device == device && pattern_of(row) == Some(pattern));
        of_load
            .find(|row| row.contestant == contestant)?
            .transfers
            .as_ref()
    };
    let own = transfers(contestant)?;
    let existing = || transfers(EXISTING);
    match measure {
        Measure::StartupDelay => own.startup_delay,
        Measure::Throughput => Some(own.mb_per_s / existing()?.mb_per_s),
        Measure::Transactions => {
            Some(own.transactions_per_write? / existing()?.transactions_per_write?)
        }
    }
}

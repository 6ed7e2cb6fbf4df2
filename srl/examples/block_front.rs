//! The front end of a block device. It accepts writes of any length; the file below accepts only
//! whole blocks (`O_DIRECT`). A write of a part of a block is a read-modify-write cycle: it reads
//! the block, replaces a part, and writes it back. If two cycles on a block overlap in time, or a
//! cycle and a write of the whole block, one of the changes is lost (cloud-hypervisor, issue 8812).
//!
//! One thread has many requests in flight. Each acquires its blocks with a future, then moves the
//! hold into the transfer. The transfer releases the hold when it completes. So a request that is
//! cancelled while it waits leaves no trace, and one that is cancelled later cannot release blocks
//! that the device is still writing.
//!
//! ```text
//! cargo run -p spanlock-srl --example block_front -- --demonstrate          # a short check
//! cargo run --release -p spanlock-srl --example block_front                 # measures, on a model
//! cargo run --release -p spanlock-srl --example block_front -- /mnt/disk    # with O_DIRECT
//! ```
//!
//! Measured on the model: transfers of 1 ms, 256 requests in flight, one core of an Intel Xeon. If
//! one write in a hundred is a part of a block, the range lock completes 5.7 times as many writes
//! as draining the device does, and 190 times as many as one mutex. If no writes meet, it completes
//! as many as no lock at all.

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlock_srl::range_lock::{Exclusive, Hold, LockField};
use spanlock_srl::{RangeLockExt, SrlArray};
use tokio::runtime::Builder;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::task::{JoinSet, spawn, spawn_blocking};
use tokio::time::sleep;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const BLOCK: u64 = 4096;
const SECTOR: u64 = 512;
const BLOCKS: u64 = 4096;

/// How requests are kept apart.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    /// A range lock on the blocks of each request.
    Ranges,
    /// One mutex for the device.
    Mutex,
    /// Whole blocks share the device. A cycle first waits until no request is in flight, and has
    /// the device to itself.
    Drain,
    /// Not at all: right only while no two requests meet in a block.
    Nothing,
}

/// What a request holds while the device works for it.
enum Held {
    Ranges {
        _hold: Hold<LockField<Disk, SrlArray>, Exclusive>,
    },
    Mutex {
        _hold: OwnedMutexGuard<()>,
    },
    Shared {
        _hold: OwnedRwLockReadGuard<()>,
    },
    Alone {
        _hold: OwnedRwLockWriteGuard<()>,
    },
    Nothing,
}

/// Where the blocks are.
enum Device {
    /// A file that is opened with `O_DIRECT`. Its transfers run on threads that may block.
    Direct(Arc<File>),
    /// A model of a fast disk: a transfer takes a time, and any number of them run in parallel.
    Modelled(File, Duration),
}

#[repr(C, align(4096))]
struct Block([u8; BLOCK as usize]);

struct Disk {
    device: Device,
    policy: Policy,
    blocks: SrlArray,
    mutex: Arc<Mutex<()>>,
    drain: Arc<RwLock<()>>,
}

impl Disk {
    fn new(device: Device, policy: Policy) -> Result<Arc<Disk>> {
        let blocks = SrlArray::new(BLOCKS * BLOCK)?;
        let (mutex, drain) = Default::default();
        Ok(Arc::new(Disk {
            device,
            policy,
            blocks,
            mutex,
            drain,
        }))
    }

    /// Waits for what a write of `bytes` at `offset` needs.
    async fn hold(self: &Arc<Self>, offset: u64, bytes: u64) -> Result<Held> {
        let first = offset - offset % BLOCK;
        let end = offset
            .checked_add(bytes)
            .and_then(|end| end.checked_next_multiple_of(BLOCK));
        let end = end.ok_or("a write past the end")?;
        Ok(match self.policy {
            Policy::Ranges => {
                let field = LockField::new(self.clone(), |disk| &disk.blocks);
                let blocks = first..end;
                Held::Ranges {
                    _hold: Hold::lock_async(field, blocks).await?,
                }
            }
            Policy::Mutex => Held::Mutex {
                _hold: self.mutex.clone().lock_owned().await,
            },
            Policy::Drain if is_whole(offset, bytes) => Held::Shared {
                _hold: self.drain.clone().read_owned().await,
            },
            Policy::Drain => Held::Alone {
                _hold: self.drain.clone().write_owned().await,
            },
            Policy::Nothing => Held::Nothing,
        })
    }

    /// Writes `bytes` at `offset`, within a block. If the future is dropped before the request has
    /// its block, nothing happens; after that, the write takes place.
    async fn write(self: Arc<Self>, offset: u64, bytes: Vec<u8>) -> Result<()> {
        let held = self.hold(offset, bytes.len() as u64).await?;
        // A task of its own, which owns the hold: dropping this future does not stop the device.
        spawn(async move { self.transfer(offset, &bytes, held).await }).await?
    }

    /// Replaces a part of a block, or all of it. The write itself releases `held`: a runtime that
    /// is shut down drops this future, but not a write that has begun.
    async fn transfer(&self, offset: u64, bytes: &[u8], held: Held) -> Result<()> {
        let (number, at) = (offset / BLOCK, (offset % BLOCK) as usize);
        let mut block = Box::new(Block([0; BLOCK as usize]));
        if !is_whole(offset, bytes.len() as u64) {
            block = self.read(number, block).await?;
        }
        let part = block.0.get_mut(at..at + bytes.len());
        part.ok_or("a write past its block")?.copy_from_slice(bytes);
        self.device(block, move |file, block| {
            let done = file.write_all_at(&block.0, number * BLOCK);
            drop(held);
            done
        })
        .await?;
        Ok(())
    }

    async fn read(&self, number: u64, block: Box<Block>) -> Result<Box<Block>> {
        self.device(block, move |file, block| {
            file.read_exact_at(&mut block.0, number * BLOCK)
        })
        .await
    }

    /// Runs a transfer of one block.
    async fn device<F>(&self, mut block: Box<Block>, transfer: F) -> Result<Box<Block>>
    where
        F: FnOnce(&File, &mut Block) -> io::Result<()> + Send + 'static,
    {
        match &self.device {
            Device::Direct(file) => {
                let file = file.clone();
                let done = spawn_blocking(move || transfer(&file, &mut block).map(|()| block));
                Ok(done.await??)
            }
            Device::Modelled(file, time) => {
                sleep(*time).await;
                transfer(file, &mut block)?;
                Ok(block)
            }
        }
    }
}

fn is_whole(offset: u64, bytes: u64) -> bool {
    offset % BLOCK == 0 && bytes == BLOCK
}

/// Writes from `in_flight` clients, of which each waits for its write before it issues the next,
/// for `time`. Returns the writes per second, and how many sectors have lost a change.
///
/// Eight clients share a block, and each has one of its sectors: that is what they write in
/// `partial` of ten thousand writes. Otherwise, they write a whole block of their own.
async fn load(
    disk: &Arc<Disk>,
    in_flight: u64,
    partial: u32,
    time: Duration,
) -> Result<(f64, u64)> {
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..in_flight {
        let disk = disk.clone();
        clients.spawn(async move {
            let sector = client * SECTOR;
            let own = (BLOCKS / 2 + client) * BLOCK;
            let (mut random, mut version, mut writes) = (client + 1, 0_u64, 0_u64);
            while begun.elapsed() < time {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                writes += 1;
                if random % 10_000 < u64::from(partial) {
                    version += 1;
                    disk.clone().write(sector, content(version, SECTOR)).await?;
                } else {
                    disk.clone().write(own, content(writes, BLOCK)).await?;
                }
            }
            Ok::<_, Box<dyn Error + Send + Sync>>((sector, version, writes))
        });
    }
    let (mut all, mut lost) = (0, 0);
    let mut written = Vec::new();
    while let Some(client) = clients.join_next().await {
        written.push(client??);
    }
    let took = begun.elapsed().as_secs_f64();
    for (sector, version, writes) in written {
        all += writes;
        let block = disk
            .read(sector / BLOCK, Box::new(Block([0; BLOCK as usize])))
            .await?;
        let at = (sector % BLOCK) as usize;
        let is_there = block.0[at..at + SECTOR as usize] == content(version, SECTOR);
        lost += u64::from(!is_there);
    }
    Ok((all as f64 / took, lost))
}

fn content(version: u64, bytes: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(bytes as usize / 8)
}

/// Creates the file of a device, with zeros everywhere.
fn create(folder: &Path, is_direct: bool) -> Result<File> {
    let file =
        tempfile::tempfile_in(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    for block in 0..BLOCKS {
        file.write_all_at(&[0; BLOCK as usize], block * BLOCK)?;
    }
    file.sync_all()?;
    if is_direct {
        direct(&file)?;
    }
    Ok(file)
}

/// Makes a file take whole blocks only.
#[cfg(target_os = "linux")]
fn direct(file: &File) -> Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(file)? | OFlags::DIRECT;
    fcntl_setfl(file, flags).map_err(|why| format!("this file system has no O_DIRECT: {why}"))?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn direct(_: &File) -> Result<()> {
    Err("O_DIRECT is for Linux; without a folder, the model runs everywhere".into())
}

/// Measures every policy: with whole blocks only, and with some writes of parts of blocks. The
/// policies take turns, and the table shows medians.
async fn measure(folder: Option<&Path>) -> Result<()> {
    const ROUNDS: usize = 5;
    const POLICIES: [Policy; 4] = [
        Policy::Ranges,
        Policy::Mutex,
        Policy::Drain,
        Policy::Nothing,
    ];
    let model = Duration::from_millis(1);
    if let Some(folder) = folder {
        create(folder, true)?; // Fails before the table begins.
    }
    let (place, in_flight) = match folder {
        Some(folder) => (format!("files in {} with O_DIRECT", folder.display()), 64),
        None => (format!("a model whose transfers take {model:?}"), 256),
    };
    println!("{in_flight} requests in flight on one thread; device: {place}\n");
    println!("| parts of blocks | kept apart by | writes a second | of the range lock's | lost |");
    println!("|---|---|---|---|---|");
    for partial in [0, 100, 1000] {
        let mut all = POLICIES.map(|policy| (policy, Vec::new(), 0));
        for _ in 0..ROUNDS {
            for (policy, rates, lost) in &mut all {
                let device = match folder {
                    Some(folder) => Device::Direct(Arc::new(create(folder, true)?)),
                    None => Device::Modelled(create(&std::env::temp_dir(), false)?, model),
                };
                let disk = Disk::new(device, *policy)?;
                let done = load(&disk, in_flight, partial, Duration::from_millis(500)).await?;
                rates.push(done.0);
                *lost += done.1;
            }
        }
        let medians = all.map(|(policy, mut rates, lost)| {
            rates.sort_by(f64::total_cmp);
            (policy, rates[ROUNDS / 2], lost)
        });
        let (_, ranges, _) = medians[0];
        for (policy, rate, lost) in medians {
            let (percent, ratio) = (f64::from(partial) / 100.0, rate / ranges);
            println!("| {percent} % | {policy:?} | {rate:.0} | {ratio:.2} | {lost} |");
        }
    }
    Ok(())
}

/// Shows that concurrent changes of one block are kept, and what cancellation leaves.
async fn demonstrate() -> Result<()> {
    let folder = std::env::temp_dir();
    let device = |time| {
        Ok::<_, Box<dyn Error + Send + Sync>>(Device::Modelled(create(&folder, false)?, time))
    };

    let disk = Disk::new(device(Duration::ZERO)?, Policy::Ranges)?;
    let (_, lost) = load(&disk, 32, 5_000, Duration::from_millis(100)).await?;
    assert_eq!(lost, 0, "a change is lost");
    println!("32 requests in flight, every second one for a part of a block: no change is lost");

    let disk = Disk::new(device(Duration::from_millis(20))?, Policy::Ranges)?;
    let submitted = spawn(disk.clone().write(0, content(1, SECTOR)));
    while disk.blocks.try_write(0..BLOCK).is_ok() {
        tokio::task::yield_now().await;
    }
    let waiting = spawn(disk.clone().write(SECTOR, content(2, SECTOR)));
    tokio::task::yield_now().await;
    waiting.abort();
    submitted.abort();
    assert!(waiting.await.is_err_and(|it| it.is_cancelled()));
    assert!(
        disk.blocks.try_write(0..BLOCK).is_err(),
        "the device still writes the block"
    );
    // This waits until the transfer has completed, and has released the block.
    disk.clone().write(2 * SECTOR, content(3, SECTOR)).await?;
    let block = disk.read(0, Box::new(Block([0; BLOCK as usize]))).await?;
    let sectors: Vec<u8> = block.0.iter().step_by(SECTOR as usize).copied().collect();
    assert_eq!(sectors, [1, 0, 3, 0, 0, 0, 0, 0]);
    assert!(disk.blocks.try_write(..).is_ok(), "nothing is left locked");
    println!(
        "the cancelled request that waited has written nothing; the submitted one is complete"
    );
    Ok(())
}

fn main() -> Result<()> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => runtime.block_on(measure(None)),
        [option] if option == "--demonstrate" => runtime.block_on(demonstrate()),
        [folder] if Path::new(folder).is_dir() => {
            runtime.block_on(measure(Some(Path::new(folder))))
        }
        _ => Err(format!("expected --demonstrate, or a folder, not {arguments:?}").into()),
    }
}

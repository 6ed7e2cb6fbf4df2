//! Measures one contestant for one round.

use std::fs::File;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, PutOptions, PutPayload};
use parking_lot::Mutex;
use spanlock_object_store as store;
use spanlock_object_store::Layout;
use spanlock_object_store::space::{self, Vector};

use super::devices::{Device, PMEM, Raw};
use super::subjects::{Area, Batches, Objects};
use super::work::{Access, Creation, LOG_BYTES, PUT_BYTES, PUT_MODE, StoreMode, Work};
use crate::aligned::PageAligned;
use crate::measure::{self, Latencies, Round, SAMPLE_EVERY, joined, pin, record, spawn};

/// Checkpoints that a row with the longest creations waits for.
const CHECKPOINTS: u64 = 5;
/// The longest such row, as a multiple of a round of other rows.
const AT_MOST: u32 = 40;
/// Bytes of the ring of such a row on a disk, where it would take long to fill the default one.
const DISK_RING: u64 = 256 << 10;
/// Bytes of the medium of such a row.
const CHECKPOINTS_BYTES: u64 = 512 << 20;

/// Bytes of the object, or of the raw bytes, of each thread.
pub const OBJECT_BYTES: u64 = 8 << 20;
/// Bytes that are written at a time while objects are prepared.
const PREPARED: usize = 1 << 20;

/// Bytes of a vector, and of the space's blocks.
const VECTOR: usize = 512;
/// Vectors of each thread, after which it begins anew.
const VECTORS: u64 = 4096;

/// Bytes of a store for creations that new objects never use.
const NOT_CREATED: u64 = 32 << 20;
/// Bytes that new objects use in a second at most, in persistent memory and on a disk.
const CREATED: [u64; 2] = [6 << 30, 1 << 30];

/// The figures of a round.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Operations per second of all threads together.
    pub per_s: f64,
    /// Latencies of single operations.
    pub latencies: Latencies,
    /// Checkpoints that a store made meanwhile.
    pub checkpoints: u64,
}

/// What distinguishes one store from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoreKind {
    layout: Layout,
    mode: &'static str,
    skip: u64,
    heads: u64,
}

/// A store of a mode, with a written object for each thread.
struct Filled {
    mode: &'static str,
    /// The writes that it is for. Writes of another size would leave it with scattered free places.
    writes: Option<Access>,
    store: Box<dyn Objects>,
    ids: Vec<u64>,
}

/// A device, and what lies on it: it is made when it is first needed.
pub struct Bench<'d> {
    device: &'d Device,
    /// The most threads that a row has.
    threads: usize,
    /// The time of a round.
    duration: Duration,
    /// Stores in which objects are created.
    growing: Vec<(StoreKind, Box<dyn Objects>)>,
    /// Stores with one object for each thread.
    filled: Vec<Filled>,
    space: Option<Box<dyn Batches>>,
    raw: Option<Raw>,
}

impl<'d> Bench<'d> {
    /// Creates an empty one.
    pub fn new(device: &'d Device, threads: usize, duration: Duration) -> Self {
        Bench {
            device,
            threads,
            duration,
            growing: Vec::new(),
            filled: Vec::new(),
            space: None,
            raw: None,
        }
    }

    /// Returns the device's name.
    pub fn device(&self) -> &'static str {
        self.device.name
    }

    /// Measures one round.
    ///
    /// # Errors
    /// Something fails, or there is not enough room.
    pub fn round(&mut self, work: &Work, threads: usize) -> Result<Measured> {
        let device = self.device;
        device.advise(self.measured(work, threads))
    }

    fn measured(&mut self, work: &Work, threads: usize) -> Result<Measured> {
        match *work {
            Work::Create(creation, mode, layout) => {
                let Creation { skip, heads, .. } = creation;
                self.creations(mode, layout, (skip, heads), threads)
            }
            Work::CreateFiles { synced } => self.files(synced, threads),
            Work::Checkpoints(mode, layout) => self.checkpoints(mode, layout, threads),
            Work::Vectors(count) => self.vectors(count, threads),
            Work::Access(access, mode) => self.access(access, mode, threads),
            Work::Raw(access) => self.raw(access, threads),
            Work::Put(layout) => self.puts(layout, threads),
            Work::PutFiles { synced } => self.local_puts(synced, threads),
        }
    }

    fn creations(
        &mut self,
        mode: StoreMode,
        layout: Layout,
        (skip, heads): (u64, u64),
        threads: usize,
    ) -> Result<Measured> {
        let (duration, every) = (self.duration, self.sample_every());
        let store = self.growing(mode, layout, skip, heads)?;
        counted(
            || store.stats(),
            || measure::timed_every(every, threads, duration, 0, |_| || store.create().map(drop)),
        )
    }

    fn puts(&mut self, layout: Layout, threads: usize) -> Result<Measured> {
        let (duration, every) = (self.duration, self.sample_every());
        let store = self.growing(PUT_MODE, layout, 128, 64)?;
        counted(
            || store.stats(),
            || {
                measure::timed_every(every, threads, duration, 0, |_| {
                    let mut data = PageAligned::new(PUT_BYTES);
                    move || store.put(data.bytes()).map(drop)
                })
            },
        )
    }

    /// Returns a store in which there is room for the creations of a round.
    fn growing(
        &mut self,
        mode: StoreMode,
        layout: Layout,
        skip: u64,
        heads: u64,
    ) -> Result<&dyn Objects> {
        let kind = StoreKind {
            layout,
            mode: mode.name,
            skip,
            heads,
        };
        let each_second = CREATED[usize::from(self.device.name != PMEM)];
        let needed = NOT_CREATED + (each_second as f64 * self.duration.as_secs_f64() * 1.1) as u64;
        let place = self.growing.iter().position(|it| it.0 == kind);
        let is_full = |store: &dyn Objects| store.stats().free * BLOCK < needed;
        let place = match place {
            Some(place) if !is_full(&*self.growing[place].1) => place,
            place => {
                // The old one makes room for the new one.
                place.map(|it| self.growing.swap_remove(it));
                let options = options(mode, layout).skip_number(skip).pre_create(heads);
                // The next round may find room, too, if this one was slower.
                let bytes = needed + needed / 4;
                let store = self.device.store(bytes, &space::Options::new(), &options)?;
                self.growing.push((kind, store));
                self.growing.len() - 1
            }
        };
        Ok(&*self.growing[place].1)
    }

    /// Creates objects until there were several checkpoints, and times every creation.
    fn checkpoints(&mut self, mode: StoreMode, layout: Layout, threads: usize) -> Result<Measured> {
        let space = match self.device.name {
            PMEM => space::Options::new(),
            _ => space::Options::new().rings(1, DISK_RING),
        };
        let options = options(mode, layout).skip_number(128);
        let store = self.device.store(CHECKPOINTS_BYTES, &space, &options)?;
        counted(
            || store.stats(),
            || every_creation(&*store, threads, AT_MOST * self.duration),
        )
    }

    fn vectors(&mut self, count: usize, threads: usize) -> Result<Measured> {
        let every = self.sample_every();
        let each = 2 * VECTORS * VECTOR as u64;
        if self.space.is_none() {
            let options = space::Options::new().block(VECTOR as u32);
            let bytes = (64 << 20) + self.threads as u64 * each;
            self.space = Some(self.device.space(bytes, &options)?);
        }
        let space = self.space.as_deref().expect("just created");
        let data = PageAligned::new(VECTOR).bytes().to_vec();
        let mut measured = counted(
            || space.stats(),
            || {
                measure::timed_every(every, threads, self.duration, 0, |worker| {
                    let (mut next, data) = (0, &data);
                    move || {
                        // With a gap after each, so that no two of them become one.
                        let place =
                            |nth: u64| worker as u64 * each + nth % VECTORS * 2 * VECTOR as u64;
                        let places = (next..next + count as u64).map(place);
                        next += count as u64;
                        let vectors: Vec<_> = places.map(|at| Vector::write(at, data)).collect();
                        space.write(&vectors)
                    }
                })
            },
        )?;
        measured.per_s *= count as f64;
        Ok(measured)
    }

    fn access(&mut self, access: Access, mode: StoreMode, threads: usize) -> Result<Measured> {
        let (duration, every) = (self.duration, self.sample_every());
        let Filled { store, ids, .. } = self.filled(access, mode)?;
        counted(
            || store.stats(),
            || {
                measure::timed_every(every, threads, duration, access.bytes as u64, |worker| {
                    let id = ids[worker];
                    let (mut places, mut data) =
                        (Places::new(access), PageAligned::new(access.bytes));
                    move || -> Result<()> {
                        if access.writes {
                            return Ok(store.write(id, places.next(), data.bytes())?);
                        }
                        let len = store.read(id, places.next(), data.bytes())?;
                        ensure!(len == access.bytes, "only {len} bytes were read");
                        Ok(())
                    }
                })
            },
        )
    }

    fn filled(&mut self, access: Access, mode: StoreMode) -> Result<&Filled> {
        let writes = access.writes.then_some(access);
        let is_it = |it: &Filled| it.mode == mode.name;
        // The one of other writes makes room for the new one.
        self.filled.retain(|it| !is_it(it) || it.writes == writes);
        if !self.filled.iter().any(is_it) {
            let objects = self.threads as u64 * (OBJECT_BYTES + LOG_BYTES);
            let bytes = objects + objects / 8 + (16 << 20);
            let options = options(mode, Layout::Packed);
            let store = self.device.store(bytes, &space::Options::new(), &options)?;
            let mut data = PageAligned::new(PREPARED);
            let mut ids = Vec::new();
            for _ in 0..self.threads {
                let id = store.create()?;
                for at in (0..OBJECT_BYTES).step_by(PREPARED) {
                    store.write(id, at, data.bytes())?;
                }
                ids.push(id);
            }
            self.filled.push(Filled {
                mode: mode.name,
                writes,
                store,
                ids,
            });
        }
        let found = self.filled.iter().find(|it| is_it(it));
        Ok(found.expect("just added"))
    }

    fn raw(&mut self, access: Access, threads: usize) -> Result<Measured> {
        let every = self.sample_every();
        if self.raw.is_none() {
            self.raw = Some(self.device.raw(self.threads as u64 * OBJECT_BYTES)?);
        }
        let raw = self.raw.as_mut().expect("just created");
        let areas = Mutex::new(raw.areas(threads, OBJECT_BYTES));
        let taken = || -> Box<dyn Area + '_> {
            let area = areas.lock().pop();
            area.expect("there is one for each thread")
        };
        let round =
            measure::timed_every(every, threads, self.duration, access.bytes as u64, |_| {
                let mut area = taken();
                let (mut places, mut data) = (Places::new(access), PageAligned::new(access.bytes));
                move || match access.writes {
                    true => area.write(places.next(), data.bytes()),
                    false => area.read(places.next(), data.bytes()),
                }
            })?;
        Ok(Measured::new(round))
    }

    fn files(&self, synced: bool, threads: usize) -> Result<Measured> {
        let every = self.sample_every();
        let folder = self.device.folder("files")?;
        let path = folder.path();
        let directory = &File::open(path).context("opening a folder")?;
        let round = measure::timed_every(every, threads, self.duration, 0, |worker| {
            let mut names = Names::new(worker);
            move || {
                let file = File::create_new(path.join(names.next()))?;
                if synced {
                    file.sync_all()?;
                    directory.sync_all()?;
                }
                std::io::Result::Ok(())
            }
        })?;
        Ok(Measured::new(round))
    }

    fn local_puts(&self, synced: bool, threads: usize) -> Result<Measured> {
        let every = self.sample_every();
        let folder = self.device.folder("local")?;
        let local = LocalFileSystem::new_with_prefix(folder.path())?.with_fsync(synced);
        let payload = PutPayload::from(vec![0x5a; PUT_BYTES]);
        let round = measure::timed_every(every, threads, self.duration, 0, |worker| {
            let mut names = Names::new(worker);
            let (local, payload) = (&local, &payload);
            move || {
                let path = ObjectPath::from(names.next());
                ready(local.put_opts(&path, payload.clone(), PutOptions::default())).map(drop)
            }
        })?;
        Ok(Measured::new(round))
    }

    /// Returns how many operations there are for each that is timed: reading the clock takes a part
    /// of an operation in memory, and none of one on a disk.
    fn sample_every(&self) -> u32 {
        match self.device.name {
            PMEM => SAMPLE_EVERY,
            _ => 1,
        }
    }

    /// Removes everything from the device.
    pub fn clear(&mut self) {
        self.growing.clear();
        self.filled.clear();
        self.space = None;
        self.raw = None;
    }
}

/// Bytes of a store's blocks.
const BLOCK: u64 = 4096;

fn options(mode: StoreMode, layout: Layout) -> store::Options {
    store::Options::new().mode(mode.mode).layout(layout)
}

/// Runs a round, and counts the checkpoints in it.
fn counted(
    stats: impl Fn() -> space::Stats,
    round: impl FnOnce() -> Result<Round>,
) -> Result<Measured> {
    let before = stats().checkpoints;
    let mut measured = Measured::new(round()?);
    measured.checkpoints = stats().checkpoints - before;
    Ok(measured)
}

impl Measured {
    fn new(round: Round) -> Self {
        Measured {
            per_s: round.whole_ops_per_s,
            latencies: round.latencies,
            checkpoints: 0,
        }
    }
}

/// Returns the result of a future that does not wait: outside of a runtime, `LocalFileSystem` does
/// its work in the calling thread, which is the fastest that it can be.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("outside of a runtime"),
    }
}

/// Names that no other thread uses.
struct Names {
    worker: usize,
    nth: u64,
}

impl Names {
    fn new(worker: usize) -> Self {
        Names { worker, nth: 0 }
    }

    fn next(&mut self) -> String {
        self.nth += 1;
        format!("{}-{}", self.worker, self.nth)
    }
}

/// Where a thread goes next in its object.
struct Places {
    access: Access,
    next: u64,
    random: fastrand::Rng,
}

impl Places {
    fn new(access: Access) -> Self {
        Places {
            access,
            next: 0,
            random: fastrand::Rng::new(),
        }
    }

    fn next(&mut self) -> u64 {
        let count = OBJECT_BYTES / self.access.bytes as u64;
        let nth = match self.access.random {
            true => self.random.u64(0..count),
            false => self.next % count,
        };
        self.next += 1;
        nth * self.access.bytes as u64
    }
}

/// Creates objects until there were [`CHECKPOINTS`], or `at_most` has passed. Times every creation:
/// its end is the start of the next.
fn every_creation(store: &dyn Objects, threads: usize, at_most: Duration) -> Result<Round> {
    let enough = store.stats().checkpoints + CHECKPOINTS;
    let is_over = AtomicBool::new(false);
    let work = |worker| -> Result<(u64, Latencies)> {
        pin(worker, threads);
        let (started, mut latencies, mut count) = (Instant::now(), measure::latencies(), 0);
        let mut before = started;
        // Relaxed, here and below: nothing depends on when a thread stops.
        while !is_over.load(Ordering::Relaxed) {
            store
                .create()
                .inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
            let mut now = Instant::now();
            record(&mut latencies, now - before);
            count += 1;
            if count % 64 == 0 {
                let done = store.stats().checkpoints >= enough || started.elapsed() >= at_most;
                is_over.fetch_or(done, Ordering::Relaxed);
                now = Instant::now();
            }
            before = now;
        }
        Ok((count, latencies))
    };
    let started = Instant::now();
    let (mut count, mut all) = (0, measure::latencies());
    std::thread::scope(|scope| -> Result<()> {
        let work = &work;
        let started: Result<Vec<_>> = (0..threads)
            .map(|it| spawn(scope, it, move || work(it)))
            .collect();
        // Those that were started must not wait for the one that was not.
        let threads = started.inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
        for thread in threads {
            let (its, latencies) = joined(thread)?;
            count += its;
            all += latencies;
        }
        Ok(())
    })?;
    let per_s = count as f64 / started.elapsed().as_secs_f64();
    Ok(Round {
        ops_per_s: per_s,
        whole_ops_per_s: per_s,
        bytes_per_s: 0.0,
        latencies: all,
        cpu_ns_per_op: 0.0,
    })
}

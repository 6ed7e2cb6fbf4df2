//! Shared by the tests: a region in memory that yields crash images, the locks, and random numbers.

mod sim;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spanlock_file_core::{Error, File, FormatOptions, RecoveryReport};
use spanlock_pmem::{Durable, Flushed, LINE_BYTES, Pmem, RegionId, Written};
use spanlock_range_lock::{RawRangeLock, RwCounter};
use spanlock_srl::SrlArray;

#[allow(unused_imports, reason = "every test file uses a part of it")]
pub(crate) use sim::Rng;
use sim::Sim;

pub(crate) const PAGE: u64 = 4096;

pub(crate) type AnyLock = Box<dyn RawRangeLock>;
pub(crate) type Volume = spanlock_file_core::Volume<Arc<Mem>, AnyLock>;
pub(crate) type Handle = File<Arc<Mem>, AnyLock>;

/// Creates a lock of a given capacity.
pub(crate) type MakeLock = fn(u64) -> AnyLock;

/// Returns the locks that every multithreaded test runs with.
pub(crate) fn lock_kinds() -> [(&'static str, MakeLock); 3] {
    [
        ("one word", |_| Box::new(RwCounter::new())),
        ("segments of a page", |capacity| array(capacity, PAGE)),
        ("segments of a line", |capacity| array(capacity, 64)),
    ]
}

fn array(capacity: u64, segment: u64) -> AnyLock {
    Box::new(SrlArray::with_segment_size(capacity, segment).expect("memory"))
}

pub(crate) fn segments(capacity: u64) -> AnyLock {
    array(capacity, PAGE)
}

pub(crate) fn format(pages: u64, options: &FormatOptions) -> Volume {
    Volume::format(Mem::new(pages * PAGE), options, segments).expect("format")
}

pub(crate) fn open(mem: &Arc<Mem>) -> Result<(Volume, RecoveryReport), Error> {
    Volume::open(Arc::clone(mem), segments)
}

/// Opens the current content of `volume`'s medium in a separate region.
pub(crate) fn reopen(volume: &Volume) -> Volume {
    open(&Mem::from_words(volume.pmem().words()))
        .expect("reopen")
        .0
}

pub(crate) fn content(file: &Handle) -> Vec<u8> {
    let mut bytes = vec![0xEE; file.size() as usize];
    assert_eq!(file.read_at(&mut bytes, 0), Ok(bytes.len()));
    bytes
}

/// Overwrites the first page of a file, but now and then writes to another page, from page `from`
/// on. So each page of the file's log has a group that is needed, and cleaning must copy those.
pub(crate) fn write_some_that_stay(file: &Handle, writes: u64, from: u64) {
    for i in 0..writes {
        let page = if i % 60 == 0 { from + i / 60 } else { 0 };
        file.write_at(b"before", page * PAGE).unwrap();
    }
}

/// Called at every operation on the region, with a function that creates a crash image of the
/// current state.
pub(crate) type CrashHook = Box<dyn FnMut(&mut dyn FnMut() -> Vec<u64>) + Send>;

/// A region in memory. Its words are atomics, so crash images can be taken while threads run.
pub(crate) struct Mem {
    words: Box<[AtomicU64]>,
    id: RegionId,
    /// Counts operations down; the one that reaches zero panics.
    fuse: AtomicU64,
    /// Whether stores panic.
    is_read_only: AtomicBool,
    /// Lines whose write-back was started.
    flushes: AtomicU64,
    fences: AtomicU64,
    /// The content of the medium, kept only if there is a hook.
    sim: Option<Mutex<(Sim, CrashHook)>>,
}

impl Mem {
    pub(crate) fn new(len: u64) -> Arc<Mem> {
        Mem::from_bytes(&vec![0; len as usize])
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Arc<Mem> {
        Mem::from_words(bytes.chunks_exact(8).map(word).collect())
    }

    pub(crate) fn from_words(words: Vec<u64>) -> Arc<Mem> {
        let words = words.into_iter().map(AtomicU64::new).collect();
        Arc::new(Mem {
            words,
            id: RegionId::new(),
            fuse: AtomicU64::new(u64::MAX),
            is_read_only: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
            fences: AtomicU64::new(0),
            sim: None,
        })
    }

    /// Creates a region with this content on its medium. It calls `hook` at every operation.
    pub(crate) fn simulated(words: Vec<u64>, seed: u64, hook: CrashHook) -> Arc<Mem> {
        let mut mem = Arc::into_inner(Mem::from_words(words.clone())).expect("just made");
        mem.sim = Some(Mutex::new((Sim::new(words, seed), hook)));
        Arc::new(mem)
    }

    /// Returns everything written so far.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.words.len() * 8];
        for (word, into) in self.words.iter().zip(bytes.chunks_exact_mut(8)) {
            into.copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
        }
        bytes
    }

    /// Makes the content these bytes again.
    pub(crate) fn restore(&self, bytes: &[u8]) {
        self.store(0, bytes);
    }

    /// Flips bit `bit`, counted from the start of the region.
    pub(crate) fn flip(&self, bit: usize) {
        self.words[bit / 64].fetch_xor(1 << (bit % 64), Ordering::Relaxed);
    }

    pub(crate) fn words(&self) -> Vec<u64> {
        self.words
            .iter()
            .map(|word| word.load(Ordering::Acquire))
            .collect()
    }

    /// Makes the `operations`-th operation from now panic after it has stored or flushed. 0
    /// disables this.
    pub(crate) fn panic_at(&self, operations: u64) {
        self.fuse
            .store(operations.wrapping_sub(1), Ordering::Relaxed);
    }

    /// Sets whether the region can only be read. Stores then panic.
    pub(crate) fn set_read_only(&self, on: bool) {
        self.is_read_only.store(on, Ordering::Relaxed);
    }

    fn check_writable(&self) {
        assert!(!self.is_read_only(), "a store to a read-only region");
    }

    /// Returns how many lines were flushed, and how many fences were taken. Streamed bytes need no
    /// flush.
    pub(crate) fn flushes_and_fences(&self) -> (u64, u64) {
        // Relaxed: statistics, which order nothing.
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.flushes), of(&self.fences))
    }

    fn simulate(&self, act: impl FnOnce(&mut Sim)) {
        if let Some(sim) = &self.sim {
            let (sim, hook) = &mut *sim.lock().unwrap();
            act(sim);
            hook(&mut || sim.crash_image());
        }
        self.burn_fuse();
    }

    fn burn_fuse(&self) {
        assert!(
            self.fuse.fetch_sub(1, Ordering::Relaxed) != 0,
            "the medium fails"
        );
    }

    fn store(&self, at: u64, data: &[u8]) {
        assert!(
            at.is_multiple_of(8) && data.len().is_multiple_of(8),
            "unaligned store"
        );
        let words = &self.words[at as usize / 8..][..data.len() / 8];
        for (target, value) in words.iter().zip(data.chunks_exact(8)) {
            target.store(word(value), Ordering::Relaxed);
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

// SAFETY: tokens are created only where their constructors allow it, and the simulation provides
// the guarantees of `Pmem`. Accesses outside the region panic in slice indexing.
unsafe impl Pmem for Mem {
    fn len(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only.load(Ordering::Relaxed)
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        let (mut at, mut rest) = (at as usize, into);
        while !rest.is_empty() {
            let bytes = self.words[at / 8].load(Ordering::Relaxed).to_le_bytes();
            let n = rest.len().min(8 - at % 8);
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&bytes[at % 8..][..n]);
            (at, rest) = (at + n, later);
        }
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        self.check_writable();
        self.store(at, data);
        self.simulate(|sim| sim.store(at, data, false));
        // SAFETY: these bytes were stored above and lie in the region.
        unsafe { Written::new(self.id, at..at + data.len() as u64) }
    }

    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        self.check_writable();
        self.store(at, data);
        self.simulate(|sim| sim.store(at, data, true));
        // SAFETY: in the simulation, a streaming store only waits for a fence.
        unsafe { Flushed::new() }
    }

    fn prefetch(&self, _: u64, _: u64) {
        self.burn_fuse();
    }

    fn flush(&self, written: Written) -> Flushed {
        let range = written.into_range(self.id);
        let lines = range.end.div_ceil(LINE_BYTES) - range.start / LINE_BYTES;
        self.flushes.fetch_add(lines, Ordering::Relaxed);
        self.simulate(|sim| sim.flush(range));
        // SAFETY: the flush was started above.
        unsafe { Flushed::new() }
    }

    fn fence(&self, _: Flushed) -> Durable {
        self.fences.fetch_add(1, Ordering::Relaxed);
        self.simulate(Sim::fence);
        // SAFETY: fenced above.
        unsafe { Durable::new() }
    }

    fn publish(&self, at: u64, value: u64, _: Durable) -> Written {
        self.check_writable();
        assert!(at.is_multiple_of(8));
        self.words[at as usize / 8].store(value, Ordering::Release);
        self.simulate(|sim| sim.store(at, &value.to_le_bytes(), false));
        // SAFETY: these bytes were stored above and lie in the region.
        unsafe { Written::new(self.id, at..at + 8) }
    }

    fn load(&self, at: u64) -> u64 {
        assert!(at.is_multiple_of(8));
        self.words[at as usize / 8].load(Ordering::Acquire)
    }
}

/// Returns the number in an environment variable, or `otherwise` if it is not set.
pub(crate) fn number<N: FromStr>(variable: &str, otherwise: N) -> N {
    let given = std::env::var(variable).ok();
    let parse = |it: String| (it.parse().ok()).unwrap_or_else(|| panic!("{variable}={it}"));
    given.map_or(otherwise, parse)
}

/// Multiplies a number by `SPANLOCK_ROUNDS`, which `.ci/full` sets, and rounds up.
pub(crate) fn scaled(amount: usize) -> usize {
    (amount as f64 * number("SPANLOCK_ROUNDS", 1.0)).ceil() as usize
}

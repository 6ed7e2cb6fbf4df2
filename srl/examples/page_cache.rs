//! A page cache under a range lock: a hold of a page's range protects the page. Threads read and
//! write pages of one file while a reclaimer evicts pages and a truncate cuts the file in half.
//! Threads read a page under a shared hold of its range, and write or remove it under an exclusive
//! hold. So a page is neither changed nor removed while a thread reads it. The range lock ensures
//! this, not a reference count: the `Arc` around a page only keeps its memory valid.
//!
//! ```text
//! cargo run -p spanlock-srl --example page_cache
//! ```

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use spanlock_srl::{RangeError, RangeLockExt, SrlTree};

const PAGE: u64 = 4096;
/// The largest size of a file: 1 TiB. The tree takes memory only for the segments in use.
const LARGEST: u64 = 1 << 40;
const PAGES: u64 = 4096;
const WORKERS: u64 = 4;
const STEPS: u64 = 20_000;

/// The content of a page: one number, 512 times, so that a torn write would show.
type Content = [u64; PAGE as usize / 8];

struct Page(UnsafeCell<Content>);

// SAFETY: the content is read under a shared hold of the page's range, and written under an
// exclusive one.
unsafe impl Sync for Page {}

struct Cache {
    /// Locks the file's bytes.
    lock: SrlTree,
    /// The pages in memory. The mutex is never held while a page is read, written or loaded.
    pages: Mutex<BTreeMap<u64, Arc<Page>>>,
    /// A stand-in for the device.
    device: Mutex<BTreeMap<u64, Content>>,
    /// The file's size in pages. A truncate changes the size only while it holds everything after
    /// the new end. So while a thread holds a page that is within the size, the size cannot drop
    /// below that page.
    size: AtomicU64,
}

fn bytes(page: u64) -> Range<u64> {
    page * PAGE..(page + 1) * PAGE
}

impl Cache {
    /// Reads a page, maybe at the same time as other readers. Returns `None` for a page past the
    /// end.
    fn read(&self, page: u64) -> Result<Option<u64>, RangeError> {
        let _hold = self.lock.read(bytes(page))?;
        if page >= self.size.load(Relaxed) {
            return Ok(None);
        }
        let found = self.find(page);
        // SAFETY: the page's range is held, so no thread writes it.
        let content = unsafe { &*found.0.get() };
        assert!(content.iter().all(|n| *n == content[0]), "a torn write");
        Ok(Some(content[0]))
    }

    /// Adds one to a page. Returns false for a page past the end.
    fn count(&self, page: u64) -> Result<bool, RangeError> {
        let _hold = self.lock.write(bytes(page))?;
        if page >= self.size.load(Relaxed) {
            return Ok(false);
        }
        let found = self.find(page);
        // SAFETY: the page's range is held exclusively, so no other thread accesses it.
        let content = unsafe { &mut *found.0.get() };
        content.iter_mut().for_each(|n| *n += 1);
        Ok(true)
    }

    /// Returns a page whose range the caller holds. Loads it if it is not in memory.
    fn find(&self, page: u64) -> Arc<Page> {
        if let Some(found) = self.pages.lock().unwrap().get(&page) {
            return found.clone();
        }
        let stored = self.device.lock().unwrap().get(&page).copied();
        let content = stored.unwrap_or([0; PAGE as usize / 8]);
        // Two readers may both have loaded the page. Their copies are equal, since no thread writes
        // the page while they hold its range. The cache keeps the first copy.
        let loaded = Arc::new(Page(UnsafeCell::new(content)));
        let mut pages = self.pages.lock().unwrap();
        pages.entry(page).or_insert(loaded).clone()
    }

    /// Writes a page back and removes it. Returns false if the page is in use or not in memory; the
    /// reclaimer then tries another page.
    fn evict(&self, page: u64) -> bool {
        let Ok(_hold) = self.lock.try_write(bytes(page)) else {
            return false;
        };
        let Some(found) = self.pages.lock().unwrap().get(&page).cloned() else {
            return false;
        };
        // SAFETY: the page's range is held exclusively.
        let content = unsafe { *found.0.get() };
        self.device.lock().unwrap().insert(page, content);
        self.pages.lock().unwrap().remove(&page).is_some()
    }

    /// Cuts the file off at `size` pages.
    fn truncate(&self, size: u64) -> Result<(), RangeError> {
        // A request for up to 268 million segments. It takes no words. It closes the lock's gate,
        // so that later requests check for it, and reads the words that exist.
        let _tail = self.lock.write(size * PAGE..LARGEST)?;
        self.size.store(size, Relaxed);
        self.pages.lock().unwrap().split_off(&size);
        self.device.lock().unwrap().split_off(&size);
        Ok(())
    }
}

/// Reads random pages, and adds one to random pages.
fn work(cache: &Cache, counts: &[AtomicU64], worker: u64) {
    let mut random = fastrand::Rng::with_seed(worker);
    for _ in 0..STEPS {
        // A truncate may cut the page off before this thread locks it. Then there is nothing to
        // count.
        let page = random.u64(0..cache.size.load(Relaxed));
        if random.bool() {
            cache.read(page).expect("a page of the file");
        } else if cache.count(page).expect("a page of the file") {
            counts[page as usize].fetch_add(1, Relaxed);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let cache = Cache {
        lock: SrlTree::new(LARGEST)?,
        pages: Mutex::default(),
        device: Mutex::default(),
        size: AtomicU64::new(PAGES),
    };
    let empty = cache.lock.memory_usage();
    for page in 0..PAGES {
        cache.read(page)?;
    }
    let filled = cache.lock.memory_usage();
    println!("lock words of {PAGES} pages: {filled} bytes; of an unused file: {empty}");

    let counts = Vec::from_iter((0..PAGES).map(|_| AtomicU64::new(0)));
    let evicted = thread::scope(|scope| {
        let (cache, counts) = (&cache, &counts);
        let worker = |worker| scope.spawn(move || work(cache, counts, worker));
        let workers = Vec::from_iter((0..WORKERS).map(worker));
        scope.spawn(|| cache.truncate(PAGES / 2).expect("within the file"));
        // This thread reclaims memory.
        let mut random = fastrand::Rng::with_seed(WORKERS);
        let mut evicted = 0;
        while !workers.iter().all(|worker| worker.is_finished()) {
            evicted += u64::from(cache.evict(random.u64(0..PAGES)));
        }
        evicted
    });
    println!("{evicted} pages evicted meanwhile");

    // Free the lock words of the pages that were cut off. A reclaimer does this some time after the
    // truncate. Right after the truncate, threads may still request those pages, and their leaves
    // of the tree would stay.
    let freed = (cache.lock).shrink_range(cache.size.load(Relaxed) * PAGE..LARGEST)?;
    assert!(freed > 0 && cache.lock.memory_usage() < filled);
    println!("{freed} bytes of lock words freed for the half that was cut off");
    assert_eq!(cache.read(PAGES - 1)?, None);
    for page in 0..PAGES / 2 {
        let counted = counts[page as usize].load(Relaxed);
        assert_eq!(cache.read(page)?, Some(counted), "page {page} lost a write");
    }
    let cached = cache.pages.lock().unwrap().len() as u64;
    assert_eq!(
        cached,
        PAGES / 2,
        "every page before the end, and none past it"
    );
    // No range is held any more, so everything but the root is freed.
    cache.lock.shrink();
    assert_eq!(cache.lock.memory_usage(), empty);
    println!("every remaining page holds what was written to it");
    Ok(())
}

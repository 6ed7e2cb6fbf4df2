//! A page cache under a range lock: who holds a page's range may rely on the page.
//!
//! Threads read and write pages of one file, a reclaimer evicts pages behind their backs, and a
//! truncate cuts the file in half meanwhile. Nobody counts references to a page: it is read under a
//! hold of its range, written and removed under an exclusive one. So a page that somebody is at can
//! neither change nor go.
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

use spanlock_range_lock::{RangeError, RangeLockExt};
use spanlock_srl::SrlTree;

const PAGE: u64 = 4096;
/// How large a file may become: 1 TiB. The tree takes memory for what is used of it.
const LARGEST: u64 = 1 << 40;
const PAGES: u64 = 4096;
const WORKERS: u64 = 4;
const STEPS: u64 = 20_000;

/// What a page holds: here one number, 512 times, so that half a write would show.
type Content = [u64; PAGE as usize / 8];

struct Page(UnsafeCell<Content>);

// SAFETY: the content is read under a hold of the page's range, and written under an exclusive one.
unsafe impl Sync for Page {}

struct Cache {
    /// Of the file's bytes.
    lock: SrlTree,
    /// What is in memory. The mutex is held to look up, never while a page is read, written or
    /// loaded.
    pages: Mutex<BTreeMap<u64, Arc<Page>>>,
    /// Stands for the device.
    device: Mutex<BTreeMap<u64, Content>>,
    /// In pages. Changes while everything behind its new place is held: so who holds a page before
    /// it may rely on it.
    size: AtomicU64,
}

fn bytes(page: u64) -> Range<u64> {
    page * PAGE..(page + 1) * PAGE
}

impl Cache {
    /// Two readers of a page may be at it at once. `None`: the page lies behind the end.
    fn read(&self, page: u64) -> Result<Option<u64>, RangeError> {
        let _hold = self.lock.read(bytes(page))?;
        if page >= self.size.load(Relaxed) {
            return Ok(None);
        }
        let found = self.find(page);
        // SAFETY: the page's range is held: nobody writes.
        let content = unsafe { &*found.0.get() };
        assert!(content.iter().all(|n| *n == content[0]), "half a write");
        Ok(Some(content[0]))
    }

    /// Adds one to a page. Returns whether it was there.
    fn count(&self, page: u64) -> Result<bool, RangeError> {
        let _hold = self.lock.write(bytes(page))?;
        if page >= self.size.load(Relaxed) {
            return Ok(false);
        }
        let found = self.find(page);
        // SAFETY: the page's range is held exclusively: nobody else reads or writes.
        let content = unsafe { &mut *found.0.get() };
        content.iter_mut().for_each(|n| *n += 1);
        Ok(true)
    }

    /// A page whose range the caller holds; loads it if it is not in memory.
    fn find(&self, page: u64) -> Arc<Page> {
        if let Some(found) = self.pages.lock().unwrap().get(&page) {
            return found.clone();
        }
        let stored = self.device.lock().unwrap().get(&page).copied();
        let content = stored.unwrap_or([0; _]);
        // Two readers may both have loaded it, and the same: nobody writes while they hold it. The
        // first one's stays.
        let loaded = Arc::new(Page(UnsafeCell::new(content)));
        let mut pages = self.pages.lock().unwrap();
        pages.entry(page).or_insert(loaded).clone()
    }

    /// Writes a page back and removes it, unless somebody is at it: then another will do. So a try,
    /// which never waits.
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

    /// Cuts the file off.
    fn truncate(&self, size: u64) -> Result<(), RangeError> {
        // 268 million segments: a wide request, which takes no words but closes the gate and looks
        // at those there are.
        let _tail = self.lock.write(size * PAGE..LARGEST)?;
        self.size.store(size, Relaxed);
        self.pages.lock().unwrap().split_off(&size);
        self.device.lock().unwrap().split_off(&size);
        Ok(())
    }
}

/// Reads pages, and counts in pages, as they come.
fn work(cache: &Cache, counts: &[AtomicU64], worker: u64) {
    let mut random = fastrand::Rng::with_seed(worker);
    for _ in 0..STEPS {
        // It may be cut off before it is held: then there is nothing to count.
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
    println!("lock words of {PAGES} pages: {filled} bytes; of none: {empty}");

    let counts = Vec::from_iter((0..PAGES).map(|_| AtomicU64::new(0)));
    let evicted = thread::scope(|scope| {
        let (cache, counts) = (&cache, &counts);
        let worker = |worker| scope.spawn(move || work(cache, counts, worker));
        let workers = Vec::from_iter((0..WORKERS).map(worker));
        scope.spawn(|| cache.truncate(PAGES / 2).expect("within the file"));
        // Memory is short: this thread reclaims.
        let mut random = fastrand::Rng::with_seed(WORKERS);
        let mut evicted = 0;
        while !workers.iter().all(|worker| worker.is_finished()) {
            evicted += u64::from(cache.evict(random.u64(0..PAGES)));
        }
        evicted
    });
    println!("{evicted} pages evicted meanwhile");

    // The words of what was cut off can go. A reclaimer does this: right after the truncate others
    // may be on their way there, and what they are at stays until the next call.
    let freed = (cache.lock).shrink_range(cache.size.load(Relaxed) * PAGE..LARGEST)?;
    assert!(freed > 0 && cache.lock.memory_usage() < filled);
    println!("{freed} bytes of lock words given back for the half that was cut off");
    assert_eq!(cache.read(PAGES - 1)?, None);
    for page in 0..PAGES / 2 {
        let counted = counts[page as usize].load(Relaxed);
        assert_eq!(cache.read(page)?, Some(counted), "page {page} lost a write");
    }
    let cached = cache.pages.lock().unwrap().len() as u64;
    assert_eq!(cached, PAGES / 2, "all of the rest, and nothing behind it");
    // The file is closed, or memory is short: nobody holds anything.
    cache.lock.shrink();
    assert_eq!(cache.lock.memory_usage(), empty);
    println!("every page of the rest holds what was written to it");
    Ok(())
}

//! Files enter memory when they are opened, and leave it when others are opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock, mpsc};
use std::time::Duration;

use spanlock_file_core::{Error, FormatOptions, OpenOptions, Volume};
use spanlock_range_lock::{
    Access, LockId, RangeError, RawRangeLock, RwCounter, Span, Token, TryLockError,
};

use crate::common::*;

/// More files than stay in memory.
const MANY: usize = 3000;

fn name(number: usize) -> String {
    format!("file {number}")
}

/// Returns a volume with many files, each of which contains its name.
fn with_files() -> crate::common::Volume {
    let volume = format(4 * MANY as u64, &FormatOptions::new().inodes(4096));
    for number in 0..MANY {
        let file = volume.create(&name(number)).unwrap();
        file.write_at(name(number).as_bytes(), 0).unwrap();
    }
    volume
}

#[test]
fn a_volume_makes_a_lock_for_an_opened_file_only() {
    let volume = with_files();
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    let locks = move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        RwCounter::new()
    };
    let (volume, report) = Volume::open(Arc::clone(volume.pmem()), locks).unwrap();
    assert_eq!(report.files, MANY as u64);
    assert_eq!(volume.list().len(), MANY);
    assert_eq!(made.load(Ordering::Relaxed), 0);
    let file = volume.open_file(&name(7)).unwrap();
    let again = volume.open_file(&name(7)).unwrap();
    again.append(b"!").unwrap();
    assert_eq!(file.size(), 7);
    assert_eq!(made.load(Ordering::Relaxed), 1);
}

#[test]
fn a_file_that_left_memory_is_as_it_was() {
    let volume = with_files();
    let held = volume.open_file(&name(0)).unwrap();
    for round in 0..3 {
        for number in 0..MANY {
            let file = volume.open_file(&name(number)).unwrap();
            let content = content(&file);
            assert_eq!(&content[..name(number).len()], name(number).as_bytes());
            assert_eq!(content.len(), name(number).len() + round, "{number}");
            file.append(b".").unwrap();
        }
    }
    // A file that is open stays: both handles are of one file.
    held.write_at(b"F", 0).unwrap();
    assert_eq!(&content(&volume.open_file(&name(0)).unwrap())[..4], b"File");
    let reopened = reopen(&volume);
    assert_eq!(reopened.list(), volume.list());
    assert_eq!(reopened.stats().pages_free, volume.stats().pages_free);
}

#[test]
fn removing_files_that_are_not_in_memory_frees_their_pages() {
    let volume = with_files();
    let removed = reopen(&volume);
    for number in 0..MANY {
        removed.remove(&name(number)).unwrap();
    }
    let stats = removed.stats();
    assert_eq!(stats.pages_free + stats.log_pages, stats.pages_total);
    assert_eq!(stats.inodes_free, stats.inodes_total);
    assert_eq!(reopen(&removed).stats().pages_free, stats.pages_free);
}

#[test]
fn threads_that_open_one_file_get_one_file() {
    let volume = reopen(&with_files());
    let barrier = Barrier::new(4);
    for number in 0..200 {
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (volume, barrier) = (&volume, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let file = volume.open_file(&name(number)).unwrap();
                    file.write_at(&[thread as u8 + 1], 4096 * (thread + 1))
                        .unwrap();
                });
            }
        });
        let content = content(&volume.open_file(&name(number)).unwrap());
        let written = (1..5_usize).map(|thread| content[4096 * thread]);
        assert_eq!(written.collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
}

#[test]
fn threads_may_open_and_remove_one_file() {
    let volume = with_files();
    let volume = reopen(&volume);
    let free = volume.stats().inodes_free;
    for number in 0..200 {
        std::thread::scope(|scope| {
            let opens = scope.spawn(|| volume.open_file(&name(number)).map(|it| content(&it)));
            let removes = scope.spawn(|| volume.remove(&name(number)));
            removes.join().unwrap().unwrap();
            if let Ok(content) = opens.join().unwrap() {
                assert_eq!(content, name(number).as_bytes());
            }
        });
        assert!(volume.open_file(&name(number)).is_err());
    }
    assert_eq!(volume.stats().inodes_free, free + 200);
    let (now, again) = (volume.stats(), reopen(&volume).stats());
    assert_eq!(now.pages_free, again.pages_free);
}

/// A file that one thread evicts can be opened, changed and removed by another one.
#[test]
fn threads_may_evict_open_and_remove_the_same_files() {
    const FILES: u64 = 3;
    let volume = format(2000, &FormatOptions::new().inodes(32));
    let options = OpenOptions::new().cached_files(0);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    let opened = Volume::open_with(Arc::clone(volume.pmem()), &options, lock);
    let (volume, _) = opened.unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (volume, mut rng) = (&volume, Rng::new(seed));
            scope.spawn(move || {
                for _ in 0..2000 {
                    let name = name(rng.below(FILES) as usize);
                    if rng.below(20) == 0 {
                        // Another thread may have removed it.
                        let removed = volume.remove(&name);
                        let is_gone = matches!(removed, Ok(()) | Err(Error::NotFound { .. }));
                        assert!(is_gone, "{removed:?}");
                        continue;
                    }
                    let file = volume.open_or_create(&name).unwrap();
                    file.write_at(&[1; 10], rng.below(100) * PAGE).unwrap();
                }
            });
        }
    });
    let again = reopen(&volume);
    assert_eq!(again.list(), volume.list());
    assert_eq!(again.stats().pages_free, volume.stats().pages_free);
    for (name, _) in volume.list() {
        let [one, other] = [&volume, &again].map(|it| content(&it.open_file(&name).unwrap()));
        assert!(one == other, "{name}");
    }
}

type Shared = Arc<OnceLock<Volume<Arc<Mem>, Curious>>>;

/// A lock that uses the volume when it is dropped.
struct Curious {
    lock: RwCounter,
    volume: Shared,
    act: fn(&Volume<Arc<Mem>, Curious>),
}

impl Drop for Curious {
    fn drop(&mut self) {
        if let Some(volume) = self.volume.get() {
            (self.act)(volume);
        }
    }
}

// SAFETY: every method is that of the lock inside.
unsafe impl RawRangeLock for Curious {
    fn capacity(&self) -> u64 {
        self.lock.capacity()
    }

    fn id(&self) -> Option<&LockId> {
        self.lock.id()
    }

    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        self.lock.lock(span, access)
    }

    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        self.lock.try_lock(span, access)
    }

    unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
        // SAFETY: as the caller says.
        unsafe { self.lock.unlock(span, access, token) }
    }
}

/// Opens the volume with such locks, and calls `test` with it in another thread. Fails if that does
/// not return.
fn with_curious(
    mem: Arc<Mem>,
    options: OpenOptions,
    act: fn(&Volume<Arc<Mem>, Curious>),
    test: fn(&Volume<Arc<Mem>, Curious>),
) {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let shared = Shared::default();
        let volume = Arc::clone(&shared);
        let make = move |_| {
            let (lock, volume) = (RwCounter::new(), Arc::clone(&volume));
            Ok::<_, String>(Curious { lock, volume, act })
        };
        let (volume, _) = Volume::open_with(mem, &options, make).unwrap();
        assert!(shared.set(volume.clone()).is_ok());
        test(&volume);
        done.send(()).unwrap();
    });
    let minute = Duration::from_secs(60);
    is_done.recv_timeout(minute).expect("no operation hangs");
}

#[test]
fn a_creation_drops_the_locks_that_it_evicts_without_a_mutex() {
    let mem = Arc::clone(format(256, &FormatOptions::new()).pmem());
    // A lookup that finds nothing takes the directory's mutex.
    let looks: fn(&Volume<_, _>) = |volume| assert!(!volume.exists("missing"));
    with_curious(mem, OpenOptions::new().cached_files(0), looks, |volume| {
        (0..20).for_each(|number| drop(volume.create(&name(number)).unwrap()));
    });
}

#[test]
fn an_opening_that_fails_drops_its_lock_when_others_may_open_the_file() {
    let volume = format(256, &FormatOptions::new());
    volume.create("a").unwrap();
    let mut bytes = volume.pmem().bytes();
    // The generation of the inode of "a".
    bytes[PAGE as usize + 128 + 8] ^= 1;
    let is_damaged = |volume: &Volume<_, Curious>| {
        let error = volume.open_file("a").err();
        assert!(matches!(error, Some(Error::Corrupt { .. })), "{error:?}");
    };
    let opens: fn(&Volume<_, _>) = |volume| {
        static DONE: AtomicBool = AtomicBool::new(false);
        // The opening in the destructor drops a lock, too.
        if !DONE.swap(true, Ordering::Relaxed) {
            let error = volume.open_file("a").err();
            assert!(matches!(error, Some(Error::Corrupt { .. })), "{error:?}");
        }
    };
    let options = OpenOptions::new().read_only(true);
    with_curious(Mem::from_bytes(&bytes), options, opens, is_damaged);
}

/// They leave when a file is opened, even if that one is in memory.
#[test]
fn files_that_were_open_at_the_same_time_leave_memory() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    let mem = Arc::clone(format(1024, &FormatOptions::new()).pmem());
    let counts: fn(&Volume<_, _>) = |_| _ = DROPPED.fetch_add(1, Ordering::Relaxed);
    with_curious(mem, OpenOptions::new().cached_files(10), counts, |volume| {
        let create = |number| volume.create(&name(number)).unwrap();
        let files: Vec<_> = (0..100).map(create).collect();
        let dropped = || DROPPED.load(Ordering::Relaxed);
        assert_eq!(dropped(), 0);
        let last = files.into_iter().next_back();
        for _ in 0..50 {
            volume.open_file(&name(99)).unwrap();
        }
        assert_eq!(dropped(), 90);
        drop(last);
    });
}

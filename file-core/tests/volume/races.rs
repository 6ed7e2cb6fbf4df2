//! Threads that meet at a chosen moment: the region calls the test back before a fence.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use spanlock_file_core::{Durability, Error, File, FileCore, FormatOptions};
use spanlock_pmem::{Durable, Flushed, Pmem, Written};

use crate::common::{AnyLock, Mem, PAGE, open, segments};

type Hook = Box<dyn FnOnce() + Send>;

/// A region that calls a hook before its next fence, once.
struct Hooked {
    mem: Arc<Mem>,
    hook: Mutex<Option<Hook>>,
}

type Grouping = FileCore<Arc<Hooked>, AnyLock>;
type Handle = File<Arc<Hooked>, AnyLock>;

/// Creates a volume that groups changes.
fn grouping(pages: u64) -> Grouping {
    let region = Arc::new(Hooked {
        mem: Mem::new(pages * PAGE),
        hook: Mutex::new(None),
    });
    let options = FormatOptions::new().durability(Durability::AtSync);
    FileCore::format(region, &options, segments).unwrap()
}

fn at_next_fence(volume: &Grouping, hook: impl FnOnce() + Send + 'static) {
    *volume.pmem().hook.lock().unwrap() = Some(Box::new(hook));
}

// SAFETY: every method is that of the region inside.
unsafe impl Pmem for Hooked {
    fn len(&self) -> u64 {
        self.mem.len()
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        // SAFETY: as the caller says.
        unsafe { self.mem.read(at, into) }
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        // SAFETY: as the caller says.
        unsafe { self.mem.write(at, data) }
    }

    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        // SAFETY: as the caller says.
        unsafe { self.mem.write_streaming(at, data) }
    }

    fn flush(&self, written: Written) -> Flushed {
        self.mem.flush(written)
    }

    fn fence(&self, flushed: Flushed) -> Durable {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        self.mem.fence(flushed)
    }

    fn publish(&self, at: u64, value: u64, durable: Durable) -> Written {
        self.mem.publish(at, value, durable)
    }

    fn load(&self, at: u64) -> u64 {
        self.mem.load(at)
    }
}

/// Makes the next sync panic before its first fence.
fn fail_a_sync(volume: &Grouping, meanwhile: impl FnOnce() + Send + 'static) {
    at_next_fence(volume, move || {
        // In another thread: this one is about to panic.
        thread::spawn(meanwhile).join().unwrap();
        panic!("the medium fails");
    });
    let synced = catch_unwind(AssertUnwindSafe(|| volume.sync()));
    assert!(synced.is_err());
}

/// The later change contains bytes of the one that is lost.
#[test]
fn a_change_beside_a_sync_that_panics_is_lost_with_the_one_it_overlaps() {
    let volume = grouping(1024);
    let file = volume.create("a").unwrap();
    file.write_at(&[1; 2 * PAGE as usize], 0).unwrap();
    volume.sync().unwrap();
    file.write_at(&[2; 2 * PAGE as usize], 0).unwrap();
    let other = file.clone();
    fail_a_sync(&volume, move || other.write_at(&[3], 100).unwrap());
    assert!(matches!(volume.sync(), Err(Error::Poisoned { .. })));
    let region = Arc::clone(volume.pmem());
    drop((file, volume));
    let (again, _) = open(&Mem::from_words(region.mem.words())).unwrap();
    let mut bytes = vec![0; 2 * PAGE as usize];
    again
        .open_file("a")
        .unwrap()
        .read_at(&mut bytes, 0)
        .unwrap();
    assert!(bytes.iter().all(|byte| *byte == 1), "a write is torn");
}

/// A name would be durable, and what it stands for would not.
#[test]
fn after_a_sync_that_panicked_no_name_changes() {
    let volume = grouping(1024);
    volume.create("config").unwrap().append(b"old").unwrap();
    volume.sync().unwrap();
    let file = volume.create("new").unwrap();
    file.append(b"new").unwrap();
    fail_a_sync(&volume, || ());
    for result in [
        volume.rename("new", "config"),
        volume.link("new", "other"),
        volume.exchange("new", "config"),
    ] {
        assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
    }
    let region = Arc::clone(volume.pmem());
    drop((file, volume));
    let (again, _) = open(&Mem::from_words(region.mem.words())).unwrap();
    assert_eq!(again.open_file("config").unwrap().size(), 3);
}

/// A thread that lacks pages waits for a sync in progress, finds nothing to sync, and tries again.
#[test]
fn pages_that_another_threads_sync_frees_are_used() {
    let volume = grouping(1024);
    let [big, small] = ["big", "small"].map(|name| volume.create(name).unwrap());
    small.append(&[1]).unwrap();
    while big.append(&[7; PAGE as usize]).is_ok() {}
    volume.sync().unwrap();
    big.truncate(big.size() - 40 * PAGE).unwrap();
    let (begun, has_begun) = mpsc::channel();
    at_next_fence(&volume, move || {
        let appends = move || small.append(&[9; 4 * PAGE as usize]).map(drop);
        begun.send(thread::spawn(appends)).unwrap();
        // Until it waits, if it does. The test passes in any case.
        thread::sleep(std::time::Duration::from_millis(50));
    });
    volume.sync().unwrap();
    has_begun.recv().unwrap().join().unwrap().unwrap();
}

/// A sync finds changes to make durable each time.
#[test]
fn beside_a_thread_that_keeps_writing_an_operation_that_lacks_space_fails() {
    const MANY: u32 = 10;
    fn write_at_each_fence(volume: &Grouping, file: Handle, times: Arc<AtomicU32>) {
        let again = volume.clone();
        at_next_fence(volume, move || {
            file.write_at(&[2], 0).unwrap();
            if times.fetch_add(1, Ordering::Relaxed) < MANY {
                write_at_each_fence(&again, file, times);
            }
        });
    }
    let volume = grouping(1024);
    let [big, small] = ["big", "small"].map(|name| volume.create(name).unwrap());
    small.append(&[1]).unwrap();
    while big.append(&[7; PAGE as usize]).is_ok() {}
    volume.sync().unwrap();
    small.write_at(&[2], 0).unwrap();
    let times = Arc::new(AtomicU32::new(0));
    write_at_each_fence(&volume, small, Arc::clone(&times));
    let full = big.append(&[7; PAGE as usize]);
    assert!(matches!(full, Err(Error::NoSpace { .. })), "{full:?}");
    let times = times.load(Ordering::Relaxed);
    assert!((1..MANY).contains(&times), "{times} writes");
    *volume.pmem().hook.lock().unwrap() = None;
}

/// A name is counted before it can be found.
#[test]
fn a_file_that_can_be_found_has_a_name() {
    let volume = crate::common::format(4096, &FormatOptions::new().inodes(5000));
    thread::scope(|scope| {
        let creates = scope.spawn(|| {
            (0..4000).for_each(|number| drop(volume.create(&format!("{number}")).unwrap()));
        });
        let mut number = 0;
        while !creates.is_finished() {
            if let Ok(links) = volume.links(&format!("{number}")) {
                assert_eq!(links, 1);
                number += 1;
            }
        }
    });
}

/// A cleaning makes the changes durable that have returned, so it must say if they are lost.
#[test]
fn after_a_sync_that_panicked_no_cleaning_succeeds() {
    let volume = grouping(1024);
    let [lost, other] = ["lost", "other"].map(|name| volume.create(name).unwrap());
    lost.append(b"x").unwrap();
    fail_a_sync(&volume, || ());
    let directory = volume.open_dir("").unwrap();
    for result in [volume.clean(), other.clean(), directory.clean()] {
        assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
    }
}

#[test]
fn cleaning_a_directory_makes_changes_durable() {
    let volume = grouping(1024);
    let file = volume.create("a").unwrap();
    file.append(b"x").unwrap();
    volume.open_dir("").unwrap().clean().unwrap();
    let (again, _) = open(&Mem::from_words(volume.pmem().mem.words())).unwrap();
    assert_eq!(again.open_file("a").unwrap().size(), 1);
}

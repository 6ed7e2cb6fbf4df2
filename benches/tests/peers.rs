//! The logs of other projects behind their adapters, and the hook beneath them.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use spanlock_benches::journal::calls::{self, FlushCall, Hook, WriteCall};
use spanlock_benches::journal::peers::{PEERS, PeerKind};

/// Counts calls, and fails flushes on request.
#[derive(Default)]
struct Counting {
    writes: AtomicUsize,
    bytes: AtomicUsize,
    flushes: AtomicUsize,
    fails: AtomicBool,
}

impl Hook for Counting {
    fn write(&self, call: &WriteCall<'_>) -> io::Result<usize> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(call.data.len(), Ordering::Relaxed);
        call.make(call.data)
    }

    fn flush(&self, call: &FlushCall<'_>) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        call.make()
    }
}

fn each_peer(test: impl Fn(&PeerKind)) {
    for kind in &PEERS {
        println!("{} {}", kind.name, kind.version);
        test(kind);
    }
}

#[test]
fn appended_records_are_recovered() {
    each_peer(|kind| {
        let folder = tempfile::tempdir().unwrap();
        let hook = Arc::new(Counting::default());
        let watch = calls::watch(folder.path(), hook.clone()).unwrap();
        let peer = (kind.open)(folder.path()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let peer = &peer;
                scope.spawn(move || {
                    for nth in 0..50 {
                        peer.append_durable(&[thread, nth, 3]).unwrap();
                    }
                });
            }
        });
        peer.tidy().unwrap();
        peer.close().unwrap();
        drop(watch);
        assert!(hook.flushes.load(Ordering::Relaxed) > 0);
        assert!(hook.writes.load(Ordering::Relaxed) > 0);
        assert!(hook.bytes.load(Ordering::Relaxed) >= 600);
        let mut found = (kind.records)(folder.path()).unwrap();
        found.sort();
        let wanted = (0..4).flat_map(|thread| (0..50).map(move |nth| vec![thread, nth, 3]));
        assert_eq!(found, Vec::from_iter(wanted));
    });
}

/// A single record takes one flush, once the log has created its files.
#[test]
fn a_single_record_takes_one_flush() {
    each_peer(|kind| {
        let folder = tempfile::tempdir().unwrap();
        let hook = Arc::new(Counting::default());
        let _watch = calls::watch(folder.path(), hook.clone()).unwrap();
        let peer = (kind.open)(folder.path()).unwrap();
        peer.append_durable(b"the first").unwrap();
        let before = hook.flushes.load(Ordering::Relaxed);
        for _ in 0..20 {
            peer.append_durable(b"another").unwrap();
        }
        assert_eq!(hook.flushes.load(Ordering::Relaxed) - before, 20);
    });
}

/// A hook's result is passed to the caller.
#[test]
fn a_failed_flush_is_reported_to_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    let hook = Arc::new(Counting::default());
    let watch = calls::watch(folder.path(), hook.clone()).unwrap();
    let file = fs::File::create(folder.path().join("file")).unwrap();
    hook.fails.store(true, Ordering::Relaxed);
    let error = file.sync_data().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert!(file.sync_all().is_err());
    drop(watch);
    file.sync_all().unwrap();
    assert_eq!(hook.flushes.load(Ordering::Relaxed), 2);
}

#[test]
fn only_calls_in_the_watched_folder_are_intercepted() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hook = Arc::new(Counting::default());
    let _watch = calls::watch(folder.path(), hook.clone()).unwrap();
    fs::write(other.path().join("file"), "not seen").unwrap();
    assert_eq!(hook.writes.load(Ordering::Relaxed), 0);
    fs::create_dir(folder.path().join("below")).unwrap();
    fs::write(folder.path().join("below/file"), "seen").unwrap();
    assert_eq!(hook.writes.load(Ordering::Relaxed), 1);
    assert_eq!(fs::read(folder.path().join("below/file")).unwrap(), b"seen");
    assert!(calls::watch(&folder.path().join("nowhere"), hook).is_err());
}

/// The versions in reports are those that are compiled in.
#[test]
fn versions_match_the_lock_file() {
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");
    let lock = fs::read_to_string(lock).unwrap();
    each_peer(|kind| {
        let package = format!("name = \"{}\"\nversion = \"{}\"\n", kind.name, kind.version);
        assert!(lock.contains(&package), "{package}");
    });
}

//! Tests that need access to private items: how write-backs take turns.

use std::sync::mpsc;
use std::time::Duration;

use super::*;

fn storage() -> (tempfile::TempDir, FileStorage) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let storage = FileStorage::create(path, 4096, FileMode::Buffered).unwrap();
    (folder, storage)
}

/// A write-back that fails is known before the next one begins. The first one waits a while for the
/// second, because no event shows that a thread begins nothing.
#[test]
fn write_backs_take_turns() {
    let (_folder, storage) = storage();
    let (starts, started) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let storage = &storage;
    std::thread::scope(|scope| {
        let second = scope.spawn(move || {
            started.recv().unwrap();
            storage.alone(|| {
                begins.send(()).unwrap();
                Ok(())
            })
        });
        let first = storage.alone(|| {
            starts.send(()).unwrap();
            assert!(begun.recv_timeout(Duration::from_millis(200)).is_err());
            Err(io::Error::other("lost"))
        });
        assert_eq!(first.unwrap_err().to_string(), "lost");
        let error = second.join().unwrap().unwrap_err();
        assert!(
            error.to_string().contains("an earlier failure: lost"),
            "{error}"
        );
    });
    assert!(begun.try_recv().is_err(), "the second never began");
    assert!(storage.flush().is_err() && storage.write_fua(&[1; 512], 0).is_err());
}

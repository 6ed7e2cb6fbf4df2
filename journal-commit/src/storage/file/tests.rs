//! Tests that need access to private items: which files are made durable, and how write-backs take
//! turns.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::*;

thread_local! {
    static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// Called when a file or a folder was made durable.
pub(super) fn note_synced(path: &Path) {
    SYNCED.with_borrow_mut(|all| all.push(path.to_owned()));
}

/// The name of a new file is durable only if its folder is.
#[test]
fn a_new_file_and_its_folder_are_made_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    FileStorage::create(&path, 4096, FileMode::Buffered).unwrap();
    let expected = [path, folder.path().to_owned()];
    assert_eq!(SYNCED.take(), expected);
}

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

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

/// Systems other than Linux have one mode only, and refuse the others before anything is touched.
#[test]
fn direct_modes_need_linux() {
    for mode in [FileMode::Direct, FileMode::Dsync] {
        assert!(mode.check(true).is_ok());
        let error = mode.check(false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("FileMode::Buffered"), "{error}");
    }
    assert!(FileMode::Buffered.check(false).is_ok());
}

/// Linux has all the calls of the other systems, so its tests run this code, too.
#[test]
fn the_files_of_other_systems() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    std::fs::write(&path, [1; 1024]).unwrap();
    let open = |path: &Path| {
        let mut options = OpenOptions::new();
        other::open(options.read(true).write(true), path, FileMode::Buffered)
    };
    for not_a_file in [folder.path(), Path::new("/dev/null")] {
        let error = open(not_a_file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(
        open(&folder.path().join("none")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    assert_eq!(other::flags(FileMode::Buffered), 0);

    let file = open(&path).unwrap();
    other::allocate(&file, 2048).unwrap();
    other::fill_holes(&file, &path, 1024).unwrap();
    other::write_durably(&file, &[2; 512], 256).unwrap();
    let found = std::fs::read(&path).unwrap();
    assert_eq!(found, [&[1; 256][..], &[2; 512], &[1; 256]].concat());
}

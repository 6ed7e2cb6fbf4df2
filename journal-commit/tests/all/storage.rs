//! Tests of the storages: files, persistent memory, and the recording device.

use std::io::{self, ErrorKind};

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::{FileMode, FileStorage, Part, PmemStorage};
use spanlock_journal_commit::testing::{Fault, FaultAt, FaultKind, Loss, Recorded};
use spanlock_pmem::{MappedFile, Options};

/// Checks the operations that every storage must support.
fn exercise(storage: &dyn Storage) {
    let len = storage.len();
    assert!(len >= 1 << 20);
    let data: Vec<u8> = (0..4096_u32).map(|i| (i * 7) as u8).collect();
    storage.write_at(&data, 8192).unwrap();
    storage.flush().unwrap();
    storage.write_fua(&data[..512], len - 512).unwrap();
    let mut back = vec![0; 4000];
    storage.read_at(&mut back, 8192 + 96).unwrap();
    assert_eq!(back, data[96..]);
    let mut end = [0; 512];
    storage.read_at(&mut end, len - 512).unwrap();
    assert_eq!(end, data[..512]);
    for offset in [len, len - 511, u64::MAX] {
        let found = storage.write_at(&data[..512], offset).unwrap_err();
        assert_eq!(found.kind(), ErrorKind::InvalidInput, "{found}");
        assert!(storage.write_fua(&data[..512], offset).is_err());
        assert!(storage.read_at(&mut end, offset).is_err());
    }
    // Threads write to disjoint places.
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            scope.spawn(move || {
                let block = [thread; 1024];
                for round in 0..8 {
                    let at = (u64::from(thread) * 8 + round) * 1024;
                    storage.write_at(&block, at).unwrap();
                    storage.flush().unwrap();
                }
            });
        }
    });
    let mut all = vec![0; 64 << 10];
    storage.read_at(&mut all, 0).unwrap();
    let expected = |i: usize| (i / 1024 / 8) as u8;
    assert!(all.iter().enumerate().all(|(i, byte)| *byte == expected(i)));
}

#[test]
fn every_file_mode_works() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [FileMode::Buffered, FileMode::Direct, FileMode::Dsync] {
        let path = folder.path().join(format!("{mode:?}"));
        match FileStorage::create(&path, 1 << 20, mode) {
            Ok(storage) => exercise(&storage),
            Err(error) if mode != FileMode::Buffered => {
                println!("SKIPPED {mode:?}: not supported by this file system: {error}");
                let left = std::fs::read_dir(folder.path()).unwrap();
                assert_eq!(left.count(), 1, "a refused creation leaves nothing behind");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn an_unaligned_direct_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Ok(storage) = FileStorage::create(folder.path().join("f"), 1 << 20, FileMode::Direct)
    else {
        println!("SKIPPED: this file system does not support direct transfers");
        return;
    };
    assert!(storage.write_at(&[0; 512], 100).is_err());
    assert!(storage.write_at(&[0; 100], 512).is_err());
    // Buffers need not be aligned.
    let memory = vec![3; 2000];
    storage.write_at(&memory[1..1537], 512).unwrap();
}

#[test]
fn a_file_has_one_opener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = FileStorage::create(&path, 4096, FileMode::Buffered).unwrap();
    let second = FileStorage::open(&path, FileMode::Buffered).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::ResourceBusy, "{second}");
    assert!(
        second.to_string().contains("journal: another opener"),
        "{second}"
    );
    drop(first);
    assert_eq!(
        FileStorage::open(&path, FileMode::Buffered).unwrap().len(),
        4096
    );
    let again = FileStorage::create(&path, 4096, FileMode::Buffered).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let none = FileStorage::open(folder.path().join("none"), FileMode::Buffered).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    assert!(none.to_string().contains("none: "), "{none}");
    assert!(FileStorage::open(folder.path(), FileMode::Buffered).is_err());
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge");
    let error = FileStorage::create(&path, 1 << 60, FileMode::Buffered).unwrap_err();
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "{error}");
}

/// A crash leaves nothing under the file's name, and a temporary file of any length.
#[test]
fn an_interrupted_creation_of_a_file_can_be_repeated() {
    const LEN: u64 = 1 << 20;
    for len in [0, 512, LEN - 4096, LEN, 2 * LEN] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        std::fs::write(path.with_extension("spanlock-new"), vec![7; len as usize]).unwrap();
        let none = FileStorage::open(&path, FileMode::Buffered).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound, "{none}");
        drop(FileStorage::create(&path, LEN, FileMode::Buffered).unwrap());
        let storage = FileStorage::open(&path, FileMode::Buffered).unwrap();
        let mut content = vec![1; storage.len() as usize];
        storage.read_at(&mut content, 0).unwrap();
        assert_eq!(content, vec![0; LEN as usize]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn an_empty_file_is_a_storage_of_no_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty");
    drop(FileStorage::create(&path, 0, FileMode::Buffered).unwrap());
    let storage = FileStorage::open(&path, FileMode::Buffered).unwrap();
    assert_eq!(storage.len(), 0);
}

#[test]
fn persistent_memory_works() {
    let folder = tempfile::tempdir().unwrap();
    let region = MappedFile::create(folder.path().join("pm"), 1 << 20, Options::new()).unwrap();
    let storage = PmemStorage::new(region);
    exercise(&storage);
    let len = (1 << 20) + 4096;
    let region = MappedFile::create(folder.path().join("sectors"), len, Options::new()).unwrap();
    exercise(&PmemStorage::sectors(region).unwrap());
    // The region has more stripes than there are locks.
    let region = MappedFile::create(folder.path().join("big"), 8 << 20, Options::new()).unwrap();
    PmemStorage::new(region)
        .write_at(&vec![1; 8 << 20], 0)
        .unwrap();
}

#[test]
fn the_recording_device_is_a_storage() {
    exercise(&Recorded::new(1 << 20));
}

#[test]
fn a_crash_keeps_what_is_durable_and_any_part_of_the_rest() {
    let device = Recorded::new(1 << 12);
    device.write_at(&[1; 1024], 0).unwrap();
    device.flush().unwrap();
    let flushed = device.now();
    device.write_at(&[2; 1024], 0).unwrap();
    device.write_at(&[3; 512], 1024).unwrap();
    device.write_fua(&[4; 512], 2048).unwrap();
    let history = device.history();
    assert_eq!(history.in_flight(flushed), 0);
    assert_eq!(history.in_flight(history.len()), 2);

    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let image = history.image(history.len(), Loss::Sectors(seed));
        assert_eq!(image[2048], 4, "a durable write persists");
        assert!(image[0] != 0 && image[512] != 0, "flushed data persists");
        seen.insert((image[0], image[512], image[1024]));
    }
    assert_eq!(seen.len(), 8, "all eight combinations of three sectors");
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let image = history.image(history.len(), Loss::Writes(seed));
        assert_eq!(image[0], image[512], "whole writes");
        seen.insert((image[0], image[1024]));
    }
    assert_eq!(seen.len(), 4);
    // Until a durable write has ended, a crash can lose it like any other write.
    let image = history.image(history.len() - 1, Loss::Everything);
    assert_eq!((image[0], image[2048]), (1, 0));
}

#[test]
fn planned_failures_occur_as_planned() {
    for (kind, after) in [(FaultKind::Error, 0), (FaultKind::Short, 9)] {
        let device = Recorded::new(1 << 12);
        let at = FaultAt::Write(1);
        device.plan(Fault {
            at,
            kind,
            for_ever: false,
            drop_dirty: false,
        });
        device.write_at(&[5; 512], 0).unwrap();
        assert!(device.write_at(&[9; 1024], 1024).is_err());
        assert_eq!((device.visible()[1024], device.visible()[1536]), (after, 0));
        device.write_at(&[9; 512], 0).unwrap();
        assert_eq!(device.failures(), 1);
    }
    let device = Recorded::new(1 << 12);
    let at = FaultAt::Flush(0);
    device.plan(Fault {
        at,
        kind: FaultKind::Error,
        for_ever: true,
        drop_dirty: true,
    });
    device.write_at(&[5; 512], 0).unwrap();
    assert_eq!(device.visible()[0], 5);
    assert!(device.flush().is_err());
    assert_eq!(device.visible()[0], 0, "dirty data is lost");
    assert!(device.write_at(&[5; 512], 0).is_err(), "for ever");
}

#[test]
fn a_read_only_region_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("region");
    let region = MappedFile::create(&path, 1 << 20, Options::default()).unwrap();
    PmemStorage::new(region).write_at(b"kept", 0).unwrap();
    let open = || MappedFile::open_read_only(&path).unwrap();
    for storage in [
        PmemStorage::new(open()),
        PmemStorage::sectors(open()).unwrap(),
    ] {
        for refused in [storage.write_at(b"lost", 0), storage.write_fua(b"lost", 0)] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{error}");
        }
        let mut found = [0; 4];
        storage.read_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"kept");
    }
}

#[test]
fn a_part_keeps_to_its_bytes() {
    let device = Recorded::new(4096);
    let part = Part::new(&device, 512..2048).unwrap();
    assert_eq!(part.len(), 1536);
    part.write_at(&[1; 100], 1436).unwrap();
    part.write_fua(&[2; 512], 0).unwrap();
    let mut found = [0; 100];
    part.read_at(&mut found, 1436).unwrap();
    assert_eq!(found, [1; 100]);
    let refused = |it: io::Result<()>| it.unwrap_err().kind() == ErrorKind::InvalidInput;
    assert!(refused(part.write_at(&[1; 100], 1437)));
    assert!(refused(part.write_fua(&[1; 512], 1536)));
    assert!(refused(part.read_at(&mut found, u64::MAX)));
    let bytes = device.visible();
    let used = bytes.iter().enumerate().filter(|(_, it)| **it != 0);
    let used: Vec<_> = used.map(|(at, _)| at).collect();
    assert!(used.into_iter().eq((512..1024).chain(1948..2048)));
    for range in [0..4097, 5000..5000] {
        assert!(refused(Part::new(&device, range).map(drop)));
    }
}

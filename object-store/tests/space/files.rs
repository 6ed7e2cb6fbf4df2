//! Spaces in sparse files and in mapped files.

use std::os::unix::fs::MetadataExt;

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::storage::FileMode;
use spanlock_object_store::space::{Disk, Error, Medium, Options, Persistent, Space, Vector};
use spanlock_pmem::MappedFile;

use crate::common::{create, open};

#[test]
fn the_largest_file_takes_room_only_for_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("space");
    let file = Disk::create_file(&path, None, FileMode::Buffered).unwrap();
    let len = file.len();
    assert!(len >= 1 << 40, "{len}");
    let space = create(file, &Options::new());
    assert!(space.stats().places > len / 4200);
    let allocated = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let before = allocated();
    assert!(before < 16 << 20, "{before}");
    let data = vec![7; 4 << 20];
    space.write_batch(&[Vector::write(1 << 50, &data)]).unwrap();
    assert!(allocated() >= before + data.len() as u64);
    // A trim makes holes.
    space.trim(1 << 50..(1 << 50) + data.len() as u64).unwrap();
    space.checkpoint().unwrap();
    assert!(allocated() < before + (1 << 20), "{}", allocated());
    drop(space);
    let space = open(Disk::open_file(&path, FileMode::Buffered).unwrap()).unwrap();
    let mut found = [1; 100];
    space.read(1 << 50, &mut found).unwrap();
    assert_eq!(found, [0; 100]);
}

#[test]
fn a_file_has_one_opener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("space");
    let file = Disk::create_file(&path, Some((32 << 20) + 100), FileMode::Buffered).unwrap();
    assert_eq!(file.len(), 32 << 20);
    let again = Disk::open_file(&path, FileMode::Buffered).unwrap_err();
    assert!(again.to_string().contains("another opener"), "{again}");
    let again = Disk::create_file(&path, None, FileMode::Buffered).unwrap_err();
    assert!(matches!(again, Error::Io { .. }), "{again}");
    drop(file);
    // A creation that was cut off here has left a file without a space.
    let file = Disk::open_file(&path, FileMode::Buffered).unwrap();
    assert!(matches!(open(file), Err(Error::NotASpace)));
    let file = Disk::open_file(&path, FileMode::Buffered).unwrap();
    drop(create(file, &Options::new()));
}

#[test]
fn direct_transfers_and_a_mapped_file_hold_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..100_000).map(|nth: u32| (nth % 251) as u8).collect();
    fn check<M: Medium>(space: &Space<M, IntervalLock>, data: &[u8]) {
        space.write_batch(&[Vector::write(12_345, data)]).unwrap();
        let mut found = vec![0; data.len() + 2];
        space.read(12_344, &mut found).unwrap();
        assert_eq!(&found[1..=data.len()], data);
        assert_eq!((found[0], found[data.len() + 1]), (0, 0));
    }
    let path = folder.path().join("direct");
    let options = Options::new();
    // Not every file system has direct transfers.
    if let Ok(file) = Disk::create_file(path, Some(32 << 20), FileMode::Direct) {
        check(&create(file, &options), &data);
    }
    let path = folder.path().join("mapped");
    let region = MappedFile::create(&path, 8 << 20, spanlock_pmem::Options::new()).unwrap();
    check(
        &create(Persistent::new(region), &options.rings(3, 65_536)),
        &data,
    );
    let region = MappedFile::open(&path, spanlock_pmem::Options::new()).unwrap();
    let space = open(Persistent::new(region)).unwrap();
    check(&space, &data);
}

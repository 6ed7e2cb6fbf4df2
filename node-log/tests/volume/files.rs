//! Volumes in files.

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::{FileMode, FileStorage, PmemStorage};
use spanlock_node_log::{BlockHome, BlockVolume, Error, Home, Nvm, NvmVolume, Options, Volume};
use spanlock_pmem::MappedFile;

use crate::common::{BLOCK, pattern};

type Lock = IntervalLock;

/// Writes to a volume and reads from it again.
fn fill<H: Home, S: Storage>(volume: Volume<H, S, Lock>) {
    let file = volume.create_file("file").unwrap();
    file.write_at(&pattern(1, 50_000), 5000).unwrap();
    file.write_at(&pattern(2, 50_000), 2000 * BLOCK as u64)
        .unwrap();
    file.fsync().unwrap();
    volume
        .create_file("other")
        .unwrap()
        .append(b"other")
        .unwrap();
    volume.checkpoint().unwrap();
}

fn look<H: Home, S: Storage>(mut volume: Volume<H, S, Lock>) {
    assert_eq!(volume.names(), ["file", "other"]);
    let file = volume.open_file("file").unwrap();
    let mut found = vec![0; 50_000];
    assert_eq!(file.read_at(&mut found, 5000).unwrap(), 50_000);
    assert!(found == pattern(1, 50_000));
    assert_eq!(
        file.read_at(&mut found, 2000 * BLOCK as u64).unwrap(),
        50_000
    );
    assert!(found == pattern(2, 50_000));
    let report = volume.check().unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    assert_eq!((report.files, report.nodes), (2, 3));
}

#[test]
fn a_volume_is_in_a_file_and_persistent_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (blocks, nodes) = (folder.path().join("blocks"), folder.path().join("nodes"));
    for mode in [FileMode::Buffered, FileMode::Direct] {
        let data = match FileStorage::create(&blocks, 40 << 20, mode) {
            Ok(data) => data,
            // Not every file system has direct transfers.
            Err(_) if mode == FileMode::Direct => continue,
            Err(error) => panic!("{error}"),
        };
        let region = MappedFile::create(&nodes, 4 << 20, Default::default()).unwrap();
        let options = Options::new();
        let volume = NvmVolume::create(data, Nvm::new(region), &options, |_| Lock::new());
        fill(volume.unwrap());
        let data = FileStorage::open(&blocks, mode).unwrap();
        let region = MappedFile::open(&nodes, Default::default()).unwrap();
        let volume = NvmVolume::open(data, Nvm::new(region), &options, |_| Lock::new());
        look(volume.unwrap());
        // A region that can only be read suffices to read.
        let data = FileStorage::open(&blocks, mode).unwrap();
        let region = MappedFile::open_read_only(&nodes).unwrap();
        let options = options.read_only(true);
        let volume = NvmVolume::open(data, Nvm::new(region), &options, |_| Lock::new());
        look(volume.unwrap());
        std::fs::remove_file(&blocks).unwrap();
        std::fs::remove_file(&nodes).unwrap();
    }
}

#[test]
fn a_volume_is_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocks");
    let options = Options::new();
    let data = FileStorage::create(&path, 8 << 20, FileMode::Buffered).unwrap();
    let volume = BlockVolume::create_on(data, &options, |_| Lock::new());
    assert!(
        matches!(volume, Err(Error::BadOption { .. })),
        "segments of 2 MiB"
    );
    let options = options.segment_blocks(64);
    let open = || FileStorage::open(&path, FileMode::Buffered).unwrap();
    fill(BlockVolume::create_on(open(), &options, |_| Lock::new()).unwrap());
    let again = BlockVolume::create_on(open(), &options, |_| Lock::new());
    assert!(matches!(again, Err(Error::Occupied { .. })));
    look(BlockVolume::open_on(open(), &options, |_| Lock::new()).unwrap());
    // A part of the file is missing.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(4 << 20).unwrap();
    let short = BlockVolume::open_on(open(), &options, |_| Lock::new());
    assert!(matches!(short, Err(Error::TooSmall { .. })), "{short:?}");
}

/// The first step of the paper: nodes of 4 KiB in persistent memory.
#[test]
fn blocks_of_nodes_are_in_persistent_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (blocks, nodes) = (folder.path().join("blocks"), folder.path().join("nodes"));
    let options = Options::new().segment_blocks(64);
    let create = |data, home| {
        let locks = |_| Lock::new();
        Volume::<BlockHome<PmemStorage<MappedFile>>, _, _>::create(data, home, &options, locks)
    };
    let data = FileStorage::create(&blocks, 8 << 20, FileMode::Buffered).unwrap();
    let region = MappedFile::create(&nodes, 8 << 20, Default::default()).unwrap();
    fill(create(data, PmemStorage::sectors(region).unwrap()).unwrap());
    let data = FileStorage::open(&blocks, FileMode::Buffered).unwrap();
    let region = MappedFile::open(&nodes, Default::default()).unwrap();
    let home = PmemStorage::sectors(region).unwrap();
    look(Volume::<BlockHome<_>, _, _>::open(data, home, &options, |_| Lock::new()).unwrap());
}

//! Volumes that are opened to be read only: nothing is written, and damage keeps nobody from the
//! files that are intact.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use crate::common::{Mem, PAGE, Rng, Volume, content, format, segments};
use spanlock_file_core::{Error, FormatOptions, OpenOptions, RecoveryReport, fsck};

/// Opens the volume read-only, in a region that is read-only from here on.
pub(crate) fn open_read_only(mem: &Arc<Mem>) -> Result<(Volume, RecoveryReport), Error> {
    mem.set_read_only(true);
    let options = OpenOptions::new().read_only(true).grow(true);
    let lock = |capacity| Ok::<_, Error>(segments(capacity));
    Volume::open_with(Arc::clone(mem), &options, lock)
}

/// Creates a volume with files in a tree of directories.
fn sample() -> Volume {
    let volume = format(128, &FormatOptions::new().inodes(32));
    volume.create_dir_all("a/b").unwrap();
    for (nth, path) in ["one", "a/two", "a/b/three", "a/four"].iter().enumerate() {
        let file = volume.create(path).unwrap();
        for page in 0..5 {
            let bytes = vec![nth as u8 + 1; 3000 + 1000 * nth];
            file.write_at(&bytes, page * 2 * PAGE).unwrap();
        }
    }
    volume.link("one", "a/one again").unwrap();
    volume.rename("a/four", "a/five").unwrap();
    volume
}

pub(crate) fn read_all(volume: &Volume) -> BTreeMap<String, Vec<u8>> {
    let names = volume.list().into_iter();
    names
        .map(|(name, _)| (name.clone(), content(&volume.open_file(&name).unwrap())))
        .collect()
}

#[test]
fn every_change_is_refused_and_nothing_is_written() {
    let volume = sample();
    let expected = read_all(&volume);
    let mut bytes = volume.pmem().bytes();
    // Not even to repair a superblock, or to grow.
    bytes[20] ^= 1;
    let mem = Mem::from_bytes(&bytes);
    let (volume, report) = open_read_only(&mem).unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert!(!report.superblock_repaired);
    assert_eq!((report.files, report.directories), (4, 2));
    assert_eq!(read_all(&volume), expected);

    let file = volume.open_file("one").unwrap();
    let dir = volume.open_dir("a").unwrap();
    let root = volume.open_dir("").unwrap();
    let refused = [
        volume.create("new").err(),
        volume.open_or_create("new").err(),
        volume.create_dir("new").err(),
        volume.create_dir_all("new/newer").err(),
        volume.remove("one").err(),
        volume.remove_dir("a/b").err(),
        volume.rename("one", "two").err(),
        volume.link("one", "two").err(),
        volume.exchange("one", "a/two").err(),
        dir.create("new").err(),
        dir.create_dir("new").err(),
        dir.remove("two").err(),
        root.remove_dir("a").err(),
        dir.remove_dir("b").err(),
        dir.rename("two", "new").err(),
        dir.rename_into("two", &root, "new").err(),
        dir.rename_into("b", &root, "new").err(),
        dir.exchange("two", &dir, "five").err(),
        dir.exchange("b", &root, "one").err(),
        dir.link("two", &dir, "new").err(),
        file.write_at(b"x", 0).err(),
        file.append(b"x").err(),
        file.truncate(1).err(),
        file.punch_hole(0..PAGE).err(),
        file.allocate(0..100 * PAGE).err(),
        file.allocate_keeping_size(0..100 * PAGE).err(),
        file.set_modified(SystemTime::now()).err(),
        volume.clean().err(),
        dir.clean().err(),
        file.clean().err(),
    ];
    for (nth, error) in refused.into_iter().enumerate() {
        assert_eq!(error, Some(Error::ReadOnly), "operation {nth}");
    }
    let error = std::io::Error::from(Error::ReadOnly);
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    volume.create_dir_all("a/b").unwrap();
    volume.open_or_create("one").unwrap();
    assert!(volume.check().unwrap().damaged.is_empty());
    assert_eq!(read_all(&volume), expected);
    drop((file, dir, root, volume));
    assert_eq!(mem.bytes(), bytes);
}

#[test]
fn a_damaged_file_is_refused_and_the_others_are_read() {
    let volume = sample();
    let expected = read_all(&volume);
    let mut bytes = volume.pmem().bytes();
    // The line of the inode of "a/two": the root, the directories and "one" come before it.
    bytes[PAGE as usize + 4 * 128 + 20] ^= 1;
    let mem = Mem::from_bytes(&bytes);
    let message = crate::common::open(&mem).unwrap_err().to_string();
    assert!(message.contains("repair the damage with fsck"), "{message}");
    let (volume, report) = open_read_only(&mem).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].path.as_deref(), Some("a/two"));
    assert_eq!(report.findings[0].place.inode, Some(4));
    for (path, bytes) in &expected {
        match volume.open_file(path) {
            Ok(file) => assert_eq!(content(&file), *bytes, "{path}"),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                assert_eq!(path, "a/two");
            }
        }
    }
    assert_eq!(mem.bytes(), bytes);
}

/// The names in a directory that cannot be read are refused, and those beside it are read.
#[test]
fn a_damaged_directory_is_refused_and_the_others_are_read() {
    let mut bytes = sample().pmem().bytes();
    let line = PAGE as usize + 2 * 128;
    bytes[line..line + 64].fill(0xEE);
    let (volume, report) = open_read_only(&Mem::from_bytes(&bytes)).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].path.as_deref(), Some("a/b"));
    let dir = volume.open_dir("a").unwrap();
    let errors = [
        volume.open_dir("a/b").err(),
        dir.open_dir("b").err(),
        volume.open_file("a/b/three").err(),
        volume.read_dir("a/b").err(),
    ];
    for error in errors {
        assert!(matches!(error, Some(Error::Corrupt { .. })), "{error:?}");
    }
    assert!(volume.exists("a/b") && !volume.exists("a/b/three"));
    let names: Vec<_> = volume.list().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a/five", "a/one again", "a/two", "one"]);
}

/// Damage that takes names from a directory does not make them look as if they had never been.
#[test]
fn a_name_that_damage_has_taken_is_not_reported_as_absent() {
    let sound = sample().pmem().bytes();
    // The head pointers of the root and of "a/b".
    for (number, path, listed) in [(0, "one", 0), (2, "a/b/three", 4)] {
        let mut bytes = sound.clone();
        let head = PAGE as usize + number * 128;
        bytes[head..head + 8].fill(0x5A);
        let (volume, report) = open_read_only(&Mem::from_bytes(&bytes)).unwrap();
        assert_eq!(report.findings.len(), 1);
        let error = volume.open_file(path).err();
        assert!(matches!(error, Some(Error::Corrupt { .. })), "{error:?}");
        assert!(!volume.exists(path));
        assert_eq!(volume.list().len(), listed);
        let error = volume.open_file("a/b/three/below").err();
        assert!(matches!(error, Some(Error::Corrupt { .. })), "{error:?}");
        if number == 2 {
            assert_eq!(volume.read_dir("a/b").unwrap(), []);
            let error = volume.open_file("absent").err();
            assert!(matches!(error, Some(Error::NotFound { .. })), "{error:?}");
        }
    }
}

#[test]
fn a_read_only_region_is_neither_formatted_nor_repaired() {
    let volume = sample();
    let expected = read_all(&volume);
    let mem = Arc::clone(volume.pmem());
    drop(volume);
    let bytes = mem.bytes();
    mem.set_read_only(true);
    let options = FormatOptions::new();
    let refused = [
        crate::common::open(&mem).err(),
        Volume::format(Arc::clone(&mem), &options, segments).err(),
        fsck::repair(&mem).err(),
    ];
    for error in refused {
        assert_eq!(error, Some(Error::ReadOnlyRegion));
    }
    let error = std::io::Error::from(Error::ReadOnlyRegion);
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert!(fsck::check(&mem).unwrap().is_sound());
    let (volume, _) = open_read_only(&mem).unwrap();
    assert_eq!(read_all(&volume), expected);
    drop(volume);
    assert_eq!(mem.bytes(), bytes);
}

/// Whatever is damaged: the volume opens, files have their content or are refused, and nothing is
/// written.
#[test]
fn flipped_bits_never_change_what_is_read() {
    let volume = sample();
    let expected = read_all(&volume);
    let bytes = volume.pmem().bytes();
    let is_log = |page: &[u8]| {
        page[4040..4092] != [0; 52]
            && crc32c::crc32c(&page[4040..4092]).to_le_bytes() == page[4092..]
    };
    let pages = bytes.chunks_exact(PAGE as usize).enumerate();
    let metadata: Vec<usize> = (pages)
        .filter(|(nth, page)| *nth == 1 || is_log(page))
        .map(|(nth, _)| nth)
        .collect();
    let mut rng = Rng::new(3);
    let mut refused = 0;
    for round in 0..1500 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + round % 8 {
            let page = metadata[rng.below(metadata.len() as u64) as usize];
            // Mostly the parts in use.
            let at = match rng.below(3) {
                0 => rng.below(PAGE),
                1 => rng.below(10 * 64),
                _ => 4032 + rng.below(64),
            };
            damaged[page * PAGE as usize + at as usize] ^= 1 << rng.below(8);
        }
        let mem = Mem::from_bytes(&damaged);
        let (volume, report) = open_read_only(&mem).unwrap();
        let mut is_intact = true;
        for (path, bytes) in &expected {
            match volume.open_file(path) {
                Ok(file) => assert_eq!(content(&file), *bytes, "round {round}, {path}"),
                Err(Error::Corrupt { .. }) => (refused, is_intact) = (refused + 1, false),
                // Not even a lost name is reported as absent.
                Err(error) => panic!("round {round}, {path}: {error}"),
            }
        }
        assert!(is_intact || !report.findings.is_empty(), "round {round}");
        assert_eq!(mem.bytes(), damaged, "round {round}");
    }
    assert!(refused > 1000, "{refused}");
}

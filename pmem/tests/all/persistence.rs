//! Written bytes are there when the region is opened again.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::common::{assert_holds, folder, get, pattern, put, region};
use spanlock_pmem::{MappedFile, Options, Pmem};

#[test]
fn a_new_region_is_zero_and_allocated() {
    let folder = folder();
    let region = region(&folder, 1 << 20);
    assert_eq!(region.len(), 1 << 20);
    assert_holds(&region, 0, &vec![0; 1 << 20]);
    let found = fs::metadata(region.path()).unwrap();
    assert_eq!(found.len(), 1 << 20);
    assert!(
        found.blocks() * 512 >= 1 << 20,
        "every block is allocated before the first store"
    );
}

#[test]
fn bytes_and_words_persist_under_every_option() {
    for (created, opened) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = folder();
        let path = folder.path().join("region");
        let region = MappedFile::create(&path, 16384, Options::new().msync(created)).unwrap();
        let data = put(&region, 5000, &pattern(3, 7000));
        // SAFETY: only one thread runs, and it fences before it accesses the bytes.
        let streamed = unsafe { region.write_streaming(61, &pattern(4, 900)) };
        let mark = region.publish(16376, 12345, data.and(region.fence(streamed)));
        region.persist(mark);
        drop(region);

        let region = MappedFile::open(&path, Options::new().msync(opened)).unwrap();
        assert_eq!(region.len(), 16384);
        assert_eq!(region.load(16376), 12345);
        assert_holds(&region, 5000, &pattern(3, 7000));
        assert_holds(&region, 61, &pattern(4, 900));
        assert_holds(&region, 0, &[0; 61]);
    }
}

#[test]
fn the_file_holds_what_the_region_holds() {
    let folder = folder();
    let region = region(&folder, 8192);
    put(&region, 100, &pattern(9, 5000));
    region.sync().unwrap();
    region.check().unwrap();
    let file = fs::read(region.path()).unwrap();
    assert_eq!(&file[100..5100], pattern(9, 5000));
}

#[test]
fn a_foreign_file_is_opened_and_its_holes_are_filled() {
    let folder = folder();
    let path = folder.path().join("region");
    let sparse = fs::File::create(&path).unwrap();
    sparse.set_len(1 << 20).unwrap();
    drop(sparse);
    let region = MappedFile::open(&path, Options::new()).unwrap();
    assert_holds(&region, 0, &vec![0; 1 << 20]);
    assert!(fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20);
}

#[test]
fn a_link_opens_its_target() {
    let folder = folder();
    let region = region(&folder, 4096);
    put(&region, 0, b"through a link");
    let path = region.path().to_owned();
    drop(region);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let region = MappedFile::open(&link, Options::new()).unwrap();
    assert_eq!(get(&region, 0, 14), b"through a link");
}

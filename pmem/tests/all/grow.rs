//! Growing keeps contents and offsets; a region never shrinks.

use crate::common::{assert_holds, folder, get, pattern, put, region};
use spanlock_pmem::{Durable, MappedFile, Options, Pmem, PmemError};

#[test]
fn contents_stay_and_the_new_bytes_are_zero() {
    let folder = folder();
    let mut region = region(&folder, 4096);
    put(&region, 0, &pattern(1, 4096));
    let mut len = 4096;
    for new_len in [8192, 12288, 1 << 20, 16 << 20] {
        region.grow(new_len).unwrap();
        assert_eq!(region.len(), new_len);
        assert_eq!(std::fs::metadata(region.path()).unwrap().len(), new_len);
        assert_holds(&region, 0, &pattern(1, 4096));
        let added = (new_len - len) as usize;
        assert_holds(&region, len, &vec![0; added]);
        put(&region, new_len - 4096, &pattern(2, 4096));
        put(&region, new_len - 4096, &[0; 4096]);
        len = new_len;
    }
    put(&region, len - 8, b"the end.");
    let path = region.path().to_owned();
    drop(region);
    let region = MappedFile::open(&path, Options::new()).unwrap();
    assert_eq!(region.len(), len);
    assert_holds(&region, 0, &pattern(1, 4096));
    assert_eq!(get(&region, len - 8, 8), b"the end.");
}

#[test]
fn tokens_survive_growing() {
    let folder = folder();
    let mut region = region(&folder, 4096);
    // SAFETY: only one thread runs.
    let written = unsafe { region.write(8, b"written before, flushed after") };
    region.grow(64 << 20).unwrap();
    let mark = region.publish(0, 29, region.persist(written));
    region.persist(mark);
    assert_eq!(
        get(&region, 8, region.load(0) as usize),
        b"written before, flushed after"
    );
}

#[test]
fn growing_to_the_current_length_has_no_effect() {
    let folder = folder();
    let mut region = region(&folder, 8192);
    let mark = region.publish(8184, 9, Durable::at_rest());
    region.persist(mark);
    region.grow(8192).unwrap();
    assert_eq!((region.len(), region.load(8184)), (8192, 9));
}

#[test]
fn bad_lengths_leave_the_region_as_it_was() {
    let folder = folder();
    let mut region = region(&folder, 8192);
    put(&region, 0, &pattern(5, 8192));
    for new_len in [0, 8191, 8193, 1 << 63, u64::MAX] {
        let error = region.grow(new_len).unwrap_err();
        assert!(matches!(error, PmemError::BadLength { len, .. } if len == new_len));
    }
    let error = region.grow(4096).unwrap_err();
    assert!(matches!(
        error,
        PmemError::Shrink {
            len: 8192,
            new_len: 4096,
            ..
        }
    ));
    assert!(
        error
            .to_string()
            .contains("cannot shrink from 8192 to 4096 bytes")
    );
    assert_eq!(region.len(), 8192);
    assert_eq!(std::fs::metadata(region.path()).unwrap().len(), 8192);
    assert_holds(&region, 0, &pattern(5, 8192));
}

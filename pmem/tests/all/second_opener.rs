//! A file has one opener, in this process and in any other.

use std::path::Path;

use crate::common::{child, folder, region};
use spanlock_pmem::{MappedFile, Options, PmemError};

const PATH: &str = "SPANLOCK_SECOND_OPENER_TEST_PATH";

fn assert_in_use(path: &Path) {
    let error = MappedFile::open(path, Options::new()).unwrap_err();
    assert!(matches!(error, PmemError::InUse { .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains(path.to_str().unwrap()) && message.contains("in use"),
        "{message}"
    );
}

#[test]
fn a_second_opener_in_this_process_is_refused() {
    let folder = folder();
    let mut region = region(&folder, 4096);
    let path = region.path().to_owned();
    assert_in_use(&path);
    region.grow(8192).unwrap();
    assert_in_use(&path);
    let link = folder.path().join("link");
    std::fs::hard_link(&path, &link).unwrap();
    assert_in_use(&link);
    drop(region);

    let region = MappedFile::open(&path, Options::new()).unwrap();
    assert_in_use(&path);
    drop(region);
    drop(MappedFile::open(&path, Options::new()).unwrap());
}

/// The child's part.
#[test]
fn child_is_refused() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    assert_in_use(Path::new(&path));
}

#[test]
fn a_second_opener_in_another_process_is_refused() {
    let folder = folder();
    let region = region(&folder, 4096);
    let output = child("second_opener::child_is_refused", PATH, region.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn creating_over_an_open_region_is_refused_and_harmless() {
    let folder = folder();
    let region = region(&folder, 4096);
    let error = MappedFile::create(region.path(), 8192, Options::new()).unwrap_err();
    assert!(matches!(error, PmemError::AlreadyExists { .. }));
    assert_eq!(std::fs::metadata(region.path()).unwrap().len(), 4096);
}

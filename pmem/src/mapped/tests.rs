//! Tests that need access to private items: a disk that refuses to write back.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::PmemError;
use crate::mapped::{MappedFile, Options};
use crate::region::Pmem;
use crate::tokens::Durable;

thread_local! {
    static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// Called when a file or a folder was made durable.
pub(crate) fn note_synced(path: &Path) {
    SYNCED.with_borrow_mut(|all| all.push(path.to_owned()));
}

/// The file is durable before it has its name, and the name is durable only if the folder is.
#[test]
fn a_new_file_and_its_folder_are_made_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("region");
    drop(MappedFile::create(&path, 4096, Options::new()).unwrap());
    assert_eq!(
        SYNCED.take(),
        [&path.with_extension("spanlock-new"), folder.path()]
    );
    drop(MappedFile::open(&path, Options::new()).unwrap());
    assert!(SYNCED.take().is_empty());
}

fn region(folder: &tempfile::TempDir) -> MappedFile {
    let options = Options::new().msync(true);
    MappedFile::create(folder.path().join("region"), 4096, options).unwrap()
}

#[test]
fn a_failed_write_back_is_never_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut region = region(&folder);
    assert!(region.check().is_ok());

    let failed = region.write_back_with(|| Err(Errno::IO)).unwrap_err();
    assert!(
        matches!(&failed, PmemError::WriteBack { source, .. } if source.raw_os_error() == Some(5))
    );

    // The disk would accept it now, but the region must not ask.
    let retried = region.write_back_with(|| panic!("asked the disk again"));
    assert!(matches!(retried, Err(PmemError::WriteBack { .. })));
    assert!(matches!(region.check(), Err(PmemError::WriteBack { .. })));
    assert!(matches!(region.sync(), Err(PmemError::WriteBack { .. })));
    assert!(matches!(
        region.grow(8192),
        Err(PmemError::WriteBack { .. })
    ));
    assert_eq!(region.len(), 4096);
    assert_eq!(std::fs::metadata(region.path()).unwrap().len(), 4096);
}

#[test]
fn no_token_comes_out_of_a_failed_write_back() {
    let folder = tempfile::tempdir().unwrap();
    let region = region(&folder);
    let _ = region.write_back_with(|| Err(Errno::IO));

    let mark = region.publish(0, 1, Durable::at_rest());
    assert!(matches!(
        region.try_flush(mark),
        Err(PmemError::WriteBack { .. })
    ));

    let mark = region.publish(0, 2, Durable::at_rest());
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(region.flush(mark)))).unwrap_err();
    let message = panicked.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("writing back failed") && message.contains("os error 5"),
        "{message}"
    );

    let streamed = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: only this thread uses the region.
        let flushed = unsafe { region.write_streaming(64, &[1; 64]) };
        drop(flushed);
    }));
    assert!(streamed.is_err());
    // Bytes in memory can still be read.
    assert_eq!(region.load(0), 2);
}

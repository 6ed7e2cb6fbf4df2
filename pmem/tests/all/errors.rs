//! Every bad input is an error that says what is wrong, where, and what to do, and leaves the disk
//! unchanged.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::folder;
use spanlock_pmem::{FlushInstruction, MappedFile, Options, PmemError};

/// Fails unless the message names the path and contains `advice`.
fn assert_says(error: &PmemError, path: &Path, advice: &str) {
    let message = error.to_string();
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    assert!(message.contains(advice), "{message}");
}

fn create(path: &Path, len: u64) -> PmemError {
    MappedFile::create(path, len, Options::new()).expect_err("creating must fail")
}

fn open(path: &Path) -> PmemError {
    MappedFile::open(path, Options::new()).expect_err("opening must fail")
}

#[test]
fn create_refuses_lengths_that_cannot_be_mapped() {
    let folder = folder();
    let path = folder.path().join("region");
    for len in [0, 1, 4095, 4097, 1 << 63, u64::MAX, u64::MAX - 4095] {
        let error = create(&path, len);
        assert!(matches!(error, PmemError::BadLength { len: found, .. } if found == len));
        assert_says(&error, &path, "multiple of 4096");
        assert!(!path.exists());
    }
}

#[test]
fn create_refuses_a_file_that_exists_and_leaves_it() {
    let folder = folder();
    let path = folder.path().join("region");
    fs::write(&path, "somebody's").unwrap();
    let error = create(&path, 4096);
    assert!(matches!(error, PmemError::AlreadyExists { .. }));
    assert!(error.source().is_some());
    assert_says(&error, &path, "open it with `MappedFile::open`");
    assert_eq!(fs::read(&path).unwrap(), b"somebody's");
}

#[test]
fn create_refuses_a_missing_folder_and_a_dangling_link() {
    let folder = folder();
    let path = folder.path().join("no such folder").join("region");
    let error = create(&path, 4096);
    assert!(matches!(error, PmemError::NotFound { .. }));
    assert_says(&error, &path, "in a folder that exists");

    // The name of a dangling link is taken.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    assert!(matches!(
        create(&link, 4096),
        PmemError::AlreadyExists { .. }
    ));
}

#[test]
fn a_folder_is_refused() {
    let folder = folder();
    for error in [create(folder.path(), 4096), open(folder.path())] {
        assert!(
            matches!(
                error,
                PmemError::NotAFile {
                    kind: "a folder",
                    ..
                }
            ),
            "{error:?}"
        );
        assert_says(&error, folder.path(), "pass the path of a file");
    }
}

#[test]
fn a_device_is_refused() {
    let path = Path::new("/dev/null");
    for error in [create(path, 4096), open(path)] {
        assert!(matches!(error, PmemError::NotAFile { .. }), "{error:?}");
        assert_says(&error, path, "not a regular file");
    }
}

#[test]
fn a_path_through_a_file_is_refused() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let path = file.join("region");
    for error in [create(&path, 4096), open(&path)] {
        assert!(matches!(error, PmemError::Io { .. }), "{error:?}");
        assert!(error.source().is_some());
        assert_says(&error, &path, "opening failed");
    }
}

#[test]
fn open_refuses_a_missing_file() {
    let folder = folder();
    let path = folder.path().join("region");
    let error = open(&path);
    assert!(matches!(error, PmemError::NotFound { .. }));
    assert_says(&error, &path, "create the file with `MappedFile::create`");
    assert!(!path.exists());
}

#[test]
fn open_refuses_an_empty_file() {
    let folder = folder();
    let path = folder.path().join("region");
    fs::write(&path, "").unwrap();
    let error = open(&path);
    assert!(matches!(error, PmemError::Empty { .. }));
    assert_says(&error, &path, "remove it and use `MappedFile::create`");
}

#[test]
fn open_refuses_a_file_with_a_partial_page_and_leaves_it() {
    let folder = folder();
    let path = folder.path().join("region");
    fs::write(&path, vec![7; 5000]).unwrap();
    let error = open(&path);
    assert!(matches!(error, PmemError::BadLength { len: 5000, .. }));
    assert_says(&error, &path, "5000 bytes");
    assert_eq!(fs::read(&path).unwrap(), vec![7; 5000]);
}

#[test]
fn missing_permission_is_reported() {
    let folder = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().join("region");
    drop(MappedFile::create(&path, 4096, Options::new()).unwrap());
    fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    let new = folder.path().join("new");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Root may do anything, so only this thread gives up being root.
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                let error = create(&new, 4096);
                assert!(
                    matches!(error, PmemError::PermissionDenied { .. }),
                    "{error:?}"
                );
            }
            let error = open(&path);
            assert!(
                matches!(error, PmemError::PermissionDenied { .. }),
                "{error:?}"
            );
            assert!(error.source().is_some());
            assert_says(&error, &path, "readable and writable");
        });
    });
    assert!(!new.exists());
}

#[test]
fn a_missing_instruction_is_refused_before_a_file_is_created() {
    let every = [
        FlushInstruction::Clwb,
        FlushInstruction::ClflushOpt,
        FlushInstruction::Clflush,
        FlushInstruction::DcCvac,
    ];
    let lacking: Vec<_> = every
        .into_iter()
        .filter(|one| !one.is_available())
        .collect();
    assert!(
        !lacking.is_empty(),
        "no processor is both x86-64 and AArch64"
    );
    let folder = folder();
    let path = folder.path().join("region");
    for instruction in lacking {
        for options in [Options::new(), Options::new().msync(true)] {
            let options = options.flush_instruction(instruction);
            let error = MappedFile::create(&path, 4096, options).unwrap_err();
            assert!(
                matches!(error, PmemError::NoSuchInstruction { asked, .. } if asked == instruction)
            );
            assert!(
                error
                    .to_string()
                    .contains(&format!("no `{instruction}` instruction"))
            );
            assert!(!path.exists());
        }
    }
}

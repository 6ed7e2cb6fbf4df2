//! Opening block devices: one that has another user is refused.
//!
//! A program of its own: a process that another test starts would have a copy of the open device
//! for a moment, in which the device cannot be mounted.

#![cfg(feature = "jbd2")]
#![cfg(target_os = "linux")]

#[path = "ext4/images.rs"]
mod images;

use std::io::ErrorKind;

use images::{Image, Loop, Mount};
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::{FileMode, FileStorage};

/// Checks that the device is refused, and that the error says why and what to do.
fn check_refused(device: &Loop) {
    for mode in [FileMode::Buffered, FileMode::Direct, FileMode::Dsync] {
        let error = FileStorage::open(&device.path, mode).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
        let text = error.to_string();
        let path = device.path.display().to_string();
        assert!(
            text.starts_with(&path) && text.contains("mounted") && text.contains("unmount it"),
            "{text}"
        );
    }
}

#[test]
fn a_device_with_another_user_is_refused() {
    if !images::have_loop_mounts() {
        return;
    }
    let image = Image::new(1024, "metadata_csum,64bit", 1);
    let device = Loop::new(&image.path);
    let point = image.folder().join("point");
    // Even if it is mounted for reading only, its pages are in memory.
    for options in ["rw", "ro"] {
        let mount = Mount::new(&device.path, &point, options);
        check_refused(&device);
        drop(mount);
    }

    let storage = FileStorage::open(&device.path, FileMode::Buffered).unwrap();
    assert_eq!(storage.len(), image.bytes().len() as u64);
    check_refused(&device);
    assert!(Mount::try_new(&device.path, &point, "rw").is_err());
    drop(storage);
    drop(Mount::new(&device.path, &point, "rw"));
}

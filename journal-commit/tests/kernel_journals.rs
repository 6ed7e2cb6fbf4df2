//! Journals that the running kernel writes: file systems are mounted with several features and
//! options, and used. Snapshots of the device while it is mounted are what a crash leaves. This
//! crate recovers them, and `e2fsck -E journal_only` does. The results must be the same, block by
//! block.
//!
//! A program of its own: beside the tests in `ext4/`, some runs found blocks that differ. Reading a
//! snapshot takes time, in which the kernel may write.

#![cfg(feature = "jbd2")]
#![cfg(target_os = "linux")]

#[path = "ext4/images.rs"]
mod images;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use images::{Image, Loop, Mount, tool};
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::jbd2::{Recovery, recover};
use spanlock_journal_commit::storage::{FileMode, FileStorage};

/// A file system to try: block size, features, mount options.
struct Kind {
    block_bytes: u32,
    features: &'static str,
    options: &'static str,
}

const KINDS: [Kind; 8] = [
    Kind {
        block_bytes: 1024,
        features: "metadata_csum,64bit",
        options: "data=ordered",
    },
    Kind {
        block_bytes: 4096,
        features: "metadata_csum,64bit",
        options: "data=journal",
    },
    Kind {
        block_bytes: 1024,
        features: "metadata_csum,^64bit",
        options: "data=journal",
    },
    Kind {
        block_bytes: 1024,
        features: "^metadata_csum,64bit",
        options: "data=writeback",
    },
    Kind {
        block_bytes: 2048,
        features: "^metadata_csum,^64bit",
        options: "data=journal",
    },
    // Checksums of the first kind.
    Kind {
        block_bytes: 1024,
        features: "^metadata_csum,64bit",
        options: "data=journal,journal_checksum",
    },
    // A commit block without a flush before it.
    Kind {
        block_bytes: 1024,
        features: "^metadata_csum,64bit",
        options: "data=writeback,journal_async_commit",
    },
    Kind {
        block_bytes: 1024,
        features: "metadata_csum,64bit,bigalloc",
        options: "data=journal,nobarrier",
    },
];

/// The number of snapshots of each file system.
const SNAPSHOTS: u32 = 3;

/// The number of blocks in each image.
const BLOCKS: u64 = 4096;

/// Makes a file system with a small journal.
fn made(folder: &Path, kind: &Kind) -> std::path::PathBuf {
    let path = folder.join("image");
    let size = u64::from(kind.block_bytes) * BLOCKS;
    fs::File::create(&path).unwrap().set_len(size).unwrap();
    let mut make = tool("mke2fs");
    let bytes = kind.block_bytes.to_string();
    let journal = format!("size={}", kind.block_bytes / 1024);
    make.args(["-q", "-F", "-t", "ext4", "-b", &bytes, "-J", &journal]);
    images::run(make.args(["-O", kind.features]).arg(&path));
    path
}

/// Creates, changes and removes files, so that blocks of folders are revoked.
fn work(point: &Path, random: &mut fastrand::Rng) {
    for _ in 0..40 {
        let folder = point.join(format!("folder {}", random.u8(..6)));
        match random.u8(..5) {
            0 => _ = fs::remove_dir_all(&folder),
            _ => {
                fs::create_dir_all(&folder).unwrap();
                let file = folder.join(format!("file {}", random.u8(..30)));
                let mut bytes = vec![random.u8(..); random.usize(..20_000)];
                if random.bool() && bytes.len() > 4 {
                    // Data that begins with the journal's magic must be escaped.
                    bytes[..4].copy_from_slice(&0xC03B_3998_u32.to_be_bytes());
                }
                fs::write(&file, bytes).unwrap();
                if random.u8(..3) == 0 {
                    fs::File::open(&file).unwrap().sync_all().unwrap();
                }
            }
        }
    }
    // The journal commits, but writes no block home yet.
    fs::File::open(point).unwrap().sync_all().unwrap();
}

/// Recovers a snapshot with this crate, and with e2fsck.
fn compare(snapshot: &Path, kind: &Kind, journal: &[u64]) -> Recovery {
    let (theirs, ours) = (
        snapshot.with_extension("e2fsck"),
        snapshot.with_extension("ours"),
    );
    fs::copy(snapshot, &theirs).unwrap();
    fs::copy(snapshot, &ours).unwrap();
    let checked = (tool("e2fsck")
        .args(["-y", "-E", "journal_only"])
        .arg(&theirs))
    .output();
    let checked = checked.unwrap();
    let text = images::text(&checked);
    assert!(checked.status.code().is_some_and(|code| code < 4), "{text}");

    let storage = Arc::new(FileStorage::open_sparse(&ours, FileMode::Buffered).unwrap());
    let place = images::place_of(journal);
    let done = recover(storage.clone(), storage.clone(), kind.block_bytes, &place).unwrap();
    storage.flush().unwrap();
    drop(storage);
    let (theirs, ours) = (fs::read(theirs).unwrap(), fs::read(ours).unwrap());
    let size = kind.block_bytes as usize;
    let differs = |block: &usize| {
        let range = block * size..(block + 1) * size;
        let (mut theirs, mut ours) = (theirs[range.clone()].to_vec(), ours[range.clone()].to_vec());
        // The superblock of the file system: e2fsck clears the mark that recovery is needed, and
        // stores times.
        if range.contains(&1024) {
            theirs[1024 - range.start..2048 - range.start].fill(0);
            ours[1024 - range.start..2048 - range.start].fill(0);
        }
        theirs != ours
    };
    // The journal itself: both leave an empty log, but not with the same number.
    let all = (0..theirs.len() / size).filter(|block| !journal.contains(&(*block as u64)));
    let different: Vec<_> = all.filter(differs).collect();
    assert!(
        different.is_empty(),
        "{} with {}: blocks {different:?} differ: {done:?}\n{text}",
        kind.features,
        kind.options
    );
    done
}

#[test]
fn journals_of_the_kernel_are_recovered_as_by_e2fsck() {
    if !images::have_loop_mounts() {
        return;
    }
    let (mut blocks, mut revoked, mut kinds) = (0, 0, 0);
    let mut random = fastrand::Rng::with_seed(17);
    for kind in &KINDS {
        let folder = Image::scratch();
        let path = made(folder.path(), kind);
        let journal = images::blocks_of(&path, "<8>");
        let device = Loop::new(&path);
        let mount = match Mount::try_new(&device.path, &folder.path().join("point"), kind.options) {
            Ok(mount) => mount,
            Err(error) => {
                println!("SKIPPED: {} with {}: {error}", kind.features, kind.options);
                continue;
            }
        };
        kinds += 1;
        for number in 0..SNAPSHOTS {
            work(&mount.point, &mut random);
            // Bypasses the page cache of the device, in which the kernel keeps blocks that it has
            // not written home.
            let snapshot = folder.path().join(format!("snapshot {number}"));
            images::overwrite(&snapshot, &fs::read(&path).unwrap());
            let done = compare(&snapshot, kind, &journal);
            println!("{} with {}: {done:?}", kind.features, kind.options);
            blocks += done.blocks;
            revoked += done.revoked;
        }
    }
    println!("{kinds} kinds, {blocks} blocks, {revoked} revoked copies");
    assert!(kinds >= 5, "too few kinds could be mounted");
    assert!(blocks > 500 && revoked > 0, "{blocks} {revoked}");
}

//! A full disk is a clean error: no incomplete file, no longer file, and never a SIGBUS.
//!
//! The first test requests more than any disk has, and runs everywhere. The others fill a real,
//! small file system, which a child mounts in its own mount namespace. Where that is not allowed
//! they print "skipped"; if `CI` is set and the user is root, a tmpfs must be allowed.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use crate::common::{assert_holds, child, folder, pattern, put, region};
use spanlock_pmem::{MappedFile, Options, Pmem, PmemError};

const MOUNTED: &str = "SPANLOCK_FULL_DISK_TEST_DIR";

fn assert_no_space(error: &PmemError, path: &Path, needed: u64) {
    assert!(
        matches!(error, PmemError::NoSpace { needed: found, .. } if *found == needed),
        "{error:?}"
    );
    let message = error.to_string();
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    assert!(message.contains("free some, or request less"), "{message}");
}

#[test]
#[cfg_attr(
    not(target_pointer_width = "64"),
    ignore = "with 32 bits, it could not be mapped either"
)]
fn a_size_larger_than_any_disk_is_refused() {
    const ALL: u64 = 1 << 60;
    let folder = folder();
    let path = folder.path().join("huge");
    let error = MappedFile::create(&path, ALL, Options::new()).unwrap_err();
    assert_no_space(&error, &path, ALL);
    assert!(!path.exists());

    let mut region = region(&folder, 4096);
    put(&region, 0, &pattern(1, 4096));
    let error = region.grow(ALL).unwrap_err();
    assert_no_space(&error, region.path(), ALL - 4096);
    assert_eq!(region.len(), 4096);
    assert_eq!(fs::metadata(region.path()).unwrap().len(), 4096);
    assert_holds(&region, 0, &pattern(1, 4096));
}

/// The child's part, in a file system of about 4 MiB that uses some of it itself.
#[test]
fn child_fills_a_small_disk() {
    let Some(folder) = std::env::var_os(MOUNTED) else {
        return;
    };
    let folder = Path::new(&folder);
    let free = free_bytes(folder);
    assert!(
        (1 << 20..=4 << 20).contains(&free),
        "{free} bytes free: the small disk is not mounted"
    );

    // One page too much; and, on a file system that needs blocks itself, all the space it reports.
    let path = folder.join("too much");
    let error = MappedFile::create(&path, free + 4096, Options::new()).unwrap_err();
    assert_no_space(&error, &path, free + 4096);
    let mut lengths = vec![free + 4096];
    match MappedFile::create(&path, free, Options::new()) {
        Ok(_fits_to_the_byte) => fs::remove_file(&path).unwrap(),
        Err(error) => {
            assert_no_space(&error, &path, free);
            println!("refused after the first check");
            lengths.push(free);
        }
    }
    assert!(!path.exists());
    assert_eq!(free_bytes(folder), free, "no space stays allocated");

    let path = folder.join("region");
    let mut region = MappedFile::create(&path, 1 << 19, Options::new()).unwrap();
    put(&region, 0, &pattern(2, 1 << 19));
    let left = free_bytes(folder);
    for more in lengths {
        let more = more - free + left;
        let error = region.grow((1 << 19) + more).unwrap_err();
        assert_no_space(&error, &path, more);
        assert_eq!(
            (region.len(), fs::metadata(&path).unwrap().len()),
            (1 << 19, 1 << 19)
        );
        assert_eq!(free_bytes(folder), left);
    }

    // Another program fills the rest. The region has its blocks, so stores continue.
    let _ = fs::write(folder.join("filler"), vec![1; 4 << 20]);
    put(&region, 0, &pattern(3, 1 << 19));
    region.sync().unwrap();
    assert_holds(&region, 0, &pattern(3, 1 << 19));
    drop(region);

    // A sparse file with more holes than there is room would raise SIGBUS at a store, so it must
    // not open.
    let sparse = folder.join("sparse");
    let file = fs::File::create(&sparse).unwrap();
    let len = free_bytes(folder) + 4096;
    file.set_len(len).unwrap();
    let error = MappedFile::open(&sparse, Options::new()).unwrap_err();
    assert_no_space(&error, &sparse, len);
    assert_eq!(file.metadata().unwrap().len(), len);
    sparse_files_are_read_on_a_full_disk(folder);
}

/// Reading a hole of a mapped file makes tmpfs allocate.
fn sparse_files_are_read_on_a_full_disk(folder: &Path) {
    const PAGE: u64 = 4096;
    fs::remove_file(folder.join("filler")).unwrap();
    let pages = [&[][..], &[0], &[63], &[0, 1, 5, 7, 8, 62, 63]];
    for (nth, pages) in (0..).zip(pages) {
        let file = fs::File::create(folder.join(format!("holes {nth}"))).unwrap();
        file.set_len(64 * PAGE).unwrap();
        for &page in pages {
            let data = pattern(page as usize, PAGE as usize);
            file.write_all_at(&data, page * PAGE).unwrap();
        }
    }
    let filler = fs::File::create(folder.join("filler")).unwrap();
    let mut filled = 0;
    while filler.write_all_at(&[1; PAGE as usize], filled).is_ok() {
        filled += PAGE;
    }
    for (nth, pages) in (0..).zip(pages) {
        let path = folder.join(format!("holes {nth}"));
        let blocks = fs::metadata(&path).unwrap().blocks();
        let region = MappedFile::open_read_only(&path).unwrap();
        for page in 0..64 {
            let expected = match pages.contains(&page) {
                true => pattern(page as usize, PAGE as usize),
                false => vec![0; PAGE as usize],
            };
            assert_holds(&region, page * PAGE, &expected);
            let first = expected[..8].try_into().unwrap();
            assert_eq!(region.load(page * PAGE), u64::from_le_bytes(first));
        }
        drop(region);
        assert_eq!(fs::metadata(&path).unwrap().blocks(), blocks);
    }
}

fn free_bytes(folder: &Path) -> u64 {
    let found = rustix::fs::statvfs(folder).unwrap();
    found.f_bfree * found.f_frsize
}

/// Runs the child on a file system that the shell command `mount` mounts at `$1`. Returns the
/// child's output, or `None` where mounting is not possible.
fn on_a_small_disk(mount: &str) -> Option<String> {
    let folder = folder();
    let point = folder.path().join("disk");
    fs::create_dir(&point).unwrap();
    let child = child("full_disk::child_fills_a_small_disk", MOUNTED, &point);

    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let script = format!("({mount}) >&2 || exit 77; shift; exec \"$@\"");
    command
        .args(["--mount", "--", "sh", "-c", &script, "sh"])
        .arg(&point);
    command
        .arg(child.get_program())
        .args(child.get_args())
        .env(MOUNTED, &point);
    let Ok(output) = command.output() else {
        eprintln!("skipped: there is no `unshare` here");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || complained.contains("unshare:") {
        eprintln!("skipped: no small disk can be mounted here: {complained}");
        return None;
    }
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "{said}");
    Some(said)
}

#[test]
fn a_full_tmpfs_is_a_clean_error() {
    let said = on_a_small_disk("mount -t tmpfs -o size=3m spanlock \"$1\"");
    let must = std::env::var_os("CI").is_some() && rustix::process::geteuid().is_root();
    assert!(said.is_some() || !must, "root can mount no tmpfs");
}

#[test]
fn a_full_ext4_is_a_clean_error() {
    let mount = "truncate -s 4M \"$1.img\" && mkfs.ext4 -q -b 4096 -O ^has_journal \"$1.img\" && \
                 mount -o loop \"$1.img\" \"$1\"";
    if let Some(said) = on_a_small_disk(mount) {
        assert!(
            said.contains("refused after the first check"),
            "ext4 needs blocks itself"
        );
    }
}

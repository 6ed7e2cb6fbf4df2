//! A region that is opened read-only: it needs no permission to write, nothing is written, and a
//! store to it panics instead of raising a signal.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::{assert_holds, child, folder, pattern, put, region};
use spanlock_pmem::{Durability, Durable, MappedFile, Options, Pmem, PmemError};
use tempfile::TempDir;

const MOUNTED: &str = "SPANLOCK_READ_ONLY_TEST_DIR";

/// Creates a file that holds the pattern, and was modified long ago.
fn old_file(folder: &TempDir) -> PathBuf {
    let region = region(folder, 8192);
    put(&region, 0, &pattern(1, 8192));
    let path = region.path().to_owned();
    drop(region);
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::open(&path).unwrap().set_modified(long_ago).unwrap();
    path
}

/// Returns the message of the panic that `run` must cause.
fn panic_of(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("must panic");
    *panic.downcast::<String>().expect("a message")
}

fn assert_only_readable(path: &Path) {
    let before = (fs::read(path).unwrap(), fs::metadata(path).unwrap());
    let mut region = MappedFile::open_read_only(path).unwrap();
    assert!(region.is_read_only());
    assert_eq!(region.durability(), Durability::ProcessKill);
    assert_eq!(region.flush_instruction(), None);
    assert_holds(&region, 0, &pattern(1, 8192));
    assert_eq!(
        region.load(8),
        u64::from_le_bytes(pattern(1, 16)[8..].try_into().unwrap())
    );

    // SAFETY: only this thread uses the region.
    let write = || drop(unsafe { region.write(0, b"x") });
    // SAFETY: as above.
    let stream = || drop(unsafe { region.write_streaming(4096, &[1; 4096]) });
    let publish = || drop(region.publish(0, 1, Durable::at_rest()));
    for message in [panic_of(write), panic_of(stream), panic_of(publish)] {
        let expected = "a store to a region that was opened read-only";
        assert!(
            message.contains(expected) && message.contains(path.to_str().unwrap()),
            "{message}"
        );
    }
    let error = region.grow(12288).unwrap_err();
    assert!(matches!(error, PmemError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("`MappedFile::open`"), "{error}");
    region.grow(8192).unwrap();
    region.sync().unwrap();
    region.check().unwrap();
    drop(region);
    let (bytes, metadata) = before;
    assert!(fs::read(path).unwrap() == bytes);
    let after = fs::metadata(path).unwrap();
    assert_eq!(after.modified().unwrap(), metadata.modified().unwrap());
    assert_eq!((after.ctime(), after.len()), (metadata.ctime(), 8192));
    assert_eq!(after.blocks(), metadata.blocks());
}

#[test]
fn a_writable_file_can_be_opened_read_only() {
    let folder = folder();
    let path = old_file(&folder);
    assert_only_readable(&path);
    let region = MappedFile::open(&path, Options::new()).unwrap();
    assert!(!region.is_read_only());
}

/// Runs `test` in a thread that is not root, because root may do anything.
fn without_privileges(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            test();
        });
    });
}

/// Any user but root needs read permission only.
#[test]
fn a_file_without_write_permission_can_be_opened_read_only() {
    let folder = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = old_file(&folder);
    fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    without_privileges(|| {
        let error = MappedFile::open(&path, Options::new()).unwrap_err();
        assert!(
            matches!(error, PmemError::PermissionDenied { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("`MappedFile::open_read_only`"));
        assert_only_readable(&path);
    });
    fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    without_privileges(|| {
        let error = MappedFile::open_read_only(&path).unwrap_err();
        assert!(
            matches!(error, PmemError::PermissionDenied { .. }),
            "{error:?}"
        );
    });
}

#[test]
fn pointers_to_a_region_forward_whether_it_is_read_only() {
    let folder = folder();
    let path = old_file(&folder);
    let region = MappedFile::open_read_only(&path).unwrap();
    assert!(Pmem::is_read_only(&&region));
    let shared: Arc<dyn Pmem> = Arc::new(region);
    assert!(Pmem::is_read_only(&shared));
}

#[test]
fn holes_read_as_zeros_and_stay_holes() {
    let folder = folder();
    let path = folder.path().join("sparse");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let before = fs::metadata(&path).unwrap().blocks();
    let region = MappedFile::open_read_only(&path).unwrap();
    assert_holds(&region, 0, &vec![0; 1 << 20]);
    drop(region);
    assert_eq!(fs::metadata(&path).unwrap().blocks(), before);
}

#[test]
fn what_is_not_a_region_is_refused() {
    let folder = folder();
    let refused = |path: &Path| MappedFile::open_read_only(path).expect_err("must fail");
    let path = folder.path().join("region");
    assert!(matches!(refused(&path), PmemError::NotFound { .. }));
    fs::write(&path, "").unwrap();
    assert!(matches!(refused(&path), PmemError::Empty { .. }));
    fs::write(&path, [7; 5000]).unwrap();
    let error = refused(&path);
    assert!(matches!(error, PmemError::BadLength { len: 5000, .. }));
    assert!(error.to_string().contains("was the file truncated"));
    assert!(matches!(refused(folder.path()), PmemError::NotAFile { .. }));
    let device = Path::new("/dev/null");
    assert!(matches!(refused(device), PmemError::NotAFile { .. }));
}

#[test]
fn readers_share_the_file_and_exclude_writers() {
    let folder = folder();
    let path = old_file(&folder);
    let in_use = |opened: Result<MappedFile, PmemError>| {
        let error = opened.unwrap_err();
        assert!(matches!(error, PmemError::InUse { .. }), "{error:?}");
    };
    let writer = MappedFile::open(&path, Options::new()).unwrap();
    in_use(MappedFile::open_read_only(&path));
    drop(writer);
    let readers = [(); 2].map(|()| MappedFile::open_read_only(&path).unwrap());
    in_use(MappedFile::open(&path, Options::new()));
    let [first, second] = readers;
    drop(first);
    in_use(MappedFile::open(&path, Options::new()));
    assert_holds(&second, 0, &pattern(1, 8192));
    drop(second);
    MappedFile::open(&path, Options::new()).unwrap();
}

/// The child's part, in a folder on a read-only file system.
#[test]
fn child_on_a_read_only_file_system() {
    let Some(folder) = std::env::var_os(MOUNTED) else {
        return;
    };
    let path = Path::new(&folder).join("region");
    let new = Path::new(&folder).join("new");
    let refused = [
        MappedFile::open(&path, Options::new()).unwrap_err(),
        MappedFile::create(&new, 4096, Options::new()).unwrap_err(),
    ];
    for error in refused {
        assert!(
            matches!(error, PmemError::ReadOnlyFileSystem { .. }),
            "{error:?}"
        );
        let message = error.to_string();
        assert!(message.contains("on a read-only file system"), "{message}");
        assert!(message.contains(folder.to_str().unwrap()), "{message}");
    }
    assert!(!new.exists());
    assert_only_readable(&path);
}

#[test]
fn a_file_on_a_read_only_file_system_can_be_opened_read_only() {
    let folder = folder();
    let path = old_file(&folder);
    let child = child("read_only::child_on_a_read_only_file_system", MOUNTED, "");
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let script = "(mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\") >&2 || exit 77; \
                  shift; exec \"$@\"";
    command
        .args(["--mount", "--", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(child.get_program())
        .args(child.get_args())
        .env(MOUNTED, folder.path());
    let Ok(output) = command.output() else {
        assert!(std::env::var_os("CI").is_none(), "there is no `unshare`");
        eprintln!("skipped: there is no `unshare` here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || complained.contains("unshare:") {
        eprintln!("skipped: nothing can be mounted read-only here: {complained}");
        return;
    }
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "{said}");
    assert_only_readable(&path);
}

//! The example `fsck` as a command: its exit statuses, and what it prints.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use spanlock_file_core::{Error, FormatOptions, OpenOptions, Volume};
use spanlock_pmem::{MappedFile, Options};
use spanlock_range_lock::RwCounter;

#[allow(dead_code, reason = "the example's `main` is not called")]
#[path = "../examples/fsck.rs"]
mod fsck;

const PAGE: usize = 4096;
const LEN: u64 = 1 << 18;
const SOUND: &str = "1 file, 1 directory besides the root: sound\n";
/// Where the line of the inode of "kept/file" is: the root and "kept" come before it.
const INODE: usize = PAGE + 2 * 128;

/// A volume in a folder of its own.
struct Scene {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        let region = MappedFile::create(&path, LEN, Options::default()).unwrap();
        let options = FormatOptions::new().inodes(32);
        let volume = Volume::format(region, &options, |_| RwCounter::new()).unwrap();
        volume.create_dir("kept").unwrap();
        let file = volume.create("kept/file").unwrap();
        for page in 0..4 {
            file.write_at(&[page as u8 + 1; PAGE], page * PAGE as u64)
                .unwrap();
        }
        drop((file, volume));
        Scene {
            _folder: folder,
            path,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(&self.path).unwrap();
        change(&mut bytes);
        fs::write(&self.path, bytes).unwrap();
    }

    fn damage(&self, at: usize) {
        self.change(|bytes| bytes[at] ^= 1);
    }

    /// Runs the command with these options on the volume. Returns its exit status and output.
    fn run(&self, options: &[&str]) -> (u8, String) {
        run(options, Some(&self.path))
    }

    /// Fails unless a check and a repair both exit with 8, print this message, and write nothing.
    #[track_caller]
    fn assert_refused(&self, message: &str) {
        let before = fs::read(&self.path).unwrap();
        for options in [&[][..], &["--json"], &["--repair"]] {
            assert_failed(options, Some(&self.path), message);
        }
        assert!(fs::read(&self.path).unwrap() == before);
    }
}

/// Runs the command. Returns its exit status, its output, and its error messages.
fn run_whole(options: &[&str], volume: Option<&Path>) -> (u8, String, String) {
    let options = options.iter().map(|it| it.into());
    let arguments = ["fsck".into()].into_iter().chain(options);
    let arguments = arguments.chain(volume.map(|path| path.as_os_str().to_owned()));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = fsck::command(arguments, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status, text(out), text(err))
}

/// Runs the command, which must not fail. Returns its exit status and output.
#[track_caller]
fn run(options: &[&str], volume: Option<&Path>) -> (u8, String) {
    let (status, out, err) = run_whole(options, volume);
    assert_eq!(err, "");
    (status, out)
}

/// Fails unless the command exits with 8 and prints only an error, which contains this message.
#[track_caller]
fn assert_failed(options: &[&str], volume: Option<&Path>, message: &str) {
    let (status, out, err) = run_whole(options, volume);
    assert_eq!((status, out.as_str()), (8, ""), "{options:?}");
    assert!(err.contains(message), "{options:?}: {err}");
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_sound_volume_exits_with_0() {
    let scene = Scene::new();
    let before = fs::read(&scene.path).unwrap();
    assert_eq!(scene.run(&[]), (0, SOUND.to_owned()));
    assert_eq!(scene.run(&["--repair"]), (0, SOUND.to_owned()));
    let (status, text) = scene.run(&["--json"]);
    let expected = serde_json::json!({
        "files": 1,
        "directories": 1,
        "is_sound": true,
        "is_repaired": true,
        "findings": [],
    });
    assert_eq!((status, json(&text)), (0, expected));
    assert!(fs::read(&scene.path).unwrap() == before);
}

#[test]
fn damage_exits_with_4_and_a_repair_of_all_with_1() {
    let scene = Scene::new();
    scene.damage(INODE + 20);
    let (status, text) = scene.run(&[]);
    assert_eq!(status, 4);
    assert!(text.contains("path \"kept/file\""), "{text}");
    assert!(text.ends_with("the root: 1 damaged place\n"), "{text}");
    let (status, text) = scene.run(&["--repair"]);
    assert_eq!(status, 1);
    assert!(text.ends_with("1 damaged place, repaired\n"), "{text}");
    assert_eq!(scene.run(&["--repair"]).0, 0);
}

/// Output whose reader went away: `fsck V | true`.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn the_status_tells_of_the_volume_even_if_nobody_reads_the_output() {
    let scene = Scene::new();
    let statuses = |expected: [u8; 4]| {
        let found = [&[][..], &["--json"], &["--repair"], &["--repair"]].map(|options| {
            let options = options.iter().map(OsString::from);
            let arguments = [OsString::from("fsck")].into_iter().chain(options);
            let arguments = arguments.chain([scene.path.clone().into()]);
            fsck::command(arguments, &mut Closed, &mut Closed)
        });
        assert_eq!(found, expected);
    };
    statuses([0; 4]);
    scene.damage(INODE + 20);
    statuses([4, 4, 1, 0]);
    scene.change(|bytes| bytes.clear());
    statuses([8; 4]);
    for (option, status) in [("--demonstrate", 0), ("--help", 0), ("--unknown", 8)] {
        let found = fsck::command(["fsck", option], &mut Closed, &mut Closed);
        assert_eq!(found, status, "{option}");
    }
}

#[test]
fn json_tells_each_finding() {
    let scene = Scene::new();
    scene.damage(INODE + 20);
    let (status, text) = scene.run(&["--json"]);
    let report = json(&text);
    assert_eq!((status, &report["is_sound"]), (4, &Value::Bool(false)));
    assert_eq!(report["is_repaired"], false);
    let finding = &report["findings"][0];
    assert_eq!(finding["what"], "an unreadable inode");
    assert_eq!(
        (&finding["path"], &finding["inode"]),
        (&"kept/file".into(), &2.into())
    );
    assert_eq!(finding["is_damage"], true);
    assert_eq!(finding["is_repaired"], false);
    let (status, text) = scene.run(&["--json", "--repair"]);
    let report = json(&text);
    assert_eq!((status, &report["is_repaired"]), (1, &Value::Bool(true)));
    assert_eq!(report["findings"][0]["is_repaired"], true);
}

/// A directory that has lost its log may have lost many names. That looks worse than one place.
#[test]
fn inodes_that_have_lost_their_names_are_counted() {
    let scene = Scene::new();
    // The head pointer of the root.
    scene.damage(PAGE);
    for (options, status) in [(&[][..], 4), (&["--repair"], 1)] {
        let (found, text) = scene.run(options);
        assert_eq!(found, status, "{text}");
        assert!(text.contains("2 inodes have no name (--verbose"), "{text}");
        assert!(text.contains("0 files, 0 directories"), "{text}");
    }
    // Nothing tells them from removed ones any more.
    assert_eq!(
        scene.run(&[]),
        (
            0,
            SOUND.replace("1 file, 1 directory", "0 files, 0 directories")
        )
    );
}

#[test]
fn what_cannot_be_read_exits_with_8() {
    let scene = Scene::new();
    scene.damage(9);
    scene.damage(LEN as usize - PAGE + 9);
    scene.assert_refused("both superblocks are unreadable");
    for options in [&[][..], &["--repair"]] {
        let none = Path::new("there/is/none");
        assert_failed(options, Some(none), "there/is/none: no such file");
        let folder = scene.path.parent().unwrap();
        assert_failed(options, Some(folder), "is a folder, not a regular file");
    }
    assert_failed(&[], None, "<VOLUME>");
    assert_failed(&["--repair"], None, "<VOLUME>");
    assert_failed(&["--demonstrate"], Some(&scene.path), "--demonstrate");
    assert_failed(&["--unknown"], Some(&scene.path), "--unknown");
    let (status, help) = run(&["--help"], None);
    assert!(status == 0 && help.contains("Exit status:"), "{help}");
}

#[test]
fn a_truncated_volume_exits_with_8() {
    let scene = Scene::new();
    scene.change(|bytes| bytes.truncate(LEN as usize / 2));
    scene.assert_refused("has 262144 bytes, but the region has only 131072: it was truncated");
    // The second superblock is gone, and the first damaged.
    scene.damage(9);
    scene.assert_refused("both superblocks are unreadable");
    scene.change(|bytes| bytes.truncate(5000));
    scene.assert_refused("cannot map 5000 bytes");
    scene.change(|bytes| bytes.clear());
    scene.assert_refused("the file is empty");
}

#[test]
fn a_volume_of_an_older_version_exits_with_8() {
    let scene = Scene::new();
    scene.change(|bytes| {
        let replica = bytes.len() - PAGE;
        for at in [0, replica] {
            bytes[at + 8..at + 12].copy_from_slice(&1_u32.to_le_bytes());
            let sum = crc32c::crc32c(&bytes[at..at + 60]);
            bytes[at + 60..at + 64].copy_from_slice(&sum.to_le_bytes());
        }
    });
    scene.assert_refused("has format version 1, but this build reads version");
}

#[test]
fn a_volume_that_is_open_exits_with_8() {
    let scene = Scene::new();
    let region = MappedFile::open(&scene.path, Options::default()).unwrap();
    let (volume, _) = Volume::open(region, |_| RwCounter::new()).unwrap();
    scene.assert_refused("in use: end the program");
    drop(volume);
    // Readers share a volume, but a repair must have it alone.
    let _reader = MappedFile::open_read_only(&scene.path).unwrap();
    assert_eq!(scene.run(&[]), (0, SOUND.to_owned()));
    assert_failed(&["--repair"], Some(&scene.path), "in use: end the program");
}

/// Creates a volume without room for a new log of "file", whose first change is damaged.
fn full_and_damaged() -> Scene {
    /// The size of the file in pages. The volume has no room for half of them.
    const PAGES: u64 = 642;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let region = MappedFile::create(&path, 322 * PAGE as u64, Options::default()).unwrap();
    let options = FormatOptions::new()
        .inodes(32)
        .max_file_size(PAGES * PAGE as u64);
    let volume = Volume::format(region, &options, |_| RwCounter::new()).unwrap();
    let file = volume.create("file").unwrap();
    let before = fs::read(&path).unwrap();
    // The first record of the log. It has no pages, so none becomes free without it.
    file.truncate(PAGES * PAGE as u64).unwrap();
    let after = fs::read(&path).unwrap();
    let mut data = 2 * PAGE..after.len();
    let first = data.find(|at| before[*at] != after[*at]).unwrap();
    // Each page has a hole after it, so the new log has a record for each page, and needs more
    // pages than the reserve has.
    let mut next = 0;
    while file.write_at(&[7; PAGE], next * PAGE as u64).is_ok() {
        next = (next + 40) % PAGES;
    }
    drop((file, volume));
    let scene = Scene {
        _folder: folder,
        path,
    };
    scene.damage(first + 20);
    scene
}

#[test]
fn a_repair_without_room_exits_with_4() {
    let scene = full_and_damaged();
    let before = fs::read(&scene.path).unwrap();
    let (status, text) = scene.run(&["--repair"]);
    assert_eq!(status, 4);
    assert!(text.contains("path \"file\": a repair rewrites"), "{text}");
    assert!(text.ends_with("the root: 1 damaged place\n"), "{text}");
    assert!(fs::read(&scene.path).unwrap() == before);

    // Other damage is repaired nevertheless.
    scene.damage(20);
    let (status, text) = scene.run(&["--repair"]);
    assert_eq!(status, 4);
    assert!(text.contains("(page 0, slot 0): repaired"), "{text}");
    assert!(
        text.ends_with("2 damaged places, 1 not repaired\n"),
        "{text}"
    );
    let (status, text) = scene.run(&["--repair", "--json"]);
    let report = json(&text);
    assert_eq!((status, &report["is_repaired"]), (4, &Value::Bool(false)));
    assert_eq!(report["findings"].as_array().unwrap().len(), 1);
    assert!(fs::read(&scene.path).unwrap() == before);
}

/// Runs `test` in a thread that is not root's: root may write to any file.
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

/// Fails unless a check of the sound volume, to which nothing can be written, works, and a repair
/// exits with 8 and this message.
fn assert_only_checked(volume: &Path, message: &str) {
    let before = fs::read(volume).unwrap();
    assert_eq!(run(&[], Some(volume)), (0, SOUND.to_owned()));
    assert_failed(&["--repair"], Some(volume), message);
    assert_failed(&["--repair", "--json"], Some(volume), message);
    let region = MappedFile::open_read_only(volume).unwrap();
    let options = OpenOptions::new().read_only(true);
    let locks = |_| Ok::<_, Infallible>(RwCounter::new());
    let (opened, report) = Volume::open_with(region, &options, locks).unwrap();
    assert_eq!((report.files, report.findings.len()), (1, 0));
    let file = opened.open_file("kept/file").unwrap();
    let mut page = [0; PAGE];
    file.read_at(&mut page, PAGE as u64).unwrap();
    assert_eq!(page, [2; PAGE]);
    assert_eq!(file.write_at(b"x", 0), Err(Error::ReadOnly));
    drop((file, opened));
    assert!(fs::read(volume).unwrap() == before);
}

#[test]
fn a_check_needs_no_permission_to_write() {
    let scene = Scene::new();
    let folder = scene.path.parent().unwrap();
    fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(&scene.path, PermissionsExt::from_mode(0o444)).unwrap();
    let message = "permission denied: get permission to write to it, or check it without --repair";
    without_privileges(|| assert_only_checked(&scene.path, message));
}

#[test]
fn a_check_leaves_the_time_of_modification() {
    let scene = Scene::new();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::open(&scene.path).unwrap();
    file.set_modified(long_ago).unwrap();
    assert_eq!(scene.run(&[]).0, 0);
    assert_eq!(file.metadata().unwrap().modified().unwrap(), long_ago);
}

#[test]
fn it_demonstrates_itself() {
    let (status, text) = run(&["--demonstrate"], None);
    assert_eq!(status, 0);
    assert!(text.contains("2 damaged places, all repaired"), "{text}");
    assert!(
        text.contains("3 files, 1 directory besides the root: sound"),
        "{text}"
    );
}

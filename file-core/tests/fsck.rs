//! The example `fsck` as a command: its exit statuses, and what it prints.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spanlock_file_core::{FileCore, FormatOptions};
use spanlock_pmem::{MappedFile, Options};
use spanlock_range_lock::RwCounter;

#[allow(dead_code, reason = "the example's `main` is not called")]
#[path = "../examples/fsck.rs"]
mod fsck;

const PAGE: usize = 4096;
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
        let region = MappedFile::create(&path, 1 << 18, Options::default()).unwrap();
        let options = FormatOptions::new().inodes(32);
        let volume = FileCore::format(region, &options, |_| RwCounter::new()).unwrap();
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

    fn damage(&self, at: usize) {
        let mut bytes = fs::read(&self.path).unwrap();
        bytes[at] ^= 1;
        fs::write(&self.path, bytes).unwrap();
    }

    /// Runs the command with these options on the volume. Returns its exit status and output.
    fn run(&self, options: &[&str]) -> (u8, String) {
        run(options, Some(&self.path))
    }
}

fn run(options: &[&str], volume: Option<&Path>) -> (u8, String) {
    let options = options.iter().map(|it| it.into());
    let arguments = ["fsck".into()].into_iter().chain(options);
    let arguments = arguments.chain(volume.map(|path| path.as_os_str().to_owned()));
    let mut out = Vec::new();
    let status = fsck::command(arguments, &mut out);
    (status, String::from_utf8(out).unwrap())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_sound_volume_exits_with_0() {
    let scene = Scene::new();
    let before = fs::read(&scene.path).unwrap();
    let sound = "1 file, 1 directory besides the root: sound\n";
    assert_eq!(scene.run(&[]), (0, sound.to_owned()));
    assert_eq!(scene.run(&["--repair"]), (0, sound.to_owned()));
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

#[test]
fn what_cannot_be_read_exits_with_8() {
    let scene = Scene::new();
    scene.damage(9);
    scene.damage((1 << 18) - PAGE + 9);
    let failed = (8, String::new());
    assert_eq!(scene.run(&[]), failed);
    assert_eq!(scene.run(&["--repair", "--json"]), failed);
    assert_eq!(run(&[], Some(Path::new("there/is/none"))), failed);
    assert_eq!(run(&["--repair"], None), failed);
    assert_eq!(scene.run(&["--unknown"]), failed);
    let (status, help) = run(&["--help"], None);
    assert!(status == 0 && help.contains("Exit status:"), "{help}");
}

#[test]
fn without_a_volume_it_shows_itself() {
    let (status, text) = run(&[], None);
    assert_eq!(status, 0);
    assert!(text.contains("2 damaged places, all repaired"), "{text}");
    assert!(
        text.contains("3 files, 1 directory besides the root: sound"),
        "{text}"
    );
}

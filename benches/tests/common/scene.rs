//! `compare` as a command, in a separate folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use spanlock_benches::volume::PREFIX;
use spanlock_file_core::FormatOptions;
use spanlock_pmem::{MappedFile, Options};
use spanlock_range_lock::RwCounter;

use super::{Files, Random, random_files, write_files};

pub(crate) const COMPARE: &str = env!("CARGO_BIN_EXE_compare");

/// The arguments for a very short import.
pub(crate) const QUICK: [&str; 4] = ["--workloads", "import", "--seconds", "0.01"];

pub(crate) type Volume = spanlock_file_core::Volume<MappedFile, RwCounter>;

/// A separate folder for each test, with the files to import, the volume, and the reports.
pub(crate) struct Scene {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) files: Files,
}

impl Scene {
    /// Creates a scene whose folder `source` has `count` files.
    pub(crate) fn new(count: usize) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let files = random_files(count, &mut Random::new(42));
        write_files(&files, &folder.path().join("source"));
        Scene { folder, files }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn compare(&self, args: &[&str]) -> Output {
        let mut command = Command::new(COMPARE);
        command.args(args).current_dir(self.folder.path());
        command.env_remove("COLUMNS").output().unwrap()
    }

    /// Runs `compare`, which must fail with a message that contains all of `wanted`.
    pub(crate) fn fails(&self, args: &[&str], wanted: &[&str]) {
        assert_fails(&self.compare(args), args, wanted);
        assert!(
            !self.path("report.html").exists(),
            "{args:?} left an empty report"
        );
    }

    /// Returns the rows of `rows.json`, which must say that the comparison `name` wrote it.
    pub(crate) fn rows(&self, name: &str) -> Vec<Value> {
        rows(&self.path("rows.json"), name)
    }

    pub(crate) fn imports(&self, args: &[&str]) -> String {
        let args = [&QUICK, args, &["--import", "source"]].concat();
        let output = self.compare(&args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Creates a volume of `size` bytes with a file `mine`.
    pub(crate) fn make_volume(&self, size: u64) -> PathBuf {
        self.make_volume_as(size, &FormatOptions::new())
    }

    pub(crate) fn make_volume_as(&self, size: u64, options: &FormatOptions) -> PathBuf {
        let path = self.path("volume");
        let region = MappedFile::create(&path, size, Options::new()).unwrap();
        let volume: Volume = Volume::format(region, options, |_| RwCounter::new()).unwrap();
        volume
            .create("mine")
            .unwrap()
            .write_at(&[7; 9000], 0)
            .unwrap();
        path
    }

    pub(crate) fn open(&self) -> Volume {
        let region = MappedFile::open(self.path("volume"), Options::new()).unwrap();
        Volume::open(region, |_| RwCounter::new()).unwrap().0
    }
}

/// Returns the rows of a result file, which must say that the comparison `name` wrote it.
pub(crate) fn rows(path: &Path, name: &str) -> Vec<Value> {
    let mut result: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(
        (&result["format"], &result["name"]),
        (&1.into(), &name.into())
    );
    let command = result["command"].as_str().unwrap();
    assert!(command.starts_with("cargo compare") && !command.contains("--json"));
    assert!(result["machine"]["cores"].as_u64().unwrap() > 0, "{result}");
    assert!(result["date"].as_str().unwrap().ends_with(" UTC"));
    let has_volume = !["micro", "contention", "failures", "lines", "lines-model"].contains(&name);
    assert_eq!(has_volume, !result["media"].as_array().unwrap().is_empty());
    match result["rows"].take() {
        Value::Array(rows) => rows,
        rows => panic!("no rows: {rows}"),
    }
}

/// Runs `compare` with an address space of 4 GiB, which is too small for four threads with stacks
/// of 1 GiB. It must fail with a message that contains all of `wanted`.
pub(crate) fn fails_in_little_memory(scene: &Scene, args: &[&str], wanted: &[&str]) {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 4194304; exec \"$@\"", "sh", COMPARE]);
    command.env("RUST_MIN_STACK", (1 << 30).to_string());
    let output = command.args(args).current_dir(scene.folder.path()).output();
    assert_fails(&output.unwrap(), args, wanted);
}

pub(crate) fn assert_fails(output: &Output, args: &[&str], wanted: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().expect("an exit, not a signal");
    assert!(code != 0 && code != 101, "{args:?}: {code}: {said}");
    assert!(said.starts_with("error: "), "{args:?}: {said}");
    for wanted in wanted {
        assert!(said.contains(wanted), "{args:?}: no {wanted:?} in: {said}");
    }
}

pub(crate) fn mine(volume: &Volume) -> Vec<u8> {
    let file = volume.open_file("mine").unwrap();
    let mut content = vec![0; file.size() as usize];
    file.read_at(&mut content, 0).unwrap();
    content
}

/// Runs the command as another user if this is root, because permissions do not restrict root.
pub(crate) fn compare_without_privileges(scene: &Scene, args: &[&str]) -> Option<Output> {
    let program = scene.path("compare");
    fs::copy(COMPARE, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(scene.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(&program);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    match command.args(args).current_dir(scene.folder.path()).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: cannot run as another user: {error}");
            None
        }
    }
}

/// Compares all files that a run left in the volume, chunk by chunk. Returns the number of complete
/// files.
pub(crate) fn assert_committed_is_intact(scene: &Scene) -> usize {
    let volume = scene.open();
    let mut whole = 0;
    for (path, size) in volume.list() {
        let Some((_, name)) = path.strip_prefix(PREFIX).and_then(|it| it.split_once('/')) else {
            continue;
        };
        let Some(wanted) = scene.files.get(name) else {
            assert_eq!((name, size), ("zzz", 0), "the unreadable file");
            continue;
        };
        let mut content = vec![0; size as usize];
        volume
            .open_file(&path)
            .unwrap()
            .read_at(&mut content, 0)
            .unwrap();
        for (found, wanted) in content.chunks(64 << 10).zip(wanted.chunks(64 << 10)) {
            assert!(found == wanted || found.iter().all(|&it| it == 0), "{path}");
        }
        whole += usize::from(content == *wanted);
    }
    whole
}

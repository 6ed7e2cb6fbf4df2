//! `compare` as a command: what a good run tells, and what is said about bad input.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Files, Random, random_files, write_files};
use serde_json::Value;
use spanlock::RwCounter;
use spanlock_benches::volume::PREFIX;
use spanlock_file_core::{FileCore, FormatOptions};
use spanlock_pmem::{MappedFile, Options};

const COMPARE: &str = env!("CARGO_BIN_EXE_compare");

/// An import that takes a moment.
const QUICK: [&str; 4] = ["--workloads", "import", "--seconds", "0.01"];

type Volume = FileCore<MappedFile, RwCounter>;

/// A folder of its own for each test: what is imported, the volume, the reports.
struct Scene {
    folder: tempfile::TempDir,
    files: Files,
}

impl Scene {
    /// With a folder `source` that has `count` files.
    fn new(count: usize) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let files = random_files(count, &mut Random::new(42));
        write_files(&files, &folder.path().join("source"));
        Scene { folder, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compare(&self, args: &[&str]) -> Output {
        let mut command = Command::new(COMPARE);
        command.args(args).current_dir(self.folder.path());
        command.output().unwrap()
    }

    /// Runs `compare`, which must fail and say all of `wanted`.
    fn fails(&self, args: &[&str], wanted: &[&str]) {
        assert_fails(&self.compare(args), args, wanted);
        assert!(
            !self.path("report.html").exists(),
            "{args:?} left an empty report"
        );
    }

    fn imports(&self, args: &[&str]) -> String {
        let args = [&QUICK, args, &["--import", "source"]].concat();
        let output = self.compare(&args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a volume of `size` bytes with a file `mine`.
    fn make_volume(&self, size: u64) -> PathBuf {
        let path = self.path("volume");
        let region = MappedFile::create(&path, size, Options::new()).unwrap();
        let volume: Volume =
            FileCore::format(region, &FormatOptions::new(), |_| RwCounter::new()).unwrap();
        volume
            .create("mine")
            .unwrap()
            .write_at(&[7; 9000], 0)
            .unwrap();
        path
    }

    fn open(&self) -> Volume {
        let region = MappedFile::open(self.path("volume"), Options::new()).unwrap();
        FileCore::open(region, |_| RwCounter::new()).unwrap().0
    }
}

fn assert_fails(output: &Output, args: &[&str], wanted: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().expect("an exit, not a signal");
    assert!(code != 0 && code != 101, "{args:?}: {code}: {said}");
    assert!(said.starts_with("error: "), "{args:?}: {said}");
    for wanted in wanted {
        assert!(said.contains(wanted), "{args:?}: no {wanted:?} in: {said}");
    }
}

fn mine(volume: &Volume) -> Vec<u8> {
    let file = volume.open_file("mine").unwrap();
    let mut content = vec![0; file.size() as usize];
    file.read_at(&mut content, 0).unwrap();
    content
}

#[test]
fn a_run_tells_everything() {
    let scene = Scene::new(6);
    let run = [
        "--seconds",
        "0.05",
        "--threads",
        "1",
        "--import",
        "source",
        "--json",
        "rows.json",
    ];
    std::os::unix::fs::symlink("file-0", scene.path("source/link")).unwrap();
    let output = scene.compare(&run);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    let bytes: usize = scene.files.values().map(Vec::len).sum();
    let imported = format!(
        "imported 6 files, {bytes} bytes, under 3 locks; recovered and verified every byte (skipped 1 symbolic links"
    );
    for wanted in ["volume: temporary, in ", "flushed", "rw-counter", &imported] {
        assert!(told.contains(wanted), "no {wanted:?} in: {told}");
    }

    let rows = fs::read_to_string(scene.path("rows.json")).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    let workloads = ["dwom", "drbm", "mix-3-1", "mix-1-3", "import"];
    let locks = ["rw-counter", "rw-distributed", "srl-array"];
    let cells = workloads
        .iter()
        .flat_map(|workload| locks.iter().map(move |lock| (*workload, *lock)));
    assert_eq!(rows.len(), workloads.len() * locks.len());
    for (row, (workload, lock)) in rows.iter().zip(cells) {
        assert_eq!(
            (&row["workload"], &row["lock"]),
            (&workload.into(), &lock.into())
        );
        assert_eq!(row["threads"], 1);
        assert!(row["ops_per_s"].as_f64().unwrap() > 1.0, "{row}");
        let ratio = row["ratio"].as_f64().unwrap();
        assert!(
            if lock == "rw-counter" {
                ratio == 1.0
            } else {
                ratio > 0.0
            },
            "{row}"
        );
        let [p50, p99, max] = ["p50_ns", "p99_ns", "max_ns"].map(|it| row[it].as_u64().unwrap());
        assert!(0 < p50 && p50 <= p99 && p99 <= max, "{row}");
    }

    let page = fs::read_to_string(scene.path("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2 * workloads.len());
    assert!(page.contains("cargo compare --seconds 0.05") && page.contains(&imported));
    for outside in [
        "<script", "<link", "<img", "src=", "href=", "url(", "@import",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn arguments_that_mean_nothing() {
    let scene = Scene::new(1);
    let locks = "rw-counter, rw-distributed, srl-array";
    let workloads = "dwom, drbm, mix-3-1, mix-1-3, import";
    scene.fails(
        &["--locks", "rw-counter,nolock"],
        &["nolock", "--locks", locks],
    );
    scene.fails(
        &["--workloads", "fast"],
        &["fast", "--workloads", workloads],
    );
    scene.fails(&["--threads", "0"], &["--threads", "between 1 and"]);
    scene.fails(&["--threads", "1,0"], &["'0'", "between 1 and"]);
    scene.fails(&["--threads", "100000"], &["100000", "between 1 and"]);
    scene.fails(&["--threads", "two"], &["two", "--threads 1,2"]);
    scene.fails(&["--seconds", "0"], &["--seconds", "0.01 to 3600"]);
    scene.fails(&["--seconds", "nan"], &["--seconds", "0.01 to 3600"]);
    scene.fails(&["--size", "0"], &["--size", "64M"]);
    scene.fails(&["--size", "much"], &["much", "64M"]);
}

#[test]
fn outputs_are_looked_at_before_anything_runs() {
    let scene = Scene::new(1);
    let nowhere = ["--report", "nowhere/report.html"];
    scene.fails(
        &nowhere,
        &[
            "--report nowhere/report.html",
            "nothing was run",
            "folder that exists",
        ],
    );
    scene.fails(
        &["--json", "source"],
        &["--json source", "cannot be written"],
    );
    scene.fails(
        &["--json", "x", "--report", "./x"],
        &["both x", "two different files"],
    );
    let volume = scene.make_volume(1 << 20);
    let before = fs::read(&volume).unwrap();
    scene.fails(
        &["--volume", "volume", "--report", "./volume"],
        &["--report ./volume", "that is the volume"],
    );
    assert!(fs::read(&volume).unwrap() == before);
    // A report that was there is there still if nothing is written.
    fs::write(scene.path("old.html"), "old").unwrap();
    scene.fails(
        &["--import", "nowhere", "--report", "old.html"],
        &["nowhere"],
    );
    assert_eq!(fs::read_to_string(scene.path("old.html")).unwrap(), "old");
}

#[test]
fn folders_that_cannot_be_imported() {
    let scene = Scene::new(1);
    fs::create_dir(scene.path("empty")).unwrap();
    fs::write(scene.path("file"), "x").unwrap();
    scene.fails(&["--import", "nowhere"], &["nowhere", "No such file"]);
    scene.fails(&["--import", "file"], &["file", "no folder"]);
    scene.fails(&["--import", "empty"], &["empty", "no file to import"]);
}

/// Permissions bind nobody who is root: so the command runs as somebody else then.
fn compare_without_privileges(scene: &Scene, args: &[&str]) -> Option<Output> {
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

#[test]
fn what_cannot_be_read_is_named() {
    let scene = Scene::new(6);
    let volume = ["--volume", "volume"];
    let args = [&QUICK[..], &["--import", "source"], &volume].concat();
    // A file: found out when others are committed already.
    let secret = scene.path("source/zzz");
    fs::write(&secret, "x").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let Some(output) = compare_without_privileges(&scene, &args) else {
        return;
    };
    let wanted = [
        "source/zzz",
        "Permission denied",
        "were committed before, recovered, and verified",
    ];
    assert_fails(&output, &args, &wanted);
    assert_eq!(assert_committed_is_intact(&scene), scene.files.len());
    fs::remove_file(&secret).unwrap();

    // A folder: found out before anything is written.
    let locked = scene.path("source/locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let output = compare_without_privileges(&scene, &args).expect("it did before");
    let wanted = ["source/locked", "Permission denied", "make it readable"];
    assert_fails(&output, &args, &wanted);
    assert_eq!(assert_committed_is_intact(&scene), scene.files.len());
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Compares all files that a run left in the volume, by chunks; returns how many are whole.
fn assert_committed_is_intact(scene: &Scene) -> usize {
    let volume = scene.open();
    let mut whole = 0;
    for (path, size) in volume.list() {
        let Some((_, name)) = path.strip_prefix(PREFIX).and_then(|it| it.split_once('/')) else {
            continue;
        };
        let Some(wanted) = scene.files.get(name) else {
            assert_eq!((name, size), ("zzz", 0), "a file that could not be read");
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

#[test]
fn files_that_are_no_volume_are_left_alone() {
    let scene = Scene::new(1);
    let hint = "never formatted";
    let mut cases = vec![
        ("text", b"my diary".repeat(1024), "no volume here"),
        ("odd", vec![1; 100], "multiple of 4096"),
        ("empty", vec![], "is empty"),
    ];
    let path = scene.make_volume(1 << 20);
    let sound = fs::read(&path).unwrap();
    let mut other = sound.clone();
    other[8] += 1;
    let checksum = crc32c::crc32c(&other[..60]);
    other[60..64].copy_from_slice(&checksum.to_le_bytes());
    cases.push((
        "other",
        other,
        "format version 2, this build reads version 1",
    ));
    cases.push((
        "short",
        sound[..512 << 10].to_vec(),
        "only 524288: it was cut short",
    ));
    let mut flipped = sound.clone();
    flipped[4096 + 8] ^= 0x10;
    cases.push(("flipped", flipped, "damaged: "));
    for (name, content, wanted) in cases {
        fs::write(scene.path(name), &content).unwrap();
        let args = ["--import", "source", "--volume", name];
        scene.fails(&args, &[name, wanted, hint]);
        assert!(
            fs::read(scene.path(name)).unwrap() == content,
            "{name} was changed"
        );
    }
    scene.fails(&["--volume", "source"], &["source", "a folder"]);
    scene.fails(
        &["--volume", "nowhere/volume"],
        &["nowhere/volume", "no such file or folder"],
    );
    scene.fails(
        &["--volume", "volume", "--size", "2M"],
        &["volume", "has 1048576 bytes", "leave it out"],
    );
    let _opener = scene.open();
    scene.fails(&["--volume", "volume"], &["volume", "in use"]);
}

#[test]
fn an_existing_volume_is_used_and_left_as_it_was() {
    let scene = Scene::new(4);
    scene.make_volume(8 << 20);
    let told = scene.imports(&["--volume", "volume"]);
    assert!(told.contains("volume: volume, existing"), "{told}");
    let volume = scene.open();
    assert_eq!(volume.list(), [("mine".to_owned(), 9000)]);
    assert_eq!(mine(&volume), [7; 9000]);
    assert_eq!(fs::metadata(scene.path("volume")).unwrap().len(), 8 << 20);
}

#[test]
fn a_full_volume_keeps_what_was_committed() {
    let scene = Scene::new(40);
    let bytes: usize = scene.files.values().map(Vec::len).sum();
    assert!(bytes > 1 << 20);
    let full = [
        "the volume is full",
        "a larger one with --size",
        "were committed before, recovered, and verified",
    ];
    let import = [&QUICK[..], &["--import", "source"]].concat();
    scene.fails(&[&import[..], &["--size", "1M"]].concat(), &full);
    scene.fails(
        &[&import[..], &["--size", "8K"]].concat(),
        &["--size 8192", "cannot format"],
    );

    scene.make_volume(1 << 20);
    scene.fails(&[&import[..], &["--volume", "volume"]].concat(), &full);
    assert_eq!(mine(&scene.open()), [7; 9000]);
    let whole = assert_committed_is_intact(&scene);
    assert!(0 < whole && whole < scene.files.len(), "{whole}");

    // The next run removes what that one left, and goes well if it needs less.
    fs::remove_dir_all(scene.path("source")).unwrap();
    write_files(&random_files(2, &mut Random::new(1)), &scene.path("source"));
    let told = scene.imports(&["--volume", "volume"]);
    assert!(told.contains("files of an earlier run"), "{told}");
    assert_eq!(scene.open().list(), [("mine".to_owned(), 9000)]);

    // The shared file does not fit either.
    fs::remove_file(scene.path("report.html")).unwrap();
    let dwom = [
        "--workloads",
        "dwom",
        "--seconds",
        "0.01",
        "--volume",
        "volume",
    ];
    scene.fails(
        &dwom,
        &[
            "the volume is full",
            "8 MiB for each",
            "spanlock-compare/shared-file",
        ],
    );
    assert_eq!(mine(&scene.open()), [7; 9000]);
}

#[test]
fn a_new_volume_is_kept() {
    let scene = Scene::new(3);
    let told = scene.imports(&["--volume", "fresh", "--size", "8M", "--report", "r.html"]);
    assert!(
        told.contains("volume: fresh, new") && told.contains("report: r.html"),
        "{told}"
    );
    let path: &Path = &scene.path("fresh");
    assert_eq!(fs::metadata(path).unwrap().len(), 8 << 20);
    let region = MappedFile::open(path, Options::new()).unwrap();
    let (volume, _) = FileCore::open(region, |_| RwCounter::new()).unwrap();
    assert!(volume.list().is_empty());
}

//! `compare` and volumes: those it creates, those it opens, and the messages for those it cannot
//! use.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::scene::*;
use crate::common::{Random, random_files, write_files};
use spanlock_file_core::{FormatOptions, Volume};
use spanlock_pmem::{MappedFile, Options};
use spanlock_range_lock::RwCounter;

#[test]
fn files_that_are_not_volumes_are_left_unchanged() {
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
        "format version 3, but this build reads version 2",
    ));
    cases.push((
        "short",
        sound[..512 << 10].to_vec(),
        "only 524288: it was truncated",
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
        &["--size 2M: ", "volume", "has 1048576 bytes", "leave it out"],
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
    let full = "the volume is full";
    let kept = "were committed, recovered and verified";
    let import = [&QUICK[..], &["--import", "source"]].concat();
    let fails = |args: &[&str], wanted: &[&str]| scene.fails(&[&import, args].concat(), wanted);
    fails(&["--size", "1M"], &[full, kept, "a larger one with --size"]);
    for typed in ["8K", "1"] {
        let told = format!("--size {typed}: cannot format");
        fails(&["--size", typed], &[&told]);
    }
    let new = ["--volume", "new", "--size", "1M"];
    fails(
        &new,
        &[full, kept, "remove new, which this run has created"],
    );

    scene.make_volume(1 << 20);
    let helps = "choose an unused path with --volume";
    fails(&["--volume", "volume"], &[full, kept, helps]);
    assert_eq!(mine(&scene.open()), [7; 9000]);
    let whole = assert_committed_is_intact(&scene);
    assert!(0 < whole && whole < scene.files.len(), "{whole}");

    // The next run removes the files that this one left, and succeeds if it needs less space.
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
        &["at most 1048576 bytes", "this run creates one of", helps],
    );
    assert_eq!(mine(&scene.open()), [7; 9000]);
}

#[test]
fn an_error_names_the_lock_that_cannot_be_created() {
    let args = [
        "--workloads",
        "import",
        "--import",
        "source",
        "--volume",
        "volume",
        "--threads",
        "1",
    ];
    let wanted = [
        "import under srl-array, 1 thread",
        "not enough memory for",
        "leave this lock out with --locks",
    ];
    // The lock needs 4 GiB of words for each file of up to 4 TiB. A volume opens without it, but
    // the first creation fails.
    let scene = Scene::new(2);
    let options = FormatOptions::new().max_file_size(1 << 42);
    scene.make_volume_as(8 << 20, &options);
    let stopped = "0 files and 0 bytes were committed";
    fails_in_little_memory(&scene, &args, &[&wanted[..], &[stopped]].concat());
    assert_eq!(mine(&scene.open()), [7; 9000]);
    scene.open().remove("mine").unwrap();
    assert!(scene.open().list().iter().all(|(_, size)| *size == 0));
    // Another lock needs no such memory, and its run removes the leftover files.
    let args = ["--locks", "rw-counter", "--volume", "volume"];
    let told = scene.imports(&args);
    assert!(
        told.contains("existing") && scene.open().list().is_empty(),
        "{told}"
    );
}

#[test]
fn a_repaired_superblock_is_reported() {
    let scene = Scene::new(1);
    let volume = scene.make_volume(8 << 20);
    let file = fs::OpenOptions::new().write(true).open(volume).unwrap();
    file.write_all_at(&[0x5a; 8], 8).unwrap();
    let repaired = "one of its two superblocks was damaged";
    let args = ["--volume", "volume"];
    assert!(scene.imports(&args).contains(repaired));
    assert!(!scene.imports(&args).contains(repaired));
}

#[test]
fn two_runs_do_not_share_a_volume() {
    let scene = Scene::new(2);
    scene.make_volume(8 << 20);
    symlink("volume", scene.path("link")).unwrap();
    let mut first = Command::new(COMPARE)
        .args(["--workloads", "import", "--import", "source"])
        .args(["--threads", "1", "--seconds", "0.5", "--volume", "volume"])
        .current_dir(scene.folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(first.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("volume: ") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended");
    }
    let second = ["--import", "source", "--volume", "link"];
    scene.fails(&second, &["link is in use by another `cargo compare`"]);
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert!(first.wait().unwrap().success());
    scene.imports(&["--volume", "link"]);
}

#[test]
fn a_volume_in_the_folder_is_not_imported() {
    let scene = Scene::new(2);
    for kind in ["new", "existing"] {
        let told = scene.imports(&["--volume", "source/volume"]);
        assert!(
            told.contains(kind) && told.contains("imported 2 files"),
            "{told}"
        );
    }
    // A hole of 2^62 bytes: refused before anything runs, not when memory is exhausted.
    let file = fs::File::create(scene.path("source/hole")).unwrap();
    if file.set_len(1 << 62).is_ok() {
        fs::remove_file(scene.path("report.html")).unwrap();
        let args = ["--import", "source", "--volume", "source/volume"];
        scene.fails(&args, &["this run creates one of 4611686018427387904"]);
        scene.fails(&["--import", "source"], &["creating a temporary volume"]);
    }
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
    let (volume, _) = Volume::open(region, |_| RwCounter::new()).unwrap();
    assert!(volume.list().is_empty());
}

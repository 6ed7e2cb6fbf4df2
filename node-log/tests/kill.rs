//! Kills a process with SIGKILL while its threads create, write, append to, truncate, sync and
//! remove files, clean, and make checkpoints. The next process finds all that was reported, each
//! page wholly old or wholly new, and no block or node that is lost or shared.
//!
//! `SPANLOCK_ROUNDS` multiplies the kills.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use spanlock_node_log::{BlockVolume, Error, Home, Nvm, NvmVolume, Options, Volume};
use spanlock_pmem::MappedFile;

const FOLDER: &str = "SPANLOCK_NODE_LOG_KILL_FOLDER";
const BLOCKS: u64 = 1200;
const BLOCK: u64 = 4096;
const NODES: u64 = 1 << 20;
/// The bytes of a file that was written, in two pages.
const SIZE: usize = 5000;
/// The writes of a file, each with its number in every byte.
const WRITES: u8 = 3;
/// The bytes of a file to which was appended, and of one that was truncated.
const LONG: usize = 9000;
const SHORT: usize = 1000;

/// Small segments and few blocks, so that writes clean.
fn options() -> Options {
    Options::new()
        .segment_blocks(16)
        .nodes(200)
        .checkpoint_every(None)
}

fn lock(_: u64) -> IntervalLock {
    IntervalLock::new()
}

/// Opens or creates the volume in `folder`, whose name says where its nodes are.
fn with_volume(folder: &Path, run: impl FnOnce(&mut dyn Files)) {
    let blocks = folder.join("blocks");
    let nodes = folder.join("nodes");
    let (is_new, bytes) = (!blocks.exists(), BLOCKS * BLOCK);
    let storage = match is_new {
        true => FileStorage::create(&blocks, bytes, FileMode::Buffered),
        false => FileStorage::open(&blocks, FileMode::Buffered),
    };
    let storage = storage.unwrap();
    if folder.ends_with("nvm") {
        let pmem = spanlock_pmem::Options::new();
        match is_new {
            true => {
                let region = MappedFile::create(&nodes, NODES, pmem).unwrap();
                run(&mut NvmVolume::create(storage, Nvm::new(region), &options(), lock).unwrap());
            }
            false => {
                let region = MappedFile::open(&nodes, pmem).unwrap();
                run(&mut NvmVolume::open(storage, Nvm::new(region), &options(), lock).unwrap());
            }
        }
    } else {
        match is_new {
            true => run(&mut BlockVolume::create_on(storage, &options(), lock).unwrap()),
            false => run(&mut BlockVolume::open_on(storage, &options(), lock).unwrap()),
        }
    }
}

/// A volume with any home.
trait Files: Sync {
    fn create(&self, name: &str);
    fn write(&self, name: &str, nth: u8);
    fn append(&self, name: &str);
    fn truncate(&self, name: &str);
    /// Returns once the removal is durable.
    fn remove(&self, name: &str);
    fn clean(&self);
    /// Returns the content, or `None` if there is no such file.
    fn content(&self, name: &str) -> Option<Vec<u8>>;
    fn names(&self) -> Vec<String>;
    fn assert_sound(&mut self);
}

impl<H: Home, S: Storage> Files for Volume<H, S, IntervalLock> {
    fn create(&self, name: &str) {
        self.create_file(name).unwrap().fsync().unwrap();
    }

    fn write(&self, name: &str, nth: u8) {
        let file = self.open_file(name).unwrap();
        file.write_at(&[nth; SIZE], 0).unwrap();
        file.fsync().unwrap();
    }

    fn append(&self, name: &str) {
        let file = self.open_file(name).unwrap();
        let at = file.append(&[WRITES; LONG - SIZE]).unwrap();
        assert_eq!(at, SIZE as u64);
        file.fsync().unwrap();
    }

    fn truncate(&self, name: &str) {
        let file = self.open_file(name).unwrap();
        file.truncate(SHORT as u64).unwrap();
        file.fsync().unwrap();
    }

    fn remove(&self, name: &str) {
        Volume::remove(self, name).unwrap();
        if H::BLOCKS_WRITERS {
            self.checkpoint().unwrap();
        }
    }

    fn clean(&self) {
        Volume::clean(self).unwrap();
    }

    fn content(&self, name: &str) -> Option<Vec<u8>> {
        let file = match self.open_file(name) {
            Err(Error::NotFound { .. }) => return None,
            found => found.unwrap(),
        };
        let mut found = vec![0; LONG + 1];
        let len = file.read_at(&mut found, 0).unwrap();
        found.truncate(len);
        Some(found)
    }

    fn names(&self) -> Vec<String> {
        Volume::names(self)
    }

    fn assert_sound(&mut self) {
        assert_eq!(self.check().unwrap().findings, [""; 0]);
    }
}

/// The child's part: threads that report what they are doing, and have done. Removes most files, so
/// that it never runs out of room before it is killed.
#[test]
fn child_uses_files() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let say = |what: &str, name: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "report: {what} {name} .").unwrap();
    };
    with_volume(Path::new(&folder), |volume| {
        let volume = &*volume;
        let live = |thread: u64| {
            for number in 0.. {
                let name = &*format!("{thread}-{number}");
                volume.create(name);
                say("created", name);
                for nth in 1..=WRITES {
                    volume.write(name, nth);
                    say("wrote", name);
                }
                volume.append(name);
                say("appended", name);
                if number % 2 == 0 {
                    say("truncating", name);
                    volume.truncate(name);
                    say("truncated", name);
                }
                if number % 25 > 0 {
                    say("removing", name);
                    volume.remove(name);
                    say("removed", name);
                }
                if number % 4 == thread {
                    volume.clean();
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || live(thread));
            }
        });
    });
}

/// What is known about a file.
#[derive(Debug, Default)]
struct File {
    writes: u8,
    is_appended: bool,
    is_truncating: bool,
    is_truncated: bool,
    is_removing: bool,
    is_removed: bool,
}

impl File {
    /// Returns whether the content is what was reported, or what the next step makes of it.
    fn may_be(&self, content: &[u8]) -> bool {
        let is_stamped = |stamps: std::ops::RangeInclusive<u8>| {
            let mut pages = content.chunks(BLOCK as usize);
            pages.all(|page| stamps.contains(&page[0]) && page.iter().all(|it| *it == page[0]))
        };
        match content.len() {
            0 => self.writes == 0,
            SIZE => !self.is_appended && is_stamped(self.writes..=(self.writes + 1).min(WRITES)),
            LONG => self.writes == WRITES && !self.is_truncated && is_stamped(WRITES..=WRITES),
            SHORT => (self.is_truncating || self.is_truncated) && is_stamped(WRITES..=WRITES),
            _ => false,
        }
    }
}

/// Takes a report of the child.
fn take(files: &mut BTreeMap<String, File>, line: &str) -> Option<()> {
    let (_, report) = line.split_once("report: ")?;
    // A kill may cut the last line short, before its end mark.
    let [what, name, "."] = report.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let file = files.entry(name.to_owned()).or_default();
    match what {
        "created" => *file = File::default(),
        "wrote" => file.writes += 1,
        "appended" => file.is_appended = true,
        "truncating" => file.is_truncating = true,
        "truncated" => file.is_truncated = true,
        "removing" => file.is_removing = true,
        "removed" => file.is_removed = true,
        other => panic!("{other}"),
    }
    Some(())
}

/// Runs the child until it has made `reports` reports, and kills it. Returns what it reported.
fn kill_after(folder: &Path, reports: usize) -> BTreeMap<String, File> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_uses_files", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut files, mut made) = (BTreeMap::new(), 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // What is still in the pipe was reported, too.
        made += take(&mut files, &line.unwrap()).map_or(0, |()| 1);
        if made == reports {
            child.kill().unwrap();
        }
    }
    assert!(made >= reports, "the child ended by itself");
    child.wait().unwrap();
    files
}

/// Compares the volume with what the child has reported, and removes all files. Returns how many
/// were there, and how many were gone.
fn check(folder: &Path, mut files: BTreeMap<String, File>) -> (usize, usize) {
    let (mut there, mut gone) = (0, 0);
    with_volume(folder, |volume| {
        volume.assert_sound();
        let names = volume.names();
        for name in &names {
            // Created, and not reported yet.
            files.entry(name.clone()).or_default();
        }
        for (name, file) in &files {
            let Some(content) = volume.content(name) else {
                assert!(file.is_removing, "file {name} is gone");
                gone += 1;
                continue;
            };
            assert!(!file.is_removed, "file {name} is there again");
            let runs: Vec<_> = content
                .chunk_by(|a, b| a == b)
                .map(|run| (run.len(), run[0]))
                .collect();
            assert!(file.may_be(&content), "file {name} has {runs:?}: {file:?}");
            volume.remove(name);
            there += 1;
        }
    });
    (there, gone)
}

fn survives_kills(name: &str, reports: &[usize]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    let rounds = std::env::var("SPANLOCK_ROUNDS").map_or(1, |it| it.parse().unwrap());
    let (mut there, mut gone) = (0, 0);
    for reports in (0..rounds).flat_map(|_| reports) {
        let files = kill_after(&folder, *reports);
        let found = check(&folder, files);
        (there, gone) = (there + found.0, gone + found.1);
    }
    assert!(
        there > 0 && gone > 0,
        "{there} files were there, {gone} were gone"
    );
}

#[test]
fn all_that_was_reported_survives_kills_with_nodes_in_a_mapped_file() {
    survives_kills("nvm", &[1, 300, 37, 3000, 2]);
}

#[test]
fn all_that_was_reported_survives_kills_with_nodes_in_blocks() {
    survives_kills("blocks", &[1, 300, 37, 700, 2]);
}

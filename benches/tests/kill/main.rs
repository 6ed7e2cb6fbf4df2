//! Kills imports and overwrites with SIGKILL at random moments, under every lock. Operations that
//! were reported as returned must be recovered byte for byte. All others must be present as a whole
//! or not at all.
//!
//! All kills of a lock hit one volume, and each child continues with the state that its predecessor
//! left. Some children import a folder after removing the previous import. Some overwrite pages of
//! two files repeatedly, so that the logs are compacted. Some kill themselves when a compaction is
//! due. `SPANLOCK_KILL_SEED=n` repeats the delays of a run, as far as delays determine the
//! behaviour.

#[path = "../common/mod.rs"]
mod common;
mod files;
mod pages;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Files, Random, random_files, write_files};
use files::Present;
use pages::{History, Page, Shown};
use spanlock_benches::import::CHUNK;
use spanlock_benches::killed::{Line, PAGE};
use spanlock_benches::locks;
use spanlock_file_core::FormatOptions;
use spanlock_pmem::{MappedFile, Options};
use spanlock_range_lock::RwCounter;
use spanlock_testkit::rounds::scaled;

/// The minimum number of imports to kill. Like all these numbers, it is per lock, and
/// `SPANLOCK_ROUNDS` multiplies it.
const IMPORTS: usize = 23;
/// The minimum number of kills that hit a partly committed import.
const AMID: usize = 13;
/// The minimum number of overwriters to kill.
const OVERWRITERS: usize = 18;
/// The minimum number of compactions by the killed overwriters.
const COMPACTIONS: usize = 10;
/// The minimum number of children that kill themselves when a compaction is due.
const COMPACTORS: usize = 6;
/// The maximum number of kills; the test fails if the numbers above are not reached by then.
const MAX_KILLS: usize = 250;
/// The longest time before an overwriter is killed.
const OVERWRITING: Duration = Duration::from_millis(30);
/// The time within which a child must kill itself.
const PATIENCE: Duration = Duration::from_secs(20);
const FILES: usize = 120;

pub(crate) type Volume = spanlock_file_core::Volume<MappedFile, RwCounter>;

pub(crate) struct Scene {
    _folder: tempfile::TempDir,
    source: PathBuf,
    volume: PathBuf,
    pub(crate) files: Files,
}

impl Scene {
    /// Creates files to import, and an empty volume with room for two copies of them.
    pub(crate) fn new(random: &mut Random) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let (source, volume) = (folder.path().join("source"), folder.path().join("volume"));
        let files = random_files(FILES, random);
        write_files(&files, &source);
        let region = MappedFile::create(&volume, 48 << 20, Options::new()).unwrap();
        let options = FormatOptions::new().max_file_size(1 << 20);
        Volume::format(region, &options, |_| RwCounter::new()).unwrap();
        Scene {
            _folder: folder,
            source,
            volume,
            files,
        }
    }

    pub(crate) fn open(&self) -> Volume {
        let region = MappedFile::open(&self.volume, Options::new()).unwrap();
        Volume::open(region, |_| RwCounter::new())
            .expect("recovery")
            .0
    }

    /// Starts a child that does `work`. Kills it `delay` after it began, or waits until it kills
    /// itself. Returns its output.
    fn kill(&self, lock: &str, work: &[&Path], delay: Option<Duration>) -> Vec<Line> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_import-child"))
            .args([&self.volume, Path::new(lock)])
            .args(work)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "begin\n", "the child reports the reason on stderr");
        // Read concurrently, because a full pipe would block the child.
        let told = std::thread::spawn(move || {
            let mut told = String::new();
            out.read_to_string(&mut told).map(|_| told)
        });
        match delay {
            Some(delay) => sleep(delay),
            None => {
                let started = Instant::now();
                while child.try_wait().unwrap().is_none() {
                    assert!(
                        started.elapsed() < PATIENCE,
                        "the child has not reached a compaction"
                    );
                    sleep(Duration::from_millis(1));
                }
            }
        }
        child.kill().unwrap();
        assert_eq!(
            child.wait().unwrap().signal(),
            Some(9),
            "the child must not end by itself"
        );
        let told = told.join().unwrap().unwrap();
        // A line that was cut off does not count.
        let whole = told.split_inclusive('\n');
        let lines = whole.filter_map(|line| line.strip_suffix('\n'));
        lines.map(|line| line.parse().unwrap()).collect()
    }
}

/// The counts for one lock.
#[derive(Default)]
struct Tally {
    imports: usize,
    /// Kills that hit a partly committed import.
    amid: usize,
    /// Chunks that were reported and found.
    chunks: usize,
    overwriters: usize,
    /// Overwriters that were killed during a write.
    in_progress: usize,
    /// Overwrites that were reported and found, or overwritten since.
    overwrites: usize,
    compactions: u64,
    compactors: usize,
}

impl Tally {
    fn is_enough(&self) -> bool {
        let imports = self.imports >= scaled(IMPORTS) && self.amid >= scaled(AMID);
        let compactions = self.compactions as usize >= scaled(COMPACTIONS);
        let overwriters = self.overwriters >= scaled(OVERWRITERS) && compactions;
        imports && overwriters && self.compactors >= scaled(COMPACTORS)
    }

    fn kills(&self) -> usize {
        self.imports + self.overwriters + self.compactors
    }
}

/// A volume whose child processes are killed repeatedly, and its expected content.
struct Ordeal<'a> {
    lock: &'a str,
    scene: Scene,
    all_chunks: usize,
    /// The expected duration of an import, adjusted after each kill.
    expected: Duration,
    present: Present,
    shown: Shown,
    tally: Tally,
}

impl Ordeal<'_> {
    fn kill_an_import(&mut self, random: &mut Random) -> Result<(), String> {
        let prefix = format!("{}:", self.tally.kills());
        let delay = self.expected.mul_f64(random.below(1000) as f64 / 1000.0);
        let (two, import) = (Path::new("2"), Path::new("import"));
        let work = [two, import, &self.scene.source, Path::new(&prefix)];
        let told = self.scene.kill(self.lock, &work, Some(delay));
        self.check(&prefix, &told)?;

        let there = |(path, chunks): (&String, &Vec<bool>)| match path.starts_with(&prefix) {
            true => chunks.iter().filter(|it| **it).count(),
            false => 0,
        };
        let there: usize = self.present.iter().map(there).sum();
        let ended = told.contains(&Line::End);
        if ended && there < self.all_chunks {
            return Err(format!(
                "only {there} of {} chunks after the import completed",
                self.all_chunks
            ));
        }
        self.expected = self.expected.mul_f64(if ended { 0.8 } else { 1.08 });
        self.tally.imports += 1;
        self.tally.amid += usize::from(0 < there && there < self.all_chunks);
        let imported = told.iter().filter(|it| matches!(it, Line::Imported { .. }));
        self.tally.chunks += imported.count();
        Ok(())
    }

    fn kill_an_overwriter(&mut self, random: &mut Random) -> Result<(), String> {
        let delay = OVERWRITING.mul_f64(random.below(1000) as f64 / 1000.0);
        let seed = random.next().to_string();
        let work = ["2", "overwrite", &seed].map(Path::new);
        let told = self.scene.kill(self.lock, &work, Some(delay));
        // No import has this prefix, so no file may be missing.
        let (returned, in_progress) = self.check("none:", &told)?;
        self.tally.overwriters += 1;
        self.tally.overwrites += returned;
        self.tally.in_progress += usize::from(in_progress > 0);
        let compactions = told.iter().filter_map(|line| match line {
            Line::Compactions(count) => Some(*count),
            _ => None,
        });
        self.tally.compactions += compactions.max().unwrap_or(0);
        Ok(())
    }

    fn kill_a_compactor(&mut self, random: &mut Random) -> Result<(), String> {
        let seed = random.next().to_string();
        let work = ["1", "compact", &seed].map(Path::new);
        let told = self.scene.kill(self.lock, &work, None);
        let (returned, _) = self.check("none:", &told)?;
        self.tally.compactors += 1;
        self.tally.overwrites += returned;
        Ok(())
    }

    /// Recovers the volume and checks all of it. Returns how many overwrites returned, and how many
    /// began without returning.
    fn check(&mut self, prefix: &str, told: &[Line]) -> Result<(usize, usize), String> {
        let volume = self.scene.open();
        let files = &self.scene.files;
        self.present = files::check(&volume, files, &self.present, prefix, told)?;
        let history = History::new(&self.shown, told);
        self.shown = history.check(|page| read(&volume, page))?;
        Ok(history.counts())
    }
}

/// Returns the content of a page; zeros if the file is shorter.
fn read(volume: &Volume, (file, page): &Page) -> Vec<u8> {
    let mut content = vec![0; PAGE];
    if let Ok(file) = volume.open_file(file) {
        file.read_at(&mut content, page * PAGE as u64).unwrap();
    }
    content
}

fn kill_repeatedly(lock: &str, seed: u64, random: &mut Random) -> Tally {
    let scene = Scene::new(random);
    let sizes = scene.files.values().map(Vec::len);
    let mut ordeal = Ordeal {
        lock,
        all_chunks: sizes.map(|it| it.div_ceil(CHUNK as usize)).sum(),
        scene,
        expected: Duration::from_millis(10),
        present: Present::new(),
        shown: pages::blank(),
        tally: Tally::default(),
    };
    while !ordeal.tally.is_enough() && ordeal.tally.kills() < scaled(MAX_KILLS) {
        let kill = ordeal.tally.kills();
        let killed = match random.below(20) {
            0..10 => ordeal.kill_an_import(random),
            10..17 => ordeal.kill_an_overwriter(random),
            _ => ordeal.kill_a_compactor(random),
        };
        killed.unwrap_or_else(|why| panic!("{lock}, kill {kill}, seed {seed}: {why}"));
    }
    ordeal.tally
}

#[test]
fn reported_operations_survive_200_kills() {
    let seed = std::env::var("SPANLOCK_KILL_SEED").map_or(0x5ba2_10c4, |it| it.parse().unwrap());
    println!("SPANLOCK_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    let mut kills = 0;
    for (lock, _) in locks::all() {
        let tally = kill_repeatedly(lock, seed, &mut random);
        println!(
            "{lock}: {} imports killed, {} of them with a part committed, {} chunks reported, all found; {} overwriters killed, {} of them \
             during a write, {} logs compacted; {} killed when a compaction was due; {} overwrites reported, none lost",
            tally.imports,
            tally.amid,
            tally.chunks,
            tally.overwriters,
            tally.in_progress,
            tally.compactions,
            tally.compactors,
            tally.overwrites
        );
        assert!(
            tally.is_enough(),
            "{lock}: {} kills did not reach the required counts",
            tally.kills()
        );
        kills += tally.kills();
    }
    assert!(kills >= 200, "only {kills} kills");
}

//! The import killed by SIGKILL, at random moments and under every lock: whatever was reported as
//! committed is recovered byte for byte, and of everything else each chunk is there as a whole or
//! not at all.
//!
//! All kills of a lock hit one volume: each child goes on with what the one before left, removes its
//! files and imports anew. `SPANLOCK_KILL_SEED=n` repeats the delays of a run, as far as a delay
//! repeats anything.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use common::{Files, Random, random_files, write_files};
use spanlock::RwCounter;
use spanlock_benches::{import::CHUNK, locks};
use spanlock_file_core::{FileCore, FormatOptions};
use spanlock_pmem::{MappedFile, Options};

/// Of each lock, at least …
const KILLS: usize = 80;
/// … with at least so many when a part of the import was committed, …
const AMID: usize = 40;
/// … unless so many do not yield them.
const MOST_KILLS: usize = 500;
const FILES: usize = 40;
const THREADS: &str = "2";

type Volume = FileCore<MappedFile, RwCounter>;

/// What one child did until it was killed.
struct Killed {
    /// The files that it reported as committed.
    reported: BTreeSet<String>,
    /// It was done already.
    ended: bool,
}

struct Scene {
    _folder: tempfile::TempDir,
    source: PathBuf,
    volume: PathBuf,
    files: Files,
}

impl Scene {
    /// Files to import, and an empty volume with room for them twice.
    fn new(random: &mut Random) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let (source, volume) = (folder.path().join("source"), folder.path().join("volume"));
        let files = random_files(FILES, random);
        write_files(&files, &source);
        let region = MappedFile::create(&volume, 16 << 20, Options::new()).unwrap();
        let options = FormatOptions::new().max_file_size(1 << 20);
        FileCore::format(region, &options, |_| RwCounter::new()).unwrap();
        Scene {
            _folder: folder,
            source,
            volume,
            files,
        }
    }

    fn open(&self) -> Volume {
        let region = MappedFile::open(&self.volume, Options::new()).unwrap();
        FileCore::open(region, |_| RwCounter::new())
            .expect("recovery")
            .0
    }

    /// Lets a child import under `prefix`, and kills it `delay` after it began.
    fn kill(&self, lock: &str, prefix: &str, delay: Duration) -> Killed {
        let mut child = Command::new(env!("CARGO_BIN_EXE_import-child"))
            .args([&self.volume, Path::new(lock), &self.source])
            .args([prefix, THREADS])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "begin\n", "the child says why on stderr");
        sleep(delay);
        child.kill().unwrap();
        assert_eq!(
            child.wait().unwrap().signal(),
            Some(9),
            "the child must not end by itself"
        );
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        // A line that was cut short does not count.
        let whole = rest.split_inclusive('\n');
        let mut reported: BTreeSet<String> = whole
            .filter_map(|line| line.strip_suffix('\n'))
            .map(str::to_owned)
            .collect();
        let ended = reported.remove("end");
        Killed { reported, ended }
    }
}

/// Checks all files of the volume; returns how many chunks are there under `prefix`. Names are
/// `prefix` or a former prefix, then the name in the folder.
fn check(
    volume: &Volume,
    files: &Files,
    prefix: &str,
    reported: &BTreeSet<String>,
) -> Result<usize, String> {
    let mut chunks = 0;
    let mut whole = BTreeSet::new();
    for (path, size) in volume.list() {
        let name = path.split_once(':').map_or("", |(_, name)| name);
        let wanted = files
            .get(name)
            .ok_or_else(|| format!("nobody made {path}"))?;
        let mut content = vec![0; size as usize];
        let file = volume.open_file(&path).map_err(|it| it.to_string())?;
        file.read_at(&mut content, 0).map_err(|it| it.to_string())?;
        let present = chunks_of(&content, wanted).map_err(|why| format!("{path}: {why}"))?;
        if path.starts_with(prefix) {
            chunks += present;
            if content == *wanted {
                whole.insert(name.to_owned());
            }
        }
    }
    match reported.difference(&whole).next() {
        Some(lost) => Err(format!("{lost} was reported, and is not there whole")),
        None => Ok(chunks),
    }
}

/// How many chunks of `wanted` are in `content`: each as a whole, or as a hole.
fn chunks_of(content: &[u8], wanted: &[u8]) -> Result<usize, String> {
    let (mut present, mut end) = (0, 0);
    for (i, chunk) in wanted.chunks(CHUNK as usize).enumerate() {
        let start = i * CHUNK as usize;
        let found = content.get(start..).unwrap_or_default();
        let found = &found[..found.len().min(chunk.len())];
        if found == chunk {
            present += 1;
            end = start + chunk.len();
        } else if found.iter().any(|&byte| byte != 0) {
            return Err(format!("the chunk at {start} is there in part"));
        }
    }
    if content.len() == end {
        Ok(present)
    } else {
        Err(format!("{} bytes, but {end} were written", content.len()))
    }
}

/// The kills of one lock.
#[derive(Default)]
struct Tally {
    kills: usize,
    /// A part of the import was committed, and a part not.
    amid: usize,
    /// Files that were reported, and found.
    reported: usize,
}

fn kill_again_and_again(lock: &str, seed: u64, random: &mut Random) -> Tally {
    let scene = Scene::new(random);
    let sizes = scene.files.values().map(Vec::len);
    let all_chunks: usize = sizes.map(|it| it.div_ceil(CHUNK as usize)).sum();
    // How long an import takes, learnt from whether the child was done.
    let mut expected = Duration::from_millis(10);
    let mut tally = Tally::default();
    while (tally.kills < KILLS || tally.amid < AMID) && tally.kills < MOST_KILLS {
        let round = tally.kills;
        let prefix = format!("{round}:");
        let delay = expected.mul_f64(random.below(1000) as f64 / 1000.0);
        let killed = scene.kill(lock, &prefix, delay);
        let there = check(&scene.open(), &scene.files, &prefix, &killed.reported);
        let there = there.unwrap_or_else(|why| {
            panic!("{lock}, kill {round}, after {delay:?}, seed {seed}: {why}")
        });
        if killed.ended {
            assert_eq!(there, all_chunks);
        }
        expected = expected.mul_f64(if killed.ended { 0.8 } else { 1.08 });
        tally.kills += 1;
        tally.amid += usize::from(0 < there && there < all_chunks);
        tally.reported += killed.reported.len();
    }
    tally
}

#[test]
fn every_reported_file_survives_200_kills() {
    let seed = std::env::var("SPANLOCK_KILL_SEED").map_or(0x5ba2_10c4, |it| it.parse().unwrap());
    println!("SPANLOCK_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    let (mut kills, mut amid) = (0, 0);
    for (lock, _) in locks::all() {
        let tally = kill_again_and_again(lock, seed, &mut random);
        println!(
            "{lock}: {} kills, {} of them with a part of the import committed; {} files reported, all found",
            tally.kills, tally.amid, tally.reported
        );
        kills += tally.kills;
        amid += tally.amid;
    }
    assert!(kills >= 200, "only {kills} kills");
    assert!(amid >= 100, "only {amid} kills of {kills} hit an import");
}

/// The check above can fail: it sees a page changed, a chunk in part, a file missing.
#[test]
fn the_check_finds_what_is_wrong() {
    let scene = Scene::new(&mut Random::new(7));
    let volume = scene.open();
    let (name, content) = scene
        .files
        .iter()
        .find(|(_, content)| content.len() > 3 * CHUNK as usize)
        .expect("a large file");
    let path = format!("0:{name}");
    let file = volume.create(&path).unwrap();
    let reported = BTreeSet::from([name.clone()]);
    let nothing = BTreeSet::new();
    let check = |reported| check(&volume, &scene.files, "0:", reported);

    assert_eq!(check(&nothing), Ok(0));
    assert!(check(&reported).unwrap_err().contains("not there whole"));
    let chunk = CHUNK as usize;
    file.write_at(&content[chunk..2 * chunk], CHUNK).unwrap();
    assert_eq!(check(&nothing), Ok(1));
    file.write_at(&content[..5000], 0).unwrap();
    assert!(check(&nothing).unwrap_err().contains("in part"));
    file.write_at(content, 0).unwrap();
    assert_eq!(check(&reported), Ok(content.len().div_ceil(chunk)));
    file.write_at(&[!content[9000]], 9000).unwrap();
    assert!(check(&reported).unwrap_err().contains("in part"));
    file.write_at(&content[9000..9001], 9000).unwrap();
    file.write_at(&[0], content.len() as u64).unwrap();
    assert!(check(&nothing).unwrap_err().contains("bytes"));
    volume.remove(&path).unwrap();
    volume.create("0:other").unwrap();
    assert!(check(&nothing).unwrap_err().contains("nobody made"));
}

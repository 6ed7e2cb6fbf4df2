//! Kills a process with SIGKILL while its threads perform operations of all kinds. Each operation
//! that has returned must be there, each one in flight as a whole or not at all, and nothing else.
//!
//! Every child goes on with the volume that its predecessor left. The medium of a killed process
//! keeps every store, in the order in which the processor performed it, so these tests say nothing
//! about lines that are lost in a power cut: the models and `tests/volume/crashes.rs` do.
//! `SPANLOCK_KILL_SEED=n` repeats the operations of a run, but not the moments of its kills.

mod check;
mod model;
mod op;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::thread::{self, sleep};
use std::time::Duration;

use check::{Line, State, operations};
use op::{Answer, Op, SHARED, perform};
use spanlock_file_core::FormatOptions;
use spanlock_pmem::{MappedFile, Options};
use spanlock_srl::SrlArray;
use spanlock_testkit::rounds::{number, scaled};

/// The number of kills. `SPANLOCK_ROUNDS` multiplies it.
const KILLS: usize = 40;
/// The threads of a child.
pub(crate) const THREADS: usize = 3;
pub(crate) const PAGE: u64 = 4096;
/// The size of the volume.
const VOLUME_BYTES: u64 = 120 * PAGE;
/// The longest time that a child lives.
const LONGEST: Duration = Duration::from_millis(50);
/// The operations of each thread after which a child closes its volume and opens it again.
const CLOSE_EVERY: u64 = 48;
/// A thread reports once in so many operations how often logs were cleaned.
const REPORT_EVERY: u64 = 16;
/// Makes a process a child. Contains the path of the volume.
const VOLUME: &str = "SPANLOCK_KILL_VOLUME";
const SEED: &str = "SPANLOCK_KILL_SEED";

pub(crate) type Volume = spanlock_file_core::Volume<MappedFile, SrlArray>;

fn lock(capacity: u64) -> SrlArray {
    SrlArray::with_segment_size(capacity, PAGE).expect("memory, and a power of two")
}

fn open(path: &Path) -> Volume {
    let region = MappedFile::open(path, Options::new()).expect("the file is there");
    Volume::open(region, lock).expect("recovery").0
}

/// A volume in a folder of its own.
pub(crate) struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// Formats a volume with little space, so that logs are cleaned and some operations fail.
    pub(crate) fn new() -> Scene {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let scene = Scene { folder };
        let region = MappedFile::create(scene.path(), VOLUME_BYTES, Options::new()).expect("space");
        let options = FormatOptions::new().inodes(64).max_file_size(1 << 19);
        let options = options.data_checksums(true);
        let volume = Volume::format(region, &options, lock).expect("there is room");
        volume.create(SHARED).expect("there is room");
        scene
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("volume")
    }

    pub(crate) fn open(&self) -> Volume {
        open(&self.path())
    }

    /// Starts a child, and kills it at a random moment: mostly while it works, sometimes while it
    /// opens the volume. Returns its lines.
    fn kill(&self, random: &mut fastrand::Rng) -> Vec<Line> {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["child_process", "--exact", "--nocapture"]);
        command.env(VOLUME, self.path());
        command.env(SEED, random.u64(..).to_string());
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("this test runs");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (from, longest) = match random.u32(..8) {
            0 => ("opening\n", LONGEST / 50),
            _ => ("begin\n", LONGEST),
        };
        let mut line = String::new();
        while line != from {
            line.clear();
            let read = out.read_line(&mut line).expect("text");
            assert!(
                read > 0,
                "the child ended, and reports the reason on stderr"
            );
        }
        // Read at once, because a full pipe would block the child.
        let told = thread::spawn(move || {
            let mut told = String::new();
            out.read_to_string(&mut told).map(|_| told)
        });
        sleep(longest.mul_f64(random.f64()));
        child.kill().expect("it runs");
        let ended = child.wait().expect("it was killed");
        assert_eq!(ended.signal(), Some(9), "the child must not end by itself");
        let told = told.join().expect("no panic").expect("text");
        // A line that was cut off does not count.
        let whole = told
            .split_inclusive('\n')
            .filter_map(|it| it.strip_suffix('\n'));
        let lines = whole.filter(|line| *line != "begin");
        lines.map(|line| line.parse().expect("a line")).collect()
    }
}

/// The child of [`Scene::kill`], if that has started this process. Otherwise, does nothing.
#[test]
fn child_process() {
    let Some(path) = std::env::var_os(VOLUME) else {
        return;
    };
    std::panic::set_hook(Box::new(|why| {
        eprintln!("{why}");
        exit(1);
    }));
    // The test harness has begun a line.
    say("\nopening");
    let mut volume = open(Path::new(&path));
    say("begin");
    let mut random = fastrand::Rng::with_seed(number(SEED, 0));
    loop {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (volume, random) = (&volume, random.fork());
                scope.spawn(move || work(volume, thread, random));
            }
        });
        drop(volume);
        say(&Line::Closed.text());
        volume = open(Path::new(&path));
    }
}

/// Performs random operations.
fn work(volume: &Volume, thread: usize, mut random: fastrand::Rng) {
    for turn in 0..CLOSE_EVERY {
        let op = Op::draw(&mut random);
        say(&Line::Start(thread, op).text());
        let answer = perform(volume, thread, &op);
        say(&Line::End(thread, answer).text());
        if turn.is_multiple_of(REPORT_EVERY) {
            let stats = volume.stats();
            say(&Line::Cleaned(stats.compactions + stats.unlinked_pages).text());
        }
    }
}

/// Writes a line by one system call, so that it arrives whole or not at all.
fn say(line: &str) {
    let line = format!("{line}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).expect("the parent reads");
    out.flush().expect("the parent reads");
}

/// What the kills have hit.
#[derive(Default)]
struct Tally {
    /// For each kind of operation and each answer, how many there were.
    answers: BTreeMap<String, usize>,
    /// Operations in flight at a kill, of each kind.
    in_flight: BTreeMap<String, usize>,
    cleaned: u64,
    closed: usize,
}

impl Tally {
    fn add(&mut self, told: &[Line]) {
        for thread in 0..THREADS {
            for (op, answer) in operations(told, thread) {
                match answer {
                    Some(answer) => {
                        let what = format!("{:?} {answer}", op.kind);
                        *self.answers.entry(what).or_default() += 1;
                    }
                    None => *self.in_flight.entry(format!("{:?}", op.kind)).or_default() += 1,
                }
            }
        }
        self.closed += told.iter().filter(|it| **it == Line::Closed).count();
        // The count begins anew with each opening.
        for opened in told.split(|it| *it == Line::Closed) {
            let cleaned = opened.iter().filter_map(|line| match line {
                Line::Cleaned(count) => Some(*count),
                _ => None,
            });
            self.cleaned += cleaned.max().unwrap_or(0);
        }
    }
}

#[test]
fn returned_operations_survive_every_kill() {
    let seed = number(SEED, 0x5ba2_10c4);
    println!("{SEED}={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (scene, mut state, mut tally) = (Scene::new(), State::new(), Tally::default());
    for kill in 0..scaled(KILLS) {
        let told = scene.kill(&mut random);
        tally.add(&told);
        let volume = scene.open();
        let checked = state.check(&volume, &told);
        state = checked.unwrap_or_else(|why| panic!("kill {kill}: {why}"));
    }
    let Tally {
        answers,
        in_flight,
        cleaned,
        closed,
    } = tally;
    println!("{answers:?}; in flight: {in_flight:?}");
    println!("logs cleaned {cleaned} times, volumes closed {closed} times");
    assert!(in_flight.values().sum::<usize>() >= scaled(KILLS));
    assert!(cleaned as usize >= scaled(KILLS) / 4 && closed >= scaled(KILLS) / 4);
    for kind in op::kinds() {
        let done = answers.get(&format!("{kind:?} {}", Answer::Done));
        assert!(done.is_some(), "no operation {kind:?} returned");
    }
}

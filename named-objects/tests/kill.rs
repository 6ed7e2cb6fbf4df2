//! Kills a process with SIGKILL while its threads put, upload, copy, rename and delete. The next
//! process finds every acknowledged change, and of the others all or nothing.
//!
//! `SPANLOCK_ROUNDS` multiplies the kills.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path as File;
use std::process::{Command, Stdio};

use futures_util::{FutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use spanlock_named_objects::NamedObjects;
use spanlock_object_store::space::{self, Disk, Space};
use spanlock_object_store::{Options, Store};

const PATH: &str = "SPANLOCK_NAMES_KILL_PATH";
const THREADS: u64 = 3;
/// The names of each thread.
const NAMES: u64 = 5;

type InFile = NamedObjects<Disk<FileStorage>, IntervalLock>;

/// Opens or creates the store at `path`.
fn store(path: &File) -> InFile {
    let options = Options::new().region(1 << 20).skip_number(8).pre_create(3);
    let store = match path.exists() {
        true => {
            let file = Disk::open_file(path, FileMode::Buffered).expect("a file");
            Store::open(
                Space::open(file, IntervalLock::new()).expect("a space"),
                &options,
            )
        }
        false => {
            let file = Disk::create_file(path, Some(64 << 20), FileMode::Buffered);
            // Small rings, so that checkpoints are frequent.
            let of_space = space::Options::new().rings(2, 65_536);
            let space = Space::create(file.expect("a file"), &of_space, IntervalLock::new());
            Store::create(space.expect("a space"), &options)
        }
    };
    NamedObjects::open(store.expect("a store")).expect("named objects")
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("without a runtime, nothing is pending")
}

fn path(thread: u64, name: u64) -> Path {
    Path::from(format!("thread {thread}/{name}"))
}

/// Returns the content with a number, of which no two are equal.
fn content(number: u64) -> Vec<u8> {
    let len = (number % 5 * 3000) as usize;
    let numbers = std::iter::repeat_n(number.to_le_bytes(), 1 + len / 8);
    numbers.flatten().collect()
}

/// Performs an operation: its kind, the name, another name, the number of the content.
fn perform(store: &InFile, thread: u64, [kind, name, other, number]: [u64; 4]) -> Option<String> {
    let (name, other) = (path(thread, name), path(thread, other));
    let put = match kind {
        0 => now(store.put(&name, content(number).into())),
        1 => {
            let mut upload = now(store.put_multipart(&name)).expect("room");
            for part in content(number).chunks(4000) {
                now(upload.put_part(part.to_vec().into())).expect("room");
            }
            now(upload.complete())
        }
        2 => return now(store.copy(&other, &name)).map(|()| None).expect("room"),
        3 => {
            return now(store.rename(&other, &name))
                .map(|()| None)
                .expect("room");
        }
        _ => {
            return now(store.delete(&name))
                .map(|()| None)
                .expect("it is there");
        }
    };
    put.expect("room").e_tag
}

/// The contents of one thread's names.
type Model = BTreeMap<u64, u64>;

fn apply(model: &mut Model, [kind, name, other, number]: [u64; 4]) {
    let new = match kind {
        0 | 1 => Some(number),
        2 => model.get(&other).copied(),
        3 => model.remove(&other),
        _ => None,
    };
    model.remove(&name);
    model.extend(new.map(|number| (name, number)));
}

/// The child's part: threads that report what they are doing, and have done.
#[test]
fn child_uses_names() {
    let Some(file) = std::env::var_os(PATH) else {
        return;
    };
    let store = store(File::new(&file));
    let say = |text: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "report: {text} .").expect("the parent reads");
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, say) = (&store, &say);
            scope.spawn(move || {
                let mut random = fastrand::Rng::new();
                loop {
                    let there = |name: &u64| now(store.head(&path(thread, *name))).is_ok();
                    let there: Vec<u64> = (0..NAMES).filter(there).collect();
                    let name = random.u64(0..NAMES);
                    let other = there.iter().copied().find(|it| *it != name);
                    let kind = match random.u64(0..8) {
                        kind @ (2 | 3) if other.is_some() => kind,
                        4 if there.contains(&name) => 4,
                        kind => kind % 2,
                    };
                    let op = [kind, name, other.unwrap_or(0), random.u64(..)];
                    let [_, _, other, number] = op;
                    say(format!("{thread} begin {kind} {name} {other} {number}"));
                    let tag = perform(store, thread, op).unwrap_or("-".to_owned());
                    say(format!("{thread} done {tag}"));
                }
            });
        }
    });
}

#[derive(Debug, Default)]
struct Thread {
    model: Model,
    running: Option<[u64; 4]>,
}

/// Takes a report of the child. Notes the tags that were given out.
fn take(threads: &mut [Thread], tags: &mut BTreeSet<String>, line: &str) -> Option<()> {
    let (_, report) = line.split_once("report: ")?;
    let words: Vec<&str> = report.split(' ').collect();
    // A kill may cut the last line short, before its end mark.
    let (&".", words) = words.split_last()? else {
        return None;
    };
    let number = |word: &&str| word.parse::<u64>().expect("a number");
    let thread = &mut threads[number(&words[0]) as usize];
    if words[1] == "begin" {
        let numbers: Vec<u64> = words[2..].iter().map(number).collect();
        thread.running = Some(numbers.try_into().expect("an operation"));
    } else {
        apply(
            &mut thread.model,
            thread.running.take().expect("it has begun"),
        );
        let is_new = words[2] == "-" || tags.insert(words[2].to_owned());
        assert!(is_new, "{} was given out twice", words[2]);
    }
    Some(())
}

/// Runs the child until it has made `reports` reports, and kills it.
fn kill_after(file: &File, reports: usize, threads: &mut [Thread], tags: &mut BTreeSet<String>) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_uses_names", "--nocapture"])
        .env(PATH, file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut made = 0;
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        // What is still in the pipe was reported, too.
        made += take(threads, tags, &line.expect("text")).map_or(0, |()| 1);
        if made == reports {
            child.kill().expect("it runs");
        }
    }
    assert!(made >= reports, "the child ended by itself");
    child.wait().expect("it has ended");
}

/// Compares the store with what the child has reported. Returns how many of the running operations
/// have happened, and how many have not.
fn check(file: &File, threads: &mut [Thread]) -> [usize; 2] {
    let store = store(file);
    let mut count = [0; 2];
    let mut names = 0;
    for (nth, thread) in (0..).zip(threads) {
        let mut found = Model::new();
        for name in 0..NAMES {
            let Ok(got) = now(store.get(&path(nth, name))) else {
                continue;
            };
            let bytes = now(got.bytes()).expect("it is read");
            let number = bytes[..8]
                .try_into()
                .map(u64::from_le_bytes)
                .expect("8 bytes");
            assert!(bytes == content(number), "{nth}/{name} is not whole");
            found.insert(name, number);
        }
        if let Some(op) = thread.running.take() {
            let mut new = thread.model.clone();
            apply(&mut new, op);
            if new != thread.model {
                count[usize::from(found == new)] += 1;
            }
            if found == new {
                thread.model = new;
            }
        }
        assert_eq!(found, thread.model, "thread {nth}");
        names += found.len();
    }
    let listed = now(store.list(None).try_collect::<Vec<_>>()).expect("a list");
    assert_eq!(listed.len(), names);
    let objects = store.store().list(0, usize::MAX).expect("a list");
    assert_eq!(objects.len(), names, "an object without a name is left");
    count
}

#[test]
fn every_acknowledged_change_survives_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("objects");
    let rounds = std::env::var("SPANLOCK_ROUNDS").map_or(1, |it| it.parse().expect("a number"));
    let mut threads: Vec<Thread> = (0..THREADS).map(|_| Thread::default()).collect();
    let mut tags = BTreeSet::new();
    let mut count = [0; 2];
    for reports in (0..rounds).flat_map(|_| [1, 300, 41, 500, 2]) {
        kill_after(&file, reports, &mut threads, &mut tags);
        let [lost, kept] = check(&file, &mut threads);
        count = [count[0] + lost, count[1] + kept];
    }
    println!(
        "{count:?} interrupted operations were lost and kept, {} tags",
        tags.len()
    );
    assert!(threads.iter().any(|it| !it.model.is_empty()));
    assert!(tags.len() > 100 && count[0] + count[1] > 0);
}

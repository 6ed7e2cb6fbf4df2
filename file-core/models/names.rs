//! Crashes of renames, exchanges, links and directories: every pair of operations in two threads,
//! and sequences of operations.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use spanlock_file_core::{Error, FormatOptions, Kind, OpenOptions, Stats};
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences, threads};
use spanlock_verify::{Program, Suite};

use crate::store::{FILE, PAGE, Volume, format, lock};

const CLAIM: &str = "after a crash, every change of a name that returned is there, every other \
                     one is there as a whole or not at all, and no removed name comes back";

/// The operations. "a", "b" and "d/f" are files, "d" and "e" directories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    /// Renames "a" to a new name of more than one slot.
    Rename,
    /// Renames "a" to "b".
    Replace,
    /// Renames "d" to "e".
    ReplaceDir,
    /// Links "a" in "d".
    Link,
    /// Removes "a", which may be linked in "d".
    Unlink,
    /// Removes "b".
    Remove,
    /// Removes "e".
    RemoveDir,
    /// Creates "e/x".
    Create,
    /// Renames "a" to "e/x".
    Move,
    /// Renames "d" to "e/d".
    MoveDir,
    /// Renames "e" to "d/e".
    MoveBack,
    /// Exchanges "b" and "d/f".
    Exchange,
    /// Cleans the log of "e", which has a page, but no names.
    Clean,
}

const OPS: [(Op, &str); 13] = [
    (Op::Rename, "rename"),
    (Op::Replace, "replace"),
    (Op::ReplaceDir, "replace-dir"),
    (Op::Link, "link"),
    (Op::Unlink, "unlink"),
    (Op::Remove, "remove"),
    (Op::RemoveDir, "remove-dir"),
    (Op::Create, "create"),
    (Op::Move, "move"),
    (Op::MoveDir, "move-dir"),
    (Op::MoveBack, "move-back"),
    (Op::Exchange, "exchange"),
    (Op::Clean, "clean"),
];

/// The pages of the volume.
const PAGES: u64 = 24;

pub(crate) const NEW: &str = "c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-c-";

pub(crate) fn suite() -> Suite {
    let medium: MakeMedium = Arc::new(medium);
    let subject = Arc::new(Names);
    let mut suite = Suite::new("file-core-names").step_bound(2_000);
    for (at, (_, one)) in OPS.iter().enumerate() {
        for (other_at, (_, other)) in OPS.iter().enumerate().skip(at) {
            let operations: [&[u32]; 2] = [&[at as u32], &[other_at as u32]];
            let name = format!("{one}-{other}");
            suite = suite.program(threads(&name, CLAIM, &subject, &medium, &operations));
        }
    }
    let all: [u32; OPS.len()] = core::array::from_fn(|op| op as u32);
    let interrupted: MakeMedium = Arc::new(interrupted);
    let reopened = Arc::new(Reopened);
    let after = sequences("recovered", CLAIM, &reopened, &interrupted, &all, 2);
    let sequence = |length, operations: &[u32]| {
        let name = format!("sequences-of-{length}");
        sequences(&name, CLAIM, &subject, &medium, operations, length)
    };
    // Three operations of all kinds take more than a minute.
    let within = &all[..Op::Move as usize];
    let lengths = [sequence(1, &all), sequence(2, &all), sequence(3, within)];
    suite.programs(lengths).program(after)
}

/// The suite of a link and a removal of the same file. A crash of these may leave a file that is
/// free in memory, but has a name again, and looks sound to the next recovery.
pub(crate) fn links() -> Suite {
    let claim = "a file is free once it has no name, and only then";
    let program = Program::new("link-remove", claim).scene(|| {
        let volume = format(32);
        volume.create_dir("d").expect("there is room");
        volume
    });
    let linked = program.thread(["link"], |volume| match volume.link(FILE, "d/x") {
        Ok(()) | Err(Error::NotFound { .. }) => {}
        Err(error) => panic!("{error}"),
    });
    let removed = linked.thread(["remove"], |volume| {
        volume.remove(FILE).expect("nobody else removes it");
    });
    Suite::new("file-core-links")
        .step_bound(2_000)
        .no_pair("link", "link", "one name is as good as another")
        .no_pair(
            "remove",
            "remove",
            "the suite file-core-names has this pair",
        )
        .program(removed.at_end(|volume| {
            let region = Simulated::new(&volume.pmem().bytes());
            let (again, _) = Volume::open(region, lock).expect("it is sound");
            let [now, again] = [volume, &again].map(|it| {
                let Stats {
                    pages_free,
                    inodes_free,
                    ..
                } = it.stats();
                (state(it).expect("it is sound"), pages_free, inodes_free)
            });
            assert_eq!(now, again, "memory differs from what recovery finds");
        }))
}

/// A volume on which a crash has kept the marks that "replace" was about to erase.
fn interrupted() -> Vec<u8> {
    let before = medium();
    let region = Simulated::new(&before);
    let (volume, _) = Volume::open(region, lock).expect("it is sound");
    volume.rename("a", "b").expect("there is room");
    let mut bytes = volume.pmem().bytes();
    let words = bytes.chunks_exact_mut(8).zip(before.chunks_exact(8));
    let erased = words.filter(|(now, before)| **now == [0; 8] && **before != [0; 8]);
    let restored = erased.map(|(now, before)| now.copy_from_slice(before));
    assert_eq!(restored.count(), 2, "the marks of two names");
    bytes
}

fn medium() -> Vec<u8> {
    let region = Simulated::new(&vec![0; (PAGES * PAGE) as usize]);
    let options = FormatOptions::new().clock(|| 0);
    let options = options.inodes(32).max_file_size(16 * PAGE);
    let volume: Volume = Volume::format(region, &options, lock).expect("there is room");
    for name in ["a", "b"] {
        let file = volume.create(name).expect("there is room");
        file.write_at(name.as_bytes(), 0).expect("there is room");
    }
    for name in ["d", "e"] {
        volume.create_dir(name).expect("there is room");
        // Leaves a page in the directory's log. A first page has many images, and
        // `file-core-page-end` covers them.
        let name = format!("{name}/gone");
        volume.create(&name).expect("there is room");
        volume.remove(&name).expect("it is there");
    }
    let file = volume.create("d/f").expect("there is room");
    file.write_at(b"f", 0).expect("there is room");
    volume.pmem().bytes()
}

/// A volume, as a store of names.
struct Names;

/// What each path stands for: a directory, or a file by what it contains.
type State = BTreeMap<String, Option<String>>;

fn state(volume: &Volume) -> Result<State, Error> {
    let mut state = State::new();
    let mut left = vec![String::new()];
    while let Some(path) = left.pop() {
        for entry in volume.read_dir(path.trim_end_matches('/'))? {
            let below = format!("{path}{}", entry.name);
            let what = match entry.kind {
                Kind::Directory => {
                    left.push(format!("{below}/"));
                    None
                }
                Kind::File => {
                    let file = volume.open_file(&below)?;
                    let mut bytes = vec![0; file.size() as usize];
                    file.read_at(&mut bytes, 0)?;
                    Some(String::from_utf8_lossy(&bytes).into_owned())
                }
            };
            state.insert(below, what);
        }
    }
    Ok(state)
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|it| it.starts_with('/'))
}

fn is_empty(state: &State, path: &str) -> bool {
    !state.keys().any(|it| is_below(it, path))
}

/// Renames in the model. The names stand for what may replace each other.
fn rename(state: &mut State, from: &str, to: &str) -> &'static str {
    let parent = to.rsplit_once('/').map(|(parent, _)| parent.to_owned());
    let has_parent = parent.is_none_or(|it| state.contains_key(&it));
    let Some(what) = state.get(from).filter(|_| has_parent) else {
        return "missing";
    };
    if what.is_none() && !is_empty(state, to) {
        return "not empty";
    }
    if what.is_some() && state.get(to) == Some(what) {
        // Both are names of one file.
        return "done";
    }
    let moved: Vec<_> = (state.keys())
        .filter(|it| *it == from || is_below(it, from))
        .cloned()
        .collect();
    for path in moved {
        let what = state.remove(&path).expect("it was listed");
        state.insert(format!("{to}{}", &path[from.len()..]), what);
    }
    "done"
}

/// Performs an operation on the model. Returns its result.
fn effect(state: &mut State, op: Op) -> &'static str {
    let has = |state: &State, path: &str| state.contains_key(path);
    match op {
        Op::Rename => rename(state, "a", NEW),
        Op::Replace => rename(state, "a", "b"),
        Op::ReplaceDir => rename(state, "d", "e"),
        Op::Move => rename(state, "a", "e/x"),
        Op::MoveDir => rename(state, "d", "e/d"),
        Op::MoveBack => rename(state, "e", "d/e"),
        Op::Exchange if !has(state, "b") || !has(state, "d/f") => "missing",
        Op::Exchange => {
            let [one, other] = [state["b"].clone(), state["d/f"].clone()];
            state.extend([("b".to_owned(), other), ("d/f".to_owned(), one)]);
            "done"
        }
        Op::Link if !has(state, "a") || !has(state, "d") => "missing",
        Op::Link if has(state, "d/x") => "there is one",
        Op::Link => {
            let what = state["a"].clone();
            state.insert("d/x".to_owned(), what);
            "done"
        }
        Op::Unlink | Op::Remove => match state.remove(["a", "b"][usize::from(op == Op::Remove)]) {
            Some(_) => "done",
            None => "missing",
        },
        Op::RemoveDir if !is_empty(state, "e") => "not empty",
        Op::RemoveDir => match state.remove("e") {
            Some(_) => "done",
            None => "missing",
        },
        Op::Create | Op::Clean if !has(state, "e") => "missing",
        Op::Clean => "done",
        Op::Create if has(state, "e/x") => "there is one",
        Op::Create => {
            state.insert("e/x".to_owned(), Some(String::new()));
            "done"
        }
    }
}

fn told(why: Error) -> String {
    why.to_string()
}

impl Subject for Names {
    type Store = Volume;
    type State = State;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Volume, String> {
        // The clock stands still, so that images do not depend on the time.
        let options = OpenOptions::new().clock(|| 0);
        let locks = |capacity| Ok::<_, Infallible>(lock(capacity));
        let opened = Volume::open_with(region.clone(), &options, locks);
        opened.map(|(volume, _)| volume).map_err(told)
    }

    fn state(&self, volume: &Volume) -> Result<State, String> {
        state(volume).map_err(told)
    }

    /// Removes every name, and cleans. Then another recovery finds no name, and nothing that is in
    /// use.
    fn go_on(&self, volume: &Volume) -> Result<(), String> {
        for (path, what) in state(volume).map_err(told)?.into_iter().rev() {
            match what {
                Some(_) => volume.remove(&path),
                None => volume.remove_dir(&path),
            }
            .map_err(told)?;
        }
        volume.clean().map_err(told)?;
        let again = self.recover(&Simulated::new(&volume.pmem().bytes()))?;
        let (found, stats) = (self.state(&again)?, again.stats());
        let is_unused =
            |it: Stats| (it.inodes_free, it.pages_free) == (it.inodes_total, it.pages_total);
        match found.is_empty() && is_unused(stats) && is_unused(volume.stats()) {
            true => Ok(()),
            false => Err(format!("removed names came back: {found:?}, {stats:?}")),
        }
    }

    fn apply(&self, state: &State, operation: u32, result: Option<&str>) -> Option<State> {
        let mut state = state.clone();
        let expected = effect(&mut state, OPS[operation as usize].0);
        // If a directory is moved after a thread has found it, another name of it is missing.
        let is_inside = |it: &str| it == "inside itself" && expected == "missing";
        // If it is replaced after a thread has found it, the thread's handle is of no directory.
        let is_replaced = |it: &str| it == "missing" && OPS[operation as usize].0 == Op::Clean;
        let is_expected =
            result.is_none_or(|it| it == expected || is_inside(it) || is_replaced(it));
        is_expected.then_some(state)
    }

    fn name(&self, operation: u32) -> String {
        OPS[operation as usize].1.to_owned()
    }
}

/// Performs an operation on a volume. Returns its result.
fn perform(volume: &Volume, op: Op) -> String {
    let done = match op {
        Op::Rename => volume.rename("a", NEW),
        Op::Replace => volume.rename("a", "b"),
        Op::ReplaceDir => volume.rename("d", "e"),
        Op::Link => volume.link("a", "d/x"),
        Op::Unlink => volume.remove("a"),
        Op::Remove => volume.remove("b"),
        Op::RemoveDir => volume.remove_dir("e"),
        Op::Create => volume.create("e/x").map(drop),
        Op::Move => volume.rename("a", "e/x"),
        Op::MoveDir => volume.rename("d", "e/d"),
        Op::MoveBack => volume.rename("e", "d/e"),
        Op::Exchange => volume.exchange("b", "d/f"),
        Op::Clean => (volume.open_dir("e")).and_then(|it| it.clean().map(drop)),
    };
    match done {
        Ok(()) => "done".to_owned(),
        Err(Error::NotFound { .. }) => "missing".to_owned(),
        Err(Error::Exists { .. }) => "there is one".to_owned(),
        Err(Error::NotEmpty { .. }) => "not empty".to_owned(),
        Err(Error::InsideItself { .. }) => "inside itself".to_owned(),
        Err(error) => panic!("{error}"),
    }
}

impl Crashable for Names {
    fn perform(&self, volume: &Volume, operation: u32) -> String {
        perform(volume, OPS[operation as usize].0)
    }
}

/// A volume that each operation opens again, so that crashes interrupt recovery, too.
struct Reopened;

impl Subject for Reopened {
    type Store = Arc<Simulated>;
    type State = State;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Arc<Simulated>, String> {
        Ok(region.clone())
    }

    fn state(&self, region: &Arc<Simulated>) -> Result<State, String> {
        Names.state(&Names.recover(region)?)
    }

    fn go_on(&self, region: &Arc<Simulated>) -> Result<(), String> {
        Names.go_on(&Names.recover(region)?)
    }

    fn apply(&self, state: &State, operation: u32, result: Option<&str>) -> Option<State> {
        Names.apply(state, operation, result)
    }

    fn name(&self, operation: u32) -> String {
        Names.name(operation)
    }
}

impl Crashable for Reopened {
    fn perform(&self, region: &Arc<Simulated>, operation: u32) -> String {
        let volume = Names.recover(region).expect("it is sound");
        Names.perform(&volume, operation)
    }
}

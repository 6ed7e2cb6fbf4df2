//! The operations on the names of a volume.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use spanlock_file_core::{Error, FormatOptions, Kind};
use spanlock_pmem::simulated::Simulated;

use super::{Sequential, made_apart, reopened};
use crate::store::{PAGE, Volume, lock};

/// The names in the root. In the beginning, the first is a file's and the last a directory's. The
/// second is there only in [`Moves`], and a directory's.
const NAMES: [&str; 3] = [A, B, D];
const A: &str = "a";
const B: &str = "b";
const D: &str = "d";
/// A path through the directory, and the same after a rename or an exchange of the directory.
const D_C: &str = "d/c";
const B_C: &str = "b/c";
const A_C: &str = "a/c";
/// What the first file contains. A file that is created later is empty.
const FIRST: u8 = 7;
/// The second file of [`Moves`], and what it contains. No operation has this stamp.
const SECOND: u8 = 0xFE;

/// An operation on a path, or on two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NameOp {
    Create(&'static str),
    CreateDir(&'static str),
    Remove(&'static str),
    RemoveDir(&'static str),
    Link(&'static str, &'static str),
    Rename(&'static str, &'static str),
    Exchange(&'static str, &'static str),
    /// Cleans all logs, which changes no answer.
    Clean,
    /// Opens a file, and reads it.
    Open(&'static str),
    /// Counts the names of a file. Exact only if nobody links it meanwhile.
    Links(&'static str),
    /// Lists the root.
    List,
}

impl NameOp {
    /// No operation renames the directory: a walk along a path is not atomic, so an operation may
    /// act in a directory of another name, on names that have changed since.
    pub(super) const ALL: &[NameOp] = &[
        NameOp::Create(A),
        NameOp::Create(B),
        NameOp::Create(D_C),
        NameOp::CreateDir(B),
        NameOp::Remove(A),
        NameOp::Remove(B),
        NameOp::RemoveDir(D),
        NameOp::Link(A, B),
        NameOp::Link(A, D_C),
        NameOp::Rename(A, B),
        NameOp::Rename(B, A),
        NameOp::Open(A),
        NameOp::Open(B),
        NameOp::Open(D_C),
        NameOp::List,
    ];
    /// One or two of each kind, so that the search ends soon.
    pub(super) const SEARCHED: &[NameOp] = &[
        NameOp::Create(B),
        NameOp::Create(D_C),
        NameOp::Remove(A),
        NameOp::RemoveDir(D),
        NameOp::Link(A, B),
        NameOp::Link(A, D_C),
        NameOp::Rename(A, B),
        NameOp::Open(A),
        NameOp::List,
    ];
    /// Operations of which none shows that the other ones walk along a path.
    pub(super) const DIRECTORIES: &[NameOp] = &[
        NameOp::Create(D_C),
        NameOp::CreateDir(B),
        NameOp::RemoveDir(D),
        NameOp::Rename(D, B),
        NameOp::Exchange(A, D),
        NameOp::Open(D_C),
        NameOp::List,
    ];
    /// Moves of files between the root and two directories, to and fro, and cleanings beside them.
    pub(super) const MOVES: &[NameOp] = &[
        NameOp::Create(D_C),
        NameOp::Remove(B_C),
        NameOp::RemoveDir(D),
        NameOp::Link(A, D_C),
        NameOp::Rename(A, D_C),
        NameOp::Rename(D_C, A),
        NameOp::Rename(A, B_C),
        NameOp::Rename(B_C, A),
        NameOp::Rename(B_C, D_C),
        NameOp::Rename(D_C, B_C),
        NameOp::Exchange(A, B_C),
        NameOp::Exchange(B_C, D_C),
        NameOp::Clean,
        NameOp::Open(A),
        NameOp::Open(B_C),
        NameOp::Open(D_C),
        NameOp::List,
    ];
}

impl fmt::Display for NameOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameOp::Create(path) => write!(f, "create({path})"),
            NameOp::CreateDir(path) => write!(f, "create-dir({path})"),
            NameOp::Remove(path) => write!(f, "remove({path})"),
            NameOp::RemoveDir(path) => write!(f, "remove-dir({path})"),
            NameOp::Link(path, new) => write!(f, "link({path},{new})"),
            NameOp::Rename(path, new) => write!(f, "rename({path},{new})"),
            NameOp::Exchange(path, other) => write!(f, "exchange({path},{other})"),
            NameOp::Clean => f.write_str("clean"),
            NameOp::Open(path) => write!(f, "open({path})"),
            NameOp::Links(path) => write!(f, "links({path})"),
            NameOp::List => f.write_str("list"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NameAnswer {
    Done,
    Exists,
    NotFound,
    IsADirectory,
    NotADirectory,
    NotEmpty,
    /// What an opened file contains; 0 if it is empty.
    Opened(u8),
    Links(u32),
    /// Which names are listed, and whether each is a directory's.
    Listed([Option<bool>; NAMES.len()]),
}

impl fmt::Display for NameAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameAnswer::Done => f.write_str("done"),
            NameAnswer::Exists => f.write_str("exists"),
            NameAnswer::NotFound => f.write_str("not found"),
            NameAnswer::IsADirectory => f.write_str("is a directory"),
            NameAnswer::NotADirectory => f.write_str("not a directory"),
            NameAnswer::NotEmpty => f.write_str("not empty"),
            NameAnswer::Links(links) => write!(f, "{links} links"),
            NameAnswer::Opened(content) => write!(f, "opened {content}"),
            NameAnswer::Listed(listed) => {
                let names = NAMES.iter().zip(listed);
                let text = |(name, listed): (&&str, &Option<bool>)| match listed {
                    None => None,
                    Some(false) => Some((*name).to_owned()),
                    Some(true) => Some(format!("{name}/")),
                };
                let names: Vec<String> = names.filter_map(text).collect();
                write!(f, "[{}]", names.join(" "))
            }
        }
    }
}

fn open(volume: &Volume, name: &str) -> Result<NameAnswer, Error> {
    let file = volume.open_file(name)?;
    let mut content = [0];
    file.read_at(&mut content, 0)?;
    Ok(NameAnswer::Opened(content[0]))
}

/// What stands at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Entry {
    /// A file, by the stamp of the operation that created it; 0 for the first one, and [`SECOND`].
    File(u8),
    Directory,
}

/// What stands at each path.
type Paths = BTreeMap<String, Entry>;

/// Checks that the directory of a path is there.
fn check_parent(paths: &Paths, path: &str) -> Result<(), NameAnswer> {
    let Some((parent, _)) = path.rsplit_once('/') else {
        return Ok(());
    };
    match paths.get(parent) {
        Some(Entry::Directory) => Ok(()),
        Some(Entry::File(_)) => Err(NameAnswer::NotADirectory),
        None => Err(NameAnswer::NotFound),
    }
}

/// Returns what stands at a path.
fn find(paths: &Paths, path: &str) -> Result<Entry, NameAnswer> {
    check_parent(paths, path)?;
    paths.get(path).copied().ok_or(NameAnswer::NotFound)
}

/// Returns the file at a path.
fn find_file(paths: &Paths, path: &str) -> Result<u8, NameAnswer> {
    match find(paths, path)? {
        Entry::File(file) => Ok(file),
        Entry::Directory => Err(NameAnswer::IsADirectory),
    }
}

/// Adds a path that is not there.
fn add(paths: &mut Paths, path: &str, entry: Entry) -> Result<NameAnswer, NameAnswer> {
    check_parent(paths, path)?;
    if paths.contains_key(path) {
        return Err(NameAnswer::Exists);
    }
    paths.insert(path.to_owned(), entry);
    Ok(NameAnswer::Done)
}

fn is_empty(paths: &Paths, directory: &str) -> bool {
    let prefix = format!("{directory}/");
    !paths.keys().any(|it| it.starts_with(&prefix))
}

/// Renames within a directory, or from one to another, whose paths no rename changes.
fn rename(paths: &mut Paths, from: &str, to: &str) -> Result<NameAnswer, NameAnswer> {
    check_parent(paths, to)?;
    let renamed = find(paths, from)?;
    match (renamed, paths.get(to)) {
        (one, Some(other)) if one != Entry::Directory && one == *other => {
            return Ok(NameAnswer::Done);
        }
        (Entry::File(_), Some(Entry::Directory)) => return Err(NameAnswer::IsADirectory),
        (Entry::Directory, Some(Entry::File(_))) => return Err(NameAnswer::NotADirectory),
        (Entry::Directory, Some(_)) if !is_empty(paths, to) => return Err(NameAnswer::NotEmpty),
        _ => {}
    }
    for (path, entry) in taken(paths, from) {
        paths.insert(format!("{to}{path}"), entry);
    }
    Ok(NameAnswer::Done)
}

/// Exchanges what two paths stand for, of which neither leads through the other.
fn exchange(paths: &mut Paths, one: &str, other: &str) -> Result<NameAnswer, NameAnswer> {
    find(paths, one)?;
    find(paths, other)?;
    let [first, last] = [one, other].map(|path| taken(paths, path));
    for (to, moved) in [(one, last), (other, first)] {
        let moved = moved.into_iter();
        paths.extend(moved.map(|(path, entry)| (format!("{to}{path}"), entry)));
    }
    Ok(NameAnswer::Done)
}

/// Takes out what stands at a path and below it. Returns the rest of each path.
fn taken(paths: &mut Paths, path: &str) -> Vec<(String, Entry)> {
    let prefix = format!("{path}/");
    let is_taken = |it: &str| it == path || it.starts_with(&prefix);
    let (all, rest): (Paths, Paths) = std::mem::take(paths)
        .into_iter()
        .partition(|(it, _)| is_taken(it));
    *paths = rest;
    all.into_iter()
        .map(|(it, entry)| (it[path.len()..].to_owned(), entry))
        .collect()
}

/// Performs an operation on the specification. Returns its answer in either case.
fn apply(paths: &mut Paths, op: NameOp, stamp: u8) -> Result<NameAnswer, NameAnswer> {
    match op {
        NameOp::Create(path) => return add(paths, path, Entry::File(stamp)),
        NameOp::CreateDir(path) => return add(paths, path, Entry::Directory),
        NameOp::Remove(path) => {
            find_file(paths, path)?;
            paths.remove(path);
        }
        NameOp::RemoveDir(path) => match find(paths, path)? {
            Entry::File(_) => return Err(NameAnswer::NotADirectory),
            Entry::Directory if !is_empty(paths, path) => return Err(NameAnswer::NotEmpty),
            Entry::Directory => _ = paths.remove(path),
        },
        NameOp::Link(path, new) => {
            check_parent(paths, new)?;
            let file = find_file(paths, path)?;
            return add(paths, new, Entry::File(file));
        }
        NameOp::Rename(from, to) => return rename(paths, from, to),
        NameOp::Exchange(one, other) => return exchange(paths, one, other),
        NameOp::Clean => {}
        NameOp::Open(path) => {
            let content = match find_file(paths, path)? {
                0 => FIRST,
                SECOND => SECOND,
                _ => 0,
            };
            return Ok(NameAnswer::Opened(content));
        }
        NameOp::Links(path) => {
            let entry = Entry::File(find_file(paths, path)?);
            let count = paths.values().filter(|it| **it == entry).count();
            return Ok(NameAnswer::Links(count as u32));
        }
        NameOp::List => {
            let kind = |name| paths.get(name).map(|it| *it == Entry::Directory);
            return Ok(NameAnswer::Listed(NAMES.map(kind)));
        }
    }
    Ok(NameAnswer::Done)
}

/// Performs an operation on a volume.
fn perform(volume: &Volume, op: NameOp) -> NameAnswer {
    let done = |()| NameAnswer::Done;
    let answer = match op {
        NameOp::Create(path) => volume.create(path).map(drop).map(done),
        NameOp::CreateDir(path) => volume.create_dir(path).map(done),
        NameOp::Remove(path) => volume.remove(path).map(done),
        NameOp::RemoveDir(path) => volume.remove_dir(path).map(done),
        NameOp::Link(path, new) => volume.link(path, new).map(done),
        NameOp::Rename(from, to) => volume.rename(from, to).map(done),
        NameOp::Exchange(one, other) => volume.exchange(one, other).map(done),
        NameOp::Clean => volume.clean().map(drop).map(done),
        NameOp::Open(path) => open(volume, path),
        NameOp::Links(path) => match volume.kind(path) {
            Ok(Kind::Directory) => return NameAnswer::IsADirectory,
            _ => volume.links(path).map(NameAnswer::Links),
        },
        NameOp::List => volume.read_dir("").map(|listed| {
            let kind = |name: &str| {
                let entry = listed.iter().find(|it| it.name == name);
                entry.map(|it| it.kind == Kind::Directory)
            };
            NameAnswer::Listed(NAMES.map(kind))
        }),
    };
    match answer {
        Ok(answer) => answer,
        Err(Error::Exists { .. }) => NameAnswer::Exists,
        Err(Error::NotFound { .. }) => NameAnswer::NotFound,
        Err(Error::IsADirectory { .. }) => NameAnswer::IsADirectory,
        Err(Error::NotADirectory { .. }) => NameAnswer::NotADirectory,
        Err(Error::NotEmpty { .. }) => NameAnswer::NotEmpty,
        Err(error) => panic!("{op}: {error}"),
    }
}

/// Returns a volume with a file and a directory.
fn formatted() -> Volume {
    let region: Arc<Simulated> = Simulated::new(&[0; 32 * PAGE as usize]);
    let options = FormatOptions::new()
        .clock(|| 0)
        .inodes(8)
        .max_file_size(4 * PAGE);
    let volume = Volume::format(region, &options, lock).expect("there is room");
    let file = volume.create(A).expect("there is room");
    file.write_at(&[FIRST], 0).expect("there is room");
    volume.create_dir(D).expect("there is room");
    drop(file);
    volume
}

/// A volume with a file and a directory.
pub(super) struct Names {
    volume: Volume,
}

impl Sequential for Names {
    type Op = NameOp;
    type Answer = NameAnswer;
    type State = Paths;
    const AT_END: &[NameOp] = &[
        NameOp::List,
        NameOp::Open(A),
        NameOp::Open(B),
        NameOp::Open(D_C),
        NameOp::Open(B_C),
        NameOp::Open(A_C),
        NameOp::Links(A),
        NameOp::Links(B),
        NameOp::Links(D_C),
    ];

    fn new() -> Names {
        Names {
            volume: formatted(),
        }
    }

    fn perform(&self, op: NameOp, _: u8) -> NameAnswer {
        perform(&self.volume, op)
    }

    fn initial() -> Paths {
        let initial = [(A, Entry::File(0)), (D, Entry::Directory)];
        initial.map(|(path, entry)| (path.to_owned(), entry)).into()
    }

    fn apply(paths: &mut Paths, op: NameOp, stamp: u8) -> NameAnswer {
        apply(paths, op, stamp).unwrap_or_else(|answer| answer)
    }
}

/// A volume with two directories, of which one has a file. A cleaning finds pages of the root's log
/// and of that directory's to unlink or to copy.
pub(super) struct Moves {
    volume: Volume,
}

impl Moves {
    fn make() -> Vec<u8> {
        let volume = formatted();
        let long = "n".repeat(1_000);
        // More than a page of names that are gone.
        let scatter = |directory: &str| {
            let gone = format!("{directory}{long}");
            for _ in 0..4 {
                volume.create(&gone).expect("there is room");
                volume.remove(&gone).expect("it is there");
            }
        };
        scatter("");
        volume.create_dir(B).expect("there is room");
        let file = volume.create(B_C).expect("there is room");
        file.write_at(&[SECOND], 0).expect("there is room");
        drop(file);
        scatter("b/");
        let again = reopened(&volume.pmem().bytes());
        let cleaned = again.clean().expect("no operation has panicked");
        assert!(cleaned.pages_copied > 0);
        volume.pmem().bytes()
    }
}

impl Sequential for Moves {
    type Op = NameOp;
    type Answer = NameAnswer;
    type State = Paths;
    const AT_END: &[NameOp] = &[
        NameOp::List,
        NameOp::Open(A),
        NameOp::Open(B_C),
        NameOp::Open(D_C),
        NameOp::Links(A),
        NameOp::Links(B_C),
        NameOp::Links(D_C),
    ];

    fn new() -> Moves {
        static MEDIUM: OnceLock<Vec<u8>> = OnceLock::new();
        Moves {
            volume: reopened(MEDIUM.get_or_init(|| made_apart(Moves::make))),
        }
    }

    fn perform(&self, op: NameOp, _: u8) -> NameAnswer {
        perform(&self.volume, op)
    }

    fn initial() -> Paths {
        let mut initial = Names::initial();
        initial.insert(B.to_owned(), Entry::Directory);
        initial.insert(B_C.to_owned(), Entry::File(SECOND));
        initial
    }

    fn apply(paths: &mut Paths, op: NameOp, stamp: u8) -> NameAnswer {
        Names::apply(paths, op, stamp)
    }
}

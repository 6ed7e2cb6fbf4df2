//! The operations, and how a thread performs them.
//!
//! A new kind of operation needs a row in [`KINDS`], an arm in [`perform`] and one in
//! [`Model::apply`](crate::model::Model::apply).

use std::fmt;
use std::io::{IoSlice, Seek, SeekFrom, Write};
use std::ops::Range;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use spanlock_file_core::Error;

use crate::{PAGE, Volume};

/// The file that all threads write.
pub(crate) const SHARED: &str = "shared";
/// Its pages.
pub(crate) const SHARED_PAGES: u64 = 12;
/// The places of directories of each thread: those in the root that may have an inner one, the
/// inner ones, and one in the root that never has any.
pub(crate) const DIRECTORIES: u64 = 2 * OUTER + 1;
const OUTER: u64 = 2;
/// The names of each thread's own files: so many in the root, and so many in each directory.
const IN_ROOT: u64 = 4;
const IN_DIRECTORY: u64 = 2;
pub(crate) const NAMES: u64 = IN_ROOT + DIRECTORIES * IN_DIRECTORY;
/// No operation on a thread's own file begins at or beyond this byte.
const LONGEST: u64 = 10 * PAGE;
/// The first of the times that [`Kind::SetModified`] sets, in seconds since 1970. No clock has
/// reached it, so no other operation changes it.
const FUTURE: u64 = 1 << 33;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    /// Creates a file if there is none.
    OpenOrCreate,
    Remove,
    /// Gives a file another name.
    Link,
    /// Renames a file within its directory.
    Rename,
    /// Renames a file to another directory.
    Move,
    /// Exchanges two files, of one directory or of two.
    Exchange,
    CreateDir,
    RemoveDir,
    /// Renames a directory, with the one inside it, within the root.
    RenameDir,
    /// Renames a directory to another directory.
    MoveDir,
    ExchangeDirs,
    Write,
    Append,
    Truncate,
    Punch,
    Allocate,
    AllocateKeepingSize,
    SetModified,
    /// Cleans the log of a file, of a directory, or all logs.
    Clean,
    CleanDir,
    CleanAll,
    /// Writes whole pages of the shared file.
    Stamp,
}

/// Each kind, its name in the lines of the child, and how often it is drawn.
const KINDS: [(Kind, &str, u64); 23] = [
    (Kind::Create, "create", 8),
    (Kind::OpenOrCreate, "open-or-create", 4),
    (Kind::Remove, "remove", 5),
    (Kind::Link, "link", 5),
    (Kind::Rename, "rename", 5),
    (Kind::Move, "move", 8),
    (Kind::Exchange, "exchange", 10),
    (Kind::CreateDir, "create-dir", 10),
    (Kind::RemoveDir, "remove-dir", 5),
    (Kind::RenameDir, "rename-dir", 4),
    (Kind::MoveDir, "move-dir", 10),
    (Kind::ExchangeDirs, "exchange-dirs", 8),
    (Kind::Write, "write", 16),
    (Kind::Append, "append", 8),
    (Kind::Truncate, "truncate", 8),
    (Kind::Punch, "punch", 8),
    (Kind::Allocate, "allocate", 3),
    (Kind::AllocateKeepingSize, "allocate-keeping-size", 3),
    (Kind::SetModified, "set-modified", 6),
    (Kind::Clean, "clean", 5),
    (Kind::CleanDir, "clean-dir", 5),
    (Kind::CleanAll, "clean-all", 2),
    (Kind::Stamp, "stamp", 25),
];

/// Returns all kinds.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    KINDS.iter().map(|it| it.0)
}

/// An operation. Each kind uses some of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) kind: Kind,
    /// Which of the thread's own names, or of its directories.
    pub(crate) file: u64,
    /// The first byte, or the size; for the shared file, the first page. The new name of a link and
    /// of a rename, and the other name of an exchange. Determines the time that is set.
    pub(crate) at: u64,
    /// The number of bytes, or of pages.
    pub(crate) len: u64,
    /// Determines the bytes that are written, and which of several methods performs the operation.
    /// It is unique and never 0.
    pub(crate) seed: u64,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name, _) = KINDS
            .iter()
            .find(|it| it.0 == self.kind)
            .expect("all kinds");
        let Op {
            file,
            at,
            len,
            seed,
            ..
        } = self;
        write!(f, "{name} {file} {at} {len} {seed}")
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("not an operation: {text:?}");
        let (name, rest) = text.split_once(' ').ok_or_else(wrong)?;
        let row = KINDS.iter().find(|it| it.1 == name).ok_or_else(wrong)?;
        let numbers: Result<Vec<u64>, _> = rest.split(' ').map(str::parse).collect();
        match *numbers.map_err(|_| wrong())? {
            [file, at, len, seed] => Ok(Op {
                kind: row.0,
                file,
                at,
                len,
                seed,
            }),
            _ => Err(wrong()),
        }
    }
}

impl Op {
    /// Draws an operation.
    pub(crate) fn draw(random: &mut fastrand::Rng) -> Op {
        let mut drawn = random.u64(..KINDS.iter().map(|it| it.2).sum::<u64>());
        let row = KINDS.iter().find(|(_, _, often)| {
            let is_it = drawn < *often;
            drawn = drawn.saturating_sub(*often);
            is_it
        });
        let kind = row.expect("less than the sum").0;
        // Names in the root are in use more often than those in directories.
        let mut file = match random.bool() {
            true => random.u64(..IN_ROOT),
            false => random.u64(..NAMES),
        };
        let (mut at, mut len) = (random.u64(..LONGEST), random.u64(1..3 * PAGE));
        match kind {
            Kind::Stamp => {
                len = random.u64(1..4);
                at = random.u64(..=SHARED_PAGES - len);
            }
            Kind::Link | Kind::Exchange => at = random.u64(..NAMES),
            Kind::Rename => at = random.u64(beside(file)),
            Kind::Move => {
                let there = beside(file);
                at = random.u64(..NAMES - (there.end - there.start));
                at += if at < there.start {
                    0
                } else {
                    there.end - there.start
                };
            }
            Kind::CreateDir | Kind::RemoveDir | Kind::CleanDir => {
                file = random.u64(..DIRECTORIES);
            }
            // The place in which it gets may have an inner directory, too.
            Kind::RenameDir => (file, at) = (random.u64(..OUTER), random.u64(..OUTER)),
            Kind::ExchangeDirs if random.bool() => {
                (file, at) = (random.u64(..OUTER), random.u64(..OUTER));
            }
            Kind::ExchangeDirs => {
                (file, at) = (
                    random.u64(OUTER..DIRECTORIES),
                    random.u64(OUTER..DIRECTORIES),
                );
            }
            // It has no inner directory, so it may get into any place of another directory.
            Kind::MoveDir => {
                file = random.u64(OUTER..DIRECTORIES);
                let may_be = |it: &u64| outer_of(*it) != outer_of(file);
                let places: Vec<u64> = (0..DIRECTORIES).filter(may_be).collect();
                at = *random.choice(&places).expect("there are some");
            }
            _ => {}
        }
        let seed = random.u64(..) | 1;
        Op {
            kind,
            file,
            at,
            len,
            seed,
        }
    }

    /// Returns the time that the operation sets, in seconds since 1970: in the future, or else 1.
    fn time(&self) -> u64 {
        match self.at.is_multiple_of(4) {
            true => 1,
            false => FUTURE + self.at,
        }
    }

    /// Returns the time that the operation sets if it is in the future.
    pub(crate) fn future(&self) -> Option<u64> {
        Some(self.time()).filter(|it| *it >= FUTURE)
    }

    /// Returns a number that tells which of several methods performs the operation.
    fn variant(&self) -> u64 {
        self.seed >> 1
    }

    /// Returns the bytes that the operation writes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self.kind {
            // Every page shows which operation wrote it.
            Kind::Stamp => self
                .seed
                .to_le_bytes()
                .repeat((self.len * PAGE / 8) as usize),
            _ => {
                let mut random = fastrand::Rng::with_seed(self.seed);
                std::iter::repeat_with(|| random.u8(..))
                    .take(self.len as usize)
                    .collect()
            }
        }
    }
}

/// Returns a time of last change, in seconds since 1970, if an operation has set it in the future.
pub(crate) fn future(modified: SystemTime) -> Option<u64> {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.expect("no time before 1970 is stored").as_secs();
    Some(seconds).filter(|it| *it >= FUTURE)
}

/// Returns which directory a name is in; none if in the root.
pub(crate) fn directory_of(name: u64) -> Option<u64> {
    (name >= IN_ROOT).then(|| (name - IN_ROOT) / IN_DIRECTORY)
}

/// Returns the names that are in this directory.
pub(crate) fn names_in(directory: u64) -> Range<u64> {
    let first = IN_ROOT + directory * IN_DIRECTORY;
    first..first + IN_DIRECTORY
}

/// Returns the names in the directory of `name`.
fn beside(name: u64) -> Range<u64> {
    directory_of(name).map_or(0..IN_ROOT, names_in)
}

/// Returns the path of a thread's own file.
pub(crate) fn path(thread: usize, name: u64) -> String {
    match directory_of(name) {
        None => format!("thread {thread}, file {name}"),
        Some(directory) => {
            let name = name - names_in(directory).start;
            format!("{}/file {name}", directory_path(thread, directory))
        }
    }
}

/// Returns which directory an inner one is in.
pub(crate) fn outer_of(directory: u64) -> Option<u64> {
    (OUTER..2 * OUTER)
        .contains(&directory)
        .then(|| directory - OUTER)
}

/// Returns the place of the directory inside this one, if it may have any.
pub(crate) fn inner_of(directory: u64) -> Option<u64> {
    (directory < OUTER).then_some(directory + OUTER)
}

/// Returns the path of a thread's own directory.
pub(crate) fn directory_path(thread: usize, directory: u64) -> String {
    match outer_of(directory) {
        None => format!("thread {thread}, directory {directory}"),
        Some(outer) => format!("{}/inner", directory_path(thread, outer)),
    }
}

/// How an operation ended, as the child reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Exists,
    NotFound,
    NotEmpty,
    NoSpace,
}

const ANSWERS: [(Answer, &str); 5] = [
    (Answer::Done, "done"),
    (Answer::Exists, "exists"),
    (Answer::NotFound, "not-found"),
    (Answer::NotEmpty, "not-empty"),
    (Answer::NoSpace, "no-space"),
];

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = ANSWERS.iter().find(|it| it.0 == *self);
        f.write_str(row.expect("all answers").1)
    }
}

impl FromStr for Answer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let row = ANSWERS.iter().find(|it| it.1 == text);
        row.map(|it| it.0)
            .ok_or_else(|| format!("not an answer: {text:?}"))
    }
}

/// Performs an operation of `thread`.
///
/// # Panics
/// If it fails with an error that is no [`Answer`].
pub(crate) fn perform(volume: &Volume, thread: usize, op: &Op) -> Answer {
    let own = || volume.open_file(&path(thread, op.file));
    let range = op.at..op.at + op.len;
    let bytes = || op.bytes();
    let done = match op.kind {
        Kind::Write => own().and_then(|it| match op.variant() % 3 {
            0 => it.write_at(&bytes(), op.at),
            1 => {
                let bytes = bytes();
                let (first, last) = bytes.split_at(bytes.len() / 2);
                it.write_vectored_at(&[IoSlice::new(first), IoSlice::new(last)], op.at)
            }
            _ => {
                let mut cursor = it.cursor();
                let sought = cursor.seek(SeekFrom::Start(op.at));
                sought.expect("a cursor may be anywhere");
                let written = cursor.write_all(&bytes());
                written.map_err(|why| why.downcast().expect("an error of the file core"))
            }
        }),
        Kind::Append => own().and_then(|it| it.append(&bytes()).map(drop)),
        Kind::Truncate => own().and_then(|it| it.truncate(op.at)),
        Kind::Punch => own().and_then(|it| it.punch_hole(range)),
        Kind::Allocate => own().and_then(|it| it.allocate(range)),
        Kind::AllocateKeepingSize => own().and_then(|it| it.allocate_keeping_size(range)),
        Kind::SetModified => own().and_then(|it| {
            let time = Duration::from_secs(op.time());
            it.set_modified(SystemTime::UNIX_EPOCH + time)
        }),
        Kind::Clean => own().and_then(|it| it.clean().map(drop)),
        Kind::CleanDir => {
            let directory = volume.open_dir(&directory_path(thread, op.file));
            directory.and_then(|it| it.clean().map(drop))
        }
        Kind::CleanAll => volume.clean().map(drop),
        Kind::Stamp => {
            let shared = volume.open_file(SHARED);
            shared.and_then(|it| {
                if op.variant().is_multiple_of(4) {
                    // On a full volume, the thread gets no page of its own.
                    let _ = it.give_lanes(&[spanlock_sync::thread::index()]);
                }
                it.write_at(&bytes(), op.at * PAGE)
            })
        }
        _ => {
            let is_of_directories = matches!(
                op.kind,
                Kind::CreateDir
                    | Kind::RemoveDir
                    | Kind::RenameDir
                    | Kind::MoveDir
                    | Kind::ExchangeDirs
            );
            let both = [op.file, op.at].map(|it| match is_of_directories {
                true => directory_path(thread, it % DIRECTORIES),
                false => path(thread, it % NAMES),
            });
            let [one, other] = both.each_ref().map(|it| &**it);
            match op.variant() % 2 {
                0 => perform_on_paths(volume, op, one, other),
                _ => perform_on_handles(volume, op, one, other),
            }
        }
    };
    match done {
        Ok(()) => Answer::Done,
        Err(Error::Exists { .. }) => Answer::Exists,
        Err(Error::NotFound { .. }) => Answer::NotFound,
        Err(Error::NotEmpty { .. }) => Answer::NotEmpty,
        Err(Error::NoSpace { .. }) => Answer::NoSpace,
        Err(error) => panic!("{op}: {error}"),
    }
}

/// Performs an operation on names, given by their paths.
fn perform_on_paths(volume: &Volume, op: &Op, path: &str, other: &str) -> Result<(), Error> {
    match op.kind {
        Kind::Create => volume.create(path).map(drop),
        Kind::OpenOrCreate => volume.open_or_create(path).map(drop),
        Kind::Remove => volume.remove(path),
        Kind::Link => volume.link(path, other),
        Kind::Rename | Kind::Move => volume.rename(path, other),
        Kind::RenameDir | Kind::MoveDir => volume.rename(path, other),
        Kind::Exchange | Kind::ExchangeDirs => volume.exchange(path, other),
        Kind::CreateDir => volume.create_dir(path),
        Kind::RemoveDir => volume.remove_dir(path),
        _ => unreachable!("{op} is not an operation on names"),
    }
}

/// Performs the same by handles to the directories.
fn perform_on_handles(volume: &Volume, op: &Op, path: &str, other: &str) -> Result<(), Error> {
    let split = |path: &str| {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let name = name.to_owned();
        volume
            .open_dir(directory)
            .map(|directory| (directory, name))
    };
    let (at, name) = split(path)?;
    match op.kind {
        Kind::Create => at.create(&name).map(drop),
        Kind::OpenOrCreate => volume.open_or_create(path).map(drop),
        Kind::Remove => at.remove(&name),
        Kind::CreateDir => at.create_dir(&name).map(drop),
        Kind::RemoveDir => at.remove_dir(&name),
        Kind::Rename | Kind::RenameDir => at.rename(&name, &split(other)?.1),
        _ => {
            let (into, new) = split(other)?;
            match op.kind {
                Kind::Link => at.link(&name, &into, &new),
                Kind::Move | Kind::MoveDir => at.rename_into(&name, &into, &new),
                Kind::Exchange | Kind::ExchangeDirs => at.exchange(&name, &into, &new),
                _ => unreachable!("{op} is not an operation on names"),
            }
        }
    }
}

#[test]
fn an_operation_and_an_answer_parse_from_their_text() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..1000 {
        let op = Op::draw(&mut random);
        assert_eq!(op.to_string().parse(), Ok(op));
    }
    for (answer, text) in ANSWERS {
        assert_eq!(answer.to_string(), text);
        assert_eq!(text.parse(), Ok(answer));
    }
    assert!("create 1 2".parse::<Op>().is_err() && "".parse::<Answer>().is_err());
}

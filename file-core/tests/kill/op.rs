//! The operations, and how a thread performs them.
//!
//! A new kind of operation needs a row in [`KINDS`], an arm in [`perform`] and one in
//! [`Model::apply`](crate::model::Model::apply).

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use spanlock_file_core::Error;

use crate::{PAGE, Volume};

/// The file that all threads write.
pub(crate) const SHARED: &str = "shared";
/// Its pages.
pub(crate) const SHARED_PAGES: u64 = 12;
/// The directories of each thread.
pub(crate) const DIRECTORIES: u64 = 2;
/// The names of each thread's own files: so many in the root, and so many in each directory.
const IN_ROOT: u64 = 4;
const IN_DIRECTORY: u64 = 2;
pub(crate) const NAMES: u64 = IN_ROOT + DIRECTORIES * IN_DIRECTORY;
/// No operation on a thread's own file begins at or beyond this byte.
const LONGEST: u64 = 10 * PAGE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    Remove,
    /// Gives a file another name.
    Link,
    /// Renames a file within its directory.
    Rename,
    CreateDir,
    RemoveDir,
    RenameDir,
    Write,
    Append,
    Truncate,
    Punch,
    Allocate,
    AllocateKeepingSize,
    /// Writes whole pages of the shared file.
    Stamp,
    Sync,
}

impl Kind {
    /// Returns whether the operation changes what a file contains, and no names. If the volume
    /// groups changes, it is durable after a sync.
    pub(crate) fn is_change(self) -> bool {
        match self {
            Kind::Create | Kind::Remove | Kind::Link | Kind::Rename => false,
            Kind::CreateDir | Kind::RemoveDir | Kind::RenameDir | Kind::Sync => false,
            Kind::Write | Kind::Append | Kind::Truncate | Kind::Punch => true,
            Kind::Allocate | Kind::AllocateKeepingSize | Kind::Stamp => true,
        }
    }

    /// Returns whether the operation makes all changes durable that returned before.
    pub(crate) fn syncs(self) -> bool {
        matches!(
            self,
            Kind::Sync | Kind::Link | Kind::Rename | Kind::RenameDir
        )
    }
}

/// Each kind, its name in the lines of the child, and how often it is drawn.
const KINDS: [(Kind, &str, u64); 15] = [
    (Kind::Create, "create", 10),
    (Kind::Remove, "remove", 5),
    (Kind::Link, "link", 4),
    (Kind::Rename, "rename", 5),
    (Kind::CreateDir, "create-dir", 4),
    (Kind::RemoveDir, "remove-dir", 4),
    (Kind::RenameDir, "rename-dir", 3),
    (Kind::Write, "write", 16),
    (Kind::Append, "append", 8),
    (Kind::Truncate, "truncate", 8),
    (Kind::Punch, "punch", 8),
    (Kind::Allocate, "allocate", 3),
    (Kind::AllocateKeepingSize, "allocate-keeping-size", 3),
    (Kind::Stamp, "stamp", 25),
    (Kind::Sync, "sync", 3),
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
    /// of a rename.
    pub(crate) at: u64,
    /// The number of bytes, or of pages.
    pub(crate) len: u64,
    /// Determines the bytes that are written. It is unique and never 0.
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
        let mut file = random.u64(..NAMES);
        let (mut at, mut len) = (random.u64(..LONGEST), random.u64(1..3 * PAGE));
        match kind {
            Kind::Stamp => {
                len = random.u64(1..4);
                at = random.u64(..=SHARED_PAGES - len);
            }
            Kind::Link => at = random.u64(..NAMES),
            Kind::Rename => at = random.u64(beside(file)),
            Kind::CreateDir | Kind::RemoveDir | Kind::RenameDir => {
                (file, at) = (random.u64(..DIRECTORIES), random.u64(..DIRECTORIES));
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

/// Returns the path of a thread's own directory.
pub(crate) fn directory_path(thread: usize, directory: u64) -> String {
    format!("thread {thread}, directory {directory}")
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
    let [name, new] = [op.file, op.at].map(|name| path(thread, name % NAMES));
    let [folder, to] = [op.file, op.at].map(|it| directory_path(thread, it % DIRECTORIES));
    let range = op.at..op.at + op.len;
    let done = match op.kind {
        Kind::Create => volume.create(&name).map(drop),
        Kind::Remove => volume.remove(&name),
        Kind::Link => volume.link(&name, &new),
        Kind::Rename => volume.rename(&name, &new),
        Kind::CreateDir => volume.create_dir(&folder),
        Kind::RemoveDir => volume.remove_dir(&folder),
        Kind::RenameDir => volume.rename(&folder, &to),
        Kind::Write => own().and_then(|it| it.write_at(&op.bytes(), op.at)),
        Kind::Append => own().and_then(|it| it.append(&op.bytes()).map(drop)),
        Kind::Truncate => own().and_then(|it| it.truncate(op.at)),
        Kind::Punch => own().and_then(|it| it.punch_hole(range)),
        Kind::Allocate => own().and_then(|it| it.allocate(range)),
        Kind::AllocateKeepingSize => own().and_then(|it| it.allocate_keeping_size(range)),
        Kind::Stamp => {
            let shared = volume.open_file(SHARED);
            shared.and_then(|it| it.write_at(&op.bytes(), op.at * PAGE))
        }
        Kind::Sync => volume.sync(),
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

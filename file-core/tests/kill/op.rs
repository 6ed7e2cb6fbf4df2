//! The operations, how a thread performs them, and a model of what they do.
//!
//! A new kind of operation needs a row in [`KINDS`], an arm in [`perform`] and one in
//! [`Model::apply`].

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use spanlock_file_core::Error;

use crate::{PAGE, Volume};

/// The file that all threads write.
pub(crate) const SHARED: &str = "shared";
/// Its pages.
pub(crate) const SHARED_PAGES: u64 = 12;
/// The names of each thread's own files.
const NAMES: u64 = 4;
/// No operation on a thread's own file begins at or beyond this byte.
const LONGEST: u64 = 10 * PAGE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    Remove,
    Write,
    Append,
    /// Writes whole pages of the shared file.
    Stamp,
}

/// Each kind, its name in the lines of the child, and how often it is drawn.
const KINDS: [(Kind, &str, u64); 5] = [
    (Kind::Create, "create", 2),
    (Kind::Remove, "remove", 1),
    (Kind::Write, "write", 4),
    (Kind::Append, "append", 2),
    (Kind::Stamp, "stamp", 5),
];

/// Returns all kinds.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    KINDS.iter().map(|it| it.0)
}

/// An operation. Each kind uses some of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) kind: Kind,
    /// Which of the thread's own files.
    pub(crate) file: u64,
    /// The first byte; for the shared file, the first page.
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
        let (at, len) = match kind {
            Kind::Stamp => {
                let len = random.u64(1..4);
                (random.u64(..=SHARED_PAGES - len), len)
            }
            _ => (random.u64(..LONGEST), random.u64(1..3 * PAGE)),
        };
        let (file, seed) = (random.u64(..NAMES), random.u64(..) | 1);
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

/// Returns the name of a thread's own file.
pub(crate) fn name(thread: usize, file: u64) -> String {
    format!("thread {thread}, file {file}")
}

/// How an operation ended, as the child reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Exists,
    NotFound,
    NoSpace,
}

const ANSWERS: [(Answer, &str); 4] = [
    (Answer::Done, "done"),
    (Answer::Exists, "exists"),
    (Answer::NotFound, "not-found"),
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
    let name = name(thread, op.file);
    let done = match op.kind {
        Kind::Create => volume.create(&name).map(drop),
        Kind::Remove => volume.remove(&name),
        Kind::Write => (volume.open_file(&name)).and_then(|it| it.write_at(&op.bytes(), op.at)),
        Kind::Append => (volume.open_file(&name)).and_then(|it| it.append(&op.bytes()).map(drop)),
        Kind::Stamp => {
            let shared = volume.open_file(SHARED);
            shared.and_then(|it| it.write_at(&op.bytes(), op.at * PAGE))
        }
    };
    match done {
        Ok(()) => Answer::Done,
        Err(Error::Exists { .. }) => Answer::Exists,
        Err(Error::NotFound { .. }) => Answer::NotFound,
        Err(Error::NoSpace { .. }) => Answer::NoSpace,
        Err(error) => panic!("{op}: {error}"),
    }
}

/// A thread's own files, and what they contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model(BTreeMap<u64, Vec<u8>>);

impl Model {
    /// Reads the files of `thread` from the volume.
    pub(crate) fn read(volume: &Volume, thread: usize) -> Result<Model, String> {
        let mut files = BTreeMap::new();
        for file in 0..NAMES {
            let name = name(thread, file);
            match volume.open_file(&name) {
                Ok(open) => {
                    let mut bytes = vec![0xEE; open.size() as usize];
                    let read = open.read_at(&mut bytes, 0).map_err(|why| why.to_string())?;
                    if read < bytes.len() {
                        return Err(format!("{name}: only {read} bytes can be read"));
                    }
                    files.insert(file, bytes);
                }
                Err(Error::NotFound { .. }) => {}
                Err(why) => return Err(format!("{name}: {why}")),
            }
        }
        Ok(Model(files))
    }

    /// Returns how many files there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Performs an operation, and returns its answer on a volume that has space.
    pub(crate) fn apply(&mut self, op: &Op) -> Answer {
        match op.kind {
            Kind::Create if self.0.contains_key(&op.file) => return Answer::Exists,
            Kind::Create => _ = self.0.insert(op.file, Vec::new()),
            Kind::Remove if self.0.remove(&op.file).is_none() => return Answer::NotFound,
            Kind::Remove | Kind::Stamp => {}
            Kind::Write | Kind::Append => {
                let Some(content) = self.0.get_mut(&op.file) else {
                    return Answer::NotFound;
                };
                let at = match op.kind {
                    Kind::Append => content.len(),
                    _ => op.at as usize,
                };
                let end = at + op.len as usize;
                content.resize(content.len().max(end), 0);
                content[at..end].copy_from_slice(&op.bytes());
            }
        }
        Answer::Done
    }
}

#[test]
fn an_operation_and_an_answer_parse_from_their_text() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..100 {
        let op = Op::draw(&mut random);
        assert_eq!(op.to_string().parse(), Ok(op));
    }
    for (answer, text) in ANSWERS {
        assert_eq!(answer.to_string(), text);
        assert_eq!(text.parse(), Ok(answer));
    }
    assert!("create 1 2".parse::<Op>().is_err() && "".parse::<Answer>().is_err());
}

//! The operations on the names of a volume.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use spanlock_file_core::{Error, FileCore, FormatOptions};
use spanlock_pmem::simulated::Simulated;

use super::Sequential;
use crate::store::{PAGE, Volume, lock};

/// The names. The first is that of a file from the beginning.
const NAMES: [&str; 2] = ["a", "b"];
/// What this file contains. A file that is created later is empty.
const FIRST: u8 = 7;

/// An operation on a name, which is given by its place in [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NameOp {
    Create(usize),
    Remove(usize),
    /// Opens a file, and reads it.
    Open(usize),
    List,
}

impl NameOp {
    pub(super) const ALL: &[NameOp] = &[
        NameOp::Create(0),
        NameOp::Create(1),
        NameOp::Remove(0),
        NameOp::Remove(1),
        NameOp::Open(0),
        NameOp::Open(1),
        NameOp::List,
    ];
}

impl fmt::Display for NameOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameOp::Create(name) => write!(f, "create({})", NAMES[*name]),
            NameOp::Remove(name) => write!(f, "remove({})", NAMES[*name]),
            NameOp::Open(name) => write!(f, "open({})", NAMES[*name]),
            NameOp::List => f.write_str("list"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NameAnswer {
    Done,
    Exists,
    NotFound,
    /// What an opened file contains; 0 if it is empty.
    Opened(u8),
    /// Which names are listed.
    Listed([bool; NAMES.len()]),
}

impl fmt::Display for NameAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameAnswer::Done => f.write_str("done"),
            NameAnswer::Exists => f.write_str("exists"),
            NameAnswer::NotFound => f.write_str("not found"),
            NameAnswer::Opened(content) => write!(f, "opened {content}"),
            NameAnswer::Listed(listed) => {
                let names = NAMES.iter().zip(listed).filter(|(_, is_there)| **is_there);
                let names: Vec<&str> = names.map(|(name, _)| *name).collect();
                write!(f, "[{}]", names.join(" "))
            }
        }
    }
}

/// A volume.
pub(super) struct Names {
    volume: Volume,
}

impl Names {
    fn open(&self, name: &str) -> Result<NameAnswer, Error> {
        let file = self.volume.open_file(name)?;
        let mut content = [0];
        file.read_at(&mut content, 0)?;
        Ok(NameAnswer::Opened(content[0]))
    }
}

impl Sequential for Names {
    type Op = NameOp;
    type Answer = NameAnswer;
    /// What the file of each name contains.
    type State = BTreeMap<usize, u8>;
    const AT_END: &[NameOp] = &[NameOp::List, NameOp::Open(0), NameOp::Open(1)];

    fn new() -> Names {
        let region: Arc<Simulated> = Simulated::new(&[0; 24 * PAGE as usize]);
        let options = FormatOptions::new().inodes(8).max_file_size(4 * PAGE);
        let volume = FileCore::format(region, &options, lock).expect("there is room");
        let file = volume.create(NAMES[0]).expect("there is room");
        file.write_at(&[FIRST], 0).expect("there is room");
        drop(file);
        Names { volume }
    }

    fn perform(&self, op: NameOp, _: u8) -> NameAnswer {
        let Names { volume } = self;
        let done = |()| NameAnswer::Done;
        let answer = match op {
            NameOp::Create(name) => volume.create(NAMES[name]).map(drop).map(done),
            NameOp::Remove(name) => volume.remove(NAMES[name]).map(done),
            NameOp::Open(name) => self.open(NAMES[name]),
            NameOp::List => {
                let listed = volume.list();
                let is_listed = |name: &str| listed.iter().any(|(it, _)| it == name);
                Ok(NameAnswer::Listed(NAMES.map(is_listed)))
            }
        };
        match answer {
            Ok(answer) => answer,
            Err(Error::Exists { .. }) => NameAnswer::Exists,
            Err(Error::NotFound { .. }) => NameAnswer::NotFound,
            Err(error) => panic!("{op}: {error}"),
        }
    }

    fn initial() -> BTreeMap<usize, u8> {
        BTreeMap::from([(0, FIRST)])
    }

    fn apply(files: &mut BTreeMap<usize, u8>, op: NameOp, _: u8) -> NameAnswer {
        match op {
            NameOp::Create(name) if files.contains_key(&name) => return NameAnswer::Exists,
            NameOp::Create(name) => _ = files.insert(name, 0),
            NameOp::Remove(name) if files.remove(&name).is_none() => return NameAnswer::NotFound,
            NameOp::Remove(_) => {}
            NameOp::Open(name) => {
                let content = files.get(&name);
                return content.map_or(NameAnswer::NotFound, |it| NameAnswer::Opened(*it));
            }
            NameOp::List => {
                let listed = std::array::from_fn(|name| files.contains_key(&name));
                return NameAnswer::Listed(listed);
            }
        }
        NameAnswer::Done
    }
}

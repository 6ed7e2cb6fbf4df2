//! A model of what the operations do, and which states of a thread's own files a kill may leave.

use std::collections::{BTreeMap, BTreeSet};

use spanlock_file_core::Error;

use crate::Volume;
use crate::op::{
    Answer, DIRECTORIES, Kind, NAMES, Op, directory_of, directory_path, future, inner_of, names_in,
    outer_of, path,
};

/// The content of a file, and the time of its last change if that was set in the future.
type File = (Vec<u8>, Option<u64>);

/// What a thread's own files contain, as its operations see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    /// The file of each name.
    names: BTreeMap<u64, u64>,
    directories: BTreeSet<u64>,
    /// What each file contains.
    files: BTreeMap<u64, File>,
    /// How many files were created.
    created: u64,
}

/// What can be seen of a thread's own files in a volume.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// For each name, its file, and how many names that has.
    names: BTreeMap<u64, (File, u32)>,
    directories: BTreeSet<u64>,
}

impl Seen {
    /// Reads the files of `thread` from the volume.
    pub(crate) fn read(volume: &Volume, thread: usize) -> Result<Seen, String> {
        let mut names = BTreeMap::new();
        for name in 0..NAMES {
            let path = path(thread, name);
            let told = |why: Error| format!("{path}: {why}");
            match volume.open_file(&path) {
                Ok(open) => {
                    let mut bytes = vec![0xEE; open.size() as usize];
                    let read = open.read_at(&mut bytes, 0).map_err(told)?;
                    if read < bytes.len() {
                        return Err(format!("{path}: only {read} bytes can be read"));
                    }
                    let file = (bytes, future(open.metadata().modified));
                    names.insert(name, (file, volume.links(&path).map_err(told)?));
                }
                Err(Error::NotFound { .. }) => {}
                Err(why) => return Err(told(why)),
            }
        }
        let is_there = |it: &u64| volume.exists(&directory_path(thread, *it));
        let directories = (0..DIRECTORIES).filter(is_there).collect();
        Ok(Seen { names, directories })
    }

    /// Returns how many names of files and directories there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len() + self.directories.len()
    }
}

impl Model {
    fn seen(&self) -> Seen {
        let links = |file| self.names.values().filter(|it| **it == file).count() as u32;
        let see = |(&name, &file): (&u64, &u64)| (name, (self.files[&file].clone(), links(file)));
        Seen {
            names: self.names.iter().map(see).collect(),
            directories: self.directories.clone(),
        }
    }

    /// Performs an operation, and returns its answer on a volume that has space.
    pub(crate) fn apply(&mut self, op: &Op) -> Answer {
        let is_there = |name: u64| {
            let directory = directory_of(name);
            directory.is_none_or(|it| self.directories.contains(&it))
        };
        let file = self.names.get(&op.file).copied();
        match (op.kind, file) {
            (Kind::Stamp | Kind::CleanAll, _) => {}
            (Kind::CreateDir | Kind::RemoveDir | Kind::CleanDir, _) => {
                return self.apply_to_directory(op);
            }
            (Kind::RenameDir | Kind::MoveDir | Kind::ExchangeDirs, _) => {
                return self.apply_to_directories(op);
            }
            (Kind::Create | Kind::OpenOrCreate, _) if !is_there(op.file) => {
                return Answer::NotFound;
            }
            (Kind::Create, Some(_)) => return Answer::Exists,
            (Kind::OpenOrCreate, Some(_)) => {}
            (Kind::Create | Kind::OpenOrCreate, None) => {
                self.created += 1;
                self.files.insert(self.created, File::default());
                self.names.insert(op.file, self.created);
            }
            (_, None) => return Answer::NotFound,
            (Kind::Remove, _) => _ = self.names.remove(&op.file),
            (Kind::Link, _) if !is_there(op.at) => return Answer::NotFound,
            (Kind::Link, _) if self.names.contains_key(&op.at) => return Answer::Exists,
            (Kind::Link, Some(file)) => _ = self.names.insert(op.at, file),
            (Kind::Move, _) if !is_there(op.at) => return Answer::NotFound,
            // Two names of one file stay.
            (Kind::Rename | Kind::Move, file) if self.names.get(&op.at).copied() == file => {}
            (Kind::Rename | Kind::Move, Some(file)) => {
                self.names.remove(&op.file);
                self.names.insert(op.at, file);
            }
            (Kind::Exchange, Some(file)) => match self.names.get(&op.at).copied() {
                None => return Answer::NotFound,
                Some(other) => {
                    self.names.insert(op.file, other);
                    self.names.insert(op.at, file);
                }
            },
            (_, Some(file)) => {
                change(self.files.get_mut(&file).expect("it has a name"), op);
            }
        }
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|file, _| named.contains(file));
        Answer::Done
    }

    /// Returns whether there is no file and no directory in this one.
    fn is_empty(&self, directory: u64) -> bool {
        let has_inner = inner_of(directory).is_some_and(|it| self.directories.contains(&it));
        !has_inner && self.names.range(names_in(directory)).next().is_none()
    }

    /// Returns whether the directory is there in which this one has its place.
    fn has_place(&self, directory: u64) -> bool {
        outer_of(directory).is_none_or(|it| self.directories.contains(&it))
    }

    fn apply_to_directory(&mut self, op: &Op) -> Answer {
        match (op.kind, self.directories.contains(&op.file)) {
            (Kind::CreateDir, true) => return Answer::Exists,
            (Kind::CreateDir, false) if !self.has_place(op.file) => return Answer::NotFound,
            (Kind::CreateDir, false) => _ = self.directories.insert(op.file),
            (_, false) => return Answer::NotFound,
            (Kind::CleanDir, true) => {}
            (_, true) if !self.is_empty(op.file) => return Answer::NotEmpty,
            (_, true) => _ = self.directories.remove(&op.file),
        }
        Answer::Done
    }

    fn apply_to_directories(&mut self, op: &Op) -> Answer {
        let is_target = match op.kind {
            Kind::ExchangeDirs => self.directories.contains(&op.at),
            _ => self.has_place(op.at),
        };
        if !self.directories.contains(&op.file) || !is_target {
            return Answer::NotFound;
        }
        if op.file == op.at {
            return Answer::Done;
        }
        if op.kind != Kind::ExchangeDirs && !self.is_empty(op.at) {
            return Answer::NotEmpty;
        }
        let inner = inner_of(op.file).zip(inner_of(op.at));
        for (from, to) in [(op.file, op.at)].into_iter().chain(inner) {
            let [moved, replaced] = [from, to].map(|it| self.directories.remove(&it));
            let places = [
                (moved, to),
                (replaced && op.kind == Kind::ExchangeDirs, from),
            ];
            let there = places.into_iter().filter_map(|(is, at)| is.then_some(at));
            self.directories.extend(there);
            for (from, to) in names_in(from).zip(names_in(to)) {
                let files = [from, to].map(|it| self.names.remove(&it));
                let files = files.into_iter().zip([to, from]);
                let there = files.filter_map(|(file, at)| file.map(|file| (at, file)));
                self.names.extend(there);
            }
        }
        Answer::Done
    }

    /// Checks the answers of a thread that began with this state, and that what was found after a
    /// kill is a state that its operations may leave. Returns that state.
    pub(crate) fn explain(
        &self,
        found: &Seen,
        operations: &[(Op, Option<Answer>)],
    ) -> Result<Model, String> {
        let (mut state, mut in_flight) = (self.clone(), None);
        for (op, answer) in operations {
            match *answer {
                None => in_flight = Some(op),
                Some(Answer::NoSpace) => {}
                Some(answer) => {
                    let expected = state.apply(op);
                    if answer != expected {
                        return Err(format!("{op} was {answer}, not {expected}"));
                    }
                }
            }
        }
        if state.seen() == *found {
            return Ok(state);
        }
        if let Some(op) = in_flight {
            state.apply(op);
            if state.seen() == *found {
                return Ok(state);
            }
        }
        Err(
            "its files are neither as its last returned operation left them, nor as the one in \
             flight leaves them"
                .to_owned(),
        )
    }
}

/// Performs a change of a file.
fn change((content, modified): &mut File, op: &Op) {
    let (size, at) = (content.len(), op.at as usize);
    let end = at + op.len as usize;
    match op.kind {
        Kind::Append => content.extend(op.bytes()),
        Kind::Truncate => content.resize(at, 0),
        Kind::Punch => content[at.min(size)..end.min(size)].fill(0),
        Kind::Allocate => content.resize(size.max(end), 0),
        Kind::SetModified => *modified = op.future(),
        Kind::Write => {
            content.resize(size.max(end), 0);
            content[at..end].copy_from_slice(&op.bytes());
        }
        _ => {}
    }
}

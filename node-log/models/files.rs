//! What a crash may leave of files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The bytes of a file.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Content(pub(crate) Vec<u8>);

impl Content {
    pub(crate) fn write(&mut self, bytes: &[u8], at: u64) {
        let (at, end) = (at as usize, at as usize + bytes.len());
        self.0.resize(self.0.len().max(end), 0);
        self.0[at..end].copy_from_slice(bytes);
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a == b);
        let runs = runs.map(|run| format!("{} of {}", run.len(), run[0]));
        f.debug_list().entries(runs).finish()
    }
}

/// For each file, what a crash may leave: what was last made durable, and each state since. `None`:
/// there is no file.
///
/// Two values are equal if a crash may leave the same in both.
#[derive(Clone, Debug)]
pub(crate) struct Files(BTreeMap<String, Vec<Option<Content>>>);

impl Files {
    /// Returns what a volume has.
    pub(crate) fn found(content: BTreeMap<String, Content>) -> Self {
        let files = content.into_iter();
        Files(files.map(|(name, it)| (name, vec![Some(it)])).collect())
    }

    fn states(&self, name: &str) -> &[Option<Content>] {
        self.0.get(name).map_or(&[None], |states| states)
    }

    /// Returns what a file has now.
    pub(crate) fn now(&self, name: &str) -> Option<Content> {
        self.states(name).last()?.clone()
    }

    /// Changes a file.
    pub(crate) fn set(&mut self, name: &str, content: Option<Content>) {
        let states = self.0.entry(name.to_owned());
        states.or_insert_with(|| vec![None]).push(content);
    }

    /// Makes a file durable.
    pub(crate) fn settle(&mut self, name: &str) {
        if let Some(states) = self.0.get_mut(name) {
            states.drain(..states.len() - 1);
        }
    }

    /// Makes all files durable.
    pub(crate) fn settle_all(&mut self) {
        for states in self.0.values_mut() {
            states.drain(..states.len() - 1);
        }
    }
}

impl PartialEq for Files {
    fn eq(&self, other: &Self) -> bool {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        names.into_iter().all(|name| {
            let others = other.states(name);
            self.states(name).iter().any(|it| others.contains(it))
        })
    }
}

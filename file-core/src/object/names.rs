//! The names of one directory, in memory.
//!
//! # The problem
//! A directory's mutex is held across the fences of a change. A lookup must not wait for these
//! fences.
//!
//! # Properties
//! - The names are in a sorted map: a skip list from crossbeam. Lookups that find their name take
//!   no lock.
//! - An entry is plain data. To change it, the thread that holds the directory's mutex replaces it.
//!   The name is absent for a moment then, so a lookup that finds nothing has to be repeated under
//!   the mutex: see [`Directory::look`](crate::object::directory::Directory::look).
//! - An entry needs no ordering but the skip list's: it holds a number, and the table that leads
//!   from the number to a directory or a file has a mutex of its own.
//!
//! # Under a checker
//! The checkers do not see the skip list's atomics, so it is a [`Foreign`] object.

use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry as MapEntry;
use spanlock_sync::foreign::Foreign;

use crate::log::live::{EmitGroup, IsOld, Live, LiveGroup};
use crate::log::record::{add_bytes, put_add};
use crate::log::tail::SlotAddress;
use crate::medium::layout::InodeId;

/// What a name stands for.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) id: InodeId,
    /// The position of the name's group; see F-D2 of `directory.rs`.
    pub(crate) place: SlotAddress,
    /// See F-D1 of `directory.rs`.
    pub(crate) is_doubtful: bool,
}

impl Entry {
    pub(crate) fn new(id: InodeId, place: SlotAddress) -> Self {
        Entry {
            id,
            place,
            is_doubtful: false,
        }
    }
}

/// The names of a directory. The caller of every method that changes them holds the directory's
/// mutex.
pub(crate) struct Names {
    map: Foreign<Map>,
}

type Map = SkipMap<Box<str>, Entry>;

impl Names {
    pub(crate) fn new() -> Self {
        Names {
            map: Foreign::new(Map::new(), |map| {
                let entries = map.iter().map(|it| (it.key().clone(), *it.value()));
                entries.collect()
            }),
        }
    }

    /// Returns what a name stands for. May miss a name that another thread is changing.
    pub(crate) fn get(&self, name: &str) -> Option<Entry> {
        self.map.read(|map| map.get(name).map(|it| *it.value()))
    }

    pub(crate) fn set(&self, name: &str, entry: Entry) {
        self.map.change(|map| map.insert(name.into(), entry));
    }

    /// Adds a name unless it is present. Returns whether it was added. No other thread has the
    /// names.
    pub(crate) fn add(&self, name: Box<str>, entry: Entry) -> bool {
        // One search; a lookup and an insertion would take two. No two groups have the same place,
        // so if the places are equal, this entry was added.
        let there = self.map.change(|map| map.get_or_insert(name, entry));
        there.value().place == entry.place
    }

    pub(crate) fn remove(&self, name: &str) -> Option<Entry> {
        self.map
            .change(|map| map.remove(name).map(|it| *it.value()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.map.read(Map::is_empty)
    }

    /// Calls `each` for every name, sorted by their bytes.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&str, Entry)) {
        self.map
            .read(|map| map.iter().for_each(|it| each(it.key(), *it.value())));
    }

    /// Makes the name doubtful if a panic drops the guard before it is
    /// [defused](DoubtOnUnwind::defuse).
    pub(crate) fn doubt_on_unwind<'a>(&'a self, name: &'a str, entry: Entry) -> DoubtOnUnwind<'a> {
        DoubtOnUnwind {
            names: self,
            name,
            entry,
        }
    }
}

fn old<'a>(
    map: &'a Map,
    is_old: &IsOld<'_>,
) -> impl Iterator<Item = MapEntry<'a, Box<str>, Entry>> {
    map.iter().filter(|it| is_old(it.value().place.page))
}

/// See [`Names::doubt_on_unwind`].
#[must_use = "dropping it at once makes the name doubtful"]
pub(crate) struct DoubtOnUnwind<'a> {
    names: &'a Names,
    name: &'a str,
    entry: Entry,
}

impl DoubtOnUnwind<'_> {
    /// Ends the guard and leaves the name as it is.
    pub(crate) fn defuse(self) {
        core::mem::forget(self);
    }
}

impl Drop for DoubtOnUnwind<'_> {
    fn drop(&mut self) {
        self.entry.is_doubtful = true;
        self.names.set(self.name, self.entry);
    }
}

impl Live for Names {
    fn each(&self, is_old: &IsOld<'_>, emit: &mut EmitGroup<'_>) -> u64 {
        self.map.read(|map| {
            for it in old(map, is_old) {
                let (name, id) = (it.key(), it.value().id);
                emit(LiveGroup {
                    tag: 0,
                    live: 1,
                    bytes: add_bytes(name),
                    put: &|group| put_add(group, id, name),
                });
            }
            map.len() as u64
        })
    }

    fn moved(&self, is_old: &IsOld<'_>, groups: &[(u64, SlotAddress)]) -> Vec<u32> {
        // F-D2: the groups are those that `each` has emitted. They are listed before the first one
        // changes, because a changed entry is another one in the map.
        let old: Vec<_> = self.map.read(|map| old(map, is_old).collect());
        let moved = old.iter().zip(groups).map(|(it, &(_, place))| {
            let entry = *it.value();
            self.set(it.key(), Entry { place, ..entry });
            entry.place.page
        });
        moved.collect()
    }
}

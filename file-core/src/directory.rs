//! The root directory: one log that lists the files.
//!
//! # The problem
//! Creating a file makes two changes, to its inode and its name, and so does removing one. NOVA
//! journals such pairs. Here the directory's log alone decides: an inode is valid only while a
//! committed group names it together with its generation. Publishing that group's mark creates the
//! file, and erasing the mark removes it. Each is a single 8-byte store, so no journal is needed.
//!
//! # Properties
//! - Flat: names are strings of 1 to 1,024 bytes without NUL, compared byte by byte.
//! - Creating, opening, removing and listing files takes one mutex, held across the fences of a
//!   change. Reads and writes of files never take it.
//! - Removal takes no space and one fence, so it succeeds on a full volume.
//! - A name in memory holds its inode's number. The file itself need not be in memory: see
//!   `inodes.rs`.
//!
//! # Invariants
//! - **D1** Whenever the mutex is free, `files` agrees with the committed groups of the directory's
//!   log. There is one exception. If the region panics while a mark is erased, `files` keeps the
//!   file, whose group may be gone. The file is then *doubtful*: it can be removed again, but not
//!   opened. If it was in memory, its log is poisoned, so no write to it succeeds.
//! - **D2** Each file's `place` is that of its group's mark. A cleaning of the log copies groups in
//!   the order of `files`, which cannot change meanwhile.
//! - **D3** As long as a committed group names a number and a generation, that number's inode is
//!   the one stored with the group, except for its head. The inode was fenced before the mark (M6),
//!   and the number is reused only after the mark's erasure is durable (M7). The content of all
//!   other inodes in the table is meaningless.
//! - **D4** No user code runs between a reservation and its end: the file's lock is created
//!   earlier.
//!
//! # Generations
//! Generations grow, so a reused inode number usually has a new one. This lets recovery tell damage
//! from leftovers of an earlier file. But a crash can tear the inode with the largest generation,
//! and a bit flip can corrupt it. Recovery then continues from the largest generation it can read,
//! so a generation may be repeated, possibly with the same number. Correctness does not depend on
//! unique generations: D3 explains why no inode is mistaken for another, and L1 explains the same
//! for logs.
//!
//! # Not supported
//! Nested directories, links, and renames.

use core::cell::Cell;
use std::collections::BTreeMap;

use spanlock_pmem::{Flushed, Pmem};
use spanlock_sync::{Arc, Mutex, MutexGuard, injected_bug};

use crate::alloc::Class;
use crate::clean::{EmitGroup, IsOld, Live, LiveGroup};
use crate::error::Error;
use crate::inode::Inode;
use crate::inodes::Inodes;
use crate::layout::{MAX_NAME_BYTES, RawInode, SLOT_BYTES};
use crate::log::{Log, Place, PoisonOnUnwind};
use crate::log_page::Gained;
use crate::medium::{Medium, Space};
use crate::record::{GroupWriter, add_bytes, put_add, slots_for};

/// The directory of a volume.
pub(crate) struct Directory {
    log: Log,
    state: Mutex<DirectoryState>,
}

/// A file in the directory.
pub(crate) struct Entry {
    pub(crate) number: u32,
    pub(crate) generation: u64,
    /// The position of its group; see D2.
    pub(crate) place: Cell<Place>,
    /// See D1.
    is_doubtful: Cell<bool>,
}

impl Entry {
    pub(crate) fn new(number: u32, generation: u64, place: Place) -> Self {
        Entry {
            number,
            generation,
            place: Cell::new(place),
            is_doubtful: Cell::new(false),
        }
    }
}

/// The state that the mutex guards.
pub(crate) struct DirectoryState {
    /// All files; see D1. They are sorted, so a cleaning copies them in a fixed order.
    files: BTreeMap<Box<str>, Entry>,
    /// Slots that the groups of `files` occupy.
    live_slots: u64,
    space: Arc<Space>,
    /// Larger than every generation that recovery could read and every one used since.
    next_generation: u64,
}

impl DirectoryState {
    /// Creates a directory with `files`.
    pub(crate) fn new(
        files: BTreeMap<Box<str>, Entry>,
        last_generation: u64,
        space: Arc<Space>,
    ) -> Self {
        let live_slots = files.keys().map(|name| slots_of(name) as u64).sum();
        DirectoryState {
            files,
            live_slots,
            space,
            next_generation: last_generation + 1,
        }
    }

    /// Returns all names and their files, sorted by the bytes of the names.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.files.iter().map(|(name, entry)| (&**name, entry))
    }

    /// Returns whether there is a file of this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Returns the file of this name.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Poisoned`] if its removal has panicked midway.
    pub(crate) fn find(&self, name: &str) -> Result<&Entry, Error> {
        let entry = self.entry(name)?;
        match entry.is_doubtful.get() {
            true => Err(Error::Poisoned {
                inode: entry.number,
            }),
            false => Ok(entry),
        }
    }

    fn entry(&self, name: &str) -> Result<&Entry, Error> {
        self.files.get(name).ok_or_else(|| Error::NotFound {
            name: name.to_owned(),
        })
    }
}

/// Returns the number of slots in the group of `name`.
fn slots_of(name: &str) -> u32 {
    slots_for(add_bytes(name)) as u32
}

/// Checks whether `name` can be a file name.
///
/// # Errors
/// [`Error::NameInvalid`], [`Error::NameTooLong`].
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let invalid = |why| {
        Err(Error::NameInvalid {
            name: name.to_owned(),
            why,
        })
    };
    if name.len() > MAX_NAME_BYTES {
        return Err(Error::NameTooLong {
            len: name.len(),
            max: MAX_NAME_BYTES,
        });
    }
    if name.is_empty() {
        return invalid("it is empty");
    }
    if name.contains('\0') {
        return invalid("it contains a NUL");
    }
    Ok(())
}

impl Directory {
    pub(crate) fn new(log: Log, state: DirectoryState) -> Self {
        Directory {
            log,
            state: Mutex::new(state),
        }
    }

    /// Locks the directory.
    pub(crate) fn lock(&self) -> MutexGuard<'_, DirectoryState> {
        self.state.lock()
    }

    /// Adds a file to the locked directory, and returns its number and generation. `name` must be
    /// valid and unused. `created` is the time.
    ///
    /// # Errors
    /// [`Error::NoInodes`], [`Error::NoSpace`], [`Error::Poisoned`]; nothing has changed.
    pub(crate) fn add<P: Pmem>(
        &self,
        state: &mut DirectoryState,
        medium: &Medium<P>,
        name: &str,
        created: u64,
    ) -> Result<(u32, u64), Error> {
        let Some(number) = medium.space.take_inode() else {
            return Err(Error::NoInodes {
                total: medium.geometry.inodes as u64 - 1,
            });
        };
        let generation = state.next_generation;
        let slots = slots_of(name);
        let reserved = self.log.reserve(medium, slots, Class::Growth, state);
        let mut reservation = match reserved {
            Ok(reservation) => reservation,
            Err(error) => {
                // M7: the number was not used.
                medium.space.release_inode(number);
                return Err(error);
            }
        };
        // No step can fail from here on (M2). If the region panics, the log is poisoned until the
        // volume is reopened (L5). The inode and the group share a fence, because neither is valid
        // without the mark.
        let inode_line = RawInode {
            number,
            generation,
            head: 0,
            created,
        };
        let stored = if injected_bug!(
            "inode-after-name",
            "a file is named before its inode is durable",
            killed_by = "file-core/create-create, file-core/sequences-of-1"
        ) {
            Flushed::nothing()
        } else {
            medium.store_inode(&inode_line)
        };
        let mut group = vec![0; slots as usize * SLOT_BYTES];
        put_add(&mut GroupWriter::new(&mut group), number, generation, name);
        reservation.commit(medium, &group, stored);
        if injected_bug!(
            "inode-after-name",
            "a file is named before its inode is durable",
            killed_by = "file-core/create-create, file-core/sequences-of-1"
        ) {
            let _ = medium.pmem.fence(medium.store_inode(&inode_line));
        }

        state.next_generation += 1;
        state.live_slots += slots as u64;
        let entry = Entry::new(number, generation, reservation.place());
        state.files.insert(name.into(), entry);
        reservation.end(Gained { live: 1, tombs: 0 });
        Ok((number, generation))
    }

    /// Removes a name from the locked directory. Returns the number and the generation of its file.
    /// `file` is the file, if it is in memory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Poisoned`]; nothing has changed.
    pub(crate) fn remove<P: Pmem, L>(
        &self,
        state: &mut DirectoryState,
        medium: &Medium<P>,
        name: &str,
        inodes: &Inodes<L>,
    ) -> Result<Removed<L>, Error> {
        // A removal that has panicked may be repeated.
        let entry = state.entry(name)?;
        let (number, generation) = (entry.number, entry.generation);
        let file = inodes.loaded(number);
        // If erasing panics, it is unknown whether the file still exists: see D1.
        let was_doubtful = entry.is_doubtful.replace(true);
        let guard = file.as_ref().map(|it| it.log.poison_on_unwind());
        let erased = self.log.erase_mark(medium, entry.place.get());
        entry.is_doubtful.set(was_doubtful);
        guard.into_iter().for_each(PoisonOnUnwind::defuse);
        erased?;

        let entry = (state.files.remove(name)).expect("found above, under the same lock");
        state.live_slots -= slots_of(name) as u64;
        inodes.forget(number);
        // P1: the name is gone, durably.
        medium.space.take_live(entry.place.get().page, 1);
        self.log.trim(medium, state.live_slots, state);
        if let Some(file) = &file {
            file.mark_removed();
        }
        Ok(Removed {
            number,
            generation,
            file,
        })
    }
}

/// A file that has lost its name, durably.
pub(crate) struct Removed<L> {
    pub(crate) number: u32,
    pub(crate) generation: u64,
    /// The file, if it was in memory. Its pages become free with the last reference.
    pub(crate) file: Option<Arc<Inode<L>>>,
}

impl Live for DirectoryState {
    fn each(&self, is_old: &IsOld<'_>, emit: &mut EmitGroup<'_>) -> u64 {
        for (name, entry) in &self.files {
            if is_old(entry.place.get().page) {
                emit(LiveGroup {
                    tag: 0,
                    live: 1,
                    bytes: add_bytes(name),
                    put: &|group| put_add(group, entry.number, entry.generation, name),
                });
            }
        }
        self.files.len() as u64
    }

    fn moved(&self, is_old: &IsOld<'_>, groups: &[(u64, Place)]) {
        // D2: the groups are those that `each` has emitted.
        let old = (self.files.values()).filter(|it| is_old(it.place.get().page));
        for (Entry { place, .. }, &(_, new)) in old.zip(groups) {
            // P1.
            self.space.take_live(place.replace(new).page, 1);
        }
    }
}

//! A directory: one log that lists names.
//!
//! # The problem
//! Creating a file makes two changes, to its inode and its name, and so does removing one. NOVA
//! journals such pairs. Here the directory's log alone decides: an inode is valid only while a
//! committed group names it together with its generation. Publishing that group's mark creates the
//! file, and erasing the mark removes it. Each is a single 8-byte store, so no journal is needed.
//!
//! # Properties
//! - Names are strings of 1 to 1,024 bytes without `/` and NUL, and not `.` or `..`. They are
//!   compared byte by byte.
//! - A change of a directory takes the directory's mutex, and holds it across its fences. Looking
//!   up a name that exists takes no mutex, unless it is being replaced or moved at that moment; see
//!   [`names`](crate::object::names). Reads and writes of files never take the directory's mutex.
//! - Removal takes no space and one fence, so it succeeds on a full volume.
//! - A name in memory holds its inode's number. The file itself need not be in memory: see
//!   `inode_table.rs`. Directories are always in memory.
//! - A rename within a directory is one group of its log.
//!
//! # Renames
//!
//! ```text
//!   reserve ── store RENAME ── fence ── mark ── fence ── erase old marks ── fence ── in memory
//!                                              │                          │
//!                                   recovery replays the rename,    nothing is left
//!                                   and then erases the old marks     to be done
//! ```
//! The old marks are those of the old name's group and of the replaced name's group. If they
//! stayed, a later removal of the new name would bring both names back. So they are erased before
//! the mutex is released, or, after a crash, before the volume is used.
//!
//! # Invariants
//! - **F-D1** Whenever the mutex is free, `names` agrees with the committed groups of the
//!   directory's log, unless a change was interrupted, by a panic of the region or an error of the
//!   journal. `names` then has what it had before, although the change may be committed. If the
//!   change had reserved slots, the log is poisoned, so no later change builds on `names` (F-L5;
//!   F-T7 for several directories). The name that a removal was to erase, or a rename to replace,
//!   is *doubtful* then: no thread can open it. If its file or directory is in memory, the log of
//!   that file or directory is poisoned, so no change to it succeeds. The old name of a rename is
//!   not doubtful, and neither are the two names of an exchange: what they stand for exists whether
//!   or not the change is committed.
//! - **F-D2** Each entry's `place` is the place of the only marked group of the name. A cleaning of
//!   the log copies groups in the order of `names`, which cannot change meanwhile. A copied group
//!   always adds its name, even if the name came by a rename.
//! - **F-D3** As long as a committed group names a number and a generation, that number's inode is
//!   the one stored with the group, except for its head. The inode was fenced before the mark
//!   (F-M6), and the number is reused only after the last mark's erasure is durable (F-M7). The
//!   content of all other inodes in the table is meaningless.
//! - **F-D4** No user code runs between a reservation and its end: the file's lock is created
//!   earlier.
//!
//! # Generations
//! Generations grow, so a reused inode number usually has a new one. This lets recovery tell damage
//! from leftovers of an earlier file. But a crash can tear the inode with the largest generation,
//! and a bit flip can corrupt it. Recovery then continues from the largest generation it can read,
//! so a generation may be repeated, possibly with the same number. Correctness does not depend on
//! unique generations: F-D3 explains why no inode is mistaken for another, and F-L1 explains the
//! same for logs. While a volume is open, no generation is used twice.
//!
//! # Several directories
//! A rename from one directory to another, and an exchange of two names, change several groups. The
//! [`journal`](crate::medium::journal) makes them atomic together. Afterwards, each name still has
//! one marked group.

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::{Mutex, MutexGuard, injected_bug};

use crate::log::lanes::Order;
use crate::log::record::{GroupWriter, add_bytes, put_add, put_rename, rename_bytes, slots_for};
use crate::log::reservation::Reservation;
use crate::log::tail::{Log, PoisonOnUnwind};
use crate::medium::alloc::Class;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::layout::{InodeId, Kind, MAX_NAME_BYTES, RawInode, SLOT_BYTES};
use crate::medium::log_page::PageUse;
use crate::object::names::{Entry, Names};

/// A directory of a volume.
pub(crate) struct Directory {
    pub(crate) id: InodeId,
    pub(crate) log: Log,
    /// See F-D1.
    pub(crate) names: Names,
    /// The first damage through which names may be missing, if the volume was opened in spite of
    /// damage.
    pub(crate) damage: Option<Error>,
    state: Mutex<State>,
}

/// What the mutex of a directory guards, besides its names.
pub(crate) struct State {
    /// The slots that the groups of the names would occupy if each name had been added, not
    /// renamed.
    live_slots: u64,
    /// Whether the directory has been removed, durably.
    is_removed: bool,
}

impl State {
    /// Counts a name that came from another directory, or one that went there.
    pub(crate) fn count_moved(&mut self, came: Option<&str>, went: Option<&str>) {
        let slots = |it: Option<&str>| it.map_or(0, |name| u64::from(slots_of(name)));
        self.live_slots = self.live_slots + slots(came) - slots(went);
    }

    /// Records that the directory has been removed.
    pub(crate) fn mark_removed(&mut self) {
        self.is_removed = true;
    }
}

/// Returns the number of slots in the group that adds `name`.
pub(crate) fn slots_of(name: &str) -> u32 {
    slots_for(add_bytes(name)) as u32
}

/// Returns the group that adds `name`, without its mark.
pub(crate) fn group_of(id: InodeId, name: &str) -> Vec<u8> {
    let mut group = vec![0; slots_of(name) as usize * SLOT_BYTES];
    put_add(&mut GroupWriter::new(&mut group), id, name);
    group
}

/// Checks whether `name`, which is a part of `path`, can be the name of a file or a directory.
///
/// # Errors
/// [`Error::NameInvalid`], [`Error::NameTooLong`].
pub(crate) fn check_name(name: &str, path: &str) -> Result<(), Error> {
    if name.len() > MAX_NAME_BYTES {
        return Err(Error::NameTooLong {
            path: path.to_owned(),
            len: name.len(),
            max: MAX_NAME_BYTES,
        });
    }
    let why = match name {
        "" => "it is empty; a path has one slash between two names, and none at either end",
        "." | ".." => "a path is not relative to the directories on it",
        _ if name.contains('/') => "it contains a slash, which separates names in a path",
        _ if name.contains('\0') => "it contains a NUL",
        _ => return Ok(()),
    };
    Err(Error::NameInvalid {
        path: path.to_owned(),
        name: name.to_owned(),
        why,
    })
}

/// The log of what a removed or replaced name stands for. It is poisoned if the region panics: see
/// F-D1.
type DoomedLog<'l> = Option<&'l Log>;

impl Directory {
    pub(crate) fn new(id: InodeId, log: Log, names: Names) -> Self {
        let mut live_slots = 0;
        names.for_each(|name, _| live_slots += u64::from(slots_of(name)));
        let state = State {
            live_slots,
            is_removed: false,
        };
        Directory {
            id,
            log,
            names,
            damage: None,
            state: Mutex::new(state),
        }
    }

    /// Locks the directory. Returns `None` if it has been removed.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.state.lock();
        (!state.is_removed).then_some(state)
    }

    /// Returns whether the directory has been removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.state.lock().is_removed
    }

    /// Returns what `name` stands for. Blocks while another thread changes the directory if there
    /// is no such name.
    pub(crate) fn look(&self, name: &str) -> Option<Entry> {
        self.names.get(name).or_else(|| {
            let _state = self.state.lock();
            self.names.get(name)
        })
    }

    /// Creates a file or a directory. The caller holds the mutex; `name` must be valid and unused.
    /// `created` is the time. Calls `counted` with the number of the inode before there is the name
    /// (F-N4).
    ///
    /// # Errors
    /// [`Error::NoInodes`], [`Error::NoSpace`], [`Error::Poisoned`]; nothing has changed.
    pub(crate) fn create<P: Pmem>(
        &self,
        state: &mut State,
        medium: &Medium<P>,
        name: &str,
        (kind, created): (Kind, u64),
        counted: &dyn Fn(u32),
    ) -> Result<InodeId, Error> {
        let Some(number) = medium.space.take_inode() else {
            return Err(Error::NoInodes {
                total: medium.geometry.inodes as u64 - 1,
            });
        };
        let slots = slots_of(name);
        let reserved = self
            .log
            .reserve(medium, slots, Order::Last, Class::Growth, &self.names);
        let reservation = match reserved {
            Ok(reservation) => reservation,
            Err(error) => {
                // F-M7: the number was not used.
                medium.space.release_inode(number);
                return Err(error);
            }
        };
        // No step can fail from here on (F-M2). If the region panics, the log is poisoned until the
        // volume is reopened (F-L5). The inode and the group share a fence, because neither is
        // valid without the mark.
        let id = InodeId {
            number,
            generation: medium.space.next_generation(),
            kind,
        };
        let inode_line = RawInode {
            id,
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
        counted(number);
        self.add(state, medium, name, id, stored, reservation);
        if injected_bug!(
            "inode-after-name",
            "a file is named before its inode is durable",
            killed_by = "file-core/create-create, file-core/sequences-of-1"
        ) {
            let _ = medium.pmem.fence(medium.store_inode(&inode_line));
        }
        Ok(id)
    }

    /// Adds a name to a file that already has a name. The caller holds the mutex; `name` must be
    /// valid and unused, and the file's count of names includes it already.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Poisoned`]; nothing has changed.
    pub(crate) fn link<P: Pmem>(
        &self,
        state: &mut State,
        medium: &Medium<P>,
        name: &str,
        id: InodeId,
    ) -> Result<(), Error> {
        let slots = slots_of(name);
        let reservation =
            (self.log).reserve(medium, slots, Order::Last, Class::Growth, &self.names)?;
        self.add(state, medium, name, id, Flushed::nothing(), reservation);
        Ok(())
    }

    /// Performs the part of adding a name that cannot fail.
    fn add<P: Pmem>(
        &self,
        state: &mut State,
        medium: &Medium<P>,
        name: &str,
        id: InodeId,
        stored: Flushed,
        mut reservation: Reservation<'_>,
    ) {
        reservation.commit(medium, &group_of(id, name), stored);
        state.live_slots += u64::from(slots_of(name));
        self.put(name, id, reservation);
    }

    /// Records in memory that `name` stands for `id`, as the group that was committed in the
    /// reservation says. The caller holds the mutex.
    pub(crate) fn put(&self, name: &str, id: InodeId, reservation: Reservation<'_>) {
        self.names.set(name, Entry::new(id, reservation.place()));
        reservation.end(PageUse { live: 1, tombs: 0 });
    }

    /// Removes a name, durably. The caller holds the mutex. `doomed` is the log of what the name
    /// stands for, if that is in memory.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; nothing has changed.
    pub(crate) fn remove<P: Pmem>(
        &self,
        state: &mut State,
        medium: &Medium<P>,
        name: &str,
        entry: Entry,
        doomed: DoomedLog<'_>,
    ) -> Result<(), Error> {
        // If erasing panics, it is unknown whether the name still exists: see F-D1.
        let doubt = self.names.doubt_on_unwind(name, entry);
        let guard = doomed.map(Log::poison_on_unwind);
        let erased = self.log.erase_mark(medium, entry.place);
        guard.into_iter().for_each(PoisonOnUnwind::defuse);
        doubt.defuse();
        erased?;

        state.live_slots -= u64::from(slots_of(name));
        self.take(medium, name, entry);
        Ok(())
    }

    /// Removes a name from memory. Its mark is erased, durably. The caller holds the mutex.
    pub(crate) fn take<P: Pmem>(&self, medium: &Medium<P>, name: &str, entry: Entry) {
        self.names.remove(name);
        // F-P1: the name is gone, durably.
        medium.space.take_live(entry.place.page, 1);
    }

    /// Cleans the log if it is too long after a removal. The caller holds the mutex.
    pub(crate) fn trim<P: Pmem>(&self, state: &State, medium: &Medium<P>) {
        self.log.trim(medium, state.live_slots, &self.names);
    }

    /// Renames `old` to `name`, durably, and replaces `name` if it exists. The caller holds the
    /// mutex, and the two names do not stand for the same inode. `doomed` is the log of what is
    /// replaced, if that is in memory.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Poisoned`]; nothing has changed.
    pub(crate) fn rename<P: Pmem>(
        &self,
        state: &mut State,
        medium: &Medium<P>,
        [old, name]: [&str; 2],
        doomed: DoomedLog<'_>,
    ) -> Result<(), Error> {
        let slots = slots_for(rename_bytes(name, old)) as u32;
        let mut reservation =
            (self.log).reserve(medium, slots, Order::Last, Class::Growth, &self.names)?;
        // Reserving may have moved the groups.
        let renamed = (self.names.get(old)).expect("the caller has found it, under the same lock");
        let replaced = self.names.get(name);
        let mut group = vec![0; slots as usize * SLOT_BYTES];
        put_rename(&mut GroupWriter::new(&mut group), renamed.id, name, old);

        // A panic poisons this log (F-L5). What is replaced may be gone then (F-D1).
        let doubt = replaced.map(|it| self.names.doubt_on_unwind(name, it));
        let guard = doomed.map(Log::poison_on_unwind);
        let superseded = [Some(renamed), replaced];
        let superseded = superseded.iter().flatten();
        let erase = || {
            let mut erased = Flushed::nothing();
            for entry in superseded.clone() {
                // F-M4. The mark of the rename is durable, and nothing else depends on an erasure.
                let at = entry.place.at();
                erased = erased.and(medium.store_word(at, 0, Durable::at_rest()));
            }
            medium.pmem.fence(erased);
        };
        let is_early = injected_bug!(
            "rename-erases-early",
            "a rename erases the old name before the new one is durable",
            killed_by = "file-core-names/rename-remove, file-core-names/sequences-of-1"
        );
        let is_left_out = injected_bug!(
            "rename-erases-nothing",
            "a rename leaves the mark of the old name",
            killed_by = "file-core-names/replace-remove, file-core-names/sequences-of-2"
        );
        if is_early {
            erase();
        }
        reservation.commit(medium, &group, Flushed::nothing());
        if !is_early && !is_left_out {
            erase();
        }
        guard.into_iter().for_each(PoisonOnUnwind::defuse);
        if let Some(doubt) = doubt {
            doubt.defuse();
        }

        // The old name goes first: a lookup that misses it waits for the mutex.
        self.names.remove(old);
        self.names
            .set(name, Entry::new(renamed.id, reservation.place()));
        state.live_slots -= u64::from(slots_of(old));
        if replaced.is_none() {
            state.live_slots += u64::from(slots_of(name));
        }
        reservation.end(PageUse { live: 1, tombs: 0 });
        for entry in superseded {
            // F-P1: its mark is erased, durably.
            medium.space.take_live(entry.place.page, 1);
        }
        Ok(())
    }
}

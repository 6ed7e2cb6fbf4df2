//! The root directory: one log that says which files there are.
//!
//! # The problem
//! A file is created by two changes, its inode and its name, and removed by two. NOVA journals such
//! pairs. Here the directory's log alone decides: an inode counts only while a committed group
//! names it together with its generation. So a file comes with one commit mark, and goes when that
//! mark is erased: one 8-byte store each, and no journal.
//!
//! # Properties
//! - Flat: names are strings of 1 to 1,024 bytes without NUL, compared byte for byte.
//! - One operation on names at a time, under a mutex that is held across its two fences. Reads and
//!   writes of files never take it.
//! - Removal takes no space and one fence: it cannot fail on a full volume.
//!
//! # Invariants
//! - **D1** `files` is what the committed groups of the directory's log say, whenever the mutex is free.
//! - **D2** The slot of each file is where its group's mark lies, as of the log's epoch `epoch`. A
//!   compaction writes the groups in the order of `files`, which cannot change meanwhile, so the
//!   slots' new numbers follow from the names' lengths.
//! - **D3** As long as a committed group names a number and a generation, the inode of that number is
//!   the one that was stored with the group, but for its head: it was fenced before the mark (M6),
//!   and the number is given away again only after the mark's erasure is durable (M7). What the
//!   other inodes of the table hold means nothing.
//! - **D4** Nothing of the caller's runs between a reservation and its end: the file's lock is made
//!   before.
//!
//! # Generations
//! They grow, so a number that is used again has another one, and damage is told from an older life.
//! But a crash can tear the inode that holds the largest, and a flipped bit can spoil it; recovery
//! then takes the largest that it can read, and a generation may come a second time, perhaps with
//! its number. Nothing rests on its not doing so: D3 says why no inode is taken for another, L1 why
//! no log is.
//!
//! # Not promised
//! Directories in directories, links, renames.

use std::collections::BTreeMap;

use spanlock_pmem::Pmem;
use spanlock_sync::{Arc, Mutex, MutexGuard};

use crate::alloc::Class;
use crate::compact::{EmitGroup, Live};
use crate::error::Error;
use crate::inode::Inode;
use crate::layout::{MAX_NAME_BYTES, RawInode, SLOT_BYTES};
use crate::log::Log;
use crate::medium::Medium;
use crate::record::{GroupWriter, add_bytes, put_add, slots_for};

/// The directory of a volume.
pub(crate) struct Directory<L> {
    log: Log,
    state: Mutex<State<L>>,
}

/// A file in the directory.
pub(crate) struct Entry<L> {
    pub(crate) inode: Arc<Inode<L>>,
    /// D2: the lead slot of its group.
    pub(crate) slot: u32,
}

/// What the mutex guards.
pub(crate) struct State<L> {
    /// D1. In order, so that a compaction writes the same log each time.
    pub(crate) files: BTreeMap<String, Entry<L>>,
    /// Slots that the groups of `files` take.
    live_slots: u64,
    /// D2.
    epoch: u64,
    /// Larger than every generation that recovery could read, and than those used since.
    next_generation: u64,
}

impl<L> State<L> {
    /// A directory with `files`, whose slots are those of the log's `epoch`.
    pub(crate) fn new(files: BTreeMap<String, Entry<L>>, epoch: u64, last_generation: u64) -> Self {
        let live_slots = files.keys().map(|name| slots_of(name) as u64).sum();
        State {
            files,
            live_slots,
            epoch,
            next_generation: last_generation + 1,
        }
    }

    /// Numbers the slots anew if the log was compacted since (D2).
    fn follow(&mut self, log: &Log) {
        let epoch = log.epoch();
        if epoch != self.epoch {
            let mut slot = 0;
            for (name, entry) in &mut self.files {
                entry.slot = slot;
                slot += slots_of(name);
            }
            self.epoch = epoch;
        }
    }
}

/// Slots that the group of `name` takes.
fn slots_of(name: &str) -> u32 {
    slots_for(add_bytes(name)) as u32
}

/// Looks whether `name` can name a file.
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

impl<L> Directory<L> {
    pub(crate) fn new(log: Log, state: State<L>) -> Self {
        Directory {
            log,
            state: Mutex::new(state),
        }
    }

    /// Locks the directory.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock()
    }

    /// Adds a file to the locked directory: `name` is valid and not taken. `new_inode` makes the
    /// file in memory, from its number and generation; it runs nothing of the caller's (D4).
    ///
    /// # Errors
    /// [`Error::NoInodes`], [`Error::NoSpace`]; nothing has changed.
    pub(crate) fn add<P: Pmem>(
        &self,
        state: &mut State<L>,
        medium: &Medium<P>,
        name: &str,
        new_inode: impl FnOnce(u32, u64) -> Inode<L>,
    ) -> Result<Arc<Inode<L>>, Error> {
        let Some(number) = medium.space.take_inode() else {
            return Err(Error::NoInodes {
                total: medium.geometry.inodes as u64 - 1,
            });
        };
        let generation = state.next_generation;
        let inode = Arc::new(new_inode(number, generation));
        let slots = slots_of(name);
        let reserved = self.log.reserve(medium, slots, Class::Growth, state);
        let mut reservation = match reserved {
            Ok(reservation) => reservation,
            Err(error) => {
                // M7: the number was not used.
                medium.space.give_inode(number);
                return Err(error);
            }
        };
        // Nothing fails from here on (M2). A panic of the region poisons the log, until memory says
        // what the medium says (L5). The inode and the group share a fence; neither counts without
        // the mark.
        let stored = medium.store_inode(&RawInode {
            number,
            generation,
            head: 0,
        });
        let mut group = vec![0; slots as usize * SLOT_BYTES];
        put_add(&mut GroupWriter::new(&mut group), number, generation, name);
        reservation.commit(medium, &group, stored);

        state.follow(&self.log);
        state.next_generation += 1;
        state.live_slots += slots as u64;
        let entry = Entry {
            inode: Arc::clone(&inode),
            slot: reservation.first_slot(),
        };
        state.files.insert(name.to_owned(), entry);
        reservation.end();
        Ok(inode)
    }

    /// Removes a file from the locked directory, and returns what was its reference.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Poisoned`]; nothing has changed.
    pub(crate) fn remove<P: Pmem>(
        &self,
        state: &mut State<L>,
        medium: &Medium<P>,
        name: &str,
    ) -> Result<Arc<Inode<L>>, Error> {
        state.follow(&self.log);
        let Some(entry) = state.files.get(name) else {
            return Err(Error::NotFound {
                name: name.to_owned(),
            });
        };
        // If it panics, nobody knows whether the file is there: no write to it may return any more.
        let guard = entry.inode.log.poison_on_unwind();
        let erased = self.log.erase_mark(medium, entry.slot);
        guard.defuse();
        erased?;

        let entry = state
            .files
            .remove(name)
            .expect("found above, under the same lock");
        state.live_slots -= slots_of(name) as u64;
        entry.inode.mark_removed();
        self.log.trim(medium, state.live_slots, state);
        Ok(entry.inode)
    }
}

impl<L> Live for State<L> {
    fn each(&self, emit: &mut EmitGroup<'_>) -> u64 {
        for (name, Entry { inode, .. }) in &self.files {
            emit(add_bytes(name), &|group| {
                put_add(group, inode.number, inode.generation, name)
            });
        }
        self.files.len() as u64
    }
}

//! Changes of several names at once: renames from one directory to another, and exchanges.
//!
//! Each goes through the [journal](crate::medium::journal):
//! 1. Take the tree's mutex, then those of the directories. Check the names.
//! 2. Open the journal, and reserve a group for each name that gets a new meaning. Both may fail;
//!    nothing is stored before.
//! 3. Store the groups, and commit their marks together with the erasures of the old ones. This
//!    fails only if the journal was damaged meanwhile.
//! 4. Change the names in memory. The old names are removed before the new ones are added. A lookup
//!    that misses a name waits for the mutex, so it finds the old state or the new one.

use spanlock_pmem::{Flushed, Pmem};
use spanlock_sync::injected_bug;

use crate::log::lanes::Order;
use crate::log::reservation::Reservation;
use crate::log::tail::{Log, PoisonOnUnwind};
use crate::medium::alloc::Class;
use crate::medium::error::Error;
use crate::medium::journal::{Journal, Word};
use crate::medium::layout::{InodeId, Kind};
use crate::object::directory::{Directory, group_of, slots_of};
use crate::object::names::{DoubtOnUnwind, Entry};
use crate::volume::changes::{gone, lock_both, not_empty};
use crate::volume::shared::Shared;
use crate::volume::tree::{NameAt, Tree, sound};

/// A name that gets a new meaning, and the slots reserved for the group that says so.
struct NewName<'a> {
    at: &'a NameAt<'a>,
    id: InodeId,
    reservation: Reservation<'a>,
}

/// Returns the word that erases the mark of a name's group.
fn erasure(entry: &Entry) -> Word {
    Word {
        at: entry.place.at(),
        value: 0,
    }
}

impl<P: Pmem, L> Shared<P, L> {
    /// Renames from one directory to another.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`], [`Error::NotADirectory`], [`Error::NotEmpty`],
    /// [`Error::InsideItself`], [`Error::NoSpace`], [`Error::Poisoned`]; nothing has changed.
    /// [`Error::Corrupt`], as [`commit_journaled`](Self::commit_journaled) says.
    pub(super) fn rename_across(&self, from: &NameAt<'_>, to: &NameAt<'_>) -> Result<(), Error> {
        let mut tree = self.tree.lock()?;
        let (source, target) = (&from.directory, &to.directory);
        let (mut state, to_state) = lock_both(source, Some(target), gone(from, to))?;
        let mut to_state = to_state.expect("two were locked");
        let moved = from.find()?;
        let replaced = (target.names.get(to.name)).map(sound).transpose()?;
        let (mut child, mut file) = (None, None);
        if let Some(replaced) = replaced {
            if replaced.id == moved.id {
                return check_logs(source, target);
            }
            to.expect(replaced.id.kind, moved.id.kind)?;
            match moved.id.kind {
                // It is not empty, and locked already.
                Kind::Directory if replaced.id == source.id => return Err(not_empty(to)),
                Kind::Directory => child = Some(self.child_of(to, replaced)?),
                Kind::File => file = self.inodes.loaded(replaced.id.number),
            }
        }
        self.tree.check_outside(from, moved, to)?;
        // F-T3: this thread holds the tree's mutex, so no other one locks several directories.
        let child_state = child
            .as_ref()
            .map(|it| it.lock().ok_or_else(|| to.not_found()));
        let child_state = child_state.transpose()?;
        if child.as_ref().is_some_and(|it| !it.names.is_empty()) {
            return Err(not_empty(to));
        }
        source.log.check()?;
        let journal = Journal::open(&self.medium.pmem, &self.medium.geometry)?;
        let new = self.reserve_name(to, moved.id)?;
        // Reserving may have moved the group.
        let replaced = target.names.get(to.name);
        let doubt = replaced.map(|it| target.names.doubt_on_unwind(to.name, it));
        let doomed = (child.as_ref().map(|it| &it.log)).or(file.as_ref().map(|it| &it.log));
        let guards = [Some(&source.log), doomed];
        let guards = guards.map(|it| it.map(Log::poison_on_unwind));
        let erased = [Some(moved), replaced];
        let erased = erased.iter().flatten().map(erasure);
        *tree = Some(target.id.number);
        self.commit_journaled(journal, &[&new], erased)?;
        *tree = None;
        guards
            .into_iter()
            .flatten()
            .for_each(PoisonOnUnwind::defuse);
        doubt.into_iter().for_each(DoubtOnUnwind::defuse);

        source.take(&self.medium, from.name, moved);
        state.count_moved(None, Some(from.name));
        match replaced {
            Some(replaced) => target.take(&self.medium, to.name, replaced),
            None => to_state.count_moved(Some(to.name), None),
        }
        target.put(to.name, moved.id, new.reservation);
        self.tree.set_parent(moved.id, target.id.number);
        if let (Some(child), Some(mut child_state)) = (&child, child_state) {
            self.retire(child, &mut child_state);
        }
        source.trim(&state, &self.medium);
        target.trim(&to_state, &self.medium);
        // Freeing a large file takes a while, so the mutexes are released first.
        drop((state, to_state, tree));
        let lost = replaced.filter(|it| it.id.kind == Kind::File);
        if let Some(lost) = lost.filter(|it| self.inodes.take_link(it.id.number)) {
            drop(file);
            self.free(lost.id);
        }
        Ok(())
    }

    /// Exchanges what two names stand for, in one directory or in two.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::NotFound`], [`Error::InsideItself`], [`Error::NoSpace`],
    /// [`Error::Poisoned`]; nothing has changed. [`Error::Corrupt`], as
    /// [`commit_journaled`](Self::commit_journaled) says.
    pub(crate) fn exchange(&self, one: &NameAt<'_>, other: &NameAt<'_>) -> Result<(), Error> {
        self.check_writable()?;
        let mut tree = self.tree.lock()?;
        let second = (one.directory.id != other.directory.id).then_some(&*other.directory);
        let _states = lock_both(&one.directory, second, gone(one, other))?;
        let [first, last] = [one.find()?, other.find()?].map(|it| it.id);
        if first == last {
            return check_logs(&one.directory, &other.directory);
        }
        self.tree.check_outside(one, one.find()?, other)?;
        self.tree.check_outside(other, other.find()?, one)?;
        let journal = Journal::open(&self.medium.pmem, &self.medium.geometry)?;
        let [new, other_new] = self.reserve_names([(one, last), (other, first)])?;
        // Reserving may have moved the groups.
        let [old, other_old] = [one.find()?, other.find()?];
        *tree = Some(one.directory.id.number);
        let erased = [&old, &other_old].into_iter().map(erasure);
        self.commit_journaled(journal, &[&new, &other_new], erased)?;
        *tree = None;

        one.directory.take(&self.medium, one.name, old);
        other.directory.take(&self.medium, other.name, other_old);
        for NewName {
            at,
            id,
            reservation,
        } in [new, other_new]
        {
            at.directory.put(at.name, id, reservation);
            self.tree.set_parent(id, at.directory.id.number);
        }
        Ok(())
    }

    /// Reserves a group that makes a name stand for `id`. The caller holds the directory's mutex.
    fn reserve_name<'a>(&'a self, at: &'a NameAt<'a>, id: InodeId) -> Result<NewName<'a>, Error> {
        let (log, names) = (&at.directory.log, &at.directory.names);
        let slots = slots_of(at.name);
        let reservation = log.reserve(&self.medium, slots, Order::Last, Class::Growth, names)?;
        Ok(NewName {
            at,
            id,
            reservation,
        })
    }

    /// Like [`reserve_name`](Self::reserve_name), for two names.
    fn reserve_names<'a>(
        &'a self,
        both: [(&'a NameAt<'a>, InodeId); 2],
    ) -> Result<[NewName<'a>; 2], Error> {
        let [(one, id), (other, other_id)] = both;
        if one.directory.id != other.directory.id {
            let new = self.reserve_name(one, id)?;
            return match self.reserve_name(other, other_id) {
                Ok(other) => Ok([new, other]),
                Err(error) => {
                    new.reservation.cancel();
                    Err(error)
                }
            };
        }
        // A second reservation in one log could wait for the first one's slots. Two names are
        // short enough for one page.
        let slots = [one, other].map(|it| slots_of(it.name));
        let (log, names) = (&one.directory.log, &one.directory.names);
        let all = slots.iter().sum();
        let reserved = log.reserve(&self.medium, all, Order::Last, Class::Growth, names)?;
        let (reservation, other_reservation) = reserved.split(slots[0]);
        Ok([
            NewName {
                at: one,
                id,
                reservation,
            },
            NewName {
                at: other,
                id: other_id,
                reservation: other_reservation,
            },
        ])
    }

    /// Commits the groups of names together with erasures of marks.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the journal was damaged after it was opened. The change is then on the
    /// medium as a whole or not at all, and memory still has the old names. So an error must have
    /// the consequences of a panic: the caller returns with its guards and reservations, which
    /// poison their logs, and leaves the tree interrupted (F-T7).
    fn commit_journaled(
        &self,
        journal: Journal<'_, P>,
        new: &[&NewName<'_>],
        erased: impl Iterator<Item = Word>,
    ) -> Result<(), Error> {
        let medium = &self.medium;
        let mut words = Vec::new();
        let mut stored = Flushed::nothing();
        for it in new {
            let group = group_of(it.id, it.at.name);
            let (mark, slots) = it.reservation.store(medium, &group);
            stored = stored.and(slots);
            words.push(Word {
                at: it.reservation.place().at(),
                value: mark,
            });
        }
        words.extend(erased);
        // equivalent(drop): the journal was opened for this change, so it makes its superblock
        // durable, with a fence, before it stores the record.
        let durable = medium.pmem.fence(stored);
        journal.commit(&words, durable)
    }
}

impl Tree {
    /// Checks that what `at` names may get the name `new`: a directory cannot be moved into itself,
    /// or below itself. The caller holds the tree's mutex (F-T6).
    fn check_outside(&self, at: &NameAt<'_>, entry: Entry, new: &NameAt<'_>) -> Result<(), Error> {
        let is_unchecked = injected_bug!(
            "moved-into-itself",
            "a directory may be moved below itself",
            killed_by = "file-core-names/move-dir-move-back"
        );
        if entry.id.kind == Kind::File
            || is_unchecked
            || !self.is_at_or_below(new.directory.id.number, entry.id.number)
        {
            return Ok(());
        }
        Err(Error::InsideItself {
            name: at.path.to_owned(),
            into: new.path.to_owned(),
        })
    }
}

/// Checks that no operation on the two logs has panicked midway: it may have changed the names.
///
/// # Errors
/// [`Error::Poisoned`].
fn check_logs(one: &Directory, other: &Directory) -> Result<(), Error> {
    one.log.check().and_then(|()| other.log.check())
}

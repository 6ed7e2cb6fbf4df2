//! How recovery reacts to damage: it ends, or it notes the damage and goes on.

use crate::medium::error::{Error, Place};
use crate::medium::layout::RawInode;
use crate::medium::reports::Repair;

/// How to repair damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Nothing to repair: what was noted is not damage.
    Nothing,
    /// Rewrite the superblock at this byte from the other one.
    Superblock(u64),
    /// Empty the journal.
    Journal,
    /// Rewrite the line of the inode.
    Inode(RawInode),
    /// Erase the word at this byte: a mark or a pointer, which removes a group or a name, or cuts
    /// off a chain; or a word within a sound group.
    Erase(u64, Repair),
    /// Rewrite the log of the file from what is readable.
    Rewrite(Repair),
}

impl Fix {
    /// Returns whether the damage is harmless: a nonzero word within an otherwise sound group.
    pub(crate) fn clears_word(self) -> bool {
        matches!(self, Fix::Erase(_, Repair::ClearWord))
    }

    /// Returns the place of the mark of the name that is erased.
    pub(crate) fn erased_name(self) -> Option<u64> {
        match self {
            Fix::Erase(at, Repair::EraseName) => Some(at),
            _ => None,
        }
    }

    pub(crate) fn repair(self) -> Repair {
        match self {
            Fix::Nothing => Repair::None,
            Fix::Superblock(_) => Repair::RewriteSuperblock,
            Fix::Journal => Repair::EmptyJournal,
            Fix::Inode(RawInode { head: 0, .. }) => Repair::EmptyInode,
            Fix::Inode(_) => Repair::RewriteInode,
            Fix::Erase(_, repair) | Fix::Rewrite(repair) => repair,
        }
    }
}

/// A piece of damage that was noted.
pub(crate) struct Damage {
    pub(crate) what: &'static str,
    pub(crate) place: Place,
    /// The number of bytes of the file that it affects, from the place's offset on.
    pub(crate) bytes: u64,
    pub(crate) fix: Fix,
}

/// The damage found so far.
pub(crate) enum Damages {
    /// The first damage ends the recovery.
    Refused,
    Noted(Vec<Damage>),
}

impl Damages {
    pub(crate) fn are_noted(&self) -> bool {
        matches!(self, Damages::Noted(_))
    }

    /// Notes damage.
    ///
    /// # Errors
    /// Returns `error` itself if damage is refused, or if `error` does not report damage.
    pub(crate) fn meet(&mut self, error: Error, fix: Fix) -> Result<(), Error> {
        match (self, error) {
            (Damages::Noted(noted), Error::Corrupt { what, place }) => {
                noted.push(Damage {
                    what,
                    place,
                    bytes: 0,
                    fix,
                });
                Ok(())
            }
            (_, error) => Err(error),
        }
    }

    pub(crate) fn noted(&self) -> &[Damage] {
        match self {
            Damages::Refused => &[],
            Damages::Noted(noted) => noted,
        }
    }
}

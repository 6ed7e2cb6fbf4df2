//! Tries while the gate is in [doubt](crate::gate#doubt).

use core::ops::Range;

use spanlock_range_lock::{Access, NoMemory, RawRangeLock, Token};
use spanlock_sync::Park;

use super::Srl;
use crate::gate::{entry_of, tried};
use crate::store::SegmentStore;

impl<S: SegmentStore, P: Park> Srl<S, P> {
    /// Takes the words of a small request under an entry, because the gate is in
    /// [doubt](crate::gate#doubt).
    ///
    /// Returns `None` if the request would have to wait.
    pub(super) fn try_lock_in_doubt(
        &self,
        touched: &Range<u64>,
        access: Access,
    ) -> Result<Option<Token>, NoMemory> {
        let (entries, entry) = (self.gate.entries(), entry_of(touched));
        let Some(token) = tried(entries.try_lock(entry, access))? else {
            return Ok(None);
        };
        let mut taken = InDoubt {
            lock: self,
            touched,
            access,
            entry: Some(token),
            words: None,
        };
        // SAFETY: the entry was taken just now.
        taken.words = unsafe { self.words.take_under_entry(touched, access) }?;
        taken.entry = None;
        // SAFETY: as above. The entry is given up, once the words are taken or not.
        unsafe { entries.unlock(entry, access, token) };
        Ok(taken.words.take())
    }
}

/// What a try has taken while the gate is in doubt. Dropping it gives that up, in case a waker
/// panics.
struct InDoubt<'a, S: SegmentStore, P: Park> {
    lock: &'a Srl<S, P>,
    touched: &'a Range<u64>,
    access: Access,
    entry: Option<Token>,
    words: Option<Token>,
}

impl<S: SegmentStore, P: Park> Drop for InDoubt<'_, S, P> {
    fn drop(&mut self) {
        let InDoubt {
            lock,
            touched,
            access,
            ..
        } = *self;
        // SAFETY: the segments, or their entry, were taken and are given up.
        unsafe {
            if self.words.take().is_some() {
                lock.words.release(None, touched.clone(), access);
            }
            if let Some(token) = self.entry.take() {
                lock.gate.entries().unlock(entry_of(touched), access, token);
            }
        }
    }
}

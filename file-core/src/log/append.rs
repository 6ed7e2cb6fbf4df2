//! Appending to a log: reserves slots at its end, and decides when the log is cleaned or gets
//! pages.
//!
//! The fast path is one atomic addition to the tail ([`Log::try_take`]). If the last page has no
//! room, the slow path takes the log's mutex. It cleans the log if that is due, then adds pages. On
//! a full volume it cleans early, and finally takes pages from the reserve.

use spanlock_pmem::Pmem;
use spanlock_sync::{injected_bug, thread};

use crate::log::chain::{Cleaning, Slots};
use crate::log::clean;
use crate::log::lanes::Order;
use crate::log::live::{Live, bound};
use crate::log::reservation::Reservation;
use crate::log::tail::Log;
use crate::medium::alloc::Class;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;

impl Log {
    /// Reserves `slots` consecutive slots, adding pages or cleaning the log if needed. `order` says
    /// after which groups they must come. `class` decides how much of the reserve may be used for
    /// new log pages. `live` lists the groups that a cleaning keeps.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Poisoned`]: nothing is reserved.
    #[inline]
    pub(crate) fn reserve<'l, P: Pmem>(
        &'l self,
        medium: &'l Medium<P>,
        slots: u32,
        order: Order,
        class: Class,
        live: &dyn Live,
    ) -> Result<Reservation<'l>, Error> {
        let space = &*medium.space;
        let slots = match self.try_take(space, slots, order) {
            Some(slots) => slots,
            None => self.reserve_slowly(medium, slots, order, class, live)?,
        };
        // From here on, a panic poisons the log.
        let reservation = Reservation {
            log: self,
            space,
            slots,
            ended: false,
        };
        let Slots {
            page, slot, count, ..
        } = reservation.slots;
        medium.prefetch_slots(page, slot, count);
        Ok(reservation)
    }

    /// Makes room for `slots` slots and takes them.
    #[cold]
    fn reserve_slowly<P: Pmem>(
        &self,
        medium: &Medium<P>,
        slots: u32,
        order: Order,
        class: Class,
        live: &dyn Live,
    ) -> Result<Slots, Error> {
        let thread = thread::index();
        // Now, because the others may soon wait for the mutex.
        let is_crowded = !self.has_lanes() && self.is_crowded(&medium.space);
        let mut state = self.lock();
        // The addition that failed may have skipped slots for which a cleaning waits. The cleaning
        // holds the mutex from saying so until it sleeps, so this comes after one or the other.
        self.notify();
        loop {
            self.check_poison(&state)?;
            // Another thread may have added a page.
            if let Some(taken) = self.try_take(&medium.space, slots, order) {
                return Ok(taken);
            }
            let passes_cleaning = injected_bug!(
                "adds-page-while-replaced",
                "an operation adds a page to a log of which all pages are replaced",
                killed_by = "file-core-memory/replace-write"
            );
            if state.cleaning == Cleaning::Alone && !passes_cleaning {
                state = self.wait(state);
                continue;
            }
            if !state.is_due(medium.space.least_cleaned) {
                break;
            }
            state = clean::if_due(self, state, medium, live);
        }
        state.crowded = match is_crowded {
            true => state.crowded.saturating_add(1),
            false => 0,
        };
        if let Ok(taken) = self.extend(&mut state, medium, slots, Class::Growth, thread) {
            return Ok(taken);
        }
        // Cleaning may fail for lack of pages. That is fine: the append may still fit, and a later
        // append tries again.
        state = clean::if_it_helps(self, state, medium, slots, live);
        self.check_poison(&state)?;
        // The newest page is always late enough, and no new page need be found for it.
        match self.try_take(&medium.space, slots, Order::Last) {
            Some(taken) => Ok(taken),
            None => self.extend(&mut state, medium, slots, class, thread),
        }
    }

    /// Cleans the log if it has more pages than `live_slots` live slots justify. A log of one page
    /// keeps it, for the next operation.
    pub(crate) fn trim<P: Pmem>(&self, medium: &Medium<P>, live_slots: u64, live: &dyn Live) {
        let state = self.lock();
        let pages = state.pages.len() as u64;
        if state.cleaning != Cleaning::None || self.is_poisoned() {
            return;
        }
        if live_slots == 0 && pages > 1 {
            drop(state);
            // The only error is a panic of another thread, which its operations report.
            let _ = clean::on_request(self, medium, live);
        } else if pages > bound(&medium.space, live_slots) && live_slots < state.trim_below {
            let mut state = clean::if_due(self, state, medium, live);
            // The cleaning may have found too little to remove. Otherwise, each removal would look
            // at all live slots again.
            state.trim_below = live_slots - live_slots / 8;
        }
    }
}

//! The events that poison a log, and the end of waits for slots.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use spanlock_pmem::Flushed;
use spanlock_pmem::{MappedFile, Options};
use spanlock_sync::Arc;
use spanlock_sync::atomic::Ordering;

use super::*;
use crate::FormatOptions;
use crate::log::end::Tail;
use crate::log::live::{EmitGroup, IsOld, Live};
use crate::log::reservation::Reservation;
use crate::medium::alloc::Class;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::layout::{LogId, PAGE_SLOTS, ROOT, SLOT_BYTES};
use crate::medium::log_page::PageUse;
use crate::medium::space::Space;
use crate::volume::format;

/// A log without live groups.
struct Nothing;

impl Live for Nothing {
    fn each(&self, _: &IsOld<'_>, _: &mut EmitGroup<'_>) -> u64 {
        0
    }

    fn moved(&self, _: &IsOld<'_>, _: &[(u64, SlotAddress)]) -> Vec<u32> {
        Vec::new()
    }
}

/// Returns a medium of 16 pages whose data area is free.
fn medium() -> Medium<MappedFile> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let pmem = MappedFile::create(path, 16 << 12, Options::default()).unwrap();
    let geometry = format::plan(16 << 12, &FormatOptions::new()).unwrap();
    let (start, len) = (geometry.data_start(), geometry.data_pages());
    let space = Arc::new(Space::new(&geometry));
    space.alloc.release(Extent { start, len });
    Medium {
        pmem,
        geometry,
        space,
        clock: || 0,
    }
}

fn reserve<'l>(log: &'l Log, medium: &'l Medium<MappedFile>) -> Result<Reservation<'l>, Error> {
    log.reserve(medium, 1, Order::Last, Class::Growth, &Nothing)
}

#[test]
fn a_panic_between_the_commit_and_the_end_poisons_the_log() {
    let medium = medium();
    let id = LogId {
        inode: ROOT,
        generation: 1,
    };
    for commits in [false, true] {
        let log = Log::empty(id);
        for _ in 0..2 {
            let mut reservation = reserve(&log, &medium).unwrap();
            reservation.commit(&medium, &[0; SLOT_BYTES], Flushed::nothing());
            reservation.end(PageUse::default());
        }
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let mut reservation = reserve(&log, &medium).unwrap();
            if commits {
                reservation.commit(&medium, &[0; SLOT_BYTES], Flushed::nothing());
            }
            panic!("after the commit, before index and size are updated");
        }));
        assert!(unwound.is_err());
        let after = reserve(&log, &medium).map(|it| it.end(PageUse::default()));
        assert_eq!(after, Err(Error::Poisoned { inode: ROOT }));
    }
}

/// Creates a full volume and a log whose only page has one slot left.
fn nearly_full() -> (Medium<MappedFile>, Log) {
    let medium = medium();
    let log = Log::empty(LogId {
        inode: ROOT,
        generation: 1,
    });
    for _ in 1..PAGE_SLOTS {
        reserve(&log, &medium).unwrap().end(PageUse::default());
    }
    while medium.space.alloc.take(0, 1, Class::Growth).is_ok() {}
    (medium, log)
}

/// Lets a thread clean the log while another one has added too much to the tail, and has not
/// skipped the slot that was left. The cleaning waits for that slot.
#[test]
fn a_cleaning_that_waits_for_a_skipped_slot_goes_on() {
    let shared = Arc::new(nearly_full());
    let (medium, log) = &*shared;
    let page = log.lock().pages[0];
    // What `try_take` does if another thread has taken room between its check and its addition.
    log.one().0.fetch_add(2, Ordering::Relaxed);
    let before = medium.space.log_pages.state(page);

    let (sender, cleaned) = mpsc::channel();
    let cleaning = Arc::clone(&shared);
    std::thread::spawn(move || {
        let (medium, log) = &*cleaning;
        reserve(log, medium).unwrap().end(PageUse::default());
        sender.send(()).unwrap();
    });
    while medium.space.log_pages.state(page) == before {
        std::thread::yield_now();
    }
    medium.space.log_pages.skip(page, 1);
    reserve(log, medium).unwrap().end(PageUse::default());
    assert_eq!(cleaned.recv_timeout(Duration::from_secs(20)), Ok(()));
    let (_, compactions, _) = medium.space.log_numbers();
    assert_eq!(compactions, 1, "each thread used the room of one cleaning");
}

#[test]
fn an_addition_to_a_poisoned_tail_skips_its_slots() {
    let (medium, log) = nearly_full();
    let page = log.lock().pages[0];
    let before = Tail(log.one().0.fetch_add(1, Ordering::Relaxed));
    log.poison();
    let poisoned = Tail(before.0 | Tail::POISON);
    log.one().skip_added(&medium.space, poisoned, 1);
    assert!(medium.space.log_pages.state(page).is_settled());
}

#[test]
fn refused_additions_do_not_move_the_tail() {
    let (medium, log) = nearly_full();
    reserve(&log, &medium).unwrap().end(PageUse::default());
    for poisons in [false, true] {
        if poisons {
            log.poison();
        }
        let before = log.one().0.load(Ordering::Relaxed);
        for count in [1, 2, PAGE_SLOTS] {
            assert!(log.try_take(&medium.space, count, Order::Last).is_none());
        }
        assert_eq!(log.one().0.load(Ordering::Relaxed), before);
    }
}

#[test]
fn a_log_gets_lanes_if_operations_are_under_way_when_its_pages_become_full() {
    for is_crowded in [false, true] {
        let medium = medium();
        let id = LogId {
            inode: ROOT,
            generation: 1,
        };
        let log = Log::empty(id);
        let mut under_way = Vec::new();
        for nth in 0..2 * PAGE_SLOTS + 1 {
            assert!(!log.has_lanes());
            let reservation = reserve(&log, &medium).unwrap();
            if is_crowded && nth % PAGE_SLOTS == 0 {
                under_way.push(reservation);
            } else {
                reservation.end(PageUse::default());
            }
        }
        assert_eq!(log.has_lanes(), is_crowded);
        under_way.into_iter().for_each(Reservation::cancel);
    }
}

#[test]
fn a_poisoned_log_refuses_additions_to_its_lanes() {
    let medium = medium();
    let id = LogId {
        inode: ROOT,
        generation: 1,
    };
    for poisons_before in [false, true] {
        let log = Log::empty(id);
        let own = spanlock_sync::thread::index();
        if poisons_before {
            log.poison();
        }
        log.give_lanes(&medium, &[own, own + 1]).unwrap();
        if !poisons_before {
            log.poison();
        }
        for order in [Order::Last, Order::After(Rank::LOWEST)] {
            assert!(log.try_take(&medium.space, 1, order).is_none());
            let refused = log.reserve(&medium, 1, order, Class::Growth, &Nothing);
            let refused = refused.map(|it| it.end(PageUse::default()));
            assert_eq!(refused, Err(Error::Poisoned { inode: ROOT }));
        }
    }
}

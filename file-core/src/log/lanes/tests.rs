//! Which pages operations append to.

use super::*;
use crate::FormatOptions;
use crate::medium::layout::PAGE_SLOTS;
use crate::medium::log_page::PageState;
use crate::volume::format;

/// Returns the states of pages, and the first of these pages.
fn space() -> (Space, u32) {
    let geometry = format::plan(64 << 12, &FormatOptions::new()).unwrap();
    (Space::new(&geometry), geometry.data_start())
}

/// Gives the lane of a thread a page of this rank.
fn give(lanes: &Lanes, space: &Space, thread: usize, rank: Rank, page: u32) {
    let state = PageState::recovered(PAGE_SLOTS, 0, false);
    space.log_pages.start(page, 0, rank, state);
    lanes.enter(space, thread, rank, page, 0);
}

/// Creates lanes. The calling thread has `first`, and another one has the next page.
fn two(space: &Space, first: u32) -> Lanes {
    let lanes = Lanes::new();
    let own = thread::index();
    give(&lanes, space, own, lanes.next_rank(0), first);
    give(&lanes, space, own + 1, lanes.next_rank(0), first + 1);
    lanes
}

fn taken(lanes: &Lanes, space: &Space, order: Order) -> Option<u32> {
    lanes.try_take(space, 1, order).map(|slots| slots.page)
}

#[test]
fn a_group_that_would_come_too_early_goes_to_the_newest_page() {
    let (space, first) = space();
    let lanes = two(&space, first);
    let page = |order| taken(&lanes, &space, order);
    let [own, newest] = [first, first + 1].map(|it| space.log_pages.rank(it));
    assert!(own < newest);
    assert_eq!(page(Order::After(Rank::LOWEST)), Some(first));
    assert_eq!(page(Order::After(own)), Some(first));
    assert_eq!(page(Order::After(newest)), Some(first + 1));
    assert_eq!(page(Order::Last), Some(first + 1));
    lanes.raise_barrier(&space, first + 1);
    assert_eq!(page(Order::After(Rank::LOWEST)), Some(first + 1));
}

#[test]
fn a_full_lane_needs_a_page_unless_the_group_comes_last() {
    let (space, first) = space();
    let lanes = two(&space, first);
    let all = lanes.try_take(&space, PAGE_SLOTS, Order::After(Rank::LOWEST));
    assert_eq!(all.map(|slots| slots.page), Some(first));
    assert_eq!(taken(&lanes, &space, Order::After(Rank::LOWEST)), None);
    assert_eq!(taken(&lanes, &space, Order::Last), Some(first + 1));
}

/// Another thread may move a lane between a look at it and the addition.
#[test]
fn a_page_that_comes_too_early_is_refused_after_the_addition() {
    let (space, first) = space();
    let lanes = two(&space, first);
    let own = &lanes.ends[lane_of(thread::index())].0;
    let least = space.log_pages.rank(first + 1);
    for _ in 0..2 {
        let refused = own.take(&space, own.tail(), PAGE_SLOTS / 2, least);
        assert!(refused.is_none());
    }
    let state = space.log_pages.state(first);
    assert_eq!(state.open(), 1, "each addition skips its slots");
}

#[test]
fn lanes_that_are_far_behind_are_closed() {
    let (space, first) = space();
    let lanes = two(&space, first);
    assert_eq!(lanes.close_old(&space, false), 1);
    let Rank(newest) = lanes.newest().rank();
    let far = Rank(newest + STALE);
    give(&lanes, &space, thread::index() + 2, far, first + 2);
    assert_eq!(lanes.close_old(&space, false), 1, "not the second lane");
    assert!(space.log_pages.state(first).is_settled());
    assert!(!space.log_pages.state(first + 1).is_settled());
    assert_eq!(lanes.close_old(&space, true), 0);
    assert!(space.log_pages.state(first + 1).is_settled());
    assert!(lanes.has_room(PAGE_SLOTS), "the newest page stays");
    lanes.close(&space);
    assert!(!lanes.has_room(1));
}

#[test]
fn one_lane_gets_all_pages_when_the_ranks_are_used_up() {
    let (space, first) = space();
    let lanes = two(&space, first);
    let last = Newest::new(Rank(u32::MAX - 2), lane_of(thread::index()));
    lanes.newest.0.store(last.0, Ordering::Relaxed);
    lanes.close(&space);
    assert_eq!(
        [0, 1, 2].map(|nth| lanes.next_rank(nth).0),
        [u32::MAX - 1, u32::MAX, u32::MAX]
    );
    for page in [first + 2, first + 3] {
        for thread in [3, 4] {
            give(&lanes, &space, thread, lanes.next_rank(1), page);
            for order in [
                Order::Last,
                Order::After(Rank::HIGHEST),
                Order::After(Rank::LOWEST),
            ] {
                assert_eq!(taken(&lanes, &space, order), Some(page));
            }
        }
    }
}

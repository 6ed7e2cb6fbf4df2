use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use proptest::prelude::*;

use super::*;
use crate::object::index::node::Inner;

fn at(page: u32) -> Mapping {
    Mapping {
        page,
        checksum: !page,
    }
}

/// Each thread of these tests accesses only pages that it has to itself.
fn get(index: &Index, page: u32) -> Option<Mapping> {
    // SAFETY: see above.
    unsafe { index.get(page) }
}

fn replace(index: &Index, page: u32, to: Mapping, log_page: u32) -> Option<(Mapping, u32)> {
    // SAFETY: as in `get`.
    unsafe { index.replace(page, to, log_page) }
}

/// Maps `pages` to consecutive data pages from `to` on. Returns the mappings that this replaced.
fn replace_run(index: &Index, pages: Range<u64>, to: u32, log_page: u32) -> Vec<(Mapping, u32)> {
    let mut replaced = Vec::new();
    let mut to = to..;
    let next = || at(to.next().expect("there is no last one"));
    // SAFETY: as in `get`.
    unsafe { index.replace_run(pages, next, log_page, |it, from| replaced.push((it, from))) };
    replaced
}

/// Removes pages, and returns what was reported.
fn remove(index: &Index, first: u64, end: u64) -> Vec<(u32, Mapping, u32)> {
    let mut removed = Vec::new();
    // SAFETY: as in `get`.
    unsafe {
        index.remove(first, end, &mut |page, it, log_page| {
            removed.push((page, it, log_page))
        })
    };
    removed
}

fn walked(index: &Index) -> Vec<(u32, Mapping, u32)> {
    let mut walked = Vec::new();
    index.for_each(&mut |page, it, log_page| walked.push((page, it, log_page)));
    walked
}

/// Counts the nodes that are linked.
fn nodes(index: &Index) -> usize {
    fn below(node: *mut Node) -> usize {
        if node.is_null() {
            return 0;
        }
        // SAFETY: no other thread has the index.
        match unsafe { &(*node).body } {
            Body::Leaf(_) => 1,
            Body::Inner(Inner(slots)) => {
                1 + slots
                    .iter()
                    .map(|it| below(it.load(Relaxed)))
                    .sum::<usize>()
            }
        }
    }
    below(index.root().node())
}

#[test]
fn the_root_level_follows_from_the_largest_page() {
    for (page, level) in [
        (0, 0),
        (63, 0),
        (64, 1),
        (4095, 1),
        (4096, 2),
        (1 << 30, 5),
        (u32::MAX, 5),
    ] {
        assert_eq!(level_for(page), level, "{page}");
    }
}

#[test]
fn mappings_are_found_and_replaced() {
    let index = Index::new();
    assert_eq!(get(&index, 0), None);
    let pages = [5, 0, 63, 64, 4095, 4096, 70_000, u32::MAX, 1 << 24];
    for (i, &page) in pages.iter().enumerate() {
        assert_eq!(replace(&index, page, at(i as u32 + 1), 7), None);
        for (j, &other) in pages.iter().enumerate() {
            let wanted = (j <= i).then(|| at(j as u32 + 1));
            assert_eq!(get(&index, other), wanted, "{other} after {page}");
        }
    }
    assert_eq!(replace(&index, 64, at(99), 8), Some((at(4), 7)));
    assert_eq!(index.relocate(64, |page| page == 7, 9), None);
    assert_eq!(index.relocate(63, |page| page == 7, 9), Some(7));
    assert_eq!(replace(&index, 63, at(3), 8), Some((at(3), 9)));
    let mut sorted = pages;
    sorted.sort_unstable();
    let walked: Vec<_> = walked(&index).into_iter().map(|it| it.0).collect();
    assert_eq!(walked, sorted);
}

#[test]
fn several_threads_grow_one_tree() {
    let index = Index::new();
    std::thread::scope(|scope| {
        for t in 0..4_u32 {
            let index = &index;
            scope.spawn(move || {
                for i in 0..2000_u32 {
                    let page = (i * 4 + t).wrapping_mul(2_654_435_761) >> (i % 27);
                    // Pages of different threads could coincide, so each thread gets its own
                    // residue.
                    let page = (page & !3) | t;
                    replace(index, page, at(page | 1), 1);
                    assert_eq!(get(index, page), Some(at(page | 1)));
                }
            });
        }
    });
}

#[test]
fn a_removal_frees_the_nodes_that_it_empties() {
    let index = Index::new();
    for page in [0, 63, 64, 127, 128, 4096] {
        replace(&index, page, at(page + 1), 7);
    }
    // The root, two inner nodes and four leaves.
    assert_eq!(nodes(&index), 7);
    let removed = remove(&index, 63, 128);
    assert_eq!(removed, [63, 64, 127].map(|page| (page, at(page + 1), 7)));
    assert_eq!(nodes(&index), 6, "the leaf of 64..128 is gone");
    assert_eq!(get(&index, 64), None);
    assert_eq!(get(&index, 0), Some(at(1)));
    assert_eq!(remove(&index, 64, 128), []);
    assert_eq!(remove(&index, 64, 64), []);
    assert_eq!(remove(&index, 0, 1 << 32).len(), 3);
    assert_eq!(nodes(&index), 1, "the root stays");
    assert_eq!(replace(&index, 64, at(9), 8), None);
    assert_eq!(walked(&index), [(64, at(9), 8)]);
}

#[test]
fn the_last_page_can_be_removed() {
    let index = Index::new();
    replace(&index, u32::MAX, at(1), 7);
    replace(&index, 0, at(2), 7);
    let removed = remove(&index, u32::MAX.into(), 1 << 32);
    assert_eq!(removed, [(u32::MAX, at(1), 7)]);
    assert_eq!(remove(&index, 1, u64::MAX), []);
    assert_eq!(walked(&index), [(0, at(2), 7)]);
}

#[test]
fn a_removed_page_cannot_be_relocated() {
    let index = Index::new();
    replace(&index, 64, at(1), 7);
    replace(&index, 130, at(2), 7);
    assert_eq!(index.relocate(130, |page| page == 7, 9), Some(7));
    // One leaf is unlinked, the other keeps a hole.
    assert_eq!(remove(&index, 64, 131), [(64, at(1), 7), (130, at(2), 9)]);
    for page in [64, 130] {
        assert_eq!(index.relocate(page, |page| page == 7 || page == 9, 8), None);
    }
}

#[test]
fn a_panic_leaves_the_pages_behind_it_mapped() {
    let index = Index::new();
    for page in [1, 64, 128] {
        replace(&index, page, at(page), 7);
    }
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: as in `get`.
        unsafe {
            index.remove(0, 1 << 32, &mut |page, _, _| {
                assert!(page < 64, "as planned")
            })
        };
    }));
    assert!(panics.is_err());
    assert_eq!(walked(&index), [(128, at(128), 7)]);
    assert_eq!(remove(&index, 0, 1 << 32), [(128, at(128), 7)]);
    assert_eq!(nodes(&index), 1);
}

/// Pages near the borders of nodes, where the levels differ.
fn any_page() -> impl Strategy<Value = u32> {
    let near = |border: u32| (0..140_u32).prop_map(move |page| border.wrapping_add(page));
    prop_oneof![
        4 => near(0),
        2 => near(4096 - 70),
        1 => near((1 << 18) - 70),
        1 => near(u32::MAX - 139),
    ]
}

proptest! {
    /// The index and a map agree after every insert and every removal.
    #[test]
    fn the_index_is_a_map(steps in prop::collection::vec((any_page(), any_page(), 0..5), 1..60)) {
        let (index, mut map) = (Index::new(), BTreeMap::new());
        for (log_page, (one, other, kind)) in (1..).zip(steps) {
            let run = u64::from(one)..(u64::from(one) + 140).min(1 << 32);
            let is_mapped = (run.clone()).all(|page| map.contains_key(&(page as u32)));
            // SAFETY: no other thread has the index.
            prop_assert_eq!(unsafe { index.has_all(run.clone()) }, is_mapped);
            if kind == 4 {
                let each = (run.clone()).zip(1..);
                let taken: Vec<_> = each
                    .filter_map(|(page, to)| map.insert(page as u32, (at(to), log_page)))
                    .collect();
                prop_assert_eq!(replace_run(&index, run.clone(), 1, log_page), taken);
                // SAFETY: as above.
                prop_assert_eq!(unsafe { index.has_all(run) }, true);
            } else if kind > 0 {
                let mapping = at(log_page);
                prop_assert_eq!(
                    replace(&index, one, mapping, log_page),
                    map.insert(one, (mapping, log_page))
                );
            } else {
                let (first, last) = (one.min(other), one.max(other));
                let taken: Vec<_> = map.range(first..=last).map(|(&page, &it)| (page, it.0, it.1)).collect();
                map.retain(|page, _| !(first..=last).contains(page));
                prop_assert_eq!(remove(&index, u64::from(first), u64::from(last) + 1), taken);
                prop_assert_eq!(get(&index, one), None);
            }
            let mapped: Vec<_> = map.iter().map(|(&page, &it)| (page, it.0, it.1)).collect();
            prop_assert_eq!(walked(&index), mapped);
        }
        remove(&index, 0, 1 << 32);
        prop_assert!(nodes(&index) <= 1);
    }
}

/// Two threads fill and empty their own leaves below one parent, while two others walk and
/// relocate. The walkers see only what was mapped, and each log page is reported once.
#[test]
fn walkers_pass_nodes_that_are_freed() {
    const LOG_PAGE: u32 = 7;
    const MOVED: u32 = 9;
    let index = Index::new();
    let (done, moved, removed_moved) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    std::thread::scope(|scope| {
        let walkers = [0, 1].map(|walker| {
            let (index, done, moved) = (&index, &done, &moved);
            scope.spawn(move || {
                let mut rounds = 0_usize;
                while !done.load(Relaxed) || rounds == 0 {
                    index.for_each(&mut |page, mapping, _| assert_eq!(mapping, at(page + 1)));
                    for page in (0..512).step_by(3 + walker) {
                        let from = index.relocate(page, |it| it == LOG_PAGE, MOVED);
                        moved.fetch_add(from.is_some().into(), Relaxed);
                    }
                    rounds += 1;
                }
            })
        });
        let removers = [0, 1_u32].map(|side| {
            let (index, removed_moved) = (&index, &removed_moved);
            scope.spawn(move || {
                let first = side * 256;
                for round in 0..2_000_u32 {
                    let pages = (0..16).map(|i| first + (i * 37 + round) % 256);
                    for page in pages.clone() {
                        assert_eq!(replace(index, page, at(page + 1), LOG_PAGE), None);
                        assert_eq!(get(index, page), Some(at(page + 1)));
                    }
                    let removed = remove(index, u64::from(first), u64::from(first) + 256);
                    assert_eq!(removed.len(), 16);
                    let are_moved = removed.iter().filter(|it| it.2 == MOVED).count();
                    removed_moved.fetch_add(are_moved, Relaxed);
                    assert!(pages.clone().all(|page| get(index, page).is_none()));
                }
            })
        });
        removers
            .into_iter()
            .for_each(|it| it.join().expect("no panic"));
        done.store(true, Relaxed);
        walkers
            .into_iter()
            .for_each(|it| it.join().expect("no panic"));
    });
    assert_eq!(walked(&index), []);
    assert_eq!(moved.into_inner(), removed_moved.into_inner());
}

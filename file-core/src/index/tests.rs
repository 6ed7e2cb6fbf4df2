use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use proptest::prelude::*;

use super::*;

fn get(index: &Index, page: u32) -> Option<Mapping> {
    // SAFETY: no other thread uses the page.
    unsafe { index.get(page) }
}

fn replace(index: &Index, page: u32, mapping: Mapping, log_page: u32) -> Option<(Mapping, u32)> {
    // SAFETY: no other thread uses the page.
    unsafe { index.replace(page, mapping, log_page) }
}

/// Removes pages, and returns those that were mapped, with their log pages.
fn remove(index: &Index, first: u64, end: u64) -> Vec<(u32, Mapping, u32)> {
    let mut removed = Vec::new();
    // SAFETY: no other thread uses the pages.
    unsafe {
        index.remove(first, end, &mut |page, it, log| {
            removed.push((page, it, log))
        })
    };
    removed
}

fn at(page: u32) -> Mapping {
    Mapping {
        page,
        checksum: !page,
    }
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
    let mut walked = Vec::new();
    index.for_each(&mut |page, _, _| walked.push(page));
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
fn a_removal_reports_its_pages_and_no_others() {
    let index = Index::new();
    assert_eq!(remove(&index, 0, u64::MAX), []);
    let pages = [0, 63, 64, 4095, 4096, 1 << 24, u32::MAX];
    for page in pages {
        replace(&index, page, at(page | 1), 3);
    }
    assert_eq!(remove(&index, 1, 63), []);
    assert_eq!(remove(&index, 63, 65).len(), 2);
    assert_eq!(remove(&index, 1 << 32, u64::MAX), []);
    let rest = [4095, 4096, 1 << 24, u32::MAX];
    let removed: Vec<u32> = remove(&index, 1, u64::MAX).iter().map(|it| it.0).collect();
    assert_eq!(removed, rest);
    assert_eq!(get(&index, 0), Some(at(1)));
    assert_eq!(index.relocate(4096, |_| true, 4), None);
    replace(&index, 4096, at(9), 5);
    assert_eq!(
        remove(&index, 0, 1 << 32),
        [(0, at(1), 3), (4096, at(9), 5)]
    );
}

proptest! {
    #[test]
    fn an_index_is_a_map(
        steps in prop::collection::vec((0..3_u8, 0..30_000_u32, 1..9000_u64), 1..200),
    ) {
        let (index, mut map) = (Index::new(), BTreeMap::new());
        for (nth, (what, page, len)) in steps.into_iter().enumerate() {
            if what < 2 {
                let (page, log) = (page / (1 + what as u32 * 300), nth as u32 + 1);
                let before = map.insert(page, (at(log), log));
                prop_assert_eq!(replace(&index, page, at(log), log), before);
                continue;
            }
            let (first, end) = (u64::from(page), u64::from(page) + len);
            let gone: Vec<_> = (map.range(page..end as u32))
                .map(|(page, (mapping, log))| (*page, *mapping, *log))
                .collect();
            map.retain(|page, _| !(first..end).contains(&u64::from(*page)));
            prop_assert_eq!(remove(&index, first, end), gone);
        }
        let mut walked = Vec::new();
        index.for_each(&mut |page, mapping, log| walked.push((page, (mapping, log))));
        prop_assert_eq!(walked, map.into_iter().collect::<Vec<_>>());
    }
}

/// Threads remove and add nodes, while others walk.
#[test]
fn walkers_see_only_nodes_that_are_allocated() {
    let (index, is_over) = (Index::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    index.for_each(&mut |page, mapping, log| {
                        assert_eq!((mapping, log / 2), (at(page | 1), 4));
                        index.relocate(page, |log| log == 8, 9);
                    });
                }
            });
        }
        let removers: Vec<_> = (0..2_u32)
            .map(|thread| {
                let index = &index;
                scope.spawn(move || {
                    let first = thread << 14;
                    for _ in 0..300 {
                        let pages = first..first + (1 << 14);
                        for page in pages.clone().step_by(61) {
                            replace(index, page, at(page | 1), 8);
                        }
                        let removed = remove(index, pages.start.into(), pages.end.into());
                        assert_eq!(removed.len(), pages.step_by(61).count());
                    }
                })
            })
            .collect();
        removers.into_iter().for_each(|it| it.join().unwrap());
        is_over.store(true, Relaxed);
    });
}

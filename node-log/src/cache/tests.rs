//! Tests of the node cache.

use std::cell::Cell;
use std::sync::Mutex;
use std::thread;

use super::*;

const WAYS: [Lookup; 3] = [Lookup::Exclusive, Lookup::Shared, Lookup::Optimistic];

fn about(nid: Nid) -> About {
    About {
        nid,
        inode: 1,
        place: (1 << 30) | (nid * 3),
    }
}

type Loaded = Result<(About, Vec<u32>), Error>;

fn stored(nid: Nid, slots: &[u32]) -> impl Fn() -> Loaded {
    move || Ok((about(nid), slots.to_vec()))
}

fn missing() -> Loaded {
    panic!("the node is cached")
}

#[test]
fn a_node_is_loaded_once_and_its_slots_are_read_in_each_way() {
    for way in WAYS {
        let cache = Cache::new(10, way, 4);
        let loads = Cell::new(0);
        let load = || {
            loads.set(loads.get() + 1);
            Ok((about(3), vec![7, 0, 9]))
        };
        assert_eq!(cache.get(3, 2, load).unwrap(), 9);
        assert_eq!(cache.get(3, 0, load).unwrap(), 7);
        assert_eq!(cache.get(3, NODE_SLOTS - 1, load).unwrap(), 0);
        assert_eq!(cache.about(3, load).unwrap(), about(3));
        assert_eq!(loads.get(), 1);
    }
}

#[test]
fn a_load_that_fails_caches_nothing_and_an_id_beyond_the_table_is_an_error() {
    let cache = Cache::new(4, Lookup::Optimistic, 4);
    let fails = || Err(Error::NotAVolume { half: "node half" });
    assert!(cache.get(3, 0, fails).is_err());
    assert_eq!(cache.get(3, 0, stored(3, &[5])).unwrap(), 5);
    let error = cache.get(4, 0, missing).unwrap_err();
    assert!(matches!(error, Error::Corrupt { at: 4, .. }), "{error}");
}

/// What a set replaces is free at once if no image names it, and otherwise after the next capture.
#[test]
fn a_replaced_block_is_freed_when_no_image_names_it() {
    for way in WAYS {
        let cache = Cache::new(10, way, 4);
        let load = stored(2, &[10, 11]);
        let set = |slot, value| {
            let mut was_clean = false;
            let it = cache
                .set(2, slot, value, &load, |_| was_clean = true)
                .unwrap();
            (it.old, it.is_fresh, was_clean)
        };
        assert_eq!(set(0, 20), (10, false, true));
        assert_eq!(set(0, 30), (20, true, false));
        assert_eq!(set(5, 31), (0, false, false));
        assert_eq!(set(5, 0), (31, true, false));
        assert_eq!(set(5, 32), (0, false, false));
        assert_eq!(set(1, 0), (11, false, false));
        let captured = cache.capture(2);
        assert_eq!(captured.slots, [30, 0, 0, 0, 0, 32]);
        assert_eq!(captured.replaced, [10, 11]);
        // The image names 30 now.
        assert_eq!(set(0, 40), (30, false, true));
        assert_eq!(set(5, 0), (32, false, false));
        let captured = cache.capture(2);
        assert_eq!(
            (captured.slots, captured.replaced),
            (vec![40], vec![30, 32])
        );
    }
}

#[test]
fn nodes_that_are_clean_and_settled_are_evicted_one_for_one() {
    let cache = Cache::new(100, Lookup::Optimistic, 3);
    cache.add(about(1));
    assert_eq!(cache.set(2, 0, 5, stored(2, &[]), |_| ()).unwrap().old, 0);
    for nid in 3..50 {
        assert_eq!(cache.get(nid, 0, stored(nid, &[nid])).unwrap(), nid);
    }
    let is_cached = |nid| !cache.linked(nid).is_null();
    assert!(is_cached(1) && is_cached(2), "dirty nodes stay");
    assert_eq!((3..50).filter(|&it| is_cached(it)).count(), 1);
    assert_eq!(cache.capture(1).slots, [0; 0]);
    assert_eq!(cache.capture(2).slots, [5]);
    for nid in 3..50 {
        cache.get(nid, 0, stored(nid, &[nid])).unwrap();
    }
    assert!(is_cached(1) && is_cached(2), "their images are not stored");
    cache.settle(1);
    cache.settle(2);
    for nid in 3..50 {
        cache.get(nid, 0, stored(nid, &[nid])).unwrap();
    }
    assert!(!is_cached(1) && !is_cached(2));
    assert_eq!((3..50).filter(|&it| is_cached(it)).count(), 3);
    assert_eq!(cache.get(2, 0, stored(2, &[5])).unwrap(), 5);
}

#[test]
fn a_ring_that_dirty_nodes_have_filled_shrinks_again() {
    let cache = Cache::new(200, Lookup::Optimistic, 4);
    for nid in 0..100 {
        cache.add(about(nid));
    }
    assert_eq!(cache.ring.lock().nids.len(), 100);
    for nid in 0..100 {
        let _ = cache.capture(nid);
        cache.settle(nid);
    }
    for nid in 100..200 {
        cache.get(nid, 0, stored(nid, &[])).unwrap();
    }
    assert_eq!(cache.ring.lock().nids.len(), 4);
    assert_eq!(
        (0..200).filter(|&it| !cache.linked(it).is_null()).count(),
        4
    );
}

#[test]
fn a_removed_node_gives_up_what_it_kept_and_its_id_can_be_used_again() {
    let cache = Cache::new(10, Lookup::Shared, 4);
    cache.set(2, 0, 20, stored(2, &[10]), |_| ()).unwrap();
    assert_eq!(cache.remove(2), [10]);
    assert_eq!(cache.remove(2), [0; 0]);
    // A thread that still knows the id loads what the home has.
    assert_eq!(cache.get(2, 0, stored(2, &[10])).unwrap(), 10);
    cache.add(about(2));
    assert_eq!(cache.get(2, 0, missing).unwrap(), 0);
    let dirtied = |_| panic!("it was dirty");
    cache.set(2, 0, 1, missing, dirtied).unwrap();
    assert_eq!(cache.capture(2).slots, [1]);
}

/// Four threads add to slots of their own, in more nodes than may be cached, and commit. Each
/// always finds what it has set.
#[test]
fn threads_share_nodes_that_come_and_go() {
    const NODES: u32 = 12;
    for way in WAYS {
        let cache = Cache::with_slots(NODES, way, 3, 8);
        let home: Vec<_> = (0..NODES).map(|_| Mutex::new(Vec::new())).collect();
        let committing: Vec<_> = (0..NODES).map(|_| Mutex::new(())).collect();
        let load = |nid: Nid| (about(nid), home[nid as usize].lock().unwrap().clone());
        let work = |thread: usize| {
            let mut random = fastrand::Rng::with_seed(thread as u64);
            let mut mine = [0; NODES as usize];
            for round in 1..4000 {
                let nid = random.u32(..NODES);
                let found = cache.get(nid, thread, || Ok(load(nid))).unwrap();
                assert_eq!(found, mine[nid as usize], "{way:?}");
                if random.bool() {
                    let set = cache.set(nid, thread, round, || Ok(load(nid)), |_| ());
                    assert_eq!(set.unwrap().old, mine[nid as usize]);
                    mine[nid as usize] = round;
                }
                // Only while this thread's slot is set in memory alone is the node surely cached.
                let is_dirty = || {
                    let dirty = |entry: &Entry| Some(entry.changes.0.lock().is_dirty);
                    cache.look(nid, dirty) == Some(true)
                };
                let _one = committing[nid as usize].lock().unwrap();
                if is_dirty() {
                    *home[nid as usize].lock().unwrap() = cache.capture(nid).slots;
                    cache.settle(nid);
                }
            }
        };
        thread::scope(|scope| {
            for thread in 0..4 {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
    }
}

/// An id that is used again and again takes one place among those that may be evicted.
#[test]
fn the_ring_has_an_id_once() {
    let cache = Cache::new(10, Lookup::Optimistic, 2);
    for _ in 0..100 {
        for nid in [1, 2, 3] {
            cache.add(about(nid));
        }
        for nid in [1, 2, 3] {
            cache.remove(nid);
        }
    }
    assert!(cache.ring.lock().nids.len() <= 3);
}

//! RCU without std, where all threads share two counters: no memory is freed while a reader may
//! reference it. Covers the orderings F to I of `rcu_shared.rs`.
//!
//! For loom only: shuttle's exhaustive search never ends where a thread waits in a loop.

#![cfg(any(spanlock_explorer, spanlock_loom))]

use crate::model::Model;
use spanlock_sync::atomic::{AtomicBool, Ordering::*};
use spanlock_sync::rcu_shared::Rcu;
use spanlock_sync::{Arc, cell::UnsafeCell, thread};

struct Scene {
    rcu: Rcu,
    linked: AtomicBool,
    /// Read while the memory is linked; written by the thread that has unlinked it.
    memory: UnsafeCell<u32>,
}

// SAFETY: the models check that no access to `memory` races with another.
unsafe impl Sync for Scene {}
// SAFETY: as above.
unsafe impl Send for Scene {}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Scene {
            rcu: Rcu::new(),
            linked: AtomicBool::new(true),
            memory: UnsafeCell::new(1),
        })
    }

    fn walk(&self) {
        let guard = self.rcu.enter();
        // Relaxed: the memory was linked before the threads began.
        if self.linked.load(Relaxed) {
            // SAFETY: the memory is not freed while the critical section lasts.
            self.memory.with(|memory| assert_eq!(unsafe { *memory }, 1));
        }
        drop(guard);
    }

    fn free(&self) {
        self.linked.store(false, Relaxed);
        assert!(self.rcu.synchronize());
        // SAFETY: every critical section that found the memory has ended.
        self.memory.with_mut(|memory| unsafe { *memory = 0 });
    }
}

/// Two walks while the memory is freed.
fn a_walk() {
    let scene = Scene::new();
    let other = scene.clone();
    let walker = thread::spawn(move || {
        other.walk();
        other.walk();
    });
    scene.free();
    walker.join().unwrap();
}

/// Another `synchronize` may change the phase after a reader has loaded the phase and before the
/// reader raises a counter.
fn a_walk_between_two_synchronizes() {
    let scene = Scene::new();
    let other = scene.clone();
    let walker = thread::spawn(move || other.walk());
    assert!(scene.rcu.synchronize());
    scene.free();
    walker.join().unwrap();
}

const FILE: &str = "sync/src/rcu_shared.rs";

#[test]
fn no_memory_is_freed_under_a_reader() {
    let model = Model::new(
        "rcu_shared::no_memory_is_freed_under_a_reader",
        FILE,
        a_walk,
    );
    let sites = model.must_pass("").sites;
    // Each ordering is needed, and so is each barrier.
    let mut needed = 0;
    for (site, _) in sites.iter().filter(|(_, ordering)| ordering != "Relaxed") {
        let to = if site.ends_with("fence") {
            "drop"
        } else {
            "Relaxed"
        };
        model.must_fail(&format!("weaken:{site}={to}"));
        needed += 1;
    }
    assert_eq!(needed, 4, "F, G, H and I: {sites:?}");
    model.must_fail(&format!("weaken:{}=drop", site_of(&sites, "fence")));
}

fn site_of<'a>(sites: &'a [(String, String)], op: &str) -> &'a str {
    let found = sites.iter().find(|(site, _)| site.ends_with(op));
    &found.expect("reached").0
}

#[test]
fn the_phase_may_change_under_a_reader() {
    let model = Model::new(
        "rcu_shared::the_phase_may_change_under_a_reader",
        FILE,
        a_walk_between_two_synchronizes,
    );
    model.must_pass("");
}

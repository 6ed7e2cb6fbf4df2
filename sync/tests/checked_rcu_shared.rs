//! Rcu without std, which all threads count in two counters: nothing is freed under a walk. Orderings: F to I of `rcu_shared.rs`.
//! Loom alone: shuttle's exhaustive search never ends where a thread waits in a loop.

#![cfg(spanlock_loom)]

mod checked;

use checked::Model;
use spanlock_sync::atomic::{AtomicBool, Ordering::*};
use spanlock_sync::rcu_shared::Rcu;
use spanlock_sync::{Arc, cell::UnsafeCell, thread};

struct Scene {
    rcu: Rcu,
    linked: AtomicBool,
    /// Walked over while it is linked; written by who has taken it away.
    memory: UnsafeCell<u32>,
}

// SAFETY: whether `memory` is touched by one at a time is what the models find out.
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
        let section = self.rcu.enter();
        // Relaxed: what was linked before the threads began.
        if self.linked.load(Relaxed) {
            // SAFETY: it is not freed while the section lasts.
            self.memory.with(|memory| assert_eq!(unsafe { *memory }, 1));
        }
        drop(section);
    }

    fn take_away(&self) {
        self.linked.store(false, Relaxed);
        self.rcu.synchronize();
        // SAFETY: all sections have ended that saw it.
        self.memory.with_mut(|memory| unsafe { *memory = 0 });
    }
}

/// Two walks while the memory is taken away.
fn a_walk() {
    let scene = Scene::new();
    let other = scene.clone();
    let walker = thread::spawn(move || {
        other.walk();
        other.walk();
    });
    scene.take_away();
    walker.join().unwrap();
}

/// The phase changes between a walker's look at it and its count: by a wait that is not its own concern.
fn a_walk_between_two_waits() {
    let scene = Scene::new();
    let other = scene.clone();
    let walker = thread::spawn(move || other.walk());
    scene.rcu.synchronize();
    scene.take_away();
    walker.join().unwrap();
}

const FILE: &str = "sync/src/rcu_shared.rs";

#[test]
fn nothing_is_freed_under_a_walk() {
    let model = Model::new("nothing_is_freed_under_a_walk", FILE, a_walk);
    let sites = model.must_pass("").sites;
    model.must_pass("rmw-load");
    // Each ordering is needed, and each barrier.
    let mut needed = 0;
    for (site, _) in sites.iter().filter(|(_, ordering)| ordering != "Relaxed") {
        let to = if site.ends_with("fence") {
            "drop"
        } else {
            "Relaxed"
        };
        let weakened = ["", "rmw-load "].map(|mode| format!("{mode}weaken:{site}={to}"));
        let passed = weakened.iter().all(|settings| model.run(settings).passed);
        assert!(!passed, "{site} is not needed");
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
fn the_phase_may_change_under_a_walk() {
    let model = Model::new(
        "the_phase_may_change_under_a_walk",
        FILE,
        a_walk_between_two_waits,
    );
    model.must_pass("");
    model.must_pass("rmw-load");
}

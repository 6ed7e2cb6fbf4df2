//! The epochs that a checker explores: each of their orderings is needed. Covers the orderings of
//! `checked/epoch.rs`.

#![cfg(any(spanlock_explorer, spanlock_loom))]

use std::ptr;

use crate::model::Model;
use spanlock_sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use spanlock_sync::epoch::{self, Collector};
use spanlock_sync::{Arc, thread};

struct Scene {
    epochs: Collector,
    link: AtomicPtr<AtomicU32>,
}

impl Scene {
    fn new() -> Arc<Self> {
        let memory = epoch::owned(Box::new(AtomicU32::new(1)));
        Arc::new(Scene {
            epochs: Collector::new(),
            link: AtomicPtr::new(Box::into_raw(memory)),
        })
    }

    fn walk(&self) {
        let _pinned = self.epochs.pin();
        self.use_if_linked();
    }

    fn use_if_linked(&self) {
        // Relaxed: the memory was there before the threads began.
        let memory = self.link.load(Relaxed);
        // SAFETY: null, or found linked while pinned. (One model does it wrong on purpose, and the
        // checker keeps the memory until the next execution.)
        if let Some(memory) = unsafe { memory.as_ref() } {
            assert_eq!(memory.load(Relaxed), 1);
        }
    }

    fn free(&self) {
        let guard = self.epochs.pin();
        let memory = self.link.swap(ptr::null_mut(), Relaxed);
        // SAFETY: unlinked above, by the only thread that frees.
        unsafe { guard.defer_free(memory) };
    }
}

/// Frees memory beside another thread's work.
fn beside(work: fn(&Scene)) {
    let scene = Scene::new();
    let other = scene.clone();
    let worker = thread::spawn(move || work(&other));
    scene.free();
    worker.join().unwrap();
}

fn two_walks() {
    beside(|scene| {
        scene.walk();
        scene.walk();
    });
}

const FILE: &str = "sync/src/checked/epoch.rs";

#[test]
fn no_memory_is_freed_under_a_pinned_thread() {
    let model = Model::new(
        "epoch::no_memory_is_freed_under_a_pinned_thread",
        FILE,
        two_walks,
    );
    let sites = model.must_pass("").sites;
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
    assert_eq!(needed, 5, "F, G, H, I and R: {sites:?}");
}

#[test]
fn a_walk_without_a_pin_is_found() {
    let model = Model::new("epoch::a_walk_without_a_pin_is_found", FILE, || {
        beside(Scene::use_if_linked);
    });
    let outcome = model.must_fail("");
    let messages = ["freed", "Causality", "after it was dropped"];
    let is_found = messages.iter().any(|it| outcome.text.contains(it));
    assert!(is_found, "{}", outcome.text);
}

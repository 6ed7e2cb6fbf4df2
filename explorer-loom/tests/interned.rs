//! A small form of the test in salsa's pull request 845, which loom had not ended after 45 minutes:
//! two threads intern the same value in one table, and then in another.
//!
//! A thread looks the value up under a reader's lock. If it is not there, it takes the writer's
//! lock, looks again, and allocates a slot of the page. Both crates find the same outcomes.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize as Count;
use std::sync::{Arc as Real, Mutex as Found};

/// For each thread and table, which thread has allocated, and the durability that it has found.
type Outcomes = BTreeSet<[[[usize; 2]; 2]; 2]>;

macro_rules! interned {
    ($module:ident $loom:ident) => {
        mod $module {
            use super::*;
            use $loom::cell::UnsafeCell;
            use $loom::sync::atomic::{AtomicUsize, Ordering::*};
            use $loom::sync::{Arc, Mutex, RwLock};

            struct Table {
                /// The slot of the value.
                map: RwLock<Option<usize>>,
                allocated: AtomicUsize,
                allocation: Mutex<()>,
                page: [UnsafeCell<usize>; 1],
                durability: AtomicUsize,
            }

            // SAFETY: the models search for what breaks this.
            unsafe impl Sync for Table {}

            impl Table {
                fn new() -> Table {
                    Table {
                        map: RwLock::new(None),
                        allocated: AtomicUsize::new(0),
                        allocation: Mutex::new(()),
                        page: [UnsafeCell::new(0)],
                        durability: AtomicUsize::new(0),
                    }
                }

                /// Returns the value's slot, and its durability before.
                fn intern(&self, me: usize) -> [usize; 2] {
                    if let Some(slot) = *self.map.read().unwrap() {
                        return self.found(slot, me);
                    }
                    let mut map = self.map.write().unwrap();
                    if let Some(slot) = *map {
                        return self.found(slot, me);
                    }
                    let _allocation = self.allocation.lock().unwrap();
                    let slot = self.allocated.load(Acquire);
                    // SAFETY: the slot is not published yet.
                    self.page[slot].with_mut(|it| unsafe { *it = me });
                    self.allocated.store(slot + 1, Release);
                    *map = Some(slot);
                    [me, 0]
                }

                fn found(&self, slot: usize, me: usize) -> [usize; 2] {
                    assert!(slot < self.allocated.load(Acquire));
                    // SAFETY: a slot below `allocated` is only read.
                    let owner = self.page[slot].with(|it| unsafe { *it });
                    [owner, self.durability.fetch_max(me, AcqRel)]
                }
            }

            /// Returns the outcomes, and how often the program was run.
            pub(super) fn explore() -> (Outcomes, usize) {
                let found = Real::new((Found::new(Outcomes::new()), Count::new(0)));
                let all = found.clone();
                $loom::model(move || {
                    all.1.fetch_add(1, Relaxed);
                    let tables = Arc::new([Table::new(), Table::new()]);
                    let threads = [1, 2].map(|me| {
                        let its = tables.clone();
                        $loom::thread::spawn(move || [its[0].intern(me), its[1].intern(me)])
                    });
                    let [one, two] = threads.map(|it| it.join().unwrap());
                    assert!(
                        (0..2).all(|it| one[it][0] == two[it][0]),
                        "both have the slot"
                    );
                    let _ = all.0.lock().unwrap().insert([one, two]);
                });
                let outcomes = found.0.lock().unwrap().clone();
                (outcomes, found.1.load(Relaxed))
            }
        }
    };
}

interned!(ours loom);
interned!(theirs loom_original);

#[test]
fn threads_intern_values() {
    let (ours, our_runs) = ours::explore();
    let (theirs, their_runs) = theirs::explore();
    println!("runs: {our_runs} of the explorer, {their_runs} of loom");
    assert_eq!(ours, theirs);
    assert!(our_runs < their_runs, "{our_runs} and {their_runs}");
}

//! No outcome is lost: whatever loom finds in small programs, the explorer finds, too.

use std::collections::BTreeSet;
use std::sync::{Arc as Real, Mutex};

type Found = Real<Mutex<BTreeSet<[usize; 4]>>>;

/// Declares programs under the names of both crates.
macro_rules! programs {
    ($($name:ident: $x:ident $y:ident { $($thread:block)* })*) => {
        programs!(@under ours loom $($name: $x $y { $($thread)* })*);
        programs!(@under theirs loom_original $($name: $x $y { $($thread)* })*);
        $(
            #[test]
            fn $name() {
                let (ours, theirs) = (ours::$name(), theirs::$name());
                let lost: Vec<_> = theirs.difference(&ours).collect();
                assert!(!theirs.is_empty() && lost.is_empty(), "{lost:?}");
            }
        )*
    };
    (@under $module:ident $loom:ident $($name:ident: $x:ident $y:ident { $($thread:block)* })*) => {
        mod $module {
            use super::*;
            use $loom::sync::Arc;
            #[allow(unused_imports)]
            use $loom::sync::atomic::{AtomicUsize, fence, Ordering::*};

            $(
                pub(super) fn $name() -> BTreeSet<[usize; 4]> {
                    let found = Found::default();
                    let all = found.clone();
                    let mut builder = $loom::model::Builder::new();
                    // Loom would take hours for three threads; the explorer knows no such bound.
                    builder.preemption_bound = Some(2);
                    builder.check(move || {
                        let ($x, $y) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
                        let mut threads = Vec::new();
                        $(
                            threads.push($loom::thread::spawn({
                                let ($x, $y) = ($x.clone(), $y.clone());
                                move || {
                                    let _both = (&$x, &$y);
                                    $thread
                                }
                            }));
                        )*
                        let mut outcome = [0; 4];
                        for (at, thread) in threads.into_iter().enumerate() {
                            outcome[at] = thread.join().unwrap();
                        }
                        outcome[3] = $x.load(Relaxed) * 10 + $y.load(Relaxed);
                        all.lock().unwrap().insert(outcome);
                    });
                    let found = found.lock().unwrap().clone();
                    found
                }
            )*
        }
    };
}

programs! {
    store_buffering: x y {
        { x.store(1, Relaxed); y.load(Relaxed) }
        { y.store(1, Relaxed); x.load(Relaxed) }
    }
    message_passing: x y {
        { x.store(1, Relaxed); y.store(1, Release); 0 }
        { y.load(Acquire) * 10 + x.load(Relaxed) }
    }
    message_passing_with_fences: x y {
        { x.store(1, Relaxed); fence(Release); y.store(1, Relaxed); 0 }
        { let flag = y.load(Relaxed); fence(Acquire); flag * 10 + x.load(Relaxed) }
    }
    // With a second writer, loom finds final values that coherence forbids.
    writes_and_reads_of_one_location: x y {
        { x.store(1, Relaxed); x.store(2, Relaxed); 0 }
        { x.load(Relaxed) * 10 + x.load(Relaxed) }
    }
    read_modify_writes: x y {
        { x.fetch_add(1, Relaxed) }
        { x.fetch_add(2, Relaxed) }
        { x.swap(5, Relaxed) }
    }
    compare_exchanges: x y {
        { x.compare_exchange(0, 1, AcqRel, Relaxed).is_ok() as usize }
        { x.compare_exchange(1, 2, AcqRel, Relaxed).is_ok() as usize }
        { x.compare_exchange(0, 3, AcqRel, Relaxed).unwrap_or_else(|it| it) }
    }
    a_release_sequence: x y {
        { y.store(1, Relaxed); x.store(1, Release); 0 }
        { x.fetch_add(1, Relaxed) }
        { x.load(Acquire) * 10 + y.load(Relaxed) }
    }
    causes_through_a_third_thread: x y {
        { x.store(1, Release); 0 }
        { let seen = x.load(Acquire); y.store(seen, Release); seen }
        { y.load(Acquire) * 10 + x.load(Relaxed) }
    }
    dekker_with_fences: x y {
        { x.store(1, Relaxed); fence(SeqCst); y.load(Relaxed) }
        { y.store(1, Relaxed); fence(SeqCst); x.load(Relaxed) }
    }
    clones_and_counts: x y {
        { let more = x.clone(); y.store(1, Relaxed); drop(more); 0 }
        { Arc::strong_count(&x) * 10 + y.load(Relaxed) }
    }
    counts_in_a_row: x y {
        { drop(x.clone()); 0 }
        { Arc::strong_count(&x) * 100 + Arc::strong_count(&x) }
    }
}

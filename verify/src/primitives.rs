//! The locks that are modelled. A new lock is one line here.

use std::sync::Arc;

use spanlock::words::MAX_PASSES;
use spanlock::{RwCounter, RwDistributed};
use spanlock_interval::IntervalLock;
use spanlock_srl::{Shape, SrlArray, SrlPacked, SrlTree};
use spanlock_testkit::{Driven, driven};

/// What a lock can do beyond taking and giving back. Named as the fields of [`Driven`].
#[allow(non_camel_case_types, missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    wait,
    downgrade,
    upgrade,
    upgrade_wait,
    split,
    batch,
    /// Gives memory back.
    reclaim,
}

/// A lock to model.
pub struct Primitive {
    /// Its name, as in the comparison: `srl-array`.
    pub name: &'static str,
    /// Whether disjoint ranges never block each other: a range lock with units of one position.
    pub granular: bool,
    /// Whether it changes words by weak compare-exchanges, and a waiter that was woken may have to sleep again. Neither is so if its
    /// state is under a mutex: then it can meet no fault but one, a sleep that ends by itself. (Nor is it asked of locks whose words are those of another
    /// row: the faults are met there.)
    pub words: bool,
    /// How many later arrivals may pass a waiter; `u32::MAX` if they are not counted as a whole.
    pub overtakes: u32,
    /// What it can do.
    pub powers: &'static [Power],
    /// A fresh lock that covers at least positions `0..4`.
    pub make: fn() -> Driven,
}

/// The name of a lock, what it is like, and, as for [`driven!`], how to make it and what it can do; and how it reclaims memory, if it does.
macro_rules! primitive {
    ($name:literal, granular: $granular:literal, words: $words:literal, overtakes: $overtakes:expr,
     $lock:expr; $($power:ident),* $(; $reclaims:ident: $reclaim:path)?) => {
        Primitive {
            name: $name,
            granular: $granular,
            words: $words,
            overtakes: $overtakes,
            powers: &[$(Power::$power,)* $(Power::$reclaims)?],
            make: || {
                let lock = Arc::new($lock);
                #[allow(unused_mut)]
                let mut driven = driven!(lock.clone(); $($power),*);
                $(driven.$reclaims = Some(Arc::new(move || $reclaim(&lock)));)?
                driven
            },
        }
    };
}

/// Every lock.
#[rustfmt::skip]
pub const PRIMITIVES: &[Primitive] = &[
    primitive!("rw-counter", granular: false, words: true, overtakes: MAX_PASSES,
        RwCounter::new(); wait, downgrade, upgrade, split, batch),
    // While a writer waits at one slot, readers at the other pass it as they like: they do not delay it.
    primitive!("rw-distributed", granular: false, words: true, overtakes: u32::MAX,
        RwDistributed::with_slots(2); wait, downgrade, upgrade, split, batch),
    primitive!("srl-array", granular: true, words: true, overtakes: MAX_PASSES,
        array(); wait, downgrade, upgrade, split, batch),
    primitive!("srl-packed", granular: true, words: true, overtakes: MAX_PASSES,
        SrlPacked::with_segment_size(4, 1).expect("1 is a power of two"); wait, downgrade, upgrade, split, batch),
    primitive!("srl-tree", granular: true, words: false, overtakes: MAX_PASSES,
        tree(); wait, downgrade, upgrade, split, batch; reclaim: SrlTree::shrink),
    // Two segments are a wide range already.
    primitive!("srl-gate", granular: true, words: false, overtakes: MAX_PASSES,
        array().wide_above(1); wait, downgrade, upgrade, split, batch),
    primitive!("interval-tree", granular: true, words: false, overtakes: 0,
        IntervalLock::new(); wait, downgrade, upgrade, upgrade_wait, split, batch),
];

fn array() -> SrlArray {
    SrlArray::with_segment_size(4, 1).expect("1 is a power of two")
}

/// Two leaves of two segments.
fn tree() -> SrlTree {
    let shape = Shape::new(1, &[1, 1]).expect("levels of one bit");
    SrlTree::with_shape(4, &shape).expect("covered")
}

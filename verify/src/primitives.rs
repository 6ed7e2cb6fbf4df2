//! The locks that are modelled. A new lock is one line here.

use std::sync::Arc;

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::rw_word::MAX_READERS;
use spanlock_range_lock::words::MAX_PASSES;
use spanlock_range_lock::{RwCounter, RwDistributed};
use spanlock_srl::packed;
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
    /// Whether it takes a range piece by piece: so holders of some pieces, who have not got the others, stand in the way of tries, and a range is given back a unit at a time.
    pub pieces: bool,
    /// How many readers have room at a position, under a checker.
    pub readers: usize,
    /// How many later arrivals may pass a waiter; `u32::MAX` if they are not counted as a whole.
    pub overtakes: u32,
    /// What it can do.
    pub powers: &'static [Power],
    /// A fresh lock that covers at least positions `0..4`.
    pub make: fn() -> Driven,
}

/// The name of a lock, what it is like, and, as for [`driven!`], how to make it and what it can do; and how it reclaims memory, if it does.
macro_rules! primitive {
    ($name:literal, granular: $granular:literal, pieces: $pieces:literal, readers: $readers:expr, overtakes: $overtakes:expr,
     $lock:expr; $($power:ident),* $(; $reclaims:ident: $reclaim:path)?) => {
        Primitive {
            name: $name,
            granular: $granular,
            pieces: $pieces,
            readers: $readers,
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
    primitive!("rw-counter", granular: false, pieces: false, readers: MAX_READERS as usize, overtakes: MAX_PASSES,
        RwCounter::new(); wait, downgrade, upgrade, split, batch),
    // While a writer waits at one slot, readers at the other pass it as they like: they do not delay it.
    primitive!("rw-distributed", granular: false, pieces: true, readers: MAX_READERS as usize, overtakes: u32::MAX,
        RwDistributed::with_slots(2); wait, downgrade, upgrade, split, batch),
    primitive!("srl-array", granular: true, pieces: true, readers: MAX_READERS as usize, overtakes: MAX_PASSES,
        array(); wait, downgrade, upgrade, split, batch),
    primitive!("srl-packed", granular: true, pieces: true, readers: packed::MAX_READERS as usize, overtakes: MAX_PASSES,
        SrlPacked::with_segment_size(4, 1).expect("1 is a power of two"); wait, downgrade, upgrade, split, batch),
    primitive!("srl-tree", granular: true, pieces: true, readers: MAX_READERS as usize, overtakes: MAX_PASSES,
        tree(); wait, downgrade, upgrade, split, batch; reclaim: SrlTree::shrink),
    // Two segments are a wide range already.
    primitive!("srl-gate", granular: true, pieces: true, readers: MAX_READERS as usize, overtakes: MAX_PASSES,
        array().wide_above(1); wait, downgrade, upgrade, split, batch),
    primitive!("interval-tree", granular: true, pieces: false, readers: usize::MAX, overtakes: 0,
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

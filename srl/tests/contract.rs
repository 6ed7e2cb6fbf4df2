//! The segment array, held to the contract of the `spanlock` crate by that crate's own suite, at the finest and at the
//! default segment size.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

#[macro_use]
#[path = "../../range-lock/tests/suite/mod.rs"]
mod suite;

use spanlock_srl::SrlArray;
use suite::Kind;

contract!(
    srl_array_1,
    SrlArray,
    Kind {
        make: |capacity| SrlArray::with_segment_size(capacity, 1).unwrap(),
        granule: 1,
    }
);

contract!(
    srl_array_4096,
    SrlArray,
    Kind {
        make: |capacity| SrlArray::with_segment_size(capacity, 4096).unwrap(),
        granule: 4096,
    }
);

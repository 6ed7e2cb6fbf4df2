//! The locks of this crate, tested against the contract.

use std::sync::Arc;

use crate::suite::Kind;
use spanlock_range_lock::{RawRangeLock, RwCounter, RwDistributed};

contract!(
    rw_counter,
    RwCounter,
    Kind {
        make: |_| RwCounter::new(),
        granule: u64::MAX,
    }
);

contract!(
    rw_distributed,
    RwDistributed,
    Kind {
        make: |_| RwDistributed::with_slots(3),
        granule: u64::MAX,
    }
);

// Once more behind a pointer: a `dyn` lock keeps the contract, too.
contract!(
    erased,
    Arc<dyn RawRangeLock>,
    Kind {
        make: |_| Arc::new(RwCounter::new()),
        granule: u64::MAX,
    }
);

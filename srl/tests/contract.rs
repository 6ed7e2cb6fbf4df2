//! The contract of `spanlock-range-lock`, checked for the segment locks by that crate's own suite.
//!
//! The suite runs for segments of 1 and of 4,096, and for a tree with the smallest possible nodes.

use crate::suite::Kind;
use spanlock_srl::{Shape, SrlArray, SrlTree};

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

contract!(
    srl_tree_1,
    SrlTree,
    Kind {
        make: |capacity| SrlTree::with_segment_size(capacity, 1).unwrap(),
        granule: 1,
    }
);

contract!(
    srl_tree_4096,
    SrlTree,
    Kind {
        make: |capacity| SrlTree::new(capacity).unwrap(),
        granule: 4096,
    }
);

contract!(
    srl_tree_of_single_bits,
    SrlTree,
    Kind {
        make: |capacity| {
            let shape = Shape::new(1, &[1; 24]).unwrap();
            SrlTree::with_shape(capacity, &shape).unwrap()
        },
        granule: 1,
    }
);

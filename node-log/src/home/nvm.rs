//! Nodes in persistent memory.

use spanlock_pmem::Pmem;

/// See the [module](self).
pub struct NvmHome<P> {
    region: P,
}

impl<P: Pmem> NvmHome<P> {}

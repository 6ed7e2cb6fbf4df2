//! The word that leads to the root of an index.

use crate::object::index::node::{BITS, Node};

/// The word of the root: a pointer whose lowest bits are the node's level. Null if there is none.
#[derive(Clone, Copy)]
pub(super) struct Root(pub(super) *mut Node);

/// The bits of the level.
const LEVEL: usize = 7;
const _: () = assert!(align_of::<Node>() > LEVEL);

impl Root {
    pub(super) fn new(node: *mut Node, level: u32) -> Root {
        Root(node.map_addr(|at| at | level as usize))
    }

    #[inline]
    pub(super) fn node(self) -> *mut Node {
        self.0.map_addr(|at| at & !LEVEL)
    }

    #[inline]
    pub(super) fn level(self) -> u32 {
        (self.0.addr() & LEVEL) as u32
    }

    /// Returns whether there is a root whose span includes `page`.
    #[inline]
    pub(super) fn covers(self, page: u32) -> bool {
        !self.0.is_null() && level_for(page) <= self.level()
    }
}

/// Returns the level that a root needs to cover `page`.
#[inline]
pub(super) fn level_for(page: u32) -> u32 {
    (32 - (page | 1).leading_zeros()).div_ceil(BITS) - 1
}

//! The free node ids, in memory only. An id is free if neither the home nor the cache has its node.

use spanlock_sync::Mutex;

use crate::error::Error;
use crate::node::Nid;

/// See the [module](self).
pub(crate) struct Nids {
    nodes: u32,
    state: Mutex<State>,
}

struct State {
    /// A bit for each id, set if it is in use. That of id 0 always is.
    used: Box<[u64]>,
    /// The word from which the search for a free id begins.
    next: usize,
    free: u32,
}

impl Nids {
    /// Creates the set of the ids below `nodes`. `is_used` returns whether an id is in use.
    pub(crate) fn new(nodes: u32, is_used: impl Fn(Nid) -> bool) -> Self {
        let mut used = vec![0_u64; nodes.div_ceil(64) as usize].into_boxed_slice();
        let mut free = 0;
        for nid in 0..used.len() as u32 * 64 {
            if nid == 0 || nid >= nodes || is_used(nid) {
                used[(nid / 64) as usize] |= 1 << (nid % 64);
            } else {
                free += 1;
            }
        }
        let state = State {
            used,
            next: 0,
            free,
        };
        Nids {
            nodes,
            state: Mutex::new(state),
        }
    }

    /// Takes a free id.
    pub(crate) fn take(&self) -> Result<Nid, Error> {
        let mut state = self.state.lock();
        let words = state.used.len();
        let order = (state.next..words).chain(0..state.next);
        let Some(word) = { order }.find(|it| state.used[*it] != u64::MAX) else {
            return Err(Error::NoNodes { nodes: self.nodes });
        };
        let bit = state.used[word].trailing_ones();
        state.used[word] |= 1 << bit;
        (state.next, state.free) = (word, state.free - 1);
        Ok(word as u32 * 64 + bit)
    }

    /// Frees ids that nothing uses any more.
    pub(crate) fn give_back(&self, nids: &[Nid]) {
        let mut state = self.state.lock();
        for nid in nids {
            let (word, bit) = ((nid / 64) as usize, 1 << (nid % 64));
            debug_assert_ne!(state.used[word] & bit, 0, "node {nid} is free already");
            state.used[word] &= !bit;
            state.free += 1;
        }
    }

    /// Returns how many ids are free.
    pub(crate) fn free(&self) -> u32 {
        self.state.lock().free
    }
}

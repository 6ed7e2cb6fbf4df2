//! The files of a volume that are in memory.
//!
//! # The problem
//! A range lock and an index for each file of a volume take more memory than a volume of many files
//! leaves: 70,000 files under a lock with a radix tree need gigabytes. So a file enters memory when
//! it is opened, and may leave it once nobody has it open.
//!
//! # Properties
//! - A file that is not in memory costs 8 bytes here, its size.
//! - Opening a file that is not in memory replays its log. Other files can be opened meanwhile; a
//!   thread that opens the same file waits.
//! - Up to a bound, files that are not open stay in memory. Beyond it, opening a file evicts those
//!   that were not used for longest, as a clock does: the hand passes a file once after each use.
//!
//! # States of a file
//!
//! ```text
//!              begin                     finish
//!    absent ───────────► loading ───────────────────► open or cached
//!       ▲                   │ the guard is dropped        │
//!       │◄──────────────────┘                             │
//!       └─────────────────────────────────────────────────┘
//!                 evicted, or taken by a removal
//! ```
//!
//! # Invariants
//! - **N1** At most one [`Inode`] of a number is in memory, as long as a name of the file exists:
//!   only the thread that made the entry *loading* adds one. An inode leaves the table only under
//!   the mutex and while nobody else has a reference, or when its last name is removed.
//! - **N2** A number is made *loading* only under the mutex of the directory that names it. The
//!   thread that removes the last name holds that mutex and waits until the file is loaded. So
//!   nobody replays the log of a file whose pages may become free.
//! - **N3** No foreign code runs between [`Inodes::begin`] and [`Loading::finish`], and the loading
//!   thread takes no directory's mutex. So the wait of N2 ends.

use std::collections::{HashMap, HashSet, VecDeque};

use spanlock_sync::{Arc, Condvar, Mutex};

use crate::inode::Inode;

/// The files in memory.
pub(crate) struct Inodes<L> {
    state: Mutex<State<L>>,
    /// Notified when a file has been loaded, or could not be.
    loaded: Condvar,
    /// The number of files beyond which those that are not open are evicted.
    bound: usize,
}

struct State<L> {
    files: HashMap<u32, Slot<L>>,
    /// The order in which the clock's hand visits files. Some of them may have left.
    hand: VecDeque<u32>,
    /// The size in bytes of each file that is not in memory, by its number.
    sizes: Box<[u64]>,
}

enum Slot<L> {
    Loading,
    Here {
        inode: Arc<Inode<L>>,
        was_used: bool,
    },
}

/// What [`Inodes::begin`] found.
pub(crate) enum Begin<'a, L> {
    /// The file is in memory.
    Here(Arc<Inode<L>>),
    /// The caller must load it.
    Load(Loading<'a, L>),
    /// Another thread loads it: release the directory's mutex, and [wait](Inodes::loaded).
    Wait,
}

/// The right to load a file. If it is dropped, another thread may.
#[must_use = "other threads wait for the file"]
pub(crate) struct Loading<'a, L> {
    inodes: &'a Inodes<L>,
    number: u32,
}

impl<L> Inodes<L> {
    /// Creates the table for `count` inodes. Keeps up to `bound` files that are not open.
    pub(crate) fn new(count: u32, bound: usize) -> Self {
        let state = State {
            files: HashMap::new(),
            hand: VecDeque::new(),
            sizes: vec![0; count as usize].into(),
        };
        Inodes {
            state: Mutex::new(state),
            loaded: Condvar::new(),
            bound,
        }
    }

    /// Returns the file if it is in memory.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Inode<L>>> {
        match self.state.lock().files.get_mut(&number) {
            Some(Slot::Here { inode, was_used }) => {
                *was_used = true;
                Some(Arc::clone(inode))
            }
            _ => None,
        }
    }

    /// Begins to load the file unless it is in memory. The caller holds the mutex of a directory
    /// that names it (N2).
    pub(crate) fn begin(&self, number: u32) -> Begin<'_, L> {
        let mut state = self.state.lock();
        match state.files.get_mut(&number) {
            Some(Slot::Here { inode, was_used }) => {
                *was_used = true;
                Begin::Here(Arc::clone(inode))
            }
            Some(Slot::Loading) => Begin::Wait,
            None => {
                state.files.insert(number, Slot::Loading);
                Begin::Load(Loading {
                    inodes: self,
                    number,
                })
            }
        }
    }

    /// Returns the file if it is in memory. Waits while another thread loads it.
    pub(crate) fn loaded(&self, number: u32) -> Option<Arc<Inode<L>>> {
        let mut state = self.state.lock();
        loop {
            match state.files.get(&number) {
                Some(Slot::Loading) => state = self.loaded.wait(state),
                Some(Slot::Here { inode, .. }) => return Some(Arc::clone(inode)),
                None => return None,
            }
        }
    }

    /// Adds a new file, whose number nobody else has.
    pub(crate) fn add(&self, inode: Arc<Inode<L>>) {
        self.insert(inode.number, inode);
    }

    fn insert(&self, number: u32, inode: Arc<Inode<L>>) {
        let mut state = self.state.lock();
        let here = Slot::Here {
            inode,
            was_used: true,
        };
        state.files.insert(number, here);
        state.hand.push_back(number);
        if state.hand.len() > 2 * state.files.len() + 16 {
            state.forget_removed();
        }
        let evicted = state.evict(self.bound);
        drop(state);
        self.loaded.notify_all();
        // Dropping a lock runs foreign code, so not under the mutex.
        drop(evicted);
    }

    /// Takes a file out of the table whose last name is gone. The caller holds the mutex of the
    /// directory that named it, and has a reference if the file is [in memory](Self::loaded).
    pub(crate) fn forget(&self, number: u32) {
        self.state.lock().files.remove(&number);
    }

    /// Returns the size in bytes of a file.
    pub(crate) fn size(&self, number: u32) -> u64 {
        let state = self.state.lock();
        match state.files.get(&number) {
            Some(Slot::Here { inode, .. }) => inode.size(),
            _ => state.sizes[number as usize],
        }
    }

    /// Says what size a file has that is not in memory.
    pub(crate) fn set_size(&self, number: u32, size: u64) {
        self.state.lock().sizes[number as usize] = size;
    }
}

impl<L> State<L> {
    /// Takes the files out of the hand's line that are not in memory, and those that stand there
    /// twice.
    fn forget_removed(&mut self) {
        let (files, mut seen) = (&self.files, HashSet::new());
        self.hand
            .retain(|number| files.contains_key(number) && seen.insert(*number));
    }

    /// Takes files out that nobody has open and that were not used since the hand last passed
    /// them, until `bound` files are left or the hand has passed some. Returns them.
    fn evict(&mut self, bound: usize) -> Vec<Arc<Inode<L>>> {
        /// The most files that the hand passes for one that is added.
        const STEPS: usize = 8;

        let mut evicted = Vec::new();
        for _ in 0..STEPS {
            if self.files.len() <= bound {
                break;
            }
            let Some(number) = self.hand.pop_front() else {
                break;
            };
            let Some(Slot::Here { inode, was_used }) = self.files.get_mut(&number) else {
                // It was removed. If its number is in use again, the number is in line once more.
                continue;
            };
            // `get_mut` succeeds if nobody else has a reference, and then sees all that others did
            // with theirs. A poisoned log must stay, because the file may disagree with it (L5).
            let is_open = Arc::get_mut(inode).is_none();
            let stays = *was_used || is_open || inode.log.is_poisoned();
            if stays {
                *was_used = false;
                self.hand.push_back(number);
            } else if let Some(Slot::Here { inode, .. }) = self.files.remove(&number) {
                self.sizes[number as usize] = inode.size();
                evicted.push(inode);
            }
        }
        evicted
    }
}

impl<L> Loading<'_, L> {
    /// Adds the file that the caller has loaded.
    pub(crate) fn finish(self, inode: Arc<Inode<L>>) {
        self.inodes.insert(self.number, inode);
        core::mem::forget(self);
    }
}

impl<L> Drop for Loading<'_, L> {
    fn drop(&mut self) {
        self.inodes.state.lock().files.remove(&self.number);
        self.inodes.loaded.notify_all();
    }
}

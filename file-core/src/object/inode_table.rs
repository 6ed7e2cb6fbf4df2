//! The files of a volume that are in memory.
//!
//! # The problem
//! In a volume of many files, a range lock and an index for each of them take too much memory:
//! 70,000 files under a lock with a radix tree need gigabytes. So a file enters memory when it is
//! opened, and may leave memory once it is not open any more.
//!
//! # Properties
//! - A file that is not in memory costs 12 bytes here: its size, and the number of its names.
//! - Opening a file that is not in memory replays its log. Meanwhile, other files can be opened. A
//!   thread that opens the same file waits.
//! - Up to a bound, files that are not open stay in memory. Beyond the bound, each opening evicts
//!   up to eight others by the CLOCK algorithm, which approximates least recently used: the hand
//!   passes a file once after each use. So if many were open at a time, it takes some openings
//!   until they have left memory.
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
//! - **F-N1** At most one [`Inode`] of a number is in memory, as long as a name of the file exists:
//!   only the thread that made the entry *loading* adds one. An inode leaves the table only under
//!   the mutex and while nobody else has a reference, or when its last name is removed.
//! - **F-N2** A number is made *loading* only under the mutex of a directory that names it. The
//!   thread that takes the last name away then waits until the file is
//!   [loaded](InodeTable::take_out). So nobody replays the log of a file whose pages may become
//!   free.
//! - **F-N3** No foreign code runs between [`InodeTable::begin`] and [`Loading::finish`], and the
//!   loading thread takes no directory's mutex. So the wait of F-N2 ends.
//! - **F-N4** A file's count of names is at least the number of its names. The count is raised only
//!   under the mutex of a directory that names the file, so never from zero, except for a new file.
//!   The thread that lowers it to zero frees the file.
//! - **F-N5** The size that is kept of an absent file is that of what its log yields. It is
//!   recorded under the mutex, before any thread may load the file again.
//!
//! # Orderings
//!
//! | letter | where | pairs with | carries | model |
//! |---|---|---|---|---|
//! | H | `take_link`, Release | J | the name is gone; loading has begun | (`open-remove`) |
//! | J | `take_link`, Acquire | H | | (`open-remove`) |
//!
//! The model runs both, but none can see that they are needed: see the comment in `take_link`.

use std::collections::{HashMap, HashSet, VecDeque};

use spanlock_sync::atomic::{AtomicU32, Ordering};
use spanlock_sync::{Arc, Condvar, Mutex, injected_bug};

use crate::object::inode::Inode;

/// The files in memory.
pub(crate) struct InodeTable<L> {
    state: Mutex<State<L>>,
    /// Notified when a file has been loaded, or could not be.
    loaded: Condvar,
    /// How many names each inode has, by its number (F-N4).
    links: Box<[AtomicU32]>,
    /// The number of files beyond which those that are not open are evicted.
    bound: usize,
}

struct State<L> {
    files: HashMap<u32, Slot<L>>,
    /// The order in which the clock's hand visits files. Some of them may have left memory.
    hand: VecDeque<u32>,
    /// The size in bytes of each file that is absent, by its number.
    sizes: Box<[u64]>,
}

enum Slot<L> {
    Loading,
    InMemory {
        inode: Arc<Inode<L>>,
        was_used: bool,
    },
}

/// Files that have left memory.
pub(crate) type Evicted<L> = Vec<Arc<Inode<L>>>;

/// What [`InodeTable::begin`] found.
pub(crate) enum Presence<'a, L> {
    /// The file is in memory.
    InMemory(Arc<Inode<L>>),
    /// The caller must load it.
    Absent(Loading<'a, L>),
    /// Another thread loads it: release the directory's mutex, and [wait](InodeTable::loaded).
    Loading,
}

/// The right to load a file. If it is dropped, another thread may load the file.
#[must_use = "other threads wait for the file"]
pub(crate) struct Loading<'a, L> {
    inodes: &'a InodeTable<L>,
    number: u32,
}

impl<L> InodeTable<L> {
    /// Creates the table. `links` is the number of names of each inode. Up to `bound` files that
    /// are not open stay in memory.
    pub(crate) fn new(links: &[u32], bound: usize) -> Self {
        let state = State {
            files: HashMap::new(),
            hand: VecDeque::new(),
            sizes: vec![0; links.len()].into(),
        };
        InodeTable {
            state: Mutex::new(state),
            loaded: Condvar::new(),
            links: links.iter().map(|it| AtomicU32::new(*it)).collect(),
            bound,
        }
    }

    /// Returns the file of this number and generation if it is in memory, and the files that this
    /// evicts: many may have been open before. The caller need not hold a mutex: a number that is
    /// used again comes with another generation.
    #[must_use = "dropping a lock runs foreign code, which must not run under a mutex"]
    pub(crate) fn get(&self, number: u32, generation: u64) -> (Option<Arc<Inode<L>>>, Evicted<L>) {
        let mut state = self.state.lock();
        let found = match state.files.get_mut(&number) {
            Some(Slot::InMemory { inode, was_used }) if inode.generation == generation => {
                *was_used = true;
                Some(Arc::clone(inode))
            }
            _ => None,
        };
        (found, state.evict(self.bound))
    }

    /// Begins to load the file unless it is in memory. The caller holds the mutex of a directory
    /// that names it (F-N2).
    pub(crate) fn begin(&self, number: u32) -> Presence<'_, L> {
        let mut state = self.state.lock();
        match state.files.get_mut(&number) {
            Some(Slot::InMemory { inode, was_used }) => {
                *was_used = true;
                Presence::InMemory(Arc::clone(inode))
            }
            Some(Slot::Loading)
                if !injected_bug!(
                    "loads-twice",
                    "a thread loads a file that another one is loading",
                    killed_by = "file-core-inodes/open-open"
                ) =>
            {
                Presence::Loading
            }
            _ => {
                state.files.insert(number, Slot::Loading);
                Presence::Absent(Loading {
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
                Some(Slot::InMemory { inode, .. }) => return Some(Arc::clone(inode)),
                None => return None,
            }
        }
    }

    /// Adds a new file, whose number no other file has and whose name is counted. Returns the files
    /// that it evicts.
    #[must_use = "dropping a lock runs foreign code, which must not run under a mutex"]
    pub(crate) fn add(&self, inode: Arc<Inode<L>>) -> Evicted<L> {
        self.insert(inode.number, inode)
    }

    /// Counts one more name. The caller holds the mutex of a directory that names the file, or the
    /// file is new (F-N4).
    pub(crate) fn add_link(&self, number: u32) {
        // Relaxed: the mutex keeps the count above zero.
        self.links[number as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one name less. Returns whether it was the last. If so, the caller frees the file
    /// (F-N4).
    #[must_use = "nobody else frees the file"]
    pub(crate) fn take_link(&self, number: u32) -> bool {
        // Release [H→J]: that this name is gone, durably, and that the file is loading or loaded.
        // Acquire [J←H].
        // equivalent(Acquire): a thread that loads the file takes the table's mutex before one that
        // frees it, because the subtractions of the two are in that order.
        // equivalent(Release): as above.
        self.links[number as usize].fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Returns how many names there are.
    pub(crate) fn links(&self, number: u32) -> u32 {
        // Relaxed: a snapshot.
        self.links[number as usize].load(Ordering::Relaxed)
    }

    /// Adds a file. Returns those that it evicts.
    fn insert(&self, number: u32, inode: Arc<Inode<L>>) -> Evicted<L> {
        let mut state = self.state.lock();
        let here = Slot::InMemory {
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
        evicted
    }

    /// Takes a file whose last name is gone out of the table. Waits while another thread loads it
    /// (F-N2). Returns `None` if it was not in memory.
    pub(crate) fn take_out(&self, number: u32) -> Option<Arc<Inode<L>>> {
        let mut state = self.state.lock();
        while let Some(Slot::Loading) = state.files.get(&number) {
            state = self.loaded.wait(state);
        }
        match state.files.remove(&number) {
            Some(Slot::InMemory { inode, .. }) => Some(inode),
            _ => None,
        }
    }

    /// Returns the size in bytes of a file.
    pub(crate) fn size(&self, number: u32) -> u64 {
        let state = self.state.lock();
        match state.files.get(&number) {
            Some(Slot::InMemory { inode, .. }) => inode.size(),
            _ => state.sizes[number as usize],
        }
    }

    /// Records the size of a file that is absent (F-N5).
    pub(crate) fn keep(&self, number: u32, size: u64) {
        self.state.lock().sizes[number as usize] = size;
    }
}

impl<L> State<L> {
    /// Removes from the hand's order the files that are not in memory, and duplicates.
    fn forget_removed(&mut self) {
        let (files, mut seen) = (&self.files, HashSet::new());
        self.hand
            .retain(|number| files.contains_key(number) && seen.insert(*number));
    }

    /// Takes out files that are not open and were not used since the hand last passed them, until
    /// `bound` files are left or the hand has passed a few. Returns the files taken out.
    fn evict(&mut self, bound: usize) -> Evicted<L> {
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
            let Some(Slot::InMemory { inode, was_used }) = self.files.get_mut(&number) else {
                // It was removed. If its number is in use again, the number is in line once more.
                continue;
            };
            let is_wanted = core::mem::take(was_used);
            let size = match Arc::get_mut(inode) {
                // A poisoned log must stay, because the file may disagree with it (F-L5).
                Some(inode) if !is_wanted && !inode.log.is_poisoned() => Some(inode.size()),
                Some(_) => None,
                None => injected_bug!(
                    "evicts-open",
                    "an opening evicts a file that is open",
                    killed_by = "file-core-inodes/write-evict"
                )
                .then_some(0),
            };
            let Some(size) = size else {
                self.hand.push_back(number);
                continue;
            };
            let is_lost = injected_bug!(
                "evicted-size",
                "an evicted file has the size that it had when it was loaded",
                killed_by = "file-core-inodes/append-evict"
            );
            if !is_lost {
                self.sizes[number as usize] = size;
            }
            if let Some(Slot::InMemory { inode, .. }) = self.files.remove(&number) {
                evicted.push(inode);
            }
        }
        evicted
    }
}

impl<L> Loading<'_, L> {
    /// Adds the file that the caller has loaded.
    pub(crate) fn finish(self, inode: Arc<Inode<L>>) {
        let evicted = self.inodes.insert(self.number, inode);
        core::mem::forget(self);
        // The file is loaded, so foreign code may run (F-N3).
        drop(evicted);
    }
}

impl<L> Drop for Loading<'_, L> {
    fn drop(&mut self) {
        let stays = injected_bug!(
            "load-never-ends",
            "a file whose loading has failed is being loaded for ever",
            killed_by = "file-core-inodes/failed"
        );
        if !stays {
            self.inodes.state.lock().files.remove(&self.number);
        }
        self.inodes.loaded.notify_all();
    }
}

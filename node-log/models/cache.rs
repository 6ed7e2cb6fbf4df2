//! The node cache: threads that look up, set, commit, evict and remove nodes.
//!
//! The cache may keep one node. So looking up another one evicts the first, if it is clean,
//! settled, and not looked up again.

use spanlock_node_log::Error;
use spanlock_node_log::raw::{About, Cache, Lookup};
use spanlock_sync::atomic::{AtomicU32, Ordering::Relaxed};
use spanlock_verify::{Program, Scene, Suite, finished, note};

const WAYS: [(&str, Lookup); 3] = [
    ("exclusive", Lookup::Exclusive),
    ("shared", Lookup::Shared),
    ("optimistic", Lookup::Optimistic),
];

pub(crate) fn suite() -> Suite {
    let one_commit = "one thread at a time commits a file";
    let removed = "the thread that removes a file holds all of it exclusively";
    Suite::new("node-log-cache")
        .no_pair("commit", "commit", one_commit)
        .no_pair("commit", "reuse", one_commit)
        .no_pair("reuse", "reuse", removed)
        .no_pair("reuse", "set", removed)
        .programs(WAYS.map(|(name, way)| get_set(&format!("get-set-{name}"), way)))
        .programs(WAYS.map(|(name, way)| get_evict(&format!("get-evict-{name}"), way)))
        .program(
            Program::new("get-get", "two threads that load a node find the same")
                .scene(|| Nodes::new(Lookup::Optimistic))
                .thread(["get"], |nodes| assert_eq!(nodes.get(1, 0), OLD))
                .thread(["get"], |nodes| assert_eq!(nodes.get(1, 1), OLD)),
        )
        .program(
            Program::new(
                "set-set",
                "two threads that load a node and set a slot lose nothing",
            )
            .scene(|| Nodes::new(Lookup::Optimistic))
            .thread(["set"], |nodes| nodes.set(1, 0, 5))
            .thread(["set"], |nodes| nodes.set(1, 1, 6))
            .at_end(|nodes| assert_eq!(nodes.cache.capture(1).slots, [5, 6])),
        )
        .program(
            Program::new(
                "set-evict",
                "no slot is set in a node that is being evicted",
            )
            .scene(Nodes::with_clean)
            .thread(["set"], |nodes| nodes.set(1, 0, 5))
            .thread(["evict"], Nodes::evict)
            .at_end(|nodes| assert_eq!(nodes.get(1, 0), 5)),
        )
        .program(evict_evict())
        .program(
            Program::new(
                "commit-evict",
                "no node is evicted whose captured image is not stored",
            )
            .scene(Nodes::with_dirty)
            .thread(["commit"], |nodes| nodes.commit())
            .thread(["evict", "get"], |nodes| {
                nodes.evict();
                assert_eq!(nodes.get(1, 0), 5);
            }),
        )
        .program(
            Program::new(
                "evict-get",
                "a thread that finds a node evicted finds the image that a third thread stored",
            )
            .scene(Nodes::with_captured)
            .thread(["commit"], Nodes::store)
            .thread(["evict"], Nodes::evict)
            .thread(["get"], |nodes| assert_eq!(nodes.get(1, 0), 5)),
        )
        .program(
            Program::new(
                "capture-set",
                "what is set is in the captured image, or makes the node dirty again",
            )
            .scene(Nodes::with_dirty)
            .thread(["commit"], |nodes| nodes.commit())
            .thread(["set"], |nodes| nodes.set(1, 1, 6))
            .at_end(Nodes::assert_committed),
        )
        .program(
            Program::new(
                "get-reuse",
                "a removed node's memory is not used after its free",
            )
            .scene(Nodes::with_clean)
            .thread(["get"], |nodes| note(nodes.get(1, 0).to_string()))
            .thread(["reuse"], Nodes::reuse)
            .at_end(|nodes| assert_eq!(nodes.get(1, 0), 0, "the id's new node has nothing")),
        )
        .program(
            Program::new("evict-reuse", "a node is freed once")
                .scene(Nodes::with_clean)
                .thread(["evict"], Nodes::evict)
                .thread(["reuse"], Nodes::reuse)
                .at_end(|nodes| assert_eq!(nodes.get(1, 0), 0, "the id's new node has nothing")),
        )
}

fn get_set(name: &str, way: Lookup) -> Scene<Nodes> {
    Program::new(name, "a thread that finds a node named finds that node")
        .scene(move || Nodes::new(way))
        .thread(["set"], |nodes| {
            nodes.cache.add(about(2));
            nodes.set(1, 0, 2);
        })
        .thread(["get"], |nodes| {
            let named = nodes.get(1, 0);
            note(named.to_string());
            if named == 2 {
                let found = nodes.cache.get(2, 0, || panic!("it was added first"));
                assert_eq!(found.expect("cached"), 0);
            }
        })
}

fn get_evict(name: &str, way: Lookup) -> Scene<Nodes> {
    Program::new(
        name,
        "a node's memory is not freed while a thread reads a slot",
    )
    .scene(move || Nodes::clean(way))
    .thread(["get"], |nodes| assert_eq!(nodes.get(1, 0), OLD))
    .thread(["evict"], Nodes::evict)
}

fn evict_evict() -> Scene<Nodes> {
    Program::new("evict-evict", "two threads that evict a node free it once")
        .scene(Nodes::with_clean)
        .thread(["evict"], Nodes::evict)
        .thread(["evict"], |nodes| {
            nodes.get(3, 0);
        })
        .at_end(|nodes| assert_eq!(nodes.get(1, 0), OLD))
}

/// What each slot has at first.
const OLD: u32 = 4;
/// The slots of a node in which one was set.
const IMAGE: [u32; 2] = [5, OLD];

/// A cache, and the images that are stored.
struct Nodes {
    cache: Cache,
    home: [[AtomicU32; 2]; 4],
    /// Whether a set found node 1 clean.
    is_listed: AtomicU32,
}

impl Nodes {
    fn new(way: Lookup) -> Self {
        let node = || std::array::from_fn(|_| AtomicU32::new(OLD));
        Nodes {
            cache: Cache::with_slots(4, way, 1, 2),
            home: std::array::from_fn(|_| node()),
            is_listed: AtomicU32::new(0),
        }
    }

    /// Has node 1, clean.
    fn clean(way: Lookup) -> Self {
        let nodes = Nodes::new(way);
        nodes.load_clean();
        nodes
    }

    fn with_clean() -> Self {
        Nodes::clean(Lookup::Optimistic)
    }

    /// Has node 1, with a slot set.
    fn with_dirty() -> Self {
        let nodes = Nodes::new(Lookup::Optimistic);
        nodes.set(1, 0, 5);
        nodes.is_listed.store(0, Relaxed);
        nodes
    }

    /// Has node 1, whose captured image is not stored.
    fn with_captured() -> Self {
        let nodes = Nodes::with_dirty();
        assert_eq!(nodes.cache.capture(1).slots, IMAGE);
        nodes
    }

    fn load_clean(&self) {
        // A look at the node would make the clock hand pass it by.
        let loaded = self.cache.about(1, || Ok(self.load(1)));
        loaded.expect("the node is stored");
    }

    // Relaxed, here and below: the programs show that the cache orders the accesses.
    fn load(&self, nid: u32) -> (About, Vec<u32>) {
        let slots = self.home[nid as usize].iter();
        (about(nid), slots.map(|slot| slot.load(Relaxed)).collect())
    }

    fn get(&self, nid: u32, slot: usize) -> u32 {
        let found = self.cache.get(nid, slot, || Ok::<_, Error>(self.load(nid)));
        finished();
        found.expect("the node is stored")
    }

    fn set(&self, nid: u32, slot: usize, value: u32) {
        let list = |_| self.is_listed.store(1, Relaxed);
        let set = (self.cache).set(nid, slot, value, || Ok(self.load(nid)), list);
        set.expect("the node is stored");
        finished();
    }

    fn commit(&self) {
        let captured = self.cache.capture(1).slots;
        self.store_image(&captured);
    }

    /// Stores the image of node 1 that was captured before the threads began.
    fn store(&self) {
        self.store_image(&IMAGE);
    }

    fn store_image(&self, image: &[u32]) {
        for (stored, slot) in self.home[1].iter().zip(image) {
            stored.store(*slot, Relaxed);
        }
        self.cache.settle(1);
        finished();
    }

    /// Loads node 2, and evicts node 1 if possible.
    fn evict(&self) {
        self.get(2, 0);
    }

    /// Removes node 1, and adds another one with its id.
    fn reuse(&self) {
        self.cache.remove(1);
        self.cache.add(about(1));
        finished();
    }

    /// Commits node 1 again if the set found it clean, and checks that both sets are stored.
    fn assert_committed(&self) {
        if self.is_listed.load(Relaxed) == 1 {
            self.commit();
        }
        assert_eq!(self.load(1).1, [5, 6]);
    }
}

fn about(nid: u32) -> About {
    About {
        nid,
        inode: 1,
        // A direct node: its slots name blocks.
        place: 1 << 30,
    }
}

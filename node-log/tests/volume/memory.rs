//! A home that keeps its nodes in a map, and fails on request.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use spanlock_node_log::{Change, DataDurable, Error, Home, Identity, Persisted, Removal};

/// What a [`MemoryHome`] keeps.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) nodes: BTreeMap<u32, Vec<u8>>,
    pub(crate) identity: Option<Identity>,
    pub(crate) capacity: u32,
    /// Fails commits with this.
    pub(crate) fails: Option<Error>,
    pub(crate) commits: u64,
}

pub(crate) type Medium = Arc<Mutex<Kept>>;

#[derive(Debug)]
pub(crate) struct MemoryHome(Medium);

impl Home for MemoryHome {
    type Medium = Medium;
    const BLOCKS_WRITERS: bool = false;

    fn create(medium: Medium, volume: u128, nodes: u32, _: u32) -> Result<Self, Error> {
        let mut kept = medium.lock().unwrap();
        if kept.identity.is_some_and(|it| it.generation > 0) {
            return Err(Error::Occupied { half: "node half" });
        }
        if let Some(error) = &kept.fails {
            return Err(error.clone());
        }
        kept.capacity = nodes;
        kept.identity = Some(Identity {
            volume,
            generation: 0,
            is_opening: false,
        });
        drop(kept);
        Ok(MemoryHome(medium))
    }

    fn open(medium: Medium) -> Result<Self, Error> {
        match medium.lock().unwrap().identity {
            Some(_) => {}
            None => return Err(Error::NotAVolume { half: "node half" }),
        }
        Ok(MemoryHome(medium))
    }

    fn identity(&self) -> Identity {
        self.0.lock().unwrap().identity.unwrap()
    }

    fn stamp(&self, identity: Identity) -> Result<(), Error> {
        self.0.lock().unwrap().identity = Some(identity);
        Ok(())
    }

    fn nodes(&self) -> u32 {
        self.0.lock().unwrap().capacity
    }

    fn has(&self, nid: u32) -> bool {
        self.0.lock().unwrap().nodes.contains_key(&nid)
    }

    fn load(&self, nid: u32) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.lock().unwrap().nodes.get(&nid).cloned())
    }

    fn forget(&self, nid: u32) -> Result<(), Error> {
        self.0.lock().unwrap().nodes.remove(&nid);
        Ok(())
    }

    fn commit(&self, change: &Change, _: DataDurable) -> Result<(), Error> {
        let mut kept = self.0.lock().unwrap();
        if let Some(error) = &kept.fails {
            return Err(error.clone());
        }
        kept.commits += 1;
        for it in &change.stores {
            assert!(!change.frees.contains(&it.nid));
            kept.nodes.insert(it.nid, it.bytes.clone());
        }
        for nid in &change.frees {
            assert!(kept.nodes.remove(nid).is_some(), "node {nid} is not stored");
        }
        Ok(())
    }

    fn remove(&self, inode: u32, others: &[u32]) -> Result<Removal, Error> {
        let mut kept = self.0.lock().unwrap();
        for nid in others.iter().chain([&inode]) {
            assert!(kept.nodes.remove(nid).is_some(), "node {nid} is not stored");
        }
        Ok(Removal::Durable)
    }

    fn checkpoint(&self, changes: &[Change], _: DataDurable) -> Result<(), Error> {
        assert!(changes.is_empty());
        Ok(())
    }

    fn persisted(&self) -> Persisted {
        Persisted::default()
    }
}

/// An error of a medium.
pub(crate) fn broken() -> Error {
    Error::Io {
        what: "storing nodes",
        source: Arc::new(io::Error::other("broken")),
    }
}

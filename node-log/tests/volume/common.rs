//! Volumes to test, over each home.

use std::sync::{Arc, Mutex};

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::Part;
use spanlock_journal_commit::testing::{Loss, Recorded};
use spanlock_node_log::{BlockHome, Error, Home, Nvm, NvmHome, Options, Volume};
use spanlock_pmem::simulated::Simulated;

use crate::memory::{Kept, Medium, MemoryHome};

pub(crate) const BLOCK: usize = 4096;
/// Segments of the data half.
pub(crate) const SEGMENTS: usize = 24;

/// The media of a volume, which outlive it.
pub(crate) trait World: Sized + Sync {
    type Home: Home<Medium: Send>;
    type Data: Storage;

    /// Returns empty media with a data half of so many segments of 8 blocks.
    fn new(segments: usize) -> Self;
    fn data(&self) -> Self::Data;
    fn nodes(&self) -> <Self::Home as Home>::Medium;

    /// Returns the media as a crash leaves them. Where the world knows how, the crash comes after
    /// so many [events](World::events), and otherwise now.
    fn crash(&self, events: usize, loss: Loss) -> Self;
    fn events(&self) -> usize;

    fn create(&self, options: &Options) -> Result<VolumeOf<Self>, Error> {
        Volume::create(self.data(), self.nodes(), options, |_| IntervalLock::new())
    }

    fn open(&self, options: &Options) -> Result<VolumeOf<Self>, Error> {
        Volume::open(self.data(), self.nodes(), options, |_| IntervalLock::new())
    }
}

pub(crate) type VolumeOf<W> = Volume<<W as World>::Home, <W as World>::Data, IntervalLock>;

pub(crate) fn options() -> Options {
    Options::new().segment_blocks(8).nodes(256).id(7)
}

/// Bytes in memory, and nodes in a map.
pub(crate) struct InMemory {
    pub(crate) data: Arc<Recorded>,
    pub(crate) nodes: Medium,
}

impl World for InMemory {
    type Home = MemoryHome;
    type Data = Arc<Recorded>;

    fn new(segments: usize) -> Self {
        InMemory {
            data: Arc::new(Recorded::new((2 + 8 * segments) * BLOCK)),
            nodes: Medium::default(),
        }
    }

    fn data(&self) -> Arc<Recorded> {
        self.data.clone()
    }

    fn nodes(&self) -> Medium {
        self.nodes.clone()
    }

    fn crash(&self, _: usize, loss: Loss) -> Self {
        let kept = self.nodes.lock().unwrap();
        let mut copy = Kept::default();
        (copy.nodes, copy.identity, copy.capacity) =
            (kept.nodes.clone(), kept.identity, kept.capacity);
        InMemory {
            data: crashed(&self.data, self.data.now(), loss),
            nodes: Arc::new(Mutex::new(copy)),
        }
    }

    fn events(&self) -> usize {
        0
    }
}

/// A disk in memory, and nodes in persistent memory.
pub(crate) struct InNvm {
    data: Arc<Recorded>,
    nodes: Arc<Simulated>,
}

impl World for InNvm {
    type Home = NvmHome<Arc<Simulated>>;
    type Data = Arc<Recorded>;

    fn new(segments: usize) -> Self {
        InNvm {
            data: Arc::new(Recorded::new((2 + 8 * segments) * BLOCK)),
            nodes: Simulated::new(&vec![0; 1 << 20]),
        }
    }

    fn data(&self) -> Arc<Recorded> {
        self.data.clone()
    }

    fn nodes(&self) -> Nvm<Arc<Simulated>> {
        Nvm::new(self.nodes.clone())
    }

    fn crash(&self, _: usize, loss: Loss) -> Self {
        InNvm {
            data: crashed(&self.data, self.data.now(), loss),
            nodes: Simulated::new(&self.nodes.bytes()),
        }
    }

    fn events(&self) -> usize {
        0
    }
}

/// Data and nodes on one disk in memory.
pub(crate) struct InBlocks {
    disk: Arc<Recorded>,
    /// Where the nodes begin.
    nodes: u64,
}

impl World for InBlocks {
    type Home = BlockHome<Part<Arc<Recorded>>>;
    type Data = Part<Arc<Recorded>>;

    fn new(segments: usize) -> Self {
        let nodes = (2 + 8 * segments) * BLOCK;
        InBlocks {
            disk: Arc::new(Recorded::new(nodes + 400 * BLOCK)),
            nodes: nodes as u64,
        }
    }

    fn data(&self) -> Self::Data {
        Part::new(self.disk.clone(), 0..self.nodes).unwrap()
    }

    fn nodes(&self) -> Self::Data {
        Part::new(self.disk.clone(), self.nodes..self.disk.len()).unwrap()
    }

    fn crash(&self, events: usize, loss: Loss) -> Self {
        InBlocks {
            disk: crashed(&self.disk, events, loss),
            nodes: self.nodes,
        }
    }

    fn events(&self) -> usize {
        self.disk.now()
    }
}

/// Returns a device with what a crash leaves after so many events.
fn crashed(device: &Recorded, events: usize, loss: Loss) -> Arc<Recorded> {
    Arc::new(Recorded::from_image(device.history().image(events, loss)))
}

/// Makes a test of each generic function for each world.
macro_rules! for_each_world {
    ($($(#[$attribute:meta])* $test:ident)*) => {
        $(
            mod $test {
                $(#[$attribute])*
                #[test]
                fn in_memory() {
                    super::$test::<crate::common::InMemory>();
                }

                $(#[$attribute])*
                #[test]
                fn in_nvm() {
                    super::$test::<crate::common::InNvm>();
                }

                $(#[$attribute])*
                #[test]
                fn in_blocks() {
                    super::$test::<crate::common::InBlocks>();
                }
            }
        )*
    };
}
pub(crate) use for_each_world;

/// Returns bytes that tell where they come from.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// Returns the whole content of a file.
pub(crate) fn content<W: World>(volume: &VolumeOf<W>, name: &str) -> Vec<u8> {
    let file = volume.open_file(name).unwrap();
    let mut bytes = vec![1; file.len() as usize + 10];
    let count = file.read_at(&mut bytes, 0).unwrap();
    assert_eq!(count as u64, file.len());
    bytes.truncate(count);
    bytes
}

/// Checks the volume, and that it is sound.
pub(crate) fn check<W: World>(volume: &mut VolumeOf<W>) {
    let report = volume.check().unwrap();
    assert!(report.findings.is_empty(), "{report:#?}");
}

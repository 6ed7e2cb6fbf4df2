//! Creating and opening a volume: the superblocks, and rebuilding what is only in memory.
//!
//! # Recovery
//! The home recovers the nodes. Everything else follows from them: the files by name, the blocks in
//! use, and the node ids in use. Then, unless the volume is read-only, opening raises the
//! generation and repairs what a crash has left:
//!
//! - It clears a slot past its file's size: the writer had not grown the file yet.
//! - It forgets a node that no inode reaches.
//! - It removes the older of two files of one name: that file's removal was not durable.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::atomic::{AtomicBool, AtomicU64};
use spanlock_sync::{BlockingMutex, Mutex};

use super::commit::Checkpoints;
use super::{Failure, Names, Volume};
use crate::cache::Cache;
use crate::device::DataDevice;
use crate::error::Error;
use crate::file::MAX_BYTES;
use crate::home::{Home, Identity};
use crate::inode::Inode;
use crate::log::{Log, Owner};
use crate::nids::Nids;
use crate::node::{BLOCK_BYTES, Block, Nid, Node, Place};
use crate::options::{Options, SUPERBLOCKS};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock, check_pair};
use crate::tree::{Tree, pages_for, walk};

const BLOCK: u64 = BLOCK_BYTES as u64;
const MAGIC: &[u8; 8] = b"SpanlkDL";
const HALF: &str = "data half";

type Locks<L> = Box<dyn Fn(u64) -> L + Send + Sync>;

/// See [`Volume::create`].
pub(super) fn create<H: Home, S: Storage, L: RawRangeLock>(
    data: S,
    nodes: H::Medium,
    options: &Options,
    locks: Locks<L>,
) -> Result<Volume<H, S, L>, Error> {
    if options.read_only {
        return Err(Error::ReadOnly);
    }
    let (segments, count) = options.check(data.len() / BLOCK)?;
    let random = || u128::from(RandomState::new().build_hasher().finish());
    // The node half may have the id of an unfinished creation, so a new one would part the halves.
    let volume = (unfinished(&data)?.or(options.id)).unwrap_or_else(|| (random() << 64) | random());
    let superblock = Superblock {
        identity: Identity {
            volume,
            generation: 0,
            is_opening: false,
        },
        numbers: [
            options.segment_blocks.into(),
            segments.into(),
            0,
            0,
            0,
            0,
            0,
            0,
        ],
    };
    // Generation 0 means that the volume was never used, so a later creation may overwrite it.
    write(&data, &superblock)?;
    let home = H::create(nodes, volume, count, options.segment_blocks)?;
    start(data, superblock, home, options, locks)
}

/// See [`Volume::open`].
pub(super) fn open<H: Home, S: Storage, L: RawRangeLock>(
    data: S,
    nodes: H::Medium,
    options: &Options,
    locks: Locks<L>,
) -> Result<Volume<H, S, L>, Error> {
    let superblock = read(&data)?;
    let home = H::open(nodes)?;
    let (its, homes) = (superblock.identity, home.identity());
    // If the volume is read-only, the generations may differ.
    if !options.read_only || its.volume != homes.volume {
        check_pair(its, homes)?;
    }
    start(data, superblock, home, options, locks)
}

/// Returns the size of a data half in bytes.
pub(super) fn data_bytes(segments: u64, segment_blocks: u64) -> u64 {
    (SUPERBLOCKS + segments * segment_blocks) * BLOCK
}

/// Reads the newer superblock.
pub(super) fn read<S: Storage>(data: &S) -> Result<Superblock, Error> {
    let mut found: Result<Option<Superblock>, Error> = Ok(None);
    for number in 0..SUPERBLOCKS {
        match (read_one(data, number), &found) {
            (Ok(Some(it)), Ok(Some(other)))
                if it.identity.generation <= other.identity.generation => {}
            (Ok(Some(it)), _) => found = Ok(Some(it)),
            (Ok(None), _) => {}
            (Err(error), Ok(None)) => found = Err(error),
            (Err(_), _) => {}
        }
    }
    found?.ok_or(Error::NotAVolume { half: HALF })
}

fn read_one<S: Storage>(data: &S, number: u64) -> Result<Option<Superblock>, Error> {
    let mut sector = [0; SUPERBLOCK_BYTES];
    if data.len() < SUPERBLOCKS * BLOCK {
        return Err(Error::NotAVolume { half: HALF });
    }
    data.read_at(&mut sector, number * BLOCK)
        .map_err(Error::io("reading a superblock of the data half"))?;
    Superblock::decode(&sector, MAGIC, HALF)
}

/// Writes the superblock and then its copy, so that a crash damages at most one of them.
fn write<S: Storage>(data: &S, superblock: &Superblock) -> Result<(), Error> {
    let sector = superblock.encode(MAGIC);
    for number in 0..SUPERBLOCKS {
        // Some devices need whole blocks for direct transfers.
        let mut block = vec![0; BLOCK_BYTES];
        block[..SUPERBLOCK_BYTES].copy_from_slice(&sector);
        data.write_at(&block, number * BLOCK)
            .and_then(|()| data.flush())
            .map_err(Error::io("writing a superblock of the data half"))?;
    }
    Ok(())
}

/// Returns the volume's id if there is an unfinished creation. Fails unless there is one, or the
/// first two blocks are zero.
fn unfinished<S: Storage>(data: &S) -> Result<Option<u128>, Error> {
    let mut blocks = vec![0; (SUPERBLOCKS * BLOCK) as usize];
    data.read_at(&mut blocks, 0)
        .map_err(Error::io("reading the first blocks of the data half"))?;
    let unfinished = |block| {
        let found = Superblock::decode(block, MAGIC, HALF).ok()??;
        (found.identity.generation == 0).then_some(found.identity.volume)
    };
    let id = blocks.chunks(BLOCK_BYTES).find_map(unfinished);
    match id.is_some() || blocks.iter().all(|it| *it == 0) {
        true => Ok(id),
        false => Err(Error::Occupied { half: HALF }),
    }
}

/// What was found in the nodes.
struct Found<L> {
    names: Names<L>,
    /// Files whose name a newer file has.
    replaced: Vec<Arc<Inode<L>>>,
    /// Slots past the size of their file.
    beyond: Vec<(Arc<Inode<L>>, Owner)>,
    /// For each node id, whether a file has the node.
    reached: Vec<bool>,
    damaged: Vec<Error>,
}

fn start<H: Home, S: Storage, L: RawRangeLock>(
    storage: S,
    superblock: Superblock,
    home: H,
    options: &Options,
    locks: Locks<L>,
) -> Result<Volume<H, S, L>, Error> {
    let [segment_blocks, segments, ..] = superblock.numbers;
    let needed = data_bytes(segments, segment_blocks);
    if storage.len() < needed {
        return Err(Error::TooSmall {
            half: HALF,
            needed,
            found: storage.len(),
        });
    }
    let log = Log::new(SUPERBLOCKS as Block, segments as u32, segment_blocks as u32);
    let nodes = home.nodes();
    let tree = Tree {
        cache: Cache::new(nodes, options.lookup, options.cached_nodes),
        nids: Nids::new(nodes, |nid| home.has(nid)),
        home,
    };
    let found = survey(&tree, &log, &locks, options.read_only)?;
    let volume = Volume {
        tree,
        data: DataDevice::new(storage),
        log,
        names: Mutex::new(found.names),
        locks,
        checkpoints: Checkpoints::new(options.checkpoint_every),
        cleaning: BlockingMutex::new(()),
        cleaned: AtomicU64::new(0),
        failure: Failure {
            is_there: AtomicBool::new(false),
            first: Mutex::new(None),
        },
        is_read_only: options.read_only,
        damaged: found.damaged,
    };
    if options.read_only {
        return Ok(volume);
    }
    raise_generation(&volume, superblock)?;
    for (inode, owner) in found.beyond {
        (volume.tree).set(&inode, owner.nid, owner.slot.into(), 0)?;
    }
    for nid in 1..nodes {
        if volume.tree.home.has(nid) && !found.reached[nid as usize] {
            volume.tree.home.forget(nid)?;
            volume.tree.nids.give_back(&[nid]);
        }
    }
    for inode in found.replaced {
        volume.remove_inode(&inode)?;
    }
    Ok(volume)
}

/// Writes the next generation to the home, marked as opening, then to the data half, and then
/// clears the mark. A crash between these steps leaves halves that belong together
/// (`docs/format.md`, P2).
fn raise_generation<H: Home, S: Storage, L: RawRangeLock>(
    volume: &Volume<H, S, L>,
    mut superblock: Superblock,
) -> Result<(), Error> {
    let home = &volume.tree.home;
    superblock.identity.generation += 1;
    let identity = superblock.identity;
    home.stamp(Identity {
        is_opening: true,
        ..identity
    })?;
    write(volume.data.storage(), &superblock)?;
    home.stamp(identity)
}

/// Reads all nodes. Claims the blocks that they name.
fn survey<H: Home, L>(
    tree: &Tree<H>,
    log: &Log,
    locks: &Locks<L>,
    is_read_only: bool,
) -> Result<Found<L>, Error> {
    let mut found = Found {
        names: Names::default(),
        replaced: Vec::new(),
        beyond: Vec::new(),
        reached: vec![false; tree.home.nodes() as usize],
        damaged: Vec::new(),
    };
    for nid in (1..tree.home.nodes()).filter(|it| tree.home.has(*it)) {
        let result = match tree.load(nid) {
            Ok(node) if node.head.is_none() => continue,
            Ok(node) => found.add_file(tree, log, locks, node),
            Err(error) => Err(error),
        };
        match result {
            // The others can still be read.
            Err(error) if is_read_only => found.damaged.push(error),
            result => result?,
        }
    }
    Ok(found)
}

impl<L> Found<L> {
    /// Adds the file that has this inode.
    fn add_file<H: Home>(
        &mut self,
        tree: &Tree<H>,
        log: &Log,
        locks: &Locks<L>,
        node: Node,
    ) -> Result<(), Error> {
        let nid = node.about.nid;
        let head = node.head.expect("an inode");
        if node.about.inode != nid || head.size > MAX_BYTES {
            let what = "it is no possible inode";
            return Err(Error::DamagedNode { nid, what });
        }
        let inode = Arc::new(Inode::new(nid, head, locks(MAX_BYTES)));
        match self.names.by_name.get(&inode.name) {
            Some(other) if other.created > inode.created => {
                self.names.by_nid.insert(nid, inode.clone());
                self.replaced.push(inode.clone());
            }
            other => {
                self.replaced.extend(other.cloned());
                self.names.insert(&inode);
            }
        }
        self.names.created = self.names.created.max(inode.created);
        let pages = pages_for(inode.size());
        let (reached, beyond) = (&mut self.reached, &mut self.beyond);
        let read = |nid: Nid, place: Place| {
            let node = tree.load(nid)?;
            let is_first = !std::mem::replace(&mut reached[nid as usize], true);
            let is_right = node.about.inode == inode.nid && Place::of(node.about) == place;
            match is_first && is_right {
                true => Ok(node.slots),
                false => Err(Error::DamagedNode {
                    nid,
                    what: "it does not belong where a file's node names it",
                }),
            }
        };
        let visit = |nid, place: Place, slots: &[u32]| {
            for (slot, block) in slots.iter().enumerate() {
                if *block == 0 || !place.names_block(slot) {
                    continue;
                }
                let slot = slot as u16;
                let owner = Owner { nid, slot };
                log.claim(*block, owner)
                    .map_err(|other| Error::DamagedNode {
                        nid,
                        what: match other {
                            Some(_) => "it names a block that another node names",
                            None => "it names a block that the data half does not have",
                        },
                    })?;
                if place.page(slot.into()) >= pages {
                    beyond.push((inode.clone(), owner));
                }
            }
            Ok(())
        };
        walk(nid, Place::INODE, 0, read, visit)
    }
}

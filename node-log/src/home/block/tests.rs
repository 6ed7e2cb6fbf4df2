//! The home on a simulated disk: what it stores, its room, and damage.

mod images;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use spanlock_journal_commit::Storage;
use spanlock_pmem::Pmem;
use spanlock_pmem::simulated::Simulated;

use super::{BlockHome, chain, layout};
use crate::device::{DataDevice, DataDurable};
use crate::error::Error;
use crate::home::{Change, Home, Identity, Removal, Stored};
use crate::node::{BLOCK_BYTES, Block, HEADER_BYTES, Nid};

const VOLUME: u128 = 7;
const SEGMENT: u32 = 8;

/// A region as a disk.
#[derive(Clone, Debug)]
struct Sectors {
    region: Arc<Simulated>,
    fails: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
    flushes: Arc<AtomicU64>,
}

impl Sectors {
    fn of(region: Arc<Simulated>) -> Self {
        Sectors {
            region,
            fails: Arc::default(),
            writes: Arc::default(),
            flushes: Arc::default(),
        }
    }

    /// Returns a disk of zeros with room for this many segments.
    fn new(nodes: u32, segments: u32) -> Self {
        Self::with_blocks(nodes, segments * SEGMENT)
    }

    fn with_blocks(nodes: u32, log: u32) -> Self {
        let blocks = 6 + 2 * nodes.div_ceil(1022) + log;
        Self::of(Simulated::new(&vec![0; blocks as usize * BLOCK_BYTES]))
    }

    /// Returns a disk with these bytes.
    fn copied(&self) -> Self {
        Self::of(Simulated::new(&self.region.bytes()))
    }

    /// Flips a bit.
    fn damage(&self, block: Block, at: usize) {
        let at = u64::from(block) * BLOCK_BYTES as u64 + at as u64;
        let mut byte = [0];
        self.region.read_bytes(at, &mut byte);
        self.region.write_sectors(at, &[byte[0] ^ 1]);
        self.region.flush_sectors(0..self.len());
    }

    fn check(&self) -> io::Result<()> {
        match self.fails.load(Relaxed) {
            true => Err(io::Error::other("the disk fails")),
            false => Ok(()),
        }
    }
}

impl Storage for Sectors {
    fn len(&self) -> u64 {
        Pmem::len(&self.region)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.region.read_bytes(offset, buf);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.check()?;
        self.writes.fetch_add(1, Relaxed);
        self.region.write_sectors(offset, data);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.check()?;
        self.flushes.fetch_add(1, Relaxed);
        self.region.flush_sectors(0..self.len());
        Ok(())
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.check()?;
        self.region.write_sectors_through(offset, data);
        Ok(())
    }
}

/// Returns the proof of a flush of no data.
fn durable() -> DataDurable {
    let disk = Sectors::of(Simulated::new(&[0; 512]));
    DataDevice::new(disk).flush().unwrap()
}

/// Returns an image of a node, in which the value is found again.
fn image(nid: Nid, value: u32) -> Stored {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[4..8].copy_from_slice(&nid.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    // Some nodes are longer than a sector.
    bytes.resize(HEADER_BYTES + 4 + value as usize % 3 * 400, 0x5A);
    let used = bytes.len() as u16;
    bytes[14..16].copy_from_slice(&used.to_le_bytes());
    Stored { nid, bytes }
}

/// Returns a change of one file: `nids` get the value, and `frees` vanish.
fn change(nids: &[Nid], value: u32, frees: &[Nid]) -> Change {
    Change {
        inode: nids[0],
        stores: nids.iter().map(|&nid| image(nid, value)).collect(),
        frees: frees.to_vec(),
    }
}

fn commit<N: Storage>(home: &BlockHome<N>, nids: &[Nid], value: u32) -> Result<(), Error> {
    home.commit(&change(nids, value, &[]), durable())
}

/// Returns all nodes, with their values.
fn content<N: Storage>(home: &BlockHome<N>) -> Result<BTreeMap<Nid, u32>, Error> {
    let mut content = BTreeMap::new();
    for nid in 0..home.nodes() {
        let Some(bytes) = home.load(nid)? else {
            assert!(!home.has(nid));
            continue;
        };
        let value = super::pack::u32_at(&bytes, HEADER_BYTES);
        assert_eq!(
            bytes[HEADER_BYTES..],
            image(nid, value).bytes[HEADER_BYTES..]
        );
        content.insert(nid, value);
    }
    Ok(content)
}

/// Creates a home on the disk, as a volume does.
fn create(disk: &Sectors, nodes: u32) -> BlockHome<Sectors> {
    create_with(disk, nodes, SEGMENT)
}

fn create_with(disk: &Sectors, nodes: u32, segment: u32) -> BlockHome<Sectors> {
    let home = BlockHome::create(disk.clone(), VOLUME, nodes, segment).unwrap();
    stamp(&home).unwrap();
    home
}

/// Stamps the next generation.
fn stamp<N: Storage>(home: &BlockHome<N>) -> Result<(), Error> {
    let mut identity = home.identity();
    identity.generation += 1;
    identity.is_opening = true;
    home.stamp(identity)?;
    identity.is_opening = false;
    home.stamp(identity)
}

fn open(disk: &Sectors) -> Result<BlockHome<Sectors>, Error> {
    BlockHome::open(disk.clone())
}

/// Opens a home, and makes it writable.
fn reopen(disk: &Sectors) -> Result<BlockHome<Sectors>, Error> {
    let home = open(disk)?;
    stamp(&home)?;
    Ok(home)
}

fn is_corrupt<T>(result: Result<T, Error>, block: Block, with: &str) {
    let error = result.err().expect("it is damaged");
    let at = u64::from(block) * BLOCK_BYTES as u64;
    let is_right = matches!(error, Error::Corrupt { what, at: found, .. }
        if found == at && what.contains(with));
    assert!(is_right, "{error}, but not at {at}");
}

#[test]
fn nodes_are_found_again_before_and_after_a_checkpoint() {
    let disk = Sectors::new(3000, 8);
    let home = create(&disk, 3000);
    commit(&home, &[1, 1022, 2999], 5).unwrap();
    commit(&home, &[1], 6).unwrap();
    home.commit(&change(&[1], 7, &[]), durable()).unwrap();
    let frees = Change {
        inode: 1,
        stores: Vec::new(),
        frees: vec![1022],
    };
    home.commit(&frees, durable()).unwrap();
    let expected = BTreeMap::from([(1, 7), (2999, 5)]);
    assert_eq!(content(&home).unwrap(), expected);
    assert_eq!(home.load(3000).unwrap(), None);
    // A commit does not record the nodes that it frees: the inode no longer reaches them.
    let home = reopen(&disk).unwrap();
    assert_eq!(
        content(&home).unwrap(),
        BTreeMap::from([(1, 7), (1022, 5), (2999, 5)])
    );
    home.forget(1022).unwrap();
    home.checkpoint(&[change(&[3], 8, &[])], durable()).unwrap();
    let home = open(&disk).unwrap();
    assert_eq!(
        content(&home).unwrap(),
        BTreeMap::from([(1, 7), (2999, 5), (3, 8)])
    );
}

#[test]
fn a_commit_is_one_write_and_one_flush_of_whole_nodes() {
    let disk = Sectors::new(100, 8);
    let home = create(&disk, 100);
    let counts = || (disk.writes.load(Relaxed), disk.flushes.load(Relaxed));
    let before = counts();
    commit(&home, &[1, 2, 3], 5).unwrap();
    assert_eq!(counts(), (before.0 + 1, before.1 + 1));
    let persisted = home.persisted();
    assert_eq!((persisted.nodes, persisted.node_bytes), (3, 3 * 4096));
    assert_eq!(persisted.table_bytes, 0);
    home.checkpoint(&[], durable()).unwrap();
    // One NAT block, and the map and the head of a pack.
    assert_eq!(home.persisted().table_bytes, 3 * 4096);
    let before = counts();
    home.checkpoint(&[], durable()).unwrap();
    assert_eq!(counts(), before, "there is nothing to do");
}

#[test]
fn a_removal_is_durable_at_a_checkpoint() {
    let disk = Sectors::new(100, 8);
    let home = create(&disk, 100);
    commit(&home, &[1, 2], 5).unwrap();
    assert_eq!(home.remove(1, &[2]).unwrap(), Removal::AtCheckpoint);
    assert_eq!(
        home.remove(3, &[4]).unwrap(),
        Removal::Durable,
        "never stored"
    );
    assert!(content(&home).unwrap().is_empty());
    let again = open(&disk.copied()).unwrap();
    assert_eq!(content(&again).unwrap().len(), 2);
    home.checkpoint(&[], durable()).unwrap();
    assert!(content(&open(&disk).unwrap()).unwrap().is_empty());
}

#[test]
fn the_node_log_wraps_and_is_cleaned() {
    let disk = Sectors::new(40, 8);
    let mut home = create(&disk, 40);
    let mut random = fastrand::Rng::with_seed(43);
    let mut expected = BTreeMap::new();
    for round in 0..400 {
        // 30 of 64 blocks in use, of nodes of very different age.
        let nid = 1 + random.u32(0..30) * random.u32(0..30) / 30;
        let nids = [nid, 1 + (nid + 3) % 30];
        commit(&home, &nids, round).unwrap();
        expected.extend(nids.map(|nid| (nid, round)));
        match random.u32(0..30) {
            0 => home.checkpoint(&[], durable()).unwrap(),
            1 => home = reopen(&disk).unwrap(),
            _ => {}
        }
        if round % 20 == 0 {
            assert_eq!(content(&home).unwrap(), expected, "round {round}");
            assert_eq!(
                content(&open(&disk).unwrap()).unwrap(),
                expected,
                "round {round}"
            );
        }
    }
    assert!(home.persisted().nodes > 0);
}

#[test]
fn a_home_without_room_refuses_and_goes_on() {
    let disk = Sectors::new(100, 8);
    let home = create(&disk, 100);
    let mut stored = 0;
    let error = loop {
        match commit(&home, &[stored + 1], 5) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, Error::NodesFull { needed: 4096 }),
        "{error}"
    );
    // Two of the eight segments are for cleaning, and one block is the next one.
    assert_eq!(stored, 6 * SEGMENT - 1);
    assert_eq!(content(&home).unwrap().len(), stored as usize);
    for _ in 0..3 {
        let again = reopen(&disk).unwrap();
        assert_eq!(content(&again).unwrap().len(), stored as usize);
    }
    let home = reopen(&disk).unwrap();
    let others: Vec<Nid> = (2..=20).collect();
    assert_eq!(home.remove(1, &others).unwrap(), Removal::AtCheckpoint);
    for round in 0..100 {
        commit(&home, &[30, 31], round).unwrap();
    }
    let found = content(&reopen(&disk).unwrap()).unwrap();
    assert_eq!(found.len(), stored as usize - 20);
    assert_eq!(found[&30], 99);
}

#[test]
fn threads_share_writes_and_lose_no_commit() {
    let disk = Sectors::new(100, 64);
    let home = create(&disk, 100);
    std::thread::scope(|scope| {
        for file in 0..4 {
            let home = &home;
            scope.spawn(move || {
                for round in 1..=100 {
                    let nids = [1 + 2 * file, 2 + 2 * file];
                    commit(home, &nids, round).unwrap();
                    assert_eq!(
                        home.load(nids[1]).unwrap().unwrap()[32..36],
                        round.to_le_bytes()
                    );
                }
            });
        }
    });
    let expected: BTreeMap<Nid, u32> = (1..=8).map(|nid| (nid, 100)).collect();
    assert_eq!(content(&home).unwrap(), expected);
    assert_eq!(content(&open(&disk).unwrap()).unwrap(), expected);
}

#[test]
fn after_a_failure_nothing_is_acknowledged_and_reads_go_on() {
    let disk = Sectors::new(100, 8);
    let home = create(&disk, 100);
    commit(&home, &[1], 5).unwrap();
    disk.fails.store(true, Relaxed);
    assert!(matches!(commit(&home, &[1], 6), Err(Error::Io { .. })));
    disk.fails.store(false, Relaxed);
    let error = commit(&home, &[2], 6).unwrap_err();
    assert!(error.to_string().contains("the disk fails"), "{error}");
    assert!(matches!(
        home.checkpoint(&[], durable()),
        Err(Error::Failed { .. })
    ));
    assert!(matches!(stamp(&home), Err(Error::Failed { .. })));
    assert_eq!(content(&home).unwrap(), BTreeMap::from([(1, 5)]));
    assert_eq!(
        content(&reopen(&disk).unwrap()).unwrap(),
        BTreeMap::from([(1, 5)])
    );
}

#[test]
fn a_medium_that_is_occupied_small_or_cut_short_is_refused() {
    let disk = Sectors::new(100, 8);
    assert!(matches!(open(&disk), Err(Error::NotAVolume { .. })));
    let create_on = |disk: &Sectors| BlockHome::create(disk.clone(), 8, 100, SEGMENT).map(drop);
    drop(BlockHome::create(disk.clone(), VOLUME, 100, SEGMENT).unwrap());
    // No volume has opened it, so its creation was cut off.
    create_on(&disk).unwrap();
    let expected = Identity {
        volume: 8,
        generation: 0,
        is_opening: false,
    };
    assert_eq!(open(&disk).unwrap().identity(), expected);
    reopen(&disk).unwrap();
    assert!(matches!(create_on(&disk), Err(Error::Occupied { .. })));
    let disk = Sectors::new(100, 8);
    disk.damage(1, 4000);
    assert!(matches!(create_on(&disk), Err(Error::Occupied { .. })));
    assert!(matches!(
        create_on(&Sectors::new(100, 7)),
        Err(Error::TooSmall { .. })
    ));
    let none = BlockHome::create(Sectors::new(100, 8), 8, 1, SEGMENT);
    assert!(matches!(none, Err(Error::BadOption { found: 1, .. })));
    let disk = Sectors::new(100, 8);
    create(&disk, 100);
    let mut bytes = disk.region.bytes();
    bytes.truncate(bytes.len() - 4096);
    let short = Sectors::of(Simulated::new(&bytes));
    assert!(matches!(open(&short), Err(Error::TooSmall { .. })));
}

#[test]
fn one_superblock_suffices() {
    let disk = Sectors::new(100, 8);
    create(&disk, 100);
    for copy in 0..2 {
        let disk = disk.copied();
        disk.damage(copy, 40);
        assert_eq!(open(&disk).unwrap().identity().generation, 1);
        reopen(&disk).unwrap();
        disk.damage(1 - copy, 40);
        assert_eq!(open(&disk).unwrap().identity().generation, 2);
    }
    disk.damage(0, 40);
    disk.damage(1, 40);
    is_corrupt(open(&disk), 0, "superblock");
}

/// A damaged pack does not matter if it is the older one. If it is the newer one, opening fails.
#[test]
fn the_older_pack_is_not_used_in_place_of_a_damaged_one() {
    let disk = Sectors::new(100, 8);
    let home = create(&disk, 100);
    for round in 1..=2 {
        commit(&home, &[1], round).unwrap();
        home.checkpoint(&[], durable()).unwrap();
        let serial = home.head.lock().pack.serial;
        let newer = disk.copied();
        newer.damage(layout::head(serial), 17);
        is_corrupt(open(&newer), layout::head(serial), "pack");
        let older = disk.copied();
        older.damage(layout::head(serial - 1), 17);
        let found = reopen(&older).unwrap();
        assert_eq!(content(&found).unwrap(), BTreeMap::from([(1, round)]));
        // The checkpoint of the opening has repaired it.
        older.damage(layout::head(serial), 17);
        assert_eq!(content(&open(&older).unwrap()).unwrap().len(), 1);
        older.damage(layout::map(serial), 17);
        is_corrupt(open(&older), layout::head(serial), "pack");
        let both = disk.copied();
        both.damage(layout::head(0), 17);
        both.damage(layout::head(1), 17);
        is_corrupt(open(&both), layout::head(0), "both");
        let map = disk.copied();
        map.damage(layout::map(serial), 17);
        is_corrupt(open(&map), layout::map(serial), "map");
    }
}

#[test]
fn a_damaged_nat_block_or_node_is_named() {
    let disk = Sectors::new(3000, 8);
    let home = create(&disk, 3000);
    commit(&home, &[1], 1).unwrap();
    commit(&home, &[2, 2000], 2).unwrap();
    home.checkpoint(&[], durable()).unwrap();
    let map = home.head.lock().pack.map.clone();
    assert_eq!(*map, [true, true, false]);
    for (number, copy) in (0..).zip(map) {
        let block = home.medium.layout.nat(number, copy);
        let damaged = disk.copied();
        damaged.damage(block, 100);
        is_corrupt(open(&damaged), block, "NAT");
        let other = disk.copied();
        other.damage(home.medium.layout.nat(number, !copy), 100);
        assert_eq!(content(&open(&other).unwrap()).unwrap().len(), 3);
    }
    let block = home.nat[2].load(Relaxed);
    disk.damage(block, 34);
    is_corrupt(home.load(2), block, "node");
    let again = reopen(&disk).unwrap();
    is_corrupt(again.load(2), block, "node");
    assert!(again.load(1).unwrap().is_some() && again.load(2000).unwrap().is_some());
}

/// A node of the chain is damaged. If a later commit follows it in the same segment, it had been
/// acknowledged.
#[test]
fn a_gap_in_the_chain_is_no_end() {
    let disk = Sectors::new(100, 8);
    let home = create(&disk, 100);
    for round in 1..=3 {
        commit(&home, &[1, 2], round).unwrap();
    }
    let block = home.head.lock().pack.next;
    for gap in 0..4 {
        let damaged = disk.copied();
        damaged.damage(block + gap, 34);
        is_corrupt(open(&damaged), block + gap, "committed");
    }
    // This is what a crash may leave: the last write was cut off.
    for gap in 4..6 {
        let torn = disk.copied();
        torn.damage(block + gap, 34);
        assert_eq!(
            content(&open(&torn).unwrap()).unwrap(),
            BTreeMap::from([(1, 2), (2, 2)])
        );
    }
}

/// Nodes that a crash has cut off, or that an earlier volume wrote, fit no later chain.
#[test]
fn old_nodes_do_not_continue_a_chain() {
    let disk = Sectors::new(100, 8);
    commit(&create(&disk, 100), &[1, 2], 1).unwrap();
    let home = reopen(&disk).unwrap();
    let first = home.head.lock().next;
    commit(&home, &[3, 4], 2).unwrap();
    // The first node of that commit is missing.
    disk.damage(first, 34);
    let home = reopen(&disk).unwrap();
    assert_eq!(home.head.lock().next, first);
    commit(&home, &[5], 3).unwrap();
    let expected = BTreeMap::from([(1, 1), (2, 1), (5, 3)]);
    assert_eq!(content(&reopen(&disk).unwrap()).unwrap(), expected);
    // The first two blocks are cleared, and another volume is created.
    disk.region.write_sectors(0, &[0; 2 * BLOCK_BYTES]);
    let other = BlockHome::create(disk.clone(), VOLUME << 20, 100, SEGMENT).unwrap();
    let first = chain::Link::of(&other.medium.read(other.head.lock().next).unwrap());
    assert!(first.is_some());
    drop(other);
    assert!(content(&reopen(&disk).unwrap()).unwrap().is_empty());
}

#[test]
fn sequence_numbers_wrap() {
    let disk = Sectors::new(100, 8);
    let volume = u128::from(u64::MAX >> 16) - 2;
    let home = BlockHome::create(disk.clone(), volume, 100, SEGMENT).unwrap();
    stamp(&home).unwrap();
    for round in 1..=6 {
        commit(&home, &[1], round).unwrap();
    }
    assert!(home.head.lock().number < 10);
    let first = home.head.lock().pack.next;
    assert_eq!(
        content(&open(&disk).unwrap()).unwrap(),
        BTreeMap::from([(1, 6)])
    );
    let link = |at: Block| chain::Link::of(&home.medium.read(first + at).unwrap()).unwrap();
    assert!(link(4).follows(link(0).number, 4) && !link(4).follows(link(0).number, 3));
    assert!(!link(0).follows(link(4).number, 64) && !link(1).follows(link(1).number, 64));
}

//! What the node half does without a crash, with damage, and when it is full. `images` has the
//! crashes.

mod images;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use spanlock_journal_commit::storage::PmemStorage;
use spanlock_pmem::simulated::Simulated;
use spanlock_pmem::{MappedFile, Options};

use super::layout::{COPY, FORMATTING};
use super::*;
use crate::device::DataDevice;
use crate::node::HEADER_BYTES;

type Simple = NvmHome<Arc<Simulated>>;

/// The nodes that inodes reach.
type Files = BTreeMap<Nid, Vec<u8>>;

const NODES: u32 = 16;
/// The heap begins at 8192 with 16 nodes and two slots of three pairs.
const HEAP: u64 = 8192;

fn medium(region: &Arc<Simulated>) -> Nvm<Arc<Simulated>> {
    Nvm::new(region.clone()).slots(2, 3)
}

fn create(blocks: u64) -> (Arc<Simulated>, Simple) {
    create_with(blocks, 3)
}

/// Creates and stamps a home with so many blocks in its heap, and so many pairs in a slot.
fn create_with(blocks: u64, pairs: u32) -> (Arc<Simulated>, Simple) {
    let region = Simulated::new(&vec![0; (HEAP + blocks * 4096) as usize]);
    let medium = medium(&region).slots(2, pairs);
    let home = NvmHome::create(medium, 7, NODES, 0).unwrap();
    stamp(&home);
    (region, home)
}

/// Opens what a region's bytes are, in another region.
fn reopen(bytes: &[u8]) -> Result<Simple, Error> {
    NvmHome::open(Nvm::new(Simulated::new(bytes)))
}

fn stamp(home: &Simple) {
    let mut identity = home.identity();
    identity.generation += 1;
    home.stamp(identity).unwrap();
}

fn data_durable() -> DataDurable {
    let storage = PmemStorage::new(Simulated::new(&[0; 4096]));
    DataDevice::new(storage).flush().unwrap()
}

/// Returns a node's bytes. As in every node, the header has an id, a kind, the length and a
/// checksum; its next byte counts the ids of children, which the body begins with.
fn node(nid: Nid, is_inode: bool, children: &[Nid], content: &[u8]) -> Stored {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[4..8].copy_from_slice(&nid.to_le_bytes());
    bytes[12..14].copy_from_slice(&[if is_inode { 1 } else { 2 }, children.len() as u8]);
    bytes.extend(children.iter().flat_map(|it| it.to_le_bytes()));
    bytes.extend(content);
    let used = (bytes.len() as u16).to_le_bytes();
    bytes[14..16].copy_from_slice(&used);
    let crc = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    Stored { nid, bytes }
}

fn children(node: &[u8]) -> Vec<Nid> {
    let ids = node[HEADER_BYTES..].chunks_exact(4).take(node[13].into());
    ids.map(|it| Nid::from_le_bytes(it.try_into().unwrap()))
        .collect()
}

/// Loads every node that an inode reaches, and lists those that none does.
fn reach(home: &Simple) -> Result<(Files, Vec<Nid>), String> {
    let load = |nid| home.load(nid).map_err(|why| why.to_string());
    let (mut files, mut others) = (Files::new(), Vec::new());
    for nid in 1..home.nodes() {
        match load(nid)? {
            Some(node) if node[12] == 1 => {
                for child in children(&node) {
                    let node = load(child)?.ok_or(format!("{nid} lacks its child {child}"))?;
                    files.insert(child, node);
                }
                files.insert(nid, node);
            }
            Some(_) => others.push(nid),
            None => {}
        }
    }
    others.retain(|it| !files.contains_key(it));
    Ok((files, others))
}

/// Checks that the heap's lines are free or named, and none is both.
fn check_places(home: &Simple) -> Result<(), String> {
    let has = (1..home.nodes()).filter(|&nid| home.has(nid));
    let named: u64 = has
        .map(|nid| Entry::decode(home.change(nid, 0).old).place.lines)
        .sum();
    let (free, heap) = (home.heap.free_lines(), home.layout.heap());
    match named + free == heap.end - heap.start {
        true => Ok(()),
        false => Err(format!(
            "{named} lines are named and {free} are free of {heap:?}"
        )),
    }
}

fn commit(home: &Simple, stores: Vec<Stored>, frees: Vec<Nid>) -> Result<(), Error> {
    let change = Change {
        inode: 1,
        stores,
        frees,
    };
    home.commit(&change, data_durable())
}

/// One file: an inode, 1, and its children 2 to 4.
fn one_file(home: &Simple) {
    let child = |nid| node(nid, false, &[], &[9; 8]);
    let inode = node(1, true, &[2, 3, 4], &[1; 40]);
    commit(home, vec![inode, child(2), child(3), child(4)], vec![]).unwrap();
}

#[test]
fn nodes_are_found_again_by_the_next_opening() {
    let (region, home) = create(2);
    assert_eq!(
        (home.nodes(), home.has(1), home.has(0), home.has(16)),
        (16, false, false, false)
    );
    assert!(home.load(1).unwrap().is_none() && home.load(u32::MAX).unwrap().is_none());
    one_file(&home);
    let (files, others) = reach(&home).unwrap();
    assert_eq!((files.len(), others.len()), (4, 0));
    assert_eq!(
        home.load(1).unwrap().unwrap(),
        node(1, true, &[2, 3, 4], &[1; 40]).bytes
    );

    // One node grows, and a child goes.
    let inode = node(1, true, &[2, 3], &[5; 1000]);
    commit(&home, vec![inode.clone()], vec![4]).unwrap();
    assert!(home.has(1) && !home.has(4));
    let home = reopen(&region.bytes()).unwrap();
    assert_eq!(home.load(1).unwrap().unwrap(), inode.bytes);
    assert_eq!(reach(&home).unwrap().0.len(), 3);
    check_places(&home).unwrap();

    stamp(&home);
    assert_eq!(home.remove(1, &[2, 3, 4]).unwrap(), Removal::Durable);
    assert!((1..NODES).all(|nid| !home.has(nid)));
    assert_eq!(home.heap.free_lines(), 128);
}

#[test]
fn identities_are_kept() {
    let (region, home) = create(1);
    let identity = home.identity();
    assert_eq!((identity.volume, identity.generation), (7, 1));
    for (generation, is_opening) in [(2, true), (2, false), ((1 << 47) - 1, true)] {
        let identity = Identity {
            generation,
            is_opening,
            ..identity
        };
        home.stamp(identity).unwrap();
        assert_eq!(home.identity(), identity);
        let bytes = region.bytes();
        assert_eq!(reopen(&bytes).unwrap().identity(), identity);
        for at in GENERATIONS {
            let mut damaged = bytes.clone();
            damaged[at as usize + 2] ^= 1;
            assert_eq!(reopen(&damaged).unwrap().identity(), identity);
        }
        let mut damaged = bytes;
        GENERATIONS.iter().for_each(|&at| damaged[at as usize] ^= 8);
        let error = reopen(&damaged).unwrap_err();
        assert!(matches!(error, Error::Corrupt { at: 512, .. }), "{error}");
    }
}

#[test]
fn persisted_bytes_are_counted() {
    let (_, home) = create(4);
    let count = |nodes, node_bytes, table_bytes| Persisted {
        nodes,
        node_bytes,
        table_bytes,
    };
    assert_eq!(home.persisted(), count(0, 0, 0));
    // Two lines and three of one; all new.
    one_file(&home);
    assert_eq!(home.persisted(), count(4, 64 * 5, 8 * 4));
    commit(&home, vec![node(1, true, &[2, 3, 4], &[])], vec![]).unwrap();
    assert_eq!(home.persisted(), count(5, 64 * 6, 8 * 5));
    // Two entries through a slot, and one that is deleted.
    let both = vec![node(1, true, &[2, 3], &[]), node(2, false, &[], &[])];
    commit(&home, both, vec![4]).unwrap();
    assert_eq!(home.persisted(), count(7, 64 * 8, 8 * 8 + 16 + 32));

    let region = Simulated::new(&vec![0; (HEAP + 4096) as usize]);
    let home = NvmHome::create(medium(&region).whole_blocks(true), 7, NODES, 0).unwrap();
    stamp(&home);
    let inode = node(1, true, &[], &[1; 9]);
    commit(&home, vec![inode.clone()], vec![]).unwrap();
    assert_eq!(home.persisted(), count(1, 4096, 8));
    assert_eq!(home.load(1).unwrap().unwrap(), inode.bytes);
    assert_eq!(home.heap.free_lines(), 0);
    let home = reopen(&region.bytes()).unwrap();
    assert!(home.layout.whole_blocks);
    assert_eq!(home.load(1).unwrap().unwrap(), inode.bytes);
}

#[test]
fn a_full_heap_refuses_a_commit_and_changes_nothing() {
    let (region, home) = create(1);
    one_file(&home);
    let before = (region.bytes(), home.heap.free_lines());
    let large = node(1, true, &[2, 3, 4], &[1; 3900]);
    let stores = vec![node(2, false, &[], &[3; 8]), large];
    let error = commit(&home, stores, vec![3]).unwrap_err();
    assert!(
        matches!(error, Error::NodesFull { needed: 3968 }),
        "{error}"
    );
    assert_eq!((region.bytes(), home.heap.free_lines()), before);
    home.remove(1, &[2, 3, 4]).unwrap();
    commit(&home, vec![node(1, true, &[], &[1; 3900])], vec![]).unwrap();
}

#[test]
fn regions_that_cannot_be_formatted_are_refused() {
    let try_create = |bytes: &[u8], nodes| {
        let region = Simulated::new(bytes);
        let created = NvmHome::create(medium(&region), 8, nodes, 0);
        (created.map(|home| home.identity()), region.bytes() == bytes)
    };
    let least = vec![0; (HEAP + 4096) as usize];
    assert!(try_create(&least, NODES).0.is_ok());
    let (small, same) = try_create(&least[512..], NODES);
    assert!(matches!(small, Err(Error::TooSmall { needed: 12_288, .. })) && same);
    assert!(matches!(
        try_create(&[0; 512], NODES).0,
        Err(Error::TooSmall { .. })
    ));
    assert!(matches!(
        try_create(&least, 1).0,
        Err(Error::BadOption { .. })
    ));
    let too_many = Nvm::new(Simulated::new(&least)).slots(u32::MAX, u32::MAX);
    let too_many = NvmHome::create(too_many, 8, NODES, 0).map(|_| ());
    assert!(matches!(too_many, Err(Error::BadOption { .. })));
    for at in [0, 9, 511, 4095] {
        let mut other = least.clone();
        other[at] = 1;
        let (created, same) = try_create(&other, NODES);
        assert!(
            matches!(created, Err(Error::Occupied { .. })) && same,
            "{at}"
        );
    }
    // A volume, unless it was never opened for writing.
    let region = Simulated::new(&least);
    let home = NvmHome::create(medium(&region), 7, NODES, 0).unwrap();
    let (created, _) = try_create(&region.bytes(), NODES);
    assert_eq!(created.unwrap().volume, 8);
    stamp(&home);
    let (created, same) = try_create(&region.bytes(), NODES);
    assert!(matches!(created, Err(Error::Occupied { .. })) && same);
}

#[test]
fn regions_without_a_sound_superblock_are_refused() {
    let (region, _) = create(1);
    let bytes = region.bytes();
    let error = |bytes: &[u8]| reopen(bytes).unwrap_err();
    assert!(matches!(
        error(&vec![0; bytes.len()]),
        Error::NotAVolume { .. }
    ));
    let mut cut_off = bytes.clone();
    cut_off[..8].copy_from_slice(&FORMATTING.to_le_bytes());
    assert!(matches!(error(&cut_off), Error::NotAVolume { .. }));
    for short in [512, 4096, bytes.len() - 512] {
        assert!(
            matches!(error(&bytes[..short]), Error::TooSmall { .. }),
            "{short}"
        );
    }
    for at in 0..SUPERBLOCK {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        assert_eq!(reopen(&damaged).unwrap().identity().volume, 7, "{at}");
        damaged[COPY as usize + at] ^= 4;
        let found = reopen(&damaged).map(|home| home.identity());
        assert!(found.is_err(), "{at}: {found:?}");
    }
}

const SUPERBLOCK: usize = crate::superblock::SUPERBLOCK_BYTES;

#[test]
fn damaged_entries_and_slots_are_not_written_over() {
    let (region, home) = create(1);
    one_file(&home);
    let (files, _) = reach(&home).unwrap();
    let bytes = region.bytes();
    let (entry, other) = (home.layout.entry(3), home.layout.entry(2));
    let word = home.region.load(other);
    // Out of the heap, without lines, too many lines, and the lines of another node.
    let damages = [1, word & ((1 << 40) - 1), word | 0xff << 40, word];
    for damage in damages {
        let mut damaged = bytes.clone();
        damaged[entry as usize..][..8].copy_from_slice(&damage.to_le_bytes());
        let home = reopen(&damaged).unwrap();
        let error = home.stamp(home.identity()).unwrap_err();
        assert!(
            matches!(error, Error::Corrupt { at, .. } if at == entry),
            "{error}"
        );
        assert!(
            matches!(home.load(3), Err(Error::Corrupt { .. })),
            "{damage:x}"
        );
        for nid in [1, 2, 4] {
            assert_eq!(home.load(nid).unwrap().as_ref(), files.get(&nid));
        }
        assert_eq!(home.region.bytes(), damaged);
    }
    let slot = home.layout.slot(1);
    let pairs = encode_pairs([(2, word), (3, word)].into_iter());
    let high = encode_pairs([(2, word), (NODES, word)].into_iter());
    let slots = [
        (1 << 40 | 2, &pairs),
        (u64::MAX, &pairs),
        (slot_word(&high), &high),
    ];
    for (state, pairs) in slots {
        let mut damaged = bytes.clone();
        damaged[slot as usize..][..8].copy_from_slice(&state.to_le_bytes());
        damaged[slot as usize + 8..][..32].copy_from_slice(pairs);
        let home = reopen(&damaged).unwrap();
        let error = home.stamp(home.identity()).unwrap_err();
        assert!(
            matches!(error, Error::Corrupt { at, .. } if at == slot),
            "{error}"
        );
        assert_eq!(reach(&home).unwrap().0, files);
    }
}

#[test]
fn damaged_nodes_are_not_returned() {
    let (region, home) = create(1);
    one_file(&home);
    let place = Entry::decode(home.change(2, 0).old).place;
    let start = (place.line * 64) as usize;
    for at in start..start + 40 {
        let mut damaged = region.bytes();
        damaged[at] ^= 0x10;
        let home = reopen(&damaged).unwrap();
        stamp(&home);
        let error = home.load(2).unwrap_err();
        assert!(
            matches!(error, Error::Corrupt { at, .. } if at == start as u64),
            "{at}: {error}"
        );
        assert!(home.load(1).unwrap().is_some());
    }
    // An intact node, but an older image of it, and another node.
    let old = node(2, false, &[], &[8; 8]).bytes;
    for (nid, bytes) in [(2, old), (2, node(3, false, &[], &[9; 8]).bytes)] {
        let mut damaged = region.bytes();
        damaged[start..start + bytes.len()].copy_from_slice(&bytes);
        assert!(matches!(
            reopen(&damaged).unwrap().load(nid),
            Err(Error::Corrupt { .. })
        ));
    }
}

/// A reader has found an entry, and holds the stripe, when a commit comes to replace the entry.
#[test]
fn a_place_is_not_free_while_a_reader_may_read_it() {
    let (region, home) = create(1);
    one_file(&home);
    let entry = |nid| home.region.load(home.layout.entry(nid));
    let (old, place) = (entry(2), Entry::decode(entry(2)).place);
    let new = node(2, false, &[], &[8; 8]);
    std::thread::scope(|scope| {
        let slots: Vec<_> = home.slots.iter().map(Mutex::lock).collect();
        let stores = vec![node(1, true, &[2, 3, 4], &[]), new.clone()];
        let committer = scope.spawn(|| commit(&home, stores, vec![]).unwrap());
        // Once the node is stored, the commit has read its entry, and it waits for a slot.
        let is_stored = |bytes: &[u8]| bytes.windows(new.bytes.len()).any(|it| it == new.bytes);
        while !is_stored(&region.bytes()) {
            std::thread::yield_now();
        }
        let reader = home.stripe(2).lock();
        drop(slots);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(entry(2), old);
        assert!(!home.heap.claim(place));
        drop(reader);
        committer.join().unwrap();
        assert!(home.heap.claim(place));
    });
}

/// Threads load nodes that others replace all the time, in a heap that is nearly full.
#[test]
fn loads_never_see_a_place_that_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("region");
    let region = MappedFile::create(&path, 12 * 4096, Options::new()).unwrap();
    let home = NvmHome::create(Nvm::new(region).slots(2, 3), 7, NODES, 0).unwrap();
    let mut identity = home.identity();
    identity.generation = 1;
    home.stamp(identity).unwrap();
    let commit = |inode: Nid, round: u32| {
        let content = vec![round as u8; 900 + round as usize % 5 * 64];
        let other = node(inode + 1, false, &[], &content);
        let change = Change {
            inode,
            stores: vec![node(inode, true, &[inode + 1], &content), other],
            frees: vec![],
        };
        home.apply(&change).unwrap();
    };
    const FILES: [Nid; 2] = [1, 3];
    FILES.iter().for_each(|&inode| commit(inode, 0));
    std::thread::scope(|scope| {
        for inode in FILES {
            scope.spawn(move || (1..4000).for_each(|round| commit(inode, round)));
        }
        for nid in [1, 2] {
            let home = &home;
            scope.spawn(move || {
                for _ in 0..8000 {
                    let node = home.load(nid).unwrap().expect("always there");
                    assert_eq!(node[4], nid as u8);
                }
            });
        }
    });
    let live: u64 = (1..5)
        .map(|nid| Entry::decode(home.change(nid, 0).old).place.lines)
        .sum();
    let heap = home.layout.heap();
    assert_eq!(home.heap.free_lines() + live, heap.end - heap.start);
}

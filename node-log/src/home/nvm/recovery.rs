//! Formatting a region, and opening one.
//!
//! Opening reads the slots and the NAT, and writes nothing: the entries of valid slots stay in
//! memory until the first stamp.

use std::collections::BTreeMap;

use spanlock_pmem::{Durable, Pmem};
use spanlock_sync::Mutex;

use super::heap::Heap;
use super::layout::{
    COPY, Entry, FORMATTING, GENERATIONS, HALF, Layout, MAGIC, check_len, corrupt, corrupt_entry,
    decode_generation, decode_pairs, encode_generation, slot_word,
};
use super::{Nvm, NvmHome, STRIPES, State, Stripe, check_writable};
use crate::error::Error;
use crate::home::Identity;
use crate::node::{BLOCK_BYTES, Nid};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};

/// The number of bytes that are cleared at a time.
const CHUNK: u64 = 1 << 16;

/// Formats a region. Until all else is durable, its first word says that formatting is under way.
/// So an interrupted creation can be repeated.
pub(super) fn create<P: Pmem>(medium: &Nvm<P>, volume: u128, nodes: u32) -> Result<(), Error> {
    let region = &medium.region;
    let layout = Layout {
        nodes,
        slots: u64::from(medium.slots),
        pairs: u64::from(medium.pairs),
        whole_blocks: medium.whole_blocks,
        len: region.len(),
    };
    let layout = layout.check()?;
    check_writable(region)?;
    check_free(region)?;
    let identity = Identity {
        volume,
        generation: 0,
        is_opening: false,
    };
    let write = |at: u64, bytes: &[u8]| {
        // SAFETY: no other thread has the region.
        let written = unsafe { region.write(at, bytes) };
        region.persist(written)
    };
    let publish = |at, word, after| region.persist(region.publish(at, word, after));

    let mut durable = publish(0, FORMATTING, Durable::at_rest());
    let zeros = vec![0; CHUNK as usize];
    for at in (8..layout.heap_start()).step_by(CHUNK as usize) {
        let len = CHUNK.min(layout.heap_start() - at);
        durable = durable.and(write(at, &zeros[..len as usize]));
    }
    for at in GENERATIONS {
        durable = publish(at, encode_generation(identity), durable);
    }
    let sector = layout.superblock(identity).encode(MAGIC);
    let (first, rest) = sector.split_first_chunk().expect("512 bytes");
    durable = durable.and(write(COPY, &sector)).and(write(8, rest));
    let _durable = publish(0, u64::from_le_bytes(*first), durable);
    Ok(())
}

/// Checks that a region can be formatted: it begins with zeros, its formatting was interrupted, or
/// it has not been opened for writing since it was formatted.
fn check_free(region: &impl Pmem) -> Result<(), Error> {
    let mut start = [0; BLOCK_BYTES];
    // SAFETY: no other thread has the region.
    unsafe { region.read(0, &mut start) };
    let is_unused = || {
        let superblock = read_superblock(region).ok()?;
        let identity = read_identity(region, &superblock).ok()?;
        Some(identity.generation == 0)
    };
    let is_free = start.iter().all(|it| *it == 0)
        || region.load(0) == FORMATTING
        || is_unused().unwrap_or(false);
    match is_free {
        true => Ok(()),
        false => Err(Error::Occupied { half: HALF }),
    }
}

/// Opens a region.
pub(super) fn open<P: Pmem>(region: P) -> Result<NvmHome<P>, Error> {
    check_len(BLOCK_BYTES as u64, region.len())?;
    let superblock = read_superblock(&region)?;
    let layout = Layout::of(&superblock).ok_or(corrupt("the superblock", 0))?;
    check_len(layout.len, region.len())?;
    let identity = read_identity(&region, &superblock)?;

    let mut damage = None;
    let (mut valid_slots, mut recovered) = (Vec::new(), BTreeMap::new());
    for at in (0..layout.slots).map(|slot| layout.slot(slot)) {
        match read_slot(&region, layout, at) {
            Some(pairs) if pairs.is_empty() => {}
            Some(pairs) => {
                valid_slots.push(at);
                recovered.extend(pairs);
            }
            None => damage = damage.or(Some(corrupt("a redo slot", at))),
        }
    }
    let heap = Heap::new(layout.heap());
    let stripes = layout.nodes.min(STRIPES);
    let mut stripes: Vec<_> = (0..stripes).map(|_| Stripe::default()).collect();
    for nid in 1..layout.nodes {
        let at = layout.entry(nid);
        let word = match recovered.get(&nid) {
            Some(&word) => {
                let stripe = nid as usize % stripes.len();
                stripes[stripe].recovered.insert(nid, word);
                word
            }
            None => region.load(at),
        };
        if word != 0 && !heap.claim(Entry::decode(word).place) {
            damage = damage.or(Some(corrupt_entry(at)));
        }
    }
    Ok(NvmHome {
        region,
        layout,
        heap,
        slots: (0..layout.slots).map(|_| Mutex::new(0)).collect(),
        stripes: stripes.into_iter().map(Mutex::new).collect(),
        state: Mutex::new(State {
            identity,
            valid_slots,
            damage,
        }),
    })
}

/// Reads the superblock, or its copy if the superblock is damaged.
fn read_superblock(region: &impl Pmem) -> Result<Superblock, Error> {
    let read = |at| {
        let mut sector = [0; SUPERBLOCK_BYTES];
        // SAFETY: no other thread has the region.
        unsafe { region.read(at, &mut sector) };
        Superblock::decode(&sector, MAGIC, HALF)
    };
    let nothing = Error::NotAVolume { half: HALF };
    if region.load(0) == FORMATTING {
        return Err(nothing);
    }
    let first = read(0);
    let copy = || read(COPY).ok().flatten();
    match first.clone().ok().flatten().or_else(copy) {
        Some(found) => Ok(found),
        None => first?.ok_or(nothing),
    }
}

fn read_identity(region: &impl Pmem, superblock: &Superblock) -> Result<Identity, Error> {
    let mut words = GENERATIONS.iter().map(|&at| region.load(at));
    let (generation, is_opening) = words
        .find_map(decode_generation)
        .ok_or(corrupt("the generation", GENERATIONS[0]))?;
    Ok(Identity {
        volume: superblock.identity.volume,
        generation,
        is_opening,
    })
}

/// Reads a slot: no pairs if it is free, and `None` if it is damaged.
fn read_slot(region: &impl Pmem, layout: Layout, at: u64) -> Option<Vec<(Nid, u64)>> {
    let word = region.load(at);
    let count = word & u64::from(u32::MAX);
    if word == 0 {
        return Some(Vec::new());
    }
    if count > layout.pairs {
        return None;
    }
    let mut bytes = vec![0; count as usize * 16];
    // SAFETY: no other thread has the region.
    unsafe { region.read(at + 8, &mut bytes) };
    if slot_word(&bytes) != word {
        return None;
    }
    let pair = |(nid, entry): (u64, u64)| {
        let nid = Nid::try_from(nid).ok().filter(|&nid| layout.has(nid))?;
        Some((nid, entry))
    };
    decode_pairs(&bytes).map(pair).collect()
}

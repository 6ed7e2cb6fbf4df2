//! The check and the scrub: nothing to find in sound stores, and what there is in damaged ones.

use std::io;
use std::sync::Arc;

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::Storage;
use spanlock_journal_commit::testing::Recorded;
use spanlock_object_store::space::{self, Disk, Space, Vector};
use spanlock_object_store::{Layout, Mode, Store};

use crate::common::{BLOCK, LAYOUTS, OnDisk, REGION, create, device, open, options};

const VERSIONS: Mode = Mode::Versions { log: 8 * BLOCK };

/// A store with two written objects, a pre-created one and a deleted one.
fn store(layout: Layout, mode: Mode) -> OnDisk {
    let store = create(&device(), &options(layout, mode).pre_create(4));
    for id in 1..=3 {
        assert_eq!(store.create_object().unwrap(), id);
        store.write(id, 600, &[1; 1000]).unwrap();
        store.write(id, 600, &[2; 100]).unwrap();
    }
    store.delete(2).unwrap();
    store
}

/// Where the region of an object starts, if the blocks and regions are those of the tests.
fn region(id: u64) -> u64 {
    id * REGION
}

fn findings(store: &mut OnDisk) -> Vec<String> {
    let report = store.check().unwrap();
    report.findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_store_is_counted() {
    for layout in LAYOUTS {
        for mode in [Mode::Direct, Mode::DirectSized, VERSIONS] {
            let mut store = store(layout, mode);
            let report = store.check().unwrap();
            assert_eq!(report.findings, []);
            assert_eq!((report.objects, report.pre_created), (2, 1));
            // Each has a version of 600 zeros and 1000 bytes, and an empty one.
            assert_eq!(report.versions, if mode == VERSIONS { 4 } else { 0 });
            let stats = store.space().stats();
            assert_eq!(report.bytes, (stats.places - stats.free) * BLOCK);
            let mut last = (0, 1);
            assert_eq!(store.scrub(|done, all| last = (done, all)).unwrap(), []);
            assert_eq!(last, (report.bytes, report.bytes));
        }
    }
}

#[test]
fn damage_is_found_where_it_is() {
    let damaged = |layout, mode, vectors: &[Vector<'_>]| {
        let mut store = store(layout, mode);
        store.space().write_batch(vectors).unwrap();
        findings(&mut store)
    };
    let sized = Mode::DirectSized;
    let one = |found: Vec<String>, parts: &[&str]| {
        assert!(
            !found.is_empty() && parts.iter().all(|it| found[0].contains(it)),
            "{found:?}"
        );
    };
    // A head, a slot.
    let head = region(3);
    let found = damaged(Layout::Region, sized, &[Vector::write(head + 9, &[1])]);
    one(found, &["object 3: its head is damaged", &head.to_string()]);
    let found = damaged(Layout::Packed, sized, &[Vector::write(BLOCK, &[1])]);
    assert!(
        found.iter().any(|it| it.contains("slot 0 is damaged")),
        "{found:?}"
    );
    // Data of no object, and past an object's end.
    let found = damaged(Layout::Packed, sized, &[Vector::write(region(2), &[1])]);
    one(found, &["object 2: 512 bytes that nothing uses"]);
    let found = damaged(
        Layout::Packed,
        sized,
        &[Vector::write(region(1) + 4 * BLOCK, &[1])],
    );
    one(
        found,
        &[
            "object 1: 512 bytes that nothing uses",
            &(region(1) + 4 * BLOCK).to_string(),
        ],
    );
    let found = damaged(
        Layout::Packed,
        Mode::Direct,
        &[Vector::write(region(1) + 4 * BLOCK, &[1])],
    );
    assert_eq!(
        found,
        [] as [String; 0],
        "without sizes, all of a region can be in use"
    );
    // The blocks between the slots and the first region.
    let found = damaged(Layout::Packed, sized, &[Vector::write(100 * BLOCK, &[1])]);
    one(found, &["512 bytes that nothing uses"]);
}

/// The slots are zeros, so an object is there whose id may be given out again.
#[test]
fn a_lost_slot_is_found() {
    let mut store = store(Layout::Packed, Mode::DirectSized);
    for slot in 0..64 {
        store
            .space()
            .write_batch(&[Vector::write((1 + slot) * BLOCK, &[0; 32])])
            .unwrap();
    }
    // Memory still knows the slots. Another store does not.
    assert_eq!(store.check().unwrap().objects, 2);
    let image = store.space().medium().storage().visible();
    let device = Arc::new(Recorded::from_image(image));
    let mut store = open(&device, &options(Layout::Packed, Mode::DirectSized)).unwrap();
    let found = findings(&mut store);
    assert!(
        found
            .iter()
            .any(|it| it.contains("bytes that nothing uses")),
        "{found:?}"
    );
}

#[test]
fn broken_chains_of_versions_are_found() {
    let log = region(3) + REGION - 8 * BLOCK;
    let broken = |vector: Vector<'_>| {
        let mut store = store(Layout::Packed, VERSIONS);
        store.space().write_batch(&[vector]).unwrap();
        findings(&mut store)
    };
    // The first write had nothing to keep; the second keeps one block.
    let found = broken(Vector::write(log + BLOCK + 8, &[7]));
    assert!(found[0].contains("object 3: a commit block"), "{found:?}");
    let found = broken(Vector::trim(log..log + BLOCK));
    assert!(found[0].contains("object 3: a commit block"), "{found:?}");
    let found = broken(Vector::write(log + 5 * BLOCK, &[7]));
    assert!(
        found[0].contains("512 bytes that nothing uses"),
        "{found:?}"
    );
}

/// A device whose block 300 cannot be read any more.
#[derive(Debug)]
struct Worn {
    device: Recorded,
    is_worn: std::sync::atomic::AtomicBool,
}

impl Storage for Worn {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let worn = 300 * BLOCK;
        let is_worn = self.is_worn.load(std::sync::atomic::Ordering::Relaxed);
        match is_worn && (offset..offset + buf.len() as u64).contains(&worn) {
            true => Err(io::Error::other("a worn block")),
            false => self.device.read_at(buf, offset),
        }
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_at(data, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.device.write_fua(data, offset)
    }
}

#[test]
fn a_scrub_finds_the_block_that_cannot_be_read() {
    let worn = Arc::new(Worn {
        device: Recorded::new(256 << 10),
        is_worn: false.into(),
    });
    let of_space = space::Options::new()
        .block(BLOCK as u32)
        .size(1 << 28)
        .rings(1, 32_768);
    let space = Space::create(Disk::new(worn.clone()), &of_space, IntervalLock::new()).unwrap();
    let store = Store::create(space, &options(Layout::Packed, Mode::DirectSized)).unwrap();
    let mut data = Vec::new();
    for id in 1..=4 {
        store.create_object().unwrap();
        data = (0..100 * BLOCK).map(|nth| (nth / BLOCK) as u8).collect();
        store.write(id, 0, &data).unwrap();
    }
    assert_eq!(store.scrub(|_, _| ()).unwrap(), []);
    worn.is_worn
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let found = store.scrub(|_, _| ()).unwrap();
    let [finding] = &found[..] else {
        panic!("{found:?}")
    };
    // Reading just this block fails, and reading the block before does not.
    let (id, at) = (finding.id.unwrap(), finding.at.unwrap());
    let offset = at - region(id);
    let mut block = [0; BLOCK as usize];
    assert!(store.read(id, offset, &mut block).is_err());
    store.read(id, offset - BLOCK, &mut block).unwrap();
    assert_eq!(block[..], data[(offset - BLOCK) as usize..offset as usize]);
    assert!(finding.to_string().contains("a worn block"), "{finding}");
}

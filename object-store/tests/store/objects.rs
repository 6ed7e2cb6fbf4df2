//! What the operations on an object do, and what they refuse.

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::testing::Recorded;
use spanlock_object_store::space::{self, Disk, Space, Vector};
use spanlock_object_store::{Error, Layout, Mode, Options, Store};

use crate::common::{
    BLOCK, LAYOUTS, MODES, REGION, content, create, device, open, options, reopen,
};

#[test]
fn objects_are_written_read_and_deleted_in_both_layouts_and_modes() {
    for layout in LAYOUTS {
        for mode in MODES {
            let (device, options) = (device(), options(layout, mode));
            let store = create(&device, &options);
            let ids: Vec<_> = (0..3).map(|_| store.create_object().unwrap()).collect();
            assert_eq!(ids, [1, 2, 3]);
            for (id, byte) in ids.iter().zip(1..) {
                store.write(*id, 700, &[byte; 100]).unwrap();
                store.write(*id, 750, &[byte + 10; 10]).unwrap();
            }
            store.delete(2).unwrap();
            let check = |store: &Store<_, _>| {
                for (id, byte) in [(1, 1), (3, 3)] {
                    let mut expected = vec![0; 700];
                    expected.extend([byte; 50]);
                    expected.extend([byte + 10; 10]);
                    expected.extend([byte; 40]);
                    let size = Some(expected.len() as u64).filter(|_| mode == Mode::DirectSized);
                    assert_eq!(store.size(id).unwrap(), size);
                    if mode == Mode::Direct {
                        // Reads zeros past what was written.
                        expected.resize(4096, 0);
                    }
                    assert_eq!(content(store, id).unwrap(), expected);
                }
                assert_eq!(store.list(0, 10).unwrap(), [1, 3]);
                assert_eq!(store.list(2, 10).unwrap(), [3]);
                assert_eq!(store.list(0, 1).unwrap(), [1]);
                assert!(matches!(content(store, 2), Err(Error::UnknownId { id: 2 })));
            };
            check(&store);
            check(&reopen(&device, &options));
        }
    }
}

#[test]
fn a_deletion_frees_all_that_the_object_has() {
    for layout in LAYOUTS {
        let store = create(&device(), &options(layout, Mode::DirectSized));
        // The table and the slot keep their blocks.
        store.create_object().unwrap();
        let free = store.space().stats().free;
        let id = store.create_object().unwrap();
        store.write(id, 0, &[1; 10 * BLOCK as usize]).unwrap();
        store.write(id, store.capacity() - 5, &[2; 5]).unwrap();
        let used = free - store.space().stats().free;
        assert_eq!(used, 11 + u64::from(layout == Layout::Region));
        store.delete(id).unwrap();
        assert_eq!(store.space().stats().free, free);
    }
}

/// A full store can be emptied, and then takes no more room than an empty one: heads of objects
/// that are gone take none.
#[test]
fn a_full_store_can_be_emptied() {
    for layout in LAYOUTS {
        for mode in MODES {
            let mut store = create(&device(), &options(layout, mode));
            let first = store.create_object().unwrap();
            store.delete(first).unwrap();
            let empty = store.space().stats().free;
            let mut ids = Vec::new();
            let full = loop {
                let written = store.create_object().and_then(|id| {
                    ids.push(id);
                    store.write(id, 0, &[1; 3 * BLOCK as usize])
                });
                if let Err(error) = written {
                    break error;
                }
            };
            let is_full = matches!(full, Error::Space(space::Error::NoSpace { .. }));
            assert!(is_full, "{full:?}");
            for id in ids {
                store.delete(id).unwrap();
            }
            assert_eq!(store.space().stats().free, empty);
            assert_eq!(store.check().unwrap().findings, []);
            assert_eq!(store.list(0, 1).unwrap(), []);
        }
    }
}

#[test]
fn ids_that_nobody_got_are_unknown() {
    for layout in LAYOUTS {
        let store = create(&device(), &options(layout, Mode::DirectSized));
        let id = store.create_object().unwrap();
        for unknown in [0, id + 1, 1000, 1 << 40, u64::MAX] {
            let is_unknown = |it: Result<(), Error>| {
                assert!(
                    matches!(it, Err(Error::UnknownId { id }) if id == unknown),
                    "{it:?}"
                );
            };
            is_unknown(store.read(unknown, 0, &mut [0]).map(drop));
            is_unknown(store.write(unknown, 0, &[1]));
            is_unknown(store.delete(unknown));
            is_unknown(store.size(unknown).map(drop));
        }
        store.delete(id).unwrap();
        assert!(matches!(store.delete(id), Err(Error::UnknownId { .. })));
        assert_eq!(store.create_object().unwrap(), id + 1);
    }
}

#[test]
fn an_object_larger_than_its_region_is_refused() {
    for (layout, capacity) in [(Layout::Region, REGION - BLOCK), (Layout::Packed, REGION)] {
        for mode in MODES {
            let store = create(&device(), &options(layout, mode));
            let [id, next] = [
                store.create_object().unwrap(),
                store.create_object().unwrap(),
            ];
            assert_eq!(store.capacity(), capacity);
            for (offset, len) in [
                (capacity, 1),
                (capacity - 1, 2),
                (u64::MAX, 1),
                (1 << 40, 3),
            ] {
                let error = store.write(id, offset, &vec![1; len]).unwrap_err();
                assert!(matches!(error, Error::TooLarge { .. }), "{error}");
            }
            store.write(id, capacity - 1, &[9]).unwrap();
            let mut found = [7; 4];
            let read = store.read(id, capacity - 2, &mut found).unwrap();
            assert_eq!((read, found), (2, [0, 9, 7, 7]));
            assert_eq!(store.read(id, capacity, &mut found).unwrap(), 0);
            assert_eq!(store.read(id, u64::MAX, &mut found).unwrap(), 0);
            assert!(content(&store, next).unwrap().iter().all(|it| *it == 0));
        }
    }
}

#[test]
fn spaces_without_a_store_or_with_a_damaged_one_are_refused() {
    let space = |device: &std::sync::Arc<Recorded>| {
        Space::open(Disk::new(device.clone()), IntervalLock::new()).unwrap()
    };
    let (device, options) = (device(), options(Layout::Packed, Mode::DirectSized));
    let store = create(&device, &options);
    store.create_object().unwrap();
    drop(store);
    assert!(matches!(
        Store::create(space(&device), &options),
        Err(Error::Occupied)
    ));
    // A slot, and the store block.
    for (at, why) in [(BLOCK * (1 + slot()), "a slot"), (20, "the store block")] {
        let space = space(&device);
        let mut byte = [0];
        space.read(at, &mut byte).unwrap();
        space
            .write_batch(&[Vector::write(at, &[byte[0] ^ 4])])
            .unwrap();
        let error = Store::open(space, &options).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    space(&device).trim(0..BLOCK).unwrap();
    assert!(matches!(open(&device, &options), Err(Error::NotAStore)));
}

/// Returns the slot of the calling thread.
fn slot() -> u64 {
    spanlock_sync::thread::index() as u64 % 64
}

#[test]
fn a_damaged_head_is_found() {
    for layout in LAYOUTS {
        let (device, options) = (device(), options(layout, Mode::DirectSized));
        let store = create(&device, &options);
        let id = store.create_object().unwrap();
        store.write(id, 0, b"data").unwrap();
        // The region layout's base is that of region 1; the table follows the last region.
        let regions = (1 << 28) / REGION;
        let at = match layout {
            Layout::Region => REGION,
            Layout::Packed => (0..regions * REGION)
                .step_by(REGION as usize)
                .map(|at| at + 64 * id)
                .filter(|at| {
                    let mut found = [0];
                    store.space().read(*at, &mut found).unwrap();
                    found == [2]
                })
                .last()
                .unwrap(),
        };
        store
            .space()
            .write_batch(&[Vector::write(at + 8, &[1])])
            .unwrap();
        assert!(matches!(store.size(id), Err(Error::Corrupt { .. })));
        assert!(matches!(
            store.write(id, 0, b"x"),
            Err(Error::Corrupt { .. })
        ));
        assert!(matches!(store.list(0, 9), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn options_that_cannot_be_are_refused() {
    let cases = [
        (Options::new().region(BLOCK), "at least two"),
        (
            Options::new().region(REGION + 1),
            "a multiple of the space's block",
        ),
        (Options::new().region(1 << 28), "no room for a region"),
        (Options::new().region(REGION).pre_create(0), "from 1 to 100"),
        (
            Options::new().region(REGION).pre_create(101),
            "from 1 to 100",
        ),
        (
            Options::new().region(REGION).skip_number(0),
            "the skip number is 0",
        ),
    ];
    for (options, why) in cases {
        let medium = Disk::new(Recorded::new(256 << 10));
        let of_space = space::Options::new().block(BLOCK as u32).size(1 << 28);
        let space = Space::create(medium, &of_space, IntervalLock::new()).unwrap();
        let error = Store::create(space, &options).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

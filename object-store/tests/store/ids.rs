//! Ids: none is given out twice, few are lost, and few writes are needed.

use std::collections::BTreeSet;
use std::sync::Arc;

use spanlock_journal_commit::testing::{Loss, Recorded};
use spanlock_object_store::{Error, Layout, Mode, Options};

use crate::common::{BLOCK, LAYOUTS, OnDisk, REGION, content, create, device, open, options};

/// Creates `count` objects in each of several threads.
fn create_in_threads(store: &OnDisk, threads: usize, count: usize) -> Vec<u64> {
    std::thread::scope(|scope| {
        let create = || {
            (0..count)
                .map(|_| store.create_object().unwrap())
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(create)).collect();
        threads
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    })
}

#[test]
fn no_id_is_given_out_twice_by_threads_and_reopenings() {
    for (skip, heads) in [(1, 1), (8, 1), (8, 8), (5, 3), (1, 10), (100, 64)] {
        for layout in LAYOUTS {
            let device = Arc::new(Recorded::new(1 << 20));
            let options = options(layout, Mode::Direct)
                .skip_number(skip)
                .pre_create(heads);
            let mut store = create(&device, &options);
            let mut given = BTreeSet::new();
            for _ in 0..3 {
                for id in create_in_threads(&store, 5, 9) {
                    assert!(given.insert(id), "{id} twice, {skip} {heads} {layout:?}");
                }
                drop(store);
                store = open(&device, &options).unwrap();
            }
            for id in &given {
                content(&store, *id).unwrap();
            }
        }
    }
}

/// Each crash loses at most *N* ids of a thread. A slot continues in its range afterwards.
#[test]
fn a_crash_loses_at_most_the_skip_number_of_ids() {
    for (skip, heads) in [(1, 1), (8, 1), (8, 4), (16, 16), (4, 16)] {
        let mut device = device();
        let options = options(Layout::Packed, Mode::Direct);
        let options = options.skip_number(skip).pre_create(heads);
        let mut store = create(&device, &options);
        let mut last = 0;
        for creations in [1, 3, 8, 20, 5] {
            let first = store.create_object().unwrap();
            assert!(
                first - last <= skip.max(heads),
                "{first} after {last}, {skip} {heads}"
            );
            last = first;
            for _ in 1..creations {
                let id = store.create_object().unwrap();
                assert_eq!(id, last + 1);
                last = id;
            }
            let history = device.history();
            device = Arc::new(Recorded::from_image(
                history.image(history.len(), Loss::Everything),
            ));
            store = open(&device, &options).unwrap();
        }
    }
}

/// Of the first range, of 64 ids, one belongs to no object.
#[test]
fn pre_creation_and_the_skip_number_save_writes() {
    let cost = |layout, skip, heads| {
        let device = Arc::new(Recorded::new(1 << 20));
        let options: Options = options(layout, Mode::Direct)
            .skip_number(skip)
            .pre_create(heads);
        let store = create(&device, &options);
        let before = store.space().stats();
        for id in 1..64 {
            assert_eq!(store.create_object().unwrap(), id);
        }
        let after = store.space().stats();
        (after.commits - before.commits, before.free - after.free)
    };
    // Commits, and the blocks that stay used: heads, and a slot.
    assert_eq!(cost(Layout::Region, 1, 1), (63, 64));
    assert_eq!(cost(Layout::Region, 64, 16), (4, 64));
    assert_eq!(cost(Layout::Packed, 64, 1), (63, 9));
    assert_eq!(cost(Layout::Packed, 64, 64), (1, 9));
}

#[test]
fn a_pre_created_object_is_no_created_one() {
    for layout in LAYOUTS {
        for mode in [Mode::Direct, Mode::DirectSized] {
            let device = device();
            let options = options(layout, mode).pre_create(8);
            let store = create(&device, &options);
            let ids: Vec<_> = (0..4).map(|_| store.create_object().unwrap()).collect();
            store.write(ids[2], 3, b"written").unwrap();
            let check = |store: &OnDisk| {
                // The first one was created by the batch, the third one by its write.
                assert_eq!(store.list(0, 100).unwrap(), [ids[0], ids[2]]);
                // The second one was given out: it is there, and empty.
                assert!(content(store, ids[1]).unwrap().iter().all(|it| *it == 0));
            };
            check(&store);
            let unknown = content(&store, ids[3] + 1);
            assert!(
                matches!(unknown, Err(Error::UnknownId { .. })),
                "{unknown:?}"
            );
            drop(store);
            let store = open(&device, &options).unwrap();
            check(&store);
            // The fifth was not given out. Now it looks like one that was.
            assert!(
                content(&store, ids[3] + 1)
                    .unwrap()
                    .iter()
                    .all(|it| *it == 0)
            );
            let id = store.create_object().unwrap();
            assert!(
                id > ids[3] + 4,
                "{id} may have been given out before the crash"
            );
            store.write(ids[1], 0, b"late").unwrap();
            assert_eq!(store.list(0, 100).unwrap(), [ids[0], ids[1], ids[2], id]);
        }
    }
}

/// An id that was not given out yet is unknown, although its head is written: the creation that
/// gives it out finds it empty.
#[test]
fn a_pre_created_object_is_unknown_until_its_id_is_given_out() {
    for layout in LAYOUTS {
        let device = device();
        let options = options(layout, Mode::DirectSized).pre_create(8);
        let store = create(&device, &options);
        assert_eq!(store.create_object().unwrap(), 1);
        let is_unknown = |it: Result<(), Error>| {
            assert!(matches!(it, Err(Error::UnknownId { id: 2 })), "{it:?}");
        };
        is_unknown(store.delete(2));
        is_unknown(store.write(2, 0, b"old"));
        is_unknown(store.size(2).map(drop));
        assert_eq!(store.create_object().unwrap(), 2);
        assert_eq!(store.size(2).unwrap(), Some(0));
        // After a crash, nothing says that 3 was not given out.
        let store = open(&Arc::new(Recorded::from_image(device.visible())), &options).unwrap();
        store.write(3, 0, b"mine").unwrap();
    }
}

/// The last ids are given out to whoever wants them, whichever slot has them.
#[test]
fn threads_take_ids_of_other_slots_when_ranges_run_out() {
    let of = options(Layout::Packed, Mode::Direct).skip_number(64);
    let (device, of) = (device(), of.region(1 << 20));
    let store = create(&device, &of);
    let given = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let create = || {
        let id = store.create_object()?;
        assert!(given.lock().unwrap().insert(id), "{id} twice");
        Ok::<_, Error>(())
    };
    for _ in 0..8 {
        std::thread::scope(|scope| scope.spawn(create).join().unwrap()).unwrap();
    }
    let none = std::iter::repeat_with(create)
        .find_map(Result::err)
        .unwrap();
    assert!(
        matches!(none, Error::NoIds { regions } if regions == given.lock().unwrap().len() as u64)
    );
}

#[test]
fn all_ids_are_given_out_once_and_then_none() {
    let device = Arc::new(Recorded::new(4 << 20));
    let options = Options::new().region(REGION).skip_number(7).pre_create(3);
    let store = create(&device, &options);
    let mut given = BTreeSet::new();
    let error = loop {
        match store.create_object() {
            Ok(id) => assert!(given.insert(id)),
            Err(error) => break error,
        }
    };
    // 2^28 bytes hold this many regions and heads, besides the super region.
    let regions = given.len() as u64;
    assert!(
        matches!(error, Error::NoIds { regions: it } if it == regions),
        "{error}"
    );
    assert_eq!(given, (1..=regions).collect());
    assert!(
        ((1 << 28) / REGION - 10..(1 << 28) / REGION).contains(&regions),
        "{regions}"
    );
    store.write(regions, 0, &[1; BLOCK as usize]).unwrap();
    assert!(matches!(store.create_object(), Err(Error::NoIds { .. })));
    assert!(matches!(
        open_again(store, &device, &options).create_object(),
        Err(Error::NoIds { .. })
    ));
}

fn open_again(store: OnDisk, device: &Arc<Recorded>, options: &Options) -> OnDisk {
    drop(store);
    open(device, options).unwrap()
}

#[test]
fn a_creation_without_room_loses_no_id() {
    let device = device();
    let store = create(
        &device,
        &options(Layout::Region, Mode::Direct).skip_number(2),
    );
    let first = store.create_object().unwrap();
    let hog = store.create_object().unwrap();
    let mut offset = 0;
    while store.write(hog, offset, &[1]).is_ok() && offset + BLOCK < store.capacity() {
        offset += BLOCK;
    }
    let mut last = hog;
    let error = loop {
        match store.create_object() {
            Ok(id) => last = id,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Space(_)), "{error}");
    store.delete(first).unwrap();
    store.delete(hog).unwrap();
    assert_eq!(store.create_object().unwrap(), last + 1);
}

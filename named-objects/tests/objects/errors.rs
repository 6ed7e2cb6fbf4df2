//! Bad input, and stores that are none of named objects.

use std::sync::Arc;

use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error as TraitError, GetOptions, GetRange, ObjectStore, ObjectStoreExt,
    PutOptions,
};
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::testing::Recorded;
use spanlock_named_objects::{Error, NamedObjects};
use spanlock_object_store::space::{self, Disk, Space};
use spanlock_object_store::{Mode, Options, Store};

use crate::common::{BLOCK, REGION, content, create, device, flat, now, open_image, reopen_flat};

/// Returns the error of this crate inside one of the trait.
fn inner(error: &TraitError) -> &Error {
    let source = std::error::Error::source(error).expect("it has a source");
    source.downcast_ref().expect("it is ours")
}

#[test]
fn missing_names_and_bad_ranges_are_named() {
    let store = create(&device());
    let (path, other) = (Path::from("a/b"), Path::from("c"));
    let missing = [
        now(store.get(&path)).map(drop),
        now(store.head(&path)).map(drop),
        now(store.delete(&path)),
        now(store.copy(&path, &other)),
        now(store.rename(&path, &other)),
        now(store.rename(&path, &path)),
    ];
    for error in missing {
        let error = error.expect_err("there is none");
        assert!(matches!(error, TraitError::NotFound { .. }), "{error}");
        assert!(
            error.to_string().contains("no object is named a/b"),
            "{error}"
        );
    }
    now(store.put(&path, "12345".into())).expect("room");
    for range in [
        GetRange::Offset(5),
        GetRange::Bounded(7..9),
        GetRange::Bounded(3..3),
    ] {
        let error = now(store.get_opts(&path, GetOptions::new().with_range(Some(range))));
        let error = error.expect_err("a bad range");
        assert!(
            matches!(inner(&error), Error::BadRange { size: 5, .. }),
            "{error}"
        );
    }
    let error = now(store.get_opts(&path, GetOptions::new().with_version(Some("1"))));
    let error = error.expect_err("no versions");
    assert!(
        matches!(inner(&error), Error::Unsupported { .. }),
        "{error}"
    );
    now(store.put(&other, "x".into())).expect("room");
    for error in [
        now(store.copy_if_not_exists(&path, &other)),
        now(store.rename_if_not_exists(&path, &other)),
        now(store.rename_if_not_exists(&path, &path)),
    ] {
        let error = error.expect_err("it exists");
        assert!(matches!(inner(&error), Error::Exists { .. }), "{error}");
    }
    assert_eq!(content(&store, "c").unwrap(), "x");
    now(store.rename(&path, &path)).expect("it is there");
    assert_eq!(content(&store, "a/b").unwrap(), "12345");
}

#[test]
fn a_page_of_no_names_is_the_last() {
    let store = create(&device());
    now(store.put(&"a".into(), "x".into())).expect("room");
    for (max_keys, expected) in [(0, 0), (1, 1)] {
        let options = PaginatedListOptions {
            max_keys: Some(max_keys),
            ..Default::default()
        };
        let page = now(store.list_paginated(None, options)).expect("a page");
        assert_eq!(page.result.objects.len(), expected);
        assert_eq!(page.page_token, None);
    }
}

#[test]
fn an_object_larger_than_a_region_is_refused() {
    let store = create(&device());
    let path = Path::from("a");
    now(store.put(&path, "old".into())).expect("room");
    let most = (REGION - BLOCK) as usize;
    let error = now(store.put(&path, vec![1; most + 1].into())).expect_err("too large");
    assert!(matches!(inner(&error), Error::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("`Options::region`"), "{error}");
    assert_eq!(content(&store, "a").unwrap(), "old");
    now(store.put(&path, vec![1; most].into())).expect("it fits");
    assert_eq!(content(&store, "a").unwrap(), vec![1; most]);
}

#[test]
fn a_full_device_keeps_the_old_content_and_loses_no_room() {
    let device = device();
    let store = create(&device);
    let path = |nth| Path::from(format!("file {nth}"));
    now(store.put(&path(0), "old".into())).expect("room");
    let before = store.store().space().stats().free;
    let mut made = 0;
    let error = loop {
        match now(store.put(&path(made + 1), vec![1; 20 << 10].into())) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("no space"), "{error}");
    now(store.put(&path(0), vec![1; 40 << 10].into())).expect_err("no room");
    now(store.get_opts(&path(0), GetOptions::new())).expect("it is not locked");
    assert_eq!(content(&store, "file 0").unwrap(), "old");
    for nth in 1..=made {
        now(store.delete(&path(nth))).expect("it is there");
    }
    now(store.put(&path(0), "new".into())).expect("room");
    // The table of heads may have taken a block more.
    assert!(store.store().space().stats().free + 1 >= before);
}

/// Each upload's head is in a block of its own, so that to delete all in one batch takes more
/// places than a full store keeps for deletions.
#[test]
fn a_full_store_with_broken_uploads_can_be_opened_and_emptied() {
    let device = Arc::new(Recorded::new(8 << 20));
    let space = Space::create(
        Disk::new(device.clone()),
        &space::Options::new(),
        IntervalLock::new(),
    );
    let flat = Store::create(space.expect("a space"), &Options::new().region(1 << 20));
    let store = NamedObjects::open(flat.expect("a store")).expect("an empty store");
    let upload = &|nth: u32| {
        now(store.put(&Path::from(format!("beside {nth}")), "x".into())).expect("room");
        let mut upload = now(store.put_multipart(&Path::from("u"))).expect("room");
        now(upload.put_part("y".into())).expect("room");
        upload
    };
    let uploads: Vec<_> = std::thread::scope(|scope| {
        let threads = (0..8).map(|nth| scope.spawn(move || upload(nth)));
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(|it| it.join().expect("no panic"));
        joined.collect()
    });
    let mut made = 0;
    while now(store.put(&Path::from(format!("{made}")), "z".into())).is_ok() {
        made += 1;
    }
    let image = device.visible();
    drop(uploads);
    for store in [store, open_image(image)] {
        now(store.delete(&"beside 0".into())).expect("a deletion needs little room");
        let left = store.store().list(0, usize::MAX).expect("a list").len();
        assert_eq!(left, made + 7, "all uploads are gone");
        now(store.put(&"beside 1".into(), "new".into())).expect("there is room");
    }
}

/// Free places that lie scattered need a longer record than one batch may have.
#[test]
fn content_for_scattered_places_is_written_in_several_batches() {
    let device = Arc::new(Recorded::new(256 << 10));
    let of_space = space::Options::new()
        .block(512)
        .size(1 << 28)
        .rings(1, 16_384)
        .id(3);
    let space = Space::create(Disk::new(device.clone()), &of_space, IntervalLock::new());
    let store = Store::create(space.expect("a space"), &Options::new().region(REGION));
    let store = NamedObjects::open(store.expect("a store")).expect("an empty store");
    let path = |nth: u32| Path::from(format!("{nth:03}"));
    let mut made = 0;
    // Each takes one block, for its name.
    while now(store.put(&path(made), "".into())).is_ok() {
        made += 1;
    }
    for nth in (0..made).step_by(2) {
        now(store.delete(&path(nth))).expect("it is there");
    }
    let many: Vec<u8> = (0..50_000_u32).map(|at| (at / 100) as u8).collect();
    let commits = store.store().space().stats().commits;
    now(store.put(&"many".into(), many.clone().into())).expect("there is room");
    assert!(
        store.store().space().stats().commits > commits + 2,
        "it took one batch"
    );
    let store = open_image(device.visible());
    assert_eq!(content(&store, "many").unwrap(), many);
    assert_eq!(content(&store, "001").unwrap(), "");
}

#[test]
fn names_and_attributes_of_a_megabyte_are_refused() {
    let store = create(&device());
    let path = Path::from("x".repeat(1 << 20));
    let error = now(store.put(&path, "x".into())).expect_err("too long");
    assert!(
        matches!(inner(&error), Error::Unsupported { .. }),
        "{error}"
    );
    assert!(error.to_string().len() < 400, "{error}");
    let value = "x".repeat(1000);
    let mut attributes = Attributes::new();
    for nth in 0..40 {
        attributes.insert(
            Attribute::Metadata(format!("{nth}").into()),
            value.clone().into(),
        );
    }
    // 40 KiB fit, and lie before the content.
    let options = PutOptions::from(attributes.clone());
    now(store.put_opts(&"a".into(), "content".into(), options)).expect("room");
    let got = now(store.get(&"a".into())).expect("it is there");
    assert_eq!(got.attributes, attributes);
    assert_eq!(now(got.bytes()).unwrap(), "content");
    // A short name keeps the place of the content; a longer one than its block does not.
    now(store.put(&"b".into(), "content".into())).expect("room");
    let long = "y".repeat(700);
    now(store.rename(&"b".into(), &Path::from(long.clone()))).expect("room");
    assert_eq!(content(&store, &long).unwrap(), "content");
    now(store.rename(&Path::from(long.clone()), &"b".into())).expect("room");
    assert_eq!(content(&store, "b").unwrap(), "content");
    assert_eq!(content(&store, &long), None);
}

#[test]
fn a_store_of_other_objects_is_refused_and_kept() {
    for data in [&b""[..], b"data", &[0; 600], b"SpanlkNO and more"] {
        let device = device();
        let store = flat(&device);
        let named = |store| NamedObjects::open(store);
        let id = store.create_with(&[(0, data)], &[]).expect("room");
        let error = named(store).expect_err("it is not ours");
        assert!(
            matches!(error, Error::Unsound { id: found, .. } if found == id),
            "{error}"
        );
        assert_eq!(reopen_flat(&device).list(0, 9).expect("a list"), [id]);
    }
}

#[test]
fn a_store_of_versions_is_refused() {
    let medium = Disk::new(Arc::new(Recorded::new(1 << 20)));
    let space = Space::create(medium, &space::Options::new(), IntervalLock::new());
    let versions = Mode::Versions { log: 1 << 16 };
    let options = Options::new().region(1 << 20).mode(versions);
    let store = Store::create(space.expect("a space"), &options).expect("a store");
    let error = NamedObjects::open(store).expect_err("it keeps versions");
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

/// The name block has a sound checksum, but other numbers than an object can have.
#[test]
fn content_outside_of_the_object_is_found() {
    let sound = (2 * BLOCK, 5);
    let unsound = [
        (0, 5),
        (BLOCK / 2, 5),
        (2 * BLOCK, 6),
        (2 * BLOCK, u64::MAX),
        (u64::MAX - 511, 5),
        (1 << 40, 0),
    ];
    for (start, size) in [sound].into_iter().chain(unsound) {
        let store = flat(&device());
        let mut block = vec![0; 48];
        block.extend(b"\x01\0\0\0a\0\0\0\0");
        block[..8].copy_from_slice(b"SpanlkNO");
        (block[8], block[16], block[20]) = (1, block.len() as u8, 1);
        block[24..32].copy_from_slice(&u64::to_le_bytes(start));
        block[32..40].copy_from_slice(&u64::to_le_bytes(size));
        let sum = crc32c::crc32c(&block);
        block[12..16].copy_from_slice(&sum.to_le_bytes());
        let parts = [(0, &block[..]), (2 * BLOCK, b"hello")];
        let id = store.create_with(&parts, &[]).expect("room");
        match NamedObjects::open(store) {
            Ok(store) => {
                assert_eq!((start, size), sound);
                assert_eq!(content(&store, "a").unwrap(), "hello");
            }
            Err(error) => {
                assert!(
                    matches!(error, Error::Unsound { id: found, .. } if found == id),
                    "{error}"
                );
                assert_ne!((start, size), sound);
            }
        }
    }
}

#[test]
fn a_damaged_name_block_and_a_name_twice_are_found() {
    let device = device();
    let store = create(&device);
    now(store.put(&"a".into(), "1".into())).expect("room");
    now(store.put(&"b".into(), "2".into())).expect("room");
    drop(store);
    let store = reopen_flat(&device);
    let ids = store.list(0, 9).expect("a list");
    let mut block = vec![0; BLOCK as usize];
    store.read(ids[0], 0, &mut block).expect("it is there");
    let mut old = vec![0; BLOCK as usize];
    store.read(ids[1], 0, &mut old).expect("it is there");
    store.write(ids[1], 0, &block).expect("room");
    drop(store);
    let open = || NamedObjects::open(reopen_flat(&device));
    let error = open().expect_err("a name twice");
    assert!(matches!(error, Error::Unsound { .. }), "{error}");
    old[30] ^= 1;
    reopen_flat(&device).write(ids[1], 0, &old).expect("room");
    let error = open().expect_err("damage");
    assert!(
        matches!(error, Error::Unsound { id, .. } if id == ids[1]),
        "{error}"
    );
    old[30] ^= 1;
    reopen_flat(&device).write(ids[1], 0, &old).expect("room");
    assert_eq!(content(&open().expect("as before"), "b").unwrap(), "2");
}

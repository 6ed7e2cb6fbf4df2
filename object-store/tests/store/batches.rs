//! Changes to several objects in one batch, and creation with content.

use std::sync::Arc;

use spanlock_journal_commit::testing::{Loss, Recorded};
use spanlock_object_store::space::Error as SpaceError;
use spanlock_object_store::{Change, Error, Layout, Mode, Options};

use crate::common::{
    BLOCK, LAYOUTS, MODES, OnDisk, REGION, content, create, device, open, options, reopen,
};

/// Returns what a mode shows of an object with these bytes.
fn shown(bytes: &[u8], mode: Mode) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if mode == Mode::Direct {
        bytes.resize(4096, 0);
    }
    bytes
}

#[test]
fn a_creation_with_content_replaces_other_objects() {
    for layout in LAYOUTS {
        for (mode, heads) in MODES.into_iter().zip([1, 5]) {
            let device = device();
            let options = options(layout, mode).pre_create(heads);
            let store = create(&device, &options);
            let mut old = store.create_with(&[], &[]).unwrap();
            let keep = store.create_object().unwrap();
            for nth in 1..20_u8 {
                let parts: [(u64, &[u8]); 2] = [(0, &[nth; 7]), (BLOCK, &[nth + 1; 600])];
                let write = Change::Write {
                    id: keep,
                    offset: 3 * u64::from(nth),
                    data: &[nth; 3],
                };
                let new = store
                    .create_with(&parts, &[Change::Delete { id: old }, write])
                    .unwrap();
                assert!(new > old);
                let mut expected = [nth; 7].to_vec();
                expected.resize(BLOCK as usize, 0);
                expected.extend([nth + 1; 600]);
                assert_eq!(content(&store, new).unwrap(), shown(&expected, mode));
                assert!(matches!(content(&store, old), Err(Error::UnknownId { .. })));
                old = new;
            }
            let mut store = reopen(&device, &options);
            assert_eq!(store.check().unwrap().findings, []);
            // The object without content was listed, too: none of the ids was only pre-created.
            assert_eq!(store.list(0, 10).unwrap(), [keep, old]);
            let expected: Vec<u8> = (0..20).flat_map(|nth| [nth; 3]).collect();
            assert_eq!(content(&store, keep).unwrap(), shown(&expected, mode));
        }
    }
}

#[test]
fn batches_that_cannot_be_change_nothing() {
    for layout in LAYOUTS {
        let store = create(&device(), &options(layout, Mode::DirectSized));
        let ids: Vec<u64> = (0..70).map(|_| store.create_object().unwrap()).collect();
        store.write(ids[0], 0, b"old").unwrap();
        let write = |id, offset, data| Change::Write { id, offset, data };
        let good = write(ids[0], 0, b"new");
        let next = ids[69] + 1;
        let delete_65: Vec<_> = ids[1..66].iter().map(|&id| Change::Delete { id }).collect();
        let is_as =
            |error: &Error, wanted: &str| assert!(error.to_string().contains(wanted), "{error}");
        let cases: [(&[Change<'_>], &str); 6] = [
            (
                &[good, Change::Delete { id: ids[0] }],
                "two changes of one batch concern object",
            ),
            (&[good, good], "make one change of them"),
            (&[good, Change::Delete { id: next }], "never created"),
            (&[good, Change::Delete { id: 0 }], "no object 0"),
            (
                &[good, write(ids[1], REGION, b"x")],
                "because its region has room for",
            ),
            (&delete_65, "130 vectors, but at most 128"),
        ];
        for (changes, wanted) in cases {
            is_as(&store.apply(changes).unwrap_err(), wanted);
        }
        for (changes, wanted) in &cases[2..5] {
            is_as(
                &store.create_with(&[(0, b"x")], changes).unwrap_err(),
                wanted,
            );
        }
        let parts: [(u64, &[u8]); 2] = [(0, b"over"), (3, b"lap")];
        is_as(&store.create_with(&parts, &[]).unwrap_err(), "overlap");
        for offset in [store.capacity(), u64::MAX] {
            let error = store.create_with(&[(offset, b"x")], &[]).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        }
        // No failure has lost an id, or changed anything.
        assert_eq!(store.create_with(&[], &delete_65[..63]).unwrap(), next);
        assert_eq!(content(&store, ids[0]).unwrap(), b"old");
        assert!(store.size(ids[1]).is_err() && store.size(ids[64]).is_ok());
    }
}

/// A batch of changes deletes versions with their object, but makes none.
#[test]
fn a_batch_writes_no_versions() {
    for layout in LAYOUTS {
        let mode = Mode::Versions { log: 8 * BLOCK };
        let mut store = create(&device(), &options(layout, mode));
        let free = store.space().stats().free;
        let (offset, data) = (0, &b"new"[..]);
        let id = store.create_with(&[], &[]).unwrap();
        store.write(id, 0, b"old").unwrap();
        store.write(id, 0, b"now").unwrap();
        let write = Change::Write { id, offset, data };
        for refused in [
            store.apply(&[write]),
            store.create_with(&[(0, b"x")], &[]).map(drop),
            store.create_with(&[], &[write]).map(drop),
        ] {
            assert!(matches!(refused, Err(Error::MakesNoVersion)), "{refused:?}");
        }
        assert_eq!(content(&store, id).unwrap(), b"now");
        let next = store.create_with(&[], &[Change::Delete { id }]).unwrap();
        assert_eq!(next, id + 1);
        assert_eq!(store.check().unwrap().findings, []);
        // The slot keeps its block, and so does what has the new head.
        assert_eq!(free - store.space().stats().free, 2);
    }
}

#[test]
fn a_creation_that_finds_no_room_loses_no_id() {
    let options = options(Layout::Packed, Mode::DirectSized);
    let store = create(&device(), &options);
    let id = store.create_with(&[(0, &[1; 100 << 9])], &[]).unwrap();
    let mut last = id;
    let full = loop {
        match store.create_with(&[(0, &[1; 100 << 9])], &[]) {
            Ok(id) => last = id,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(full, Error::Space(SpaceError::NoSpace { .. })),
        "{full}"
    );
    store.apply(&[Change::Delete { id }]).unwrap();
    assert_eq!(
        store.create_with(&[(0, &[2; 100 << 9])], &[]).unwrap(),
        last + 1
    );
}

/// What a run has made: for each step, the object that it created, and the event at which it ended.
fn replace(device: &Arc<Recorded>, store: &OnDisk, steps: u8) -> (u64, Vec<(u64, usize)>) {
    let log = store.create_with(&[(0, &[0; 4])], &[]).unwrap();
    let mut made = Vec::new();
    for nth in 1..=steps {
        let data = vec![nth; 100 * nth as usize];
        let mut changes = vec![Change::Write {
            id: log,
            offset: 0,
            data: &data[..4],
        }];
        // Every third step keeps its predecessor.
        if let (Some(&(id, _)), true) = (made.last(), nth % 3 > 0) {
            changes.push(Change::Delete { id });
        }
        let id = match nth % 4 {
            0 => {
                let id = store.create_object().unwrap();
                changes.push(Change::Write {
                    id,
                    offset: 0,
                    data: &data,
                });
                store.apply(&changes).map(|()| id)
            }
            _ => store.create_with(&[(0, &data)], &changes),
        };
        made.push((id.unwrap(), device.now()));
    }
    (log, made)
}

#[test]
fn every_cut_leaves_all_changes_of_a_batch_or_none() {
    let mut count = 0;
    for (layout, (skip, heads)) in LAYOUTS.into_iter().zip([(2, 1), (8, 4)]) {
        let (mode, device) = (Mode::DirectSized, device());
        let options: Options = options(layout, mode).skip_number(skip).pre_create(heads);
        let store = create(&device, &options);
        let (log, made) = replace(&device, &store, 16);
        let history = device.history();
        for cut in made[0].1..=history.len() {
            let losses = [Loss::Nothing, Loss::Everything, Loss::Sectors(cut as u64)];
            for loss in losses {
                let what = format!("{layout:?}, cut {cut}, {loss:?}");
                let image = Arc::new(Recorded::from_image(history.image(cut, loss)));
                let mut store = open(&image, &options).unwrap();
                assert_eq!(store.check().unwrap().findings, [], "{what}");
                // The log says how many steps there were.
                let [steps, ..] = content(&store, log).unwrap()[..] else {
                    panic!("{what}: no log")
                };
                let ended = made.iter().filter(|(_, end)| *end <= cut).count() as u8;
                assert!(
                    (ended..=ended + 1).contains(&steps),
                    "{what}: {steps}, {ended}"
                );
                let mut given = log;
                for (nth, (id, _)) in (1_u8..).zip(&made) {
                    let is_there = nth <= steps && (nth == steps || (nth + 1) % 3 == 0);
                    let expected = is_there.then(|| vec![nth; 100 * nth as usize]);
                    let mut found = content(&store, *id).ok();
                    // One that was only created, or pre-created, is empty.
                    if nth > steps {
                        found = found.filter(|it| !it.is_empty());
                    }
                    assert_eq!(found, expected, "{what}: step {nth} of {steps}");
                    given = if nth <= steps { *id } else { given };
                }
                let next = store.create_with(&[(0, b"next")], &[]).unwrap();
                assert!(next > given, "{what}: {next} is given out again");
                count += 1;
            }
        }
    }
    println!("{count} images");
    assert!(count > 400, "{count}");
}

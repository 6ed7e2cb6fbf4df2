//! Version mode: every version that the log has room for can be read, and rolled back to, after
//! crashes too.

use std::sync::Arc;

use proptest::prelude::*;
use spanlock_journal_commit::testing::{Loss, Recorded};
use spanlock_object_store::{Error, Layout, Mode, Options, Version};

use crate::common::{BLOCK, LAYOUTS, OnDisk, create, device, open, options, reopen};

/// Blocks of the log.
const LOG: u64 = 6;
const VERSIONS: Mode = Mode::Versions { log: LOG * BLOCK };

/// A version, as the model has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Past {
    number: u64,
    timestamp: u64,
    bytes: Vec<u8>,
    /// The blocks of the log that its entry takes; the current version has none.
    entry: u64,
}

/// An object with its versions, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Object {
    versions: Vec<Past>,
    given: u64,
    retained: Option<u64>,
}

/// Why the model refuses a write.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    LogTooSmall,
    Retained,
}

impl Object {
    fn new() -> Self {
        let first = Past {
            number: 0,
            timestamp: 0,
            bytes: Vec::new(),
            entry: 0,
        };
        Object {
            versions: vec![first],
            given: 0,
            retained: None,
        }
    }

    fn current(&self) -> &Past {
        self.versions.last().expect("the current one")
    }

    fn write(&mut self, at: u64, data: &[u8], timestamp: u64, keep: u64) -> Result<(), Refused> {
        if data.is_empty() {
            return Ok(());
        }
        let old = self.current().clone();
        let end = at + data.len() as u64;
        let kept = (old.bytes.len() as u64)
            .div_ceil(BLOCK)
            .min(end.div_ceil(BLOCK));
        let entry = 1 + kept.saturating_sub(at / BLOCK);
        if entry > LOG {
            return Err(Refused::LogTooSmall);
        }
        let mut first = 0;
        let used = |first: usize| {
            self.versions[first..]
                .iter()
                .map(|it| it.entry)
                .sum::<u64>()
        };
        while first + 1 < self.versions.len() {
            let oldest = self.versions[first].number;
            let has_room = used(first) + entry <= LOG;
            if has_room && self.given + 1 - oldest <= keep {
                break;
            }
            if self.retained.is_some_and(|from| oldest >= from) {
                match has_room {
                    true => break,
                    false => return Err(Refused::Retained),
                }
            }
            first += 1;
        }
        self.versions.drain(..first);
        self.versions.last_mut().expect("the current one").entry = entry;
        let mut bytes = old.bytes;
        bytes.resize(bytes.len().max(end as usize), 0);
        bytes[at as usize..end as usize].copy_from_slice(data);
        self.given += 1;
        self.versions.push(Past {
            number: self.given,
            timestamp,
            bytes,
            entry: 0,
        });
        Ok(())
    }

    fn roll_back(&mut self, number: u64) {
        let at = self.versions.iter().position(|it| it.number == number);
        self.versions.truncate(at.expect("it is there") + 1);
        self.versions.last_mut().expect("just found").entry = 0;
    }

    /// Asserts that the store has exactly these versions.
    fn check(&self, store: &OnDisk, id: u64, what: &str) {
        let listed = store.versions(id, usize::MAX).unwrap();
        let numbers: Vec<_> = listed.iter().map(|it: &Version| it.number).collect();
        let expected: Vec<_> = self.versions.iter().rev().map(|it| it.number).collect();
        assert_eq!(numbers, expected, "{what}");
        for (past, listed) in self.versions.iter().rev().zip(&listed) {
            assert_eq!(listed.timestamp, past.timestamp, "{what}");
            assert_eq!(listed.size, past.bytes.len() as u64, "{what}");
            assert_eq!(version(store, id, past.number), past.bytes, "{what}");
            // From within, too.
            let mut found = [0xEE; 700];
            let len = store
                .read_version(id, past.number, 300, &mut found)
                .unwrap();
            let some = past.bytes.get(300..).unwrap_or_default();
            assert_eq!(found[..len], some[..some.len().min(700)], "{what}");
        }
        let mut found = vec![0xEE; 4096];
        let len = store.read(id, 0, &mut found).unwrap();
        assert_eq!(found[..len], self.current().bytes, "{what}");
    }
}

fn version(store: &OnDisk, id: u64, number: u64) -> Vec<u8> {
    let mut found = vec![0xEE; 4096];
    let len = store.read_version(id, number, 0, &mut found).unwrap();
    found.truncate(len);
    found
}

#[derive(Clone, Debug)]
enum Op {
    Write(u64, usize, u8),
    /// To the version of this index, among those that can be read.
    RollBack(usize),
    Snapshot,
    Release,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..2200_u64, 0..1500_usize, any::<u8>()).prop_map(|(at, len, byte)| Op::Write(at, len, byte)),
        2 => any::<usize>().prop_map(Op::RollBack),
        1 => Just(Op::Snapshot),
        2 => Just(Op::Release),
        1 => Just(Op::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn every_version_that_has_room_can_be_read_and_rolled_back_to(
        ops in prop::collection::vec(op(), 1..60),
        layout in 0..2_usize,
        keep in prop_oneof![Just(u64::MAX), Just(2)],
    ) {
        let (device, options) = (device(), options(LAYOUTS[layout], VERSIONS).keep_versions(keep));
        let mut store = create(&device, &options);
        // A neighbour, whose head may lie in the same block.
        let other = store.create_object().unwrap();
        store.write_version(other, 0, b"other", 1).unwrap();
        let id = store.create_object().unwrap();
        let mut model = Object::new();
        for (time, op) in (1..).zip(ops) {
            match op {
                Op::Write(at, len, byte) => {
                    let data = vec![byte; len];
                    let expected = model.write(at, &data, time, keep);
                    match store.write_version(id, at, &data, time) {
                        Ok(number) => {
                            prop_assert_eq!(expected, Ok(()));
                            prop_assert_eq!(number, model.current().number);
                        }
                        Err(Error::LogTooSmall { .. }) => prop_assert_eq!(expected, Err(Refused::LogTooSmall)),
                        Err(Error::Retained { .. }) => prop_assert_eq!(expected, Err(Refused::Retained)),
                        Err(error) => return Err(TestCaseError::fail(error.to_string())),
                    }
                }
                Op::RollBack(nth) => {
                    let number = model.versions[nth % model.versions.len()].number;
                    store.roll_back(id, number).unwrap();
                    model.roll_back(number);
                }
                Op::Snapshot => {
                    prop_assert_eq!(store.snapshot(id).unwrap(), model.current().number);
                    let current = model.current().number;
                    model.retained = Some(model.retained.map_or(current, |it| it.min(current)));
                }
                Op::Release => {
                    store.retain_from(id, None).unwrap();
                    model.retained = None;
                }
                Op::Reopen => {
                    drop(store);
                    store = open(&device, &options).unwrap();
                }
            }
            model.check(&store, id, "after an operation");
        }
        prop_assert_eq!(version(&store, other, 1), b"other");
        prop_assert_eq!(store.check().unwrap().findings, []);
        // Nothing of it stays.
        store.delete(other).unwrap();
        store.delete(id).unwrap();
        let stats = store.space().stats();
        // The store block and a slot.
        prop_assert_eq!(stats.places - stats.free, 2);
    }
}

/// Writes and a rollback, with a crash after every event: the versions are those before or after.
#[test]
fn every_cut_leaves_an_unbroken_chain_of_versions() {
    let mut count = 0;
    for layout in LAYOUTS {
        let device = device();
        let options = options(layout, VERSIONS);
        let store = create(&device, &options);
        let id = store.create_object().unwrap();
        let mut model = Object::new();
        let mut states = vec![(model.clone(), 0, device.now())];
        let mut random = fastrand::Rng::with_seed(layout as u64);
        for time in 1..30 {
            let begun = device.now();
            if random.u32(0..5) == 0 {
                let number = random.choice(&model.versions).expect("some").number;
                store.roll_back(id, number).unwrap();
                model.roll_back(number);
            } else {
                let data = vec![random.u8(1..); random.usize(1..900)];
                let at = random.u64(0..2) * BLOCK + random.u64(0..9);
                store.write_version(id, at, &data, time).unwrap();
                model.write(at, &data, time, u64::MAX).unwrap();
            }
            states.push((model.clone(), begun, device.now()));
            if time % 9 == 0 {
                store.space().checkpoint().unwrap();
            }
        }
        let history = device.history();
        for cut in states[0].2..=history.len() {
            let losses = [Loss::Nothing, Loss::Everything, Loss::Sectors(cut as u64)];
            let some = if history.in_flight(cut) == 0 { 1 } else { 3 };
            for loss in losses.into_iter().take(some) {
                let what = format!("{layout:?}, cut {cut}, {loss:?}");
                let image = Arc::new(Recorded::from_image(history.image(cut, loss)));
                let store =
                    open(&image, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
                let last = states.iter().rposition(|(_, _, ended)| *ended <= cut);
                let last = last.expect("the first one");
                let next = states.get(last + 1).filter(|(_, begun, _)| *begun < cut);
                let current = store.versions(id, 1).unwrap()[0];
                let is = |model: &Object| {
                    let it = model.current();
                    (it.number, it.timestamp) == (current.number, current.timestamp)
                };
                let state = match next {
                    Some((next, ..)) if is(next) => next,
                    _ => &states[last].0,
                };
                state.check(&store, id, &what);
                // The next version has a new number.
                let number = store.write_version(id, 0, b"next", 99).unwrap();
                assert_eq!(number, state.given + 1, "{what}");
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count}");
}

/// A write costs its blocks, a commit block and the head; a rollback the head.
#[test]
fn versions_take_no_copies() {
    for layout in LAYOUTS {
        let device = device();
        let options = options(layout, Mode::Versions { log: 40 * BLOCK });
        let store = create(&device, &options);
        let id = store.create_object().unwrap();
        store.write(id, 0, &[1; 10 * BLOCK as usize]).unwrap();
        let free = store.space().stats().free;
        store.write(id, 0, &[2; 10 * BLOCK as usize]).unwrap();
        assert_eq!(store.space().stats().free, free - 11);
        let (free, flushes) = (store.space().stats().free, device.flushes());
        let writes = device.writes();
        store.roll_back(id, 1).unwrap();
        // The new blocks and the commit block are free again.
        assert_eq!(store.space().stats().free, free + 11);
        assert_eq!(device.flushes() - flushes, 1);
        // The head and the record.
        assert_eq!(device.writes() - writes, 2);
        let mut found = [0; 10 * BLOCK as usize];
        assert_eq!(store.read(id, 0, &mut found).unwrap(), found.len());
        assert_eq!(found, [1; 10 * BLOCK as usize]);
    }
}

#[test]
fn versions_that_cannot_be_are_refused() {
    let device = device();
    let options = options(Layout::Packed, VERSIONS);
    let store = create(&device, &options);
    let id = store.create_object().unwrap();
    for byte in 1..=9 {
        assert_eq!(
            store.write_version(id, 0, &[byte; 10], 1).unwrap(),
            byte.into()
        );
    }
    // Three entries of two blocks each have room.
    let numbers: Vec<_> = store
        .versions(id, 99)
        .unwrap()
        .iter()
        .map(|it| it.number)
        .collect();
    assert_eq!(numbers, [9, 8, 7, 6]);
    assert_eq!(store.versions(id, 2).unwrap().len(), 2);
    for gone in [0, 5, 10, u64::MAX] {
        let is_refused = |it: Result<(), Error>| {
            let is = matches!(it, Err(Error::UnknownVersion { version, oldest: 6, .. }) if version == gone);
            assert!(is, "{it:?}");
        };
        is_refused(store.read_version(id, gone, 0, &mut [0]).map(drop));
        is_refused(store.roll_back(id, gone));
    }
    // A retained version stops writes that would need its room, and nothing else.
    assert_eq!(store.snapshot(id).unwrap(), 9);
    for byte in 10..=12 {
        store.write(id, 0, &[byte; 10]).unwrap();
    }
    let full = store.write(id, 0, &[13; 10]).unwrap_err();
    assert!(
        matches!(full, Error::Retained { retained: 9, .. }),
        "{full:?}"
    );
    let reopened = reopen(&device, &options);
    assert!(matches!(
        reopened.write(id, 0, &[13; 10]),
        Err(Error::Retained { .. })
    ));
    assert_eq!(version(&store, id, 9), [9; 10]);
    assert_eq!(store.snapshot(id).unwrap(), 12);
    store.retain_from(id, Some(11)).unwrap();
    store.write(id, 0, &[13; 10]).unwrap();
    assert!(store.read_version(id, 9, 0, &mut [0]).is_err());
    store.retain_from(id, None).unwrap();
    store.retain_from(id, Some(u64::MAX)).unwrap();
    // After a rollback, a snapshot retains the older version.
    store.retain_from(id, Some(13)).unwrap();
    store.roll_back(id, 12).unwrap();
    assert_eq!(store.snapshot(id).unwrap(), 12);
    store.write(id, 0, &[14; 10]).unwrap();
    store.write(id, 0, &[15; 10]).unwrap();
    store.write(id, 0, &[16; 10]).unwrap();
    assert!(matches!(
        store.write(id, 0, &[17; 10]),
        Err(Error::Retained { retained: 12, .. })
    ));
    store.retain_from(id, None).unwrap();
    // New blocks take no room in the log, old ones do.
    let many = vec![1; 20 * BLOCK as usize];
    store.write(id, BLOCK, &many).unwrap();
    let large = store.write(id, BLOCK, &many).unwrap_err();
    let is_too_small = matches!(
        large,
        Error::LogTooSmall {
            needed: 20,
            most: 5,
            ..
        }
    );
    assert!(is_too_small, "{large:?}");
    let past = store
        .write_version(id, store.capacity(), &[1], 0)
        .unwrap_err();
    assert!(matches!(past, Error::TooLarge { .. }), "{past:?}");
}

#[test]
fn a_store_without_versions_says_so() {
    let store = create(&device(), &options(Layout::Packed, Mode::DirectSized));
    let id = store.create_object().unwrap();
    let is_none = |it: Result<(), Error>| assert!(matches!(it, Err(Error::NoVersions)), "{it:?}");
    is_none(store.write_version(id, 0, &[1], 1).map(drop));
    is_none(store.read_version(id, 0, 0, &mut [0]).map(drop));
    is_none(store.versions(id, 1).map(drop));
    is_none(store.roll_back(id, 0));
    is_none(store.snapshot(id).map(drop));
    is_none(store.retain_from(id, None));
}

#[test]
fn logs_that_cannot_be_are_refused() {
    for log in [0, BLOCK, BLOCK + 1, 127 * BLOCK, 128 * BLOCK, u64::MAX] {
        let options: Options = options(Layout::Region, Mode::Versions { log });
        let is_refused = std::panic::catch_unwind(|| create(&device(), &options)).is_err();
        assert!(is_refused, "{log}");
    }
    let store = create(
        &device(),
        &options(Layout::Region, Mode::Versions { log: 126 * BLOCK }),
    );
    assert_eq!(store.capacity(), BLOCK);
}

/// Readers of old versions beside a writer that reclaims them: a version is read whole, or is gone.
#[test]
fn readers_of_versions_see_them_whole_or_not_at_all() {
    let store = create(&device(), &options(Layout::Packed, VERSIONS));
    let id = store.create_object().unwrap();
    store.write_version(id, 0, &[1; 800], 1).unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let (mut read, mut gone) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for time in 2..400_u64 {
                if time % 10 == 0 {
                    let some = store.versions(id, 2).unwrap();
                    store.roll_back(id, some.last().unwrap().number).unwrap();
                }
                let number = store.versions(id, 1).unwrap()[0].number;
                assert!(
                    store
                        .write_version(id, 0, &[time as u8; 800], time)
                        .unwrap()
                        > number
                );
            }
            is_done.store(true, std::sync::atomic::Ordering::Release);
        });
        while !is_done.load(std::sync::atomic::Ordering::Acquire) {
            for listed in store.versions(id, 9).unwrap() {
                let mut found = [0; 900];
                match store.read_version(id, listed.number, 0, &mut found) {
                    Ok(len) => {
                        let expected = [listed.timestamp as u8; 800];
                        let size = listed.size as usize;
                        assert_eq!(
                            (len, &found[..len]),
                            (size, &expected[..size]),
                            "{listed:?}"
                        );
                        read += 1;
                    }
                    Err(Error::UnknownVersion { .. }) => gone += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
    assert!(read > 0, "{read} read, {gone} gone");
}

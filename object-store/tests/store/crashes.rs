//! Crashes after every event on the disk, with writes lost, reordered and torn. Each object is
//! wholly old or wholly new, and no id is given out again.

use std::collections::BTreeMap;
use std::sync::Arc;

use spanlock_journal_commit::testing::{Loss, Recorded};
use spanlock_object_store::{Error, Layout, Mode, Options};

use crate::common::{BLOCK, LAYOUTS, OnDisk, content, create, device, open, options};

/// An operation, and the events before and after it.
#[derive(Debug)]
struct Step {
    op: Op,
    begun: usize,
    ended: usize,
}

#[derive(Clone, Debug)]
enum Op {
    Create(u64),
    Write(u64, u64, Vec<u8>),
    Delete(u64),
}

type Model = BTreeMap<u64, Vec<u8>>;

fn apply(model: &mut Model, op: &Op) {
    match op {
        Op::Create(id) => drop(model.insert(*id, Vec::new())),
        Op::Write(id, at, data) => {
            let bytes = model.get_mut(id).expect("it exists");
            let end = *at as usize + data.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[*at as usize..end].copy_from_slice(data);
        }
        Op::Delete(id) => drop(model.remove(id)),
    }
}

/// Performs random operations.
fn script(device: &Arc<Recorded>, store: &OnDisk, seed: u64) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ids = Vec::new();
    let mut steps = Vec::new();
    for _ in 0..30 {
        let begun = device.now();
        let op = match random.u32(0..10) {
            0..4 => {
                let id = store.create_object().unwrap();
                ids.push(id);
                Op::Create(id)
            }
            9 if !ids.is_empty() => {
                let id = ids.swap_remove(random.usize(0..ids.len()));
                store.delete(id).unwrap();
                Op::Delete(id)
            }
            _ => {
                let Some(&id) = random.choice(&ids) else {
                    continue;
                };
                let (at, len) = (
                    random.u64(0..3) * BLOCK + random.u64(0..9),
                    random.usize(1..900),
                );
                let data = vec![random.u8(1..); len];
                store.write(id, at, &data).unwrap();
                Op::Write(id, at, data)
            }
        };
        steps.push(Step {
            op,
            begun,
            ended: device.now(),
        });
    }
    steps
}

/// Opens an image, and compares it with the operations that had ended, and with the one that had
/// not.
fn check(steps: &[Step], cut: usize, image: Vec<u8>, mode: Mode, options: &Options, what: &str) {
    let device = Arc::new(Recorded::from_image(image));
    let mut store = open(&device, options).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(store.check().unwrap().findings, [], "{what}");
    let (mut old, mut given) = (Model::new(), 0);
    for step in steps.iter().filter(|it| it.ended <= cut) {
        apply(&mut old, &step.op);
        if let Op::Create(id) = step.op {
            given = given.max(id);
        }
    }
    let running = steps.iter().find(|it| it.begun < cut && it.ended > cut);
    let mut new = old.clone();
    if let Some(step) = running {
        apply(&mut new, &step.op);
    }
    let found = |id: u64| match content(&store, id) {
        Ok(bytes) => Some(bytes),
        Err(Error::UnknownId { .. }) => None,
        Err(error) => panic!("{what}: object {id}: {error}"),
    };
    let shown = |model: &Model, id: u64| {
        let mut bytes = model.get(&id).cloned()?;
        if mode == Mode::Direct {
            bytes.resize(4096, 0);
        }
        Some(bytes)
    };
    for id in 1..=given {
        let found = found(id);
        let [old, new] = [&old, &new].map(|model| shown(model, id));
        assert!(
            found == old || found == new,
            "{what}: object {id} is neither old nor new"
        );
    }
    // A listed object was given out, or would have been by the creation that was running.
    let listed = store.list(0, usize::MAX).unwrap();
    let is_known = |id: &u64| old.contains_key(id) || new.contains_key(id);
    assert!(listed.iter().all(is_known), "{what}: lists {listed:?}");
    let missing = old
        .iter()
        .filter(|(id, bytes)| !bytes.is_empty() && new.contains_key(id) && !listed.contains(id));
    assert_eq!(missing.count(), 0, "{what}: does not list a written object");
    // New ids were never given out. An interrupted creation has given out nothing.
    let next = store.create_object().unwrap();
    assert!(next > given, "{what}: {next} is given out again");
}

#[test]
fn every_cut_leaves_old_or_new_objects_and_fresh_ids() {
    let mut count = 0;
    let modes = [Mode::Direct, Mode::DirectSized];
    let numbers = [(1, 1), (4, 3), (8, 8)];
    for (nth, (skip, heads)) in numbers.into_iter().enumerate() {
        for (layout, mode) in LAYOUTS
            .into_iter()
            .zip([modes[nth % 2], modes[(nth + 1) % 2]])
        {
            let device = device();
            let options = options(layout, mode).skip_number(skip).pre_create(heads);
            let store = create(&device, &options);
            let from = device.now();
            let steps = script(&device, &store, nth as u64);
            let history = device.history();
            for cut in from..=history.len() {
                let losses = [
                    Loss::Nothing,
                    Loss::Everything,
                    Loss::Sectors(1),
                    Loss::Sectors(2),
                ];
                let some = if history.in_flight(cut) == 0 {
                    1
                } else {
                    losses.len()
                };
                for loss in losses.into_iter().take(some) {
                    let what = format!("{layout:?} {mode:?} {skip} {heads}, cut {cut}, {loss:?}");
                    check(&steps, cut, history.image(cut, loss), mode, &options, &what);
                    count += 1;
                }
            }
        }
    }
    println!("{count} images");
    assert!(count > 1000, "{count}");
}

/// Threads create objects until a crash. Each id that was returned has its object, and no thread
/// gets it again afterwards.
#[test]
fn a_crash_beside_other_creations_gives_no_id_out_twice() {
    let mut count = 0;
    for (skip, heads) in [(1, 1), (3, 2), (16, 8)] {
        for layout in LAYOUTS {
            let device = device();
            let options = options(layout, Mode::Direct)
                .skip_number(skip)
                .pre_create(heads);
            let store = create(&device, &options);
            let start = device.now();
            let create_some = |store: &OnDisk, count| {
                let create = || {
                    let ids = (0..count).map(|_| (store.create_object().unwrap(), device.now()));
                    ids.collect::<Vec<_>>()
                };
                std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..3).map(|_| scope.spawn(create)).collect();
                    let joined = threads.into_iter().map(|it| it.join().unwrap());
                    joined.flatten().collect::<Vec<_>>()
                })
            };
            let given = create_some(&store, 8);
            let history = device.history();
            for cut in (start..=history.len()).step_by(3) {
                for loss in [Loss::Everything, Loss::Sectors(cut as u64)] {
                    let image = Arc::new(Recorded::from_image(history.image(cut, loss)));
                    let store = open(&image, &options).unwrap();
                    let before: Vec<u64> = (given.iter())
                        .filter(|(_, returned)| *returned <= cut)
                        .map(|(id, _)| *id)
                        .collect();
                    for id in &before {
                        content(&store, *id).unwrap();
                    }
                    for (id, _) in create_some(&store, 2) {
                        assert!(
                            !before.contains(&id),
                            "{id} twice, {skip} {heads}, cut {cut}"
                        );
                    }
                    count += 1;
                }
            }
        }
    }
    assert!(count > 200, "{count}");
}

/// A crash while a store is created leaves no store, or an empty one.
#[test]
fn a_crash_during_a_creation_leaves_an_empty_store_or_none() {
    let device = device();
    let options = options(Layout::Packed, Mode::DirectSized);
    drop(create(&device, &options));
    let history = device.history();
    let (mut none, mut empty) = (0, 0);
    for cut in 0..=history.len() {
        for loss in [Loss::Nothing, Loss::Everything, Loss::Sectors(3)] {
            let device = Arc::new(Recorded::from_image(history.image(cut, loss)));
            match open(&device, &options) {
                Ok(store) => {
                    assert_eq!(store.list(0, 1).unwrap(), []);
                    empty += 1;
                }
                Err(Error::NotAStore | Error::Space(_)) => none += 1,
                Err(error) => panic!("cut {cut}, {loss:?}: {error}"),
            }
        }
    }
    assert!(none > 3 && empty > 0, "{none} {empty}");
}

//! Crashes after every event on the disk, with writes lost, reordered and torn: each name has its
//! old or its new content, whole, and nothing is left of what was interrupted.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Attribute, Attributes, ObjectStore, ObjectStoreExt, PutOptions};
use spanlock_journal_commit::testing::{Loss, Recorded};

use crate::common::{InMemory, content, create, device, now, open_image};

type Model = BTreeMap<String, Bytes>;

#[derive(Clone, Debug)]
enum Op {
    Put(Bytes),
    Upload(Bytes),
    Delete,
    Copy(&'static str),
    Rename(&'static str),
}

#[derive(Debug)]
struct Step {
    name: &'static str,
    op: Op,
    begun: usize,
    ended: usize,
}

const NAMES: [&str; 5] = ["a", "a/b", "folder/c", "d", LONG];
/// It does not fit before the content of an object that had a short name.
const LONG: &str = match str::from_utf8(&[b'x'; 600]) {
    Ok(text) => text,
    Err(_) => unreachable!(),
};

impl Step {
    fn is_long_rename(&self) -> bool {
        self.name == LONG && matches!(self.op, Op::Rename(_))
    }
}

fn apply(model: &mut Model, step: &Step) {
    let name = step.name.to_owned();
    match &step.op {
        Op::Put(bytes) | Op::Upload(bytes) => drop(model.insert(name, bytes.clone())),
        Op::Delete => drop(model.remove(&name)),
        Op::Copy(from) => {
            let bytes = model[*from].clone();
            model.insert(name, bytes);
        }
        Op::Rename(from) => {
            let bytes = model.remove(*from).expect("it is there");
            model.insert(name, bytes);
        }
    }
}

/// The attribute says which content it belongs to.
fn attributes(bytes: &Bytes) -> Attributes {
    let mut attributes = Attributes::new();
    let value = format!("{} {:?}", bytes.len(), bytes.first());
    attributes.insert(Attribute::Metadata("of".into()), value.into());
    attributes
}

fn perform(store: &InMemory, name: &str, op: &Op) {
    let path = Path::from(name);
    match op {
        Op::Put(bytes) => {
            let options = PutOptions::from(attributes(bytes));
            now(store.put_opts(&path, bytes.clone().into(), options)).map(drop)
        }
        Op::Upload(bytes) => {
            let options = attributes(bytes).into();
            let mut upload = now(store.put_multipart_opts(&path, options)).expect("room");
            let parts = [
                bytes.slice(..bytes.len() / 3),
                bytes.slice(bytes.len() / 3..),
            ];
            for part in parts {
                now(upload.put_part(part.into())).expect("room");
            }
            now(upload.complete()).map(drop)
        }
        Op::Delete => now(store.delete(&path)),
        Op::Copy(from) => now(store.copy(&Path::from(*from), &path)),
        Op::Rename(from) => now(store.rename(&Path::from(*from), &path)),
    }
    .expect("it succeeds");
}

fn script(device: &Arc<Recorded>, store: &InMemory, seed: u64) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut model, mut steps) = (Model::new(), Vec::new());
    let mut readers = Vec::new();
    for nth in 1..=24_u8 {
        let name = match nth % 8 {
            0 => LONG,
            _ => *random.choice(&NAMES).expect("names"),
        };
        let there: Vec<_> = NAMES
            .into_iter()
            .filter(|it| model.contains_key(*it))
            .collect();
        let from = random.choice(there).filter(|it| *it != name);
        let bytes = Bytes::from(vec![nth; random.usize(0..1500)]);
        let op = match (random.u32(0..8), from) {
            (0, Some(from)) => Op::Copy(from),
            (1 | 2, Some(from)) => Op::Rename(from),
            (_, Some(from)) if nth % 8 == 0 => Op::Rename(from),
            (3, _) if model.contains_key(name) => Op::Delete,
            (4 | 5, _) => Op::Upload(bytes),
            _ => Op::Put(bytes),
        };
        // Sometimes a reader keeps the object that is replaced.
        if random.bool() {
            readers.extend(now(store.get(&Path::from(name))).ok());
        }
        if random.u32(0..4) == 0 {
            readers.clear();
        }
        let begun = device.now();
        perform(store, name, &op);
        let ended = device.now();
        let step = Step {
            name,
            op,
            begun,
            ended,
        };
        apply(&mut model, &step);
        steps.push(step);
    }
    steps
}

fn shown(store: &InMemory) -> Model {
    let names = now(store.list(None).try_collect::<Vec<_>>()).expect("a list");
    let mut shown = Model::new();
    for meta in names {
        let got = now(store.get(&meta.location)).expect("it is listed");
        let attributes_found = got.attributes.clone();
        let bytes = now(got.bytes()).expect("it is read");
        assert_eq!(bytes.len() as u64, meta.size);
        assert_eq!(attributes_found, attributes(&bytes));
        shown.insert(meta.location.to_string(), bytes);
    }
    shown
}

#[test]
fn every_cut_leaves_each_name_with_its_old_or_new_content() {
    let (mut count, mut renamed) = (0, 0);
    for seed in 0..3 {
        let device = device();
        let store = create(&device);
        let start = device.now();
        let steps = script(&device, &store, seed);
        renamed += steps.iter().filter(|it| it.is_long_rename()).count();
        let history = device.history();
        for cut in start..=history.len() {
            let losses = match history.in_flight(cut) {
                0 => &[Loss::Nothing][..],
                _ => &[
                    Loss::Nothing,
                    Loss::Everything,
                    Loss::Sectors(1),
                    Loss::Sectors(2),
                ],
            };
            for &loss in losses {
                let what = format!("seed {seed}, cut {cut}, {loss:?}");
                let store = open_image(history.image(cut, loss));
                let mut old = Model::new();
                for step in steps.iter().filter(|it| it.ended <= cut) {
                    apply(&mut old, step);
                }
                let mut new = old.clone();
                if let Some(step) = steps.iter().find(|it| it.begun < cut && it.ended > cut) {
                    apply(&mut new, step);
                }
                let found = shown(&store);
                assert!(
                    found == old || found == new,
                    "{what}: {found:?} is not {old:?} or {new:?}"
                );
                // Only named objects are left.
                let objects = store.store().list(0, usize::MAX).expect("a list");
                assert_eq!(objects.len(), found.len(), "{what}");
                count += 1;
            }
        }
    }
    println!("{count} images");
    assert!(count > 1000 && renamed > 1, "{count}, {renamed}");
}

/// Opening deletes what an interrupted upload has left. A crash meanwhile leaves more to do, no
/// less.
#[test]
fn opening_can_be_interrupted() {
    let device = device();
    let store = create(&device);
    let path = Path::from("a");
    now(store.put(&path, "kept".into())).expect("room");
    let uploads: Vec<_> = (0..40)
        .map(|_| {
            let mut upload = now(store.put_multipart(&path)).expect("room");
            now(upload.put_part("gone".into())).expect("room");
            upload
        })
        .collect();
    let image = Arc::new(Recorded::from_image(device.visible()));
    let store = spanlock_named_objects::NamedObjects::open(crate::common::reopen_flat(&image));
    assert_eq!(
        store
            .expect("named objects")
            .store()
            .list(0, 99)
            .expect("a list")
            .len(),
        1
    );
    drop(uploads);
    let history = image.history();
    for cut in 0..=history.len() {
        for loss in [Loss::Nothing, Loss::Everything, Loss::Sectors(5)] {
            let store = open_image(history.image(cut, loss));
            assert_eq!(content(&store, "a").expect("it is kept"), "kept");
            assert_eq!(store.store().list(0, 99).expect("a list").len(), 1);
        }
    }
}

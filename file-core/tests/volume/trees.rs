//! Random trees against a map, with reopenings, and crash images of their operations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::common::{Mem, Rng, Volume, content, format, open, reopen, scaled};
use spanlock_file_core::{Error, FormatOptions, Kind};

/// A file by its identity, or a directory.
type Paths = BTreeMap<String, Option<u64>>;

/// What a volume has: what each path stands for, and what each file contains.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    paths: Paths,
    files: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

#[derive(Clone, Debug)]
enum Op {
    Create(String),
    CreateDir(String),
    Write(String, u8),
    Remove(String),
    RemoveDir(String),
    Link(String, String),
    Rename(String, String),
    Exchange(String, String),
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Whether `path` is `above` or below it.
fn is_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
}

impl Model {
    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.paths.get(path) == Some(&None)
    }

    fn is_empty(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        !self.paths.keys().any(|it| it.starts_with(&prefix))
    }

    /// Adds a path, which may be the one that is there.
    fn put(&mut self, path: &str, what: Option<u64>) {
        self.paths.insert(path.to_owned(), what);
        self.forget_unnamed();
    }

    fn take(&mut self, path: &str) {
        self.paths.remove(path);
        self.forget_unnamed();
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        let (Some(&what), target) = (self.paths.get(from), self.paths.get(to).copied()) else {
            return false;
        };
        if !self.is_directory(parent(to)) || is_below(parent(to), from) && what.is_none() {
            return from == to;
        }
        match target {
            _ if from == to => return true,
            Some(target) if what.is_some() && what == target => return true,
            Some(target) if what.is_some() != target.is_some() => return false,
            Some(None) if !self.is_empty(to) => return false,
            _ => {}
        }
        let moved = self.take_tree(from);
        self.put_tree(to, moved);
        self.forget_unnamed();
        true
    }

    fn exchange(&mut self, one: &str, other: &str) -> bool {
        let (Some(first), Some(last)) = (self.paths.get(one), self.paths.get(other)) else {
            return false;
        };
        if one == other || first == last && first.is_some() {
            return true;
        }
        if is_below(parent(other), one) || is_below(parent(one), other) {
            return false;
        }
        let [first, last] = [one, other].map(|it| self.take_tree(it));
        self.put_tree(one, last);
        self.put_tree(other, first);
        true
    }

    /// Takes out a path and all below it. The paths returned begin after it.
    fn take_tree(&mut self, path: &str) -> Paths {
        let mut taken = Paths::new();
        self.paths.retain(|it, what| {
            let is_taken = is_below(it, path);
            if is_taken {
                taken.insert(it[path.len()..].to_owned(), *what);
            }
            !is_taken
        });
        taken
    }

    fn put_tree(&mut self, path: &str, tree: Paths) {
        for (below, what) in tree {
            self.paths.insert(format!("{path}{below}"), what);
        }
    }

    fn forget_unnamed(&mut self) {
        let named: Vec<_> = self.paths.values().flatten().copied().collect();
        self.files.retain(|file, _| named.contains(file));
    }

    /// Performs the operation and returns whether it is possible.
    fn apply(&mut self, op: &Op) -> bool {
        match op {
            Op::Create(path) | Op::CreateDir(path) => {
                let is_possible = self.is_directory(parent(path)) && !self.paths.contains_key(path);
                if is_possible && matches!(op, Op::Create(_)) {
                    self.next += 1;
                    self.files.insert(self.next, Vec::new());
                    self.put(path, Some(self.next));
                } else if is_possible {
                    self.put(path, None);
                }
                is_possible
            }
            Op::Write(path, byte) => match self.paths.get(path) {
                Some(Some(file)) => {
                    self.files.insert(*file, vec![*byte; 9]);
                    true
                }
                _ => false,
            },
            Op::Remove(path) => {
                let is_possible = matches!(self.paths.get(path), Some(Some(_)));
                if is_possible {
                    self.take(path);
                }
                is_possible
            }
            Op::RemoveDir(path) => {
                let is_possible = self.paths.get(path) == Some(&None) && self.is_empty(path);
                if is_possible {
                    self.take(path);
                }
                is_possible
            }
            Op::Link(path, new) => match self.paths.get(path) {
                Some(&Some(file)) => {
                    let is_possible =
                        self.is_directory(parent(new)) && !self.paths.contains_key(new);
                    if is_possible {
                        self.put(new, Some(file));
                    }
                    is_possible
                }
                _ => false,
            },
            Op::Rename(from, to) => self.rename(from, to),
            Op::Exchange(one, other) => self.exchange(one, other),
        }
    }

    /// Returns what a user sees: files that have several names have the same class.
    fn seen(&self) -> BTreeMap<String, Option<(Vec<u8>, u32)>> {
        let links = |file| self.paths.values().filter(|it| **it == Some(file)).count() as u32;
        let see = |file: u64| (self.files[&file].clone(), links(file));
        let paths = self.paths.iter();
        paths
            .map(|(path, what)| (path.clone(), what.map(see)))
            .collect()
    }
}

fn random_path(rng: &mut Rng) -> String {
    let mut path = String::new();
    for _ in 0..rng.below(3) {
        path += ["a/", "b/"][rng.below(2) as usize];
    }
    let long = "a long name, of more than one slot of the log of the directory";
    path + ["a", "b", "c", long][rng.below(4) as usize]
}

fn random_op(rng: &mut Rng) -> Op {
    let path = random_path(rng);
    match rng.below(13) {
        0 | 1 => Op::Create(path),
        2 | 3 => Op::CreateDir(path),
        4 => Op::Write(path, rng.next() as u8),
        5 => Op::Remove(path),
        6 => Op::RemoveDir(path),
        7 => Op::Link(path, random_path(rng)),
        8 => Op::Exchange(path, random_path(rng)),
        _ => {
            // Often within the directory.
            let name = ["a", "b", "c"][rng.below(3) as usize];
            let to = match (rng.below(2), parent(&path)) {
                (0, _) => random_path(rng),
                (_, "") => name.to_owned(),
                (_, parent) => format!("{parent}/{name}"),
            };
            Op::Rename(path, to)
        }
    }
}

fn perform(volume: &Volume, op: &Op) -> Result<(), Error> {
    match op {
        Op::Create(path) => volume.create(path).map(drop),
        Op::CreateDir(path) => volume.create_dir(path),
        Op::Write(path, byte) => volume.open_file(path)?.write_at(&[*byte; 9], 0),
        Op::Remove(path) => volume.remove(path),
        Op::RemoveDir(path) => volume.remove_dir(path),
        Op::Link(path, new) => volume.link(path, new),
        Op::Rename(from, to) => volume.rename(from, to),
        Op::Exchange(one, other) => volume.exchange(one, other),
    }
}

fn see_below(volume: &Volume, path: &str, seen: &mut BTreeMap<String, Option<(Vec<u8>, u32)>>) {
    for entry in volume.read_dir(path).unwrap() {
        let below = match path {
            "" => entry.name,
            _ => format!("{path}/{}", entry.name),
        };
        let what = match entry.kind {
            Kind::Directory => {
                see_below(volume, &below, seen);
                None
            }
            Kind::File => {
                let file = volume.open_file(&below).unwrap();
                Some((content(&file), volume.links(&below).unwrap()))
            }
        };
        seen.insert(below, what);
    }
}

fn seen(volume: &Volume) -> BTreeMap<String, Option<(Vec<u8>, u32)>> {
    let mut all = BTreeMap::new();
    see_below(volume, "", &mut all);
    all
}

#[test]
fn random_trees_agree_with_a_map() {
    for seed in 1..=scaled(6) as u64 {
        let mut rng = Rng::new(seed);
        let mut volume = format(512, &FormatOptions::new().inodes(128));
        let mut model = Model::default();
        let mut done = 0;
        for step in 0..3000 {
            let op = random_op(&mut rng);
            let is_possible = model.apply(&op);
            let result = perform(&volume, &op);
            assert_eq!(
                result.is_ok(),
                is_possible,
                "seed {seed}, step {step}: {op:?}: {result:?}"
            );
            done += u64::from(is_possible);
            if step % 500 == 499 {
                let stats = volume.stats();
                volume = reopen(&volume);
                assert_eq!(seen(&volume), model.seen(), "seed {seed}, step {step}");
                assert_eq!(volume.stats().pages_free, stats.pages_free);
                assert_eq!(volume.stats().inodes_free, stats.inodes_free);
            }
        }
        assert!(done > 300, "{done}");
    }
}

/// The states that a crash may leave, and the last image.
struct Allowed {
    before: Model,
    after: Option<Model>,
    images: u64,
}

#[test]
fn every_operation_on_a_tree_is_all_or_nothing() {
    let mut images = 0;
    for seed in 1..=scaled(4) as u64 {
        let mut rng = Rng::new(seed);
        let volume = format(128, &FormatOptions::new().inodes(64));
        let mut model = Model::default();
        for _ in 0..150 {
            let op = random_op(&mut rng);
            assert_eq!(perform(&volume, &op).is_ok(), model.apply(&op));
        }
        let allowed = Arc::new(Mutex::new(Allowed {
            before: model,
            after: None,
            images: 0,
        }));
        let hook = {
            let allowed = Arc::clone(&allowed);
            move |image: &mut dyn FnMut() -> Vec<u64>| {
                let allowed = &mut *allowed.lock().unwrap();
                let (volume, _) = open(&Mem::from_words(image())).expect("a crash image must open");
                let found = seen(&volume);
                let after = allowed.after.as_ref().map(Model::seen);
                let known = found == allowed.before.seen() || after.as_ref() == Some(&found);
                assert!(known, "neither before nor after: {found:?}");
                // What recovery has erased stays erased, and every name can be removed.
                let mut again = reopen(&volume);
                assert_eq!(seen(&again), found);
                for (path, what) in found.iter().rev() {
                    match what {
                        Some(_) => again.remove(path).unwrap(),
                        None => again.remove_dir(path).unwrap(),
                    }
                }
                again = reopen(&again);
                assert_eq!(seen(&again), BTreeMap::new());
                let stats = again.stats();
                assert_eq!(stats.inodes_free, stats.inodes_total);
                allowed.images += 1;
            }
        };
        let mem = Mem::simulated(volume.pmem().words(), seed, Box::new(hook));
        let (volume, _) = open(&mem).unwrap();
        for _ in 0..120 {
            let op = random_op(&mut rng);
            let mut model = allowed.lock().unwrap().before.clone();
            let is_possible = model.apply(&op);
            allowed.lock().unwrap().after = Some(model.clone());
            assert_eq!(perform(&volume, &op).is_ok(), is_possible, "{op:?}");
            let mut allowed = allowed.lock().unwrap();
            allowed.after = None;
            if is_possible {
                allowed.before = model;
            }
        }
        images += allowed.lock().unwrap().images;
    }
    assert!(images > 300, "{images}");
}

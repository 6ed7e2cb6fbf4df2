//! Kills a process with SIGKILL while its threads create, write, roll back and delete objects. The
//! next process finds all that was reported, each object wholly old or wholly new with all its
//! versions, and gets no id twice.
//!
//! `SPANLOCK_ROUNDS` multiplies the kills.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::storage::FileMode;
use spanlock_object_store::space::{self, Disk, Medium, Persistent, Space};
use spanlock_object_store::{Error, Layout, Mode, Options, Store};
use spanlock_pmem::MappedFile;

const PATH: &str = "SPANLOCK_OBJECTS_KILL_PATH";
const LEN: u64 = 64 << 20;
/// Bytes of an object that was written.
const SIZE: usize = 5000;
/// The writes of an object, each with its number in every byte.
const WRITES: u8 = 4;

/// The version that some objects are rolled back to.
const BACK: u8 = 2;

/// Opens or creates the store at `path`, whose name says on which medium.
fn with_store(path: &Path, run: impl FnOnce(&mut dyn Objects)) {
    if path.ends_with("file") {
        let medium = |file: Result<_, _>| file.expect("a file");
        match path.exists() {
            true => run(&mut open(medium(Disk::open_file(path, FileMode::Buffered)))),
            false => run(&mut create(medium(Disk::create_file(
                path,
                Some(LEN),
                FileMode::Buffered,
            )))),
        }
    } else {
        let options = spanlock_pmem::Options::new();
        match path.exists() {
            true => run(&mut open(Persistent::new(
                MappedFile::open(path, options).unwrap(),
            ))),
            false => run(&mut create(Persistent::new(
                MappedFile::create(path, LEN, options).unwrap(),
            ))),
        }
    }
}

fn options() -> Options {
    Options::new()
        .layout(Layout::Packed)
        .mode(Mode::Versions { log: 16 * 4096 })
        .skip_number(8)
        .pre_create(3)
}

fn create<M: Medium>(medium: M) -> Store<M, IntervalLock> {
    // Small rings, so that checkpoints are frequent.
    let of_space = space::Options::new().rings(2, 65_536);
    let space = Space::create(medium, &of_space, IntervalLock::new()).unwrap();
    Store::create(space, &options()).unwrap()
}

fn open<M: Medium>(medium: M) -> Store<M, IntervalLock> {
    let space = Space::open(medium, IntervalLock::new()).unwrap();
    Store::open(space, &options()).unwrap()
}

/// A store on any medium.
trait Objects: Sync {
    fn create(&self) -> u64;
    fn write(&self, id: u64, data: &[u8]);
    fn roll_back(&self, id: u64, version: u64);
    fn delete(&self, id: u64);
    /// Returns the content, or `None` if there is no such object.
    fn content(&self, id: u64) -> Option<Vec<u8>>;
    /// Returns the numbers of an object's versions, and their contents.
    fn versions(&self, id: u64) -> Vec<(u64, Vec<u8>)>;
    fn list(&self) -> Vec<u64>;
    fn assert_sound(&mut self);
}

impl<M: Medium> Objects for Store<M, IntervalLock> {
    fn create(&self) -> u64 {
        self.create_object().unwrap()
    }

    fn write(&self, id: u64, data: &[u8]) {
        Store::write(self, id, 0, data).unwrap();
    }

    fn roll_back(&self, id: u64, version: u64) {
        Store::roll_back(self, id, version).unwrap();
    }

    fn delete(&self, id: u64) {
        Store::delete(self, id).unwrap();
    }

    fn content(&self, id: u64) -> Option<Vec<u8>> {
        let mut found = vec![0; SIZE + 1];
        match self.read(id, 0, &mut found) {
            Ok(len) => found.truncate(len),
            Err(Error::UnknownId { .. }) => return None,
            Err(error) => panic!("object {id}: {error}"),
        }
        Some(found)
    }

    fn versions(&self, id: u64) -> Vec<(u64, Vec<u8>)> {
        let read = |number| {
            let mut found = vec![0; SIZE + 1];
            let len = self.read_version(id, number, 0, &mut found).unwrap();
            found.truncate(len);
            (number, found)
        };
        let versions = Store::versions(self, id, usize::MAX).unwrap();
        versions.iter().map(|it| read(it.number)).collect()
    }

    fn assert_sound(&mut self) {
        assert_eq!(self.check().unwrap().findings, []);
    }

    fn list(&self) -> Vec<u64> {
        Store::list(self, 0, usize::MAX).unwrap()
    }
}

/// The child's part: threads that report what they are doing, and have done. Deletes most objects,
/// so that it never runs out of room before it is killed.
#[test]
fn child_uses_objects() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let say = |what: &str, id: u64| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "report: {what} {id} .").unwrap();
    };
    with_store(Path::new(&path), |store| {
        let store = &*store;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        let id = store.create();
                        say("created", id);
                        for nth in 1..=WRITES {
                            store.write(id, &[nth; SIZE]);
                            say("wrote", id);
                        }
                        if id % 3 == 0 {
                            say("rolling", id);
                            store.roll_back(id, BACK.into());
                            say("rolled", id);
                        }
                        if id % 50 > 0 {
                            say("deleting", id);
                            store.delete(id);
                            say("deleted", id);
                        }
                    }
                });
            }
        });
    });
}

#[derive(Debug, Default)]
struct Object {
    writes: u8,
    is_rolling: bool,
    is_deleting: bool,
    is_deleted: bool,
}

/// Takes a report of the child.
fn take(objects: &mut BTreeMap<u64, Object>, line: &str) -> Option<()> {
    let (_, report) = line.split_once("report: ")?;
    // A kill may cut the last line short, before its end mark.
    let [what, id, "."] = report.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let id = id.parse().unwrap();
    if what == "created" {
        let before = objects.insert(id, Object::default());
        assert!(before.is_none(), "{id} was given out twice");
        return Some(());
    }
    let object = objects.get_mut(&id).expect("it was created");
    match what {
        "wrote" => object.writes += 1,
        "rolling" => object.is_rolling = true,
        "rolled" => (object.writes, object.is_rolling) = (BACK, false),
        "deleting" => object.is_deleting = true,
        "deleted" => object.is_deleted = true,
        other => panic!("{other}"),
    }
    Some(())
}

/// Runs the child until it has made `reports` reports, and kills it.
fn kill_after(path: &Path, reports: usize, objects: &mut BTreeMap<u64, Object>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_uses_objects", "--nocapture"])
        .env(PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut made = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // What is still in the pipe was reported, too.
        made += take(objects, &line.unwrap()).map_or(0, |()| 1);
        if made == reports {
            child.kill().unwrap();
        }
    }
    assert!(made >= reports, "the child ended by itself");
    child.wait().unwrap();
}

/// Compares the store with what the child has reported. Notes the objects that are gone.
fn check(path: &Path, objects: &mut BTreeMap<u64, Object>) {
    with_store(path, |store| {
        store.assert_sound();
        let listed = store.list();
        for (id, object) in objects.iter_mut() {
            let Some(content) = store.content(*id) else {
                assert!(object.is_deleting, "object {id} is gone");
                object.is_deleted = true;
                continue;
            };
            assert!(!object.is_deleted, "object {id} is there again");
            let stamp = content.first().copied().unwrap_or(0);
            let is_whole = content.is_empty() || content == [stamp; SIZE];
            assert!(is_whole, "object {id} is neither old nor new");
            let may_be = object.writes..=object.writes + 1;
            let is_back = object.is_rolling && stamp == BACK;
            assert!(
                may_be.contains(&stamp) || is_back,
                "object {id}: {stamp}, {object:?}"
            );
            // The log has room for all of them.
            let versions = store.versions(*id);
            let numbers: Vec<_> = versions.iter().map(|(number, _)| *number).collect();
            assert!(
                numbers.into_iter().eq((0..=u64::from(stamp)).rev()),
                "object {id}"
            );
            for (number, bytes) in versions {
                let expected = [number as u8; SIZE];
                let expected = if number == 0 { &[] } else { &expected[..] };
                assert!(bytes == expected, "object {id}, version {number}");
            }
            assert!(
                stamp == 0 || listed.contains(id),
                "object {id} is not listed"
            );
            object.writes = stamp;
            (object.is_rolling, object.is_deleting) = (false, false);
        }
    });
}

fn survives_kills(name: &str, reports: &[usize]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let rounds = std::env::var("SPANLOCK_ROUNDS").map_or(1, |it| it.parse().unwrap());
    let mut objects = BTreeMap::new();
    for reports in (0..rounds).flat_map(|_| reports) {
        kill_after(&path, *reports, &mut objects);
        check(&path, &mut objects);
    }
    assert!(objects.values().any(|it| it.is_deleted));
    assert!(objects.values().any(|it| !it.is_deleted && it.writes > 0));
}

#[test]
fn all_that_was_reported_survives_kills_on_a_file() {
    survives_kills("file", &[1, 300, 37, 700, 2]);
}

#[test]
fn all_that_was_reported_survives_kills_in_a_mapped_file() {
    survives_kills("mapped", &[1, 3000, 37, 9000, 2]);
}

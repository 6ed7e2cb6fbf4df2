//! Objects that crash: each pair of operations in two threads, and sequences of operations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use spanlock_interval_lock::IntervalLock;
use spanlock_object_store::space::{self, Disk, Medium, Persistent, Space};
use spanlock_object_store::{Error, Layout, Options, Store};
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_sync::{Mutex, thread};
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences, threads};
use spanlock_verify::Suite;

use crate::disk::Sectors;

const CLAIM: &str = "after a crash, every operation that returned is there, every other one is \
                     there as a whole or not at all, no id is given out twice, no place is lost or \
                     shared, and the store goes on working";

/// Returns the suites. Those on a disk have few images, because a disk stores sectors whole.
pub(crate) fn suites() -> Vec<Suite> {
    let options = Options::new().region(REGION).skip_number(2);
    let packed = options.clone().layout(Layout::Packed);
    let in_regions = options.layout(Layout::Region);
    let pre_creating = packed.clone().skip_number(1).pre_create(2);
    let new_ranges = packed.clone().skip_number(RANGE);
    let disk: Make<_> = |region, failing| Disk::new(Sectors::new(region, failing));
    let objects = |options: &Options, created, heads| Objects {
        options: options.clone(),
        created,
        heads,
        medium: disk,
    };
    let some = &[Kind::Create, Kind::Grow, Kind::Delete, Kind::Checkpoint];
    let few = [Kind::Create, Kind::Other, Kind::Checkpoint];
    let failing = &[Kind::Patch, Kind::Checkpoint, Kind::FailingCheckpoint];
    // Persistent memory has many images: a crash keeps any words of a store past the cache.
    let in_memory = Arc::new(Objects {
        medium: |region, _| Persistent::new(region),
        options: packed.clone(),
        created: 6,
        heads: 1,
    });
    let its = in_memory.clone();
    let medium: MakeMedium = Arc::new(move || its.bytes());
    let operations = few.map(|kind| number(kind, 0));
    let name = "pmem-sequences-of-1";
    let on_memory = sequences(name, CLAIM, &in_memory, &medium, &operations, 1);
    vec![
        suite("objects-packed", objects(&packed, 6, 1), &KINDS, 2, APART).program(on_memory),
        suite(
            "objects-region",
            objects(&in_regions, 6, 1),
            some,
            2,
            APART_IN_REGIONS,
        ),
        suite(
            "objects-pre-created",
            objects(&pre_creating, 4, 2),
            &few,
            3,
            APART,
        ),
        suite(
            "objects-ranges",
            objects(&new_ranges, 2, 1),
            &[Kind::Create],
            3,
            APART,
        ),
        suite("objects-failing", objects(&packed, 6, 1), failing, 3, APART),
    ]
}

/// Pairs of commits to different blocks, whose steps have too many orders. In the packed layout,
/// other pairs meet in a block of heads.
const APART: &[(Kind, Kind)] = &[
    (Kind::Create, Kind::Create),
    (Kind::Patch, Kind::Other),
    (Kind::Span, Kind::Other),
];

/// As [`APART`], if heads are in their regions.
const APART_IN_REGIONS: &[(Kind, Kind)] = &[
    (Kind::Create, Kind::Create),
    (Kind::Create, Kind::Grow),
    (Kind::Create, Kind::Delete),
];

const WHY_BOUNDED: &str = "the search has not ended in 60 seconds";

/// Returns a suite with a program for each pair of the kinds in two threads, and with all sequences
/// of up to `longest`.
fn suite<M: Medium + 'static>(
    name: &str,
    objects: Objects<M>,
    kinds: &[Kind],
    longest: u32,
    bounded: &[(Kind, Kind)],
) -> Suite {
    let objects = Arc::new(objects);
    let its = objects.clone();
    let medium: MakeMedium = Arc::new(move || its.bytes());
    let mut suite = Suite::new(name).step_bound(4_000);
    for (at, &one) in kinds.iter().enumerate() {
        for &other in &kinds[at..] {
            let name = format!("{}-{}", one.name(), other.name());
            let operations: [&[u32]; 2] = [&[number(one, 0)], &[number(other, 1)]];
            let program = threads(&name, CLAIM, &objects, &medium, &operations);
            suite = suite.program(match bounded.contains(&(one, other)) {
                true => program.bounded(1, WHY_BOUNDED),
                false => program,
            });
        }
    }
    let operations: Vec<u32> = kinds.iter().map(|kind| number(*kind, 0)).collect();
    suite.programs((1..=longest).map(|length| {
        let name = format!("sequences-of-{length}");
        sequences(&name, CLAIM, &objects, &medium, &operations, length)
    }))
}

/// The kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Create,
    /// Overwrites 8 bytes of the object [`A`].
    Patch,
    /// Overwrites all of it, in two blocks.
    Span,
    /// Writes beyond its end, in two blocks.
    Grow,
    /// Writes 8 bytes at the start of the object [`B`].
    Other,
    /// Deletes [`A`].
    Delete,
    Checkpoint,
    /// Makes a checkpoint whose first write fails.
    FailingCheckpoint,
}

const ALL: [Kind; 8] = [
    Kind::Create,
    Kind::Patch,
    Kind::Span,
    Kind::Grow,
    Kind::Other,
    Kind::Delete,
    Kind::Checkpoint,
    Kind::FailingCheckpoint,
];

/// The kinds that need no failing disk.
const KINDS: [Kind; 7] = *ALL.first_chunk().expect("there are more");

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Create => "create",
            Kind::Patch => "patch",
            Kind::Span => "span",
            Kind::Grow => "grow",
            Kind::Other => "other",
            Kind::Delete => "delete",
            Kind::Checkpoint => "checkpoint",
            Kind::FailingCheckpoint => "failing-checkpoint",
        }
    }

    /// Returns the object to which an operation writes, the offset and the length.
    fn written(self) -> Option<(u64, usize, usize)> {
        match self {
            Kind::Patch => Some((A, 100, 8)),
            Kind::Span => Some((A, 0, SIZE)),
            Kind::Grow => Some((A, 1020, 8)),
            Kind::Other => Some((B, 0, 8)),
            Kind::Create | Kind::Delete | Kind::Checkpoint | Kind::FailingCheckpoint => None,
        }
    }
}

/// Returns the number of an operation. What it writes depends on `thread`.
fn number(kind: Kind, thread: u32) -> u32 {
    kind as u32 + thread * ALL.len() as u32
}

fn kind(operation: u32) -> Kind {
    ALL[operation as usize % ALL.len()]
}

fn thread_of(operation: u32) -> usize {
    operation as usize / ALL.len()
}

fn byte(operation: u32) -> u8 {
    b'a' + operation as u8
}

const BLOCK: u64 = 512;
const REGION: u64 = 4 * BLOCK;
/// The ids of a range: the heads in a block of the packed table.
const RANGE: u64 = 8;
/// Objects that the operations change.
const A: u64 = 1;
const B: u64 = 2;
/// Bytes of the object [`A`].
const SIZE: usize = 700;
/// The ids that the programs may use are below this.
const END: u64 = 3 * RANGE;
/// The bytes of a medium with 60 places.
const MEDIUM: usize = 8192 + 16_384 + 4096 + 60 * BLOCK as usize;

/// Returns what is written: eight bytes, and zeros. So most words of a block do not change, and the
/// images are small.
fn data(byte: u8, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    data[..8].fill(byte);
    data
}

type Locked<M> = Store<M, IntervalLock>;

/// Makes the medium of a space. The bits say which threads' next writes fail.
type Make<M> = fn(Arc<Simulated>, Arc<AtomicU64>) -> M;

/// The store under test.
struct Objects<M> {
    options: Options,
    /// The objects that exist at the start: their ids are 1, 2, and so on.
    created: u64,
    /// The heads that one batch writes.
    heads: u64,
    medium: Make<M>,
}

/// An open store.
struct Open<M: Medium> {
    store: Locked<M>,
    region: Arc<Simulated>,
    failing: Arc<AtomicU64>,
    /// The ids that were given out since it was opened.
    given: Mutex<BTreeSet<u64>>,
}

impl<M: Medium> Open<M> {
    /// Creates an object in the calling thread.
    fn create(&self) -> Result<u64, String> {
        let id = self.store.create_object().map_err(|why| why.to_string())?;
        let mut given = self.given.lock();
        match given.insert(id) {
            true => Ok(id),
            false => Err(format!("the id {id} was given out twice")),
        }
    }
}

/// What the store contains.
#[derive(Clone, Debug, Default, PartialEq)]
struct Content {
    objects: BTreeMap<u64, Object>,
    /// The number of objects that were created in new ranges of ids. Their ids depend on which
    /// thread comes first.
    fresh: usize,
}

#[derive(Clone, PartialEq)]
struct Object {
    is_listed: bool,
    bytes: Vec<u8>,
}

impl Object {
    fn empty(is_listed: bool) -> Object {
        let bytes = Vec::new();
        Object { is_listed, bytes }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.bytes.chunk_by(|a, b| a == b);
        let runs: Vec<_> = runs
            .map(|run| format!("{} of {}", run.len(), run[0]))
            .collect();
        let kind = ["pre-created", "object"][usize::from(self.is_listed)];
        write!(f, "{kind} {runs:?}")
    }
}

fn lock() -> IntervalLock {
    IntervalLock::with_shards(1, 1 << 20)
}

fn told(why: impl fmt::Display) -> String {
    format!("the store does not go on working: {why}")
}

impl<M: Medium> Objects<M> {
    /// Returns a medium with objects, of which [`A`] and [`B`] have content. After that many, one
    /// id is left in the first thread's range, or none.
    fn bytes(&self) -> Vec<u8> {
        let region = Simulated::new(&[0; MEDIUM]);
        let options = space::Options::new()
            .block(BLOCK as u32)
            .size(320 * BLOCK)
            .rings(1, 16_384)
            .id(7);
        let space = Space::create(
            (self.medium)(region.clone(), Arc::default()),
            &options,
            lock(),
        );
        let store = Store::create(space.expect("there is room"), &self.options);
        let store = store.expect("there is room");
        for id in 1..=self.created {
            assert_eq!(store.create_object().expect("there is room"), id);
        }
        store.write(A, 0, &data(b'.', SIZE)).expect("there is room");
        if self.heads == 1 {
            store.write(B, 0, &data(b'.', 8)).expect("there is room");
        }
        store.space().checkpoint().expect("nothing fails");
        region.bytes()
    }

    fn open(&self, region: &Arc<Simulated>) -> Result<Open<M>, Error> {
        let failing = Arc::default();
        let medium = (self.medium)(region.clone(), Arc::clone(&failing));
        let store = Store::open(Space::open(medium, lock())?, &self.options)?;
        Ok(Open {
            store,
            region: region.clone(),
            failing,
            given: Mutex::default(),
        })
    }

    /// Returns the id of a thread's next creation, unless both threads take a new range.
    fn next(&self, thread: usize) -> u64 {
        [self.created + 1, RANGE][thread]
    }

    /// Returns whether an id is of a range that no slot had at the start.
    fn is_fresh(&self, id: u64) -> bool {
        self.created == B && id >= RANGE
    }

    fn content(&self, store: &Locked<M>) -> Result<Content, String> {
        let listed = store.list(0, usize::MAX).map_err(|why| why.to_string())?;
        let mut content = Content::default();
        for id in 1..END {
            let mut bytes = vec![0; 1100];
            let is_listed = listed.contains(&id);
            match store.read(id, 0, &mut bytes) {
                Ok(len) => bytes.truncate(len),
                Err(Error::UnknownId { .. }) if !is_listed => continue,
                Err(error) => return Err(format!("object {id}: {error}")),
            }
            if self.is_fresh(id) && bytes.is_empty() {
                content.fresh += 1;
            } else {
                content.objects.insert(id, Object { is_listed, bytes });
            }
        }
        Ok(content)
    }

    /// Creates two objects, the second in a new range. No id is one that was given out before.
    fn create_again(&self, open: &Open<M>) -> Result<[u64; 2], String> {
        let there = |id: &u64| *id <= self.created || open.store.size(*id).is_ok();
        let before: BTreeSet<u64> = (1..END).filter(there).collect();
        let new = [open.create()?, open.create()?];
        match new.iter().find(|id| before.contains(id)) {
            Some(id) => Err(format!("the id {id} is given out again")),
            None => Ok(new),
        }
    }

    /// Changes the model's state as a creation does that returned the id.
    fn created(&self, state: &mut Content, thread: usize, id: Option<u64>) -> Option<()> {
        if self.created == B {
            state.fresh += 1;
            return id.is_none_or(|id| self.is_fresh(id)).then_some(());
        }
        let mut new = (self.next(thread)..).filter(|id| !state.objects.contains_key(id));
        let next = new.next().expect("there are more");
        match id {
            Some(id) if id != next => {
                let old = state.objects.get(&id)?;
                let is_new = old == &Object::empty(false);
                (is_new && id >= self.next(thread)).then_some(())
            }
            _ => {
                let end = (next / RANGE + 1) * RANGE;
                for id in next..end.min(next + self.heads) {
                    state.objects.insert(id, Object::empty(id == next));
                }
                Some(())
            }
        }
    }
}

impl<M: Medium + 'static> Subject for Objects<M> {
    type Store = Open<M>;
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Open<M>, String> {
        self.open(region).map_err(|why| why.to_string())
    }

    fn state(&self, open: &Open<M>) -> Result<Content, String> {
        self.content(&open.store)
    }

    /// Creates objects, and performs each operation on one of them. Then what memory says must be
    /// what another recovery finds.
    fn go_on(&self, open: &Open<M>) -> Result<(), String> {
        let store = &open.store;
        let [one, other] = self.create_again(open)?;
        store.write(one, 0, &data(1, SIZE)).map_err(told)?;
        store.space().checkpoint().map_err(told)?;
        store.write(one, 1020, &data(2, 8)).map_err(told)?;
        store.delete(other).map_err(told)?;
        if store.size(A).is_ok() {
            store.delete(A).map_err(told)?;
        }
        let region = Simulated::new(&open.region.bytes());
        let again = self.open(&region).map_err(told)?.store;
        let [memory, medium] = [store, &again].map(|store| {
            let mut content = self.content(store)?;
            // Those that are only pre-created are known after the next recovery only.
            content.objects.retain(|_, it| it.is_listed);
            Ok::<_, String>((content, store.space().stats().free))
        });
        let (memory, medium) = (memory?, medium?);
        match memory == medium {
            true => Ok(()),
            false => Err(format!("memory has {memory:?}, the medium {medium:?}")),
        }
    }

    fn apply(&self, state: &Content, operation: u32, result: Option<&str>) -> Option<Content> {
        let mut state = state.clone();
        let kind = kind(operation);
        if kind == Kind::Create {
            let id = result.map(|it| it.parse().expect("an id"));
            self.created(&mut state, thread_of(operation), id)?;
            return Some(state);
        }
        let is = |expected| result.is_none_or(|it| it == expected);
        let object = match kind {
            Kind::Checkpoint => return is("done").then_some(state),
            Kind::FailingCheckpoint => return is("failed").then_some(state),
            Kind::Delete => A,
            _ => kind.written().expect("it writes").0,
        };
        let Some(found) = state.objects.get_mut(&object) else {
            return is("unknown").then_some(state);
        };
        match kind.written() {
            None => drop(state.objects.remove(&object)),
            Some((_, at, len)) => {
                let size = found.bytes.len().max(at + len);
                found.bytes.resize(size, 0);
                found.bytes[at..at + len].copy_from_slice(&data(byte(operation), len));
                found.is_listed = true;
            }
        }
        is("done").then_some(state)
    }

    fn name(&self, operation: u32) -> String {
        kind(operation).name().to_owned()
    }
}

impl<M: Medium + 'static> Crashable for Objects<M> {
    fn perform(&self, open: &Open<M>, operation: u32) -> String {
        let store = &open.store;
        let kind = kind(operation);
        let done = match kind.written() {
            Some((id, at, len)) => store.write(id, at as u64, &data(byte(operation), len)),
            None => match kind {
                Kind::Create => return open.create().expect("there is room").to_string(),
                Kind::Delete => store.delete(A),
                Kind::FailingCheckpoint => {
                    let me = 1 << thread::index();
                    open.failing.fetch_or(me, Relaxed);
                    store.space().checkpoint().map_err(Error::from)
                }
                _ => store.space().checkpoint().map_err(Error::from),
            },
        };
        match done {
            Ok(()) => "done".to_owned(),
            Err(Error::UnknownId { .. }) => "unknown".to_owned(),
            Err(Error::Space(space::Error::Io { .. })) => "failed".to_owned(),
            Err(error) => panic!("{error}"),
        }
    }
}

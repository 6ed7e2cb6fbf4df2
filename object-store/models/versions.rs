//! Versions that crash: writes that reclaim the oldest version, rollbacks and checkpoints.

use std::fmt;
use std::sync::Arc;

use spanlock_interval_lock::IntervalLock;
use spanlock_object_store::space::{self, Disk, Space};
use spanlock_object_store::{Error, Mode, Options, Store};
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences, threads};
use spanlock_verify::Suite;

use crate::disk::Sectors;

const CLAIM: &str = "after a crash, every version is there that was there before the operation or \
                     after it, whole, and no number is used twice";

pub(crate) fn suite() -> Suite {
    let versions = Arc::new(Versions);
    let medium: MakeMedium = Arc::new(bytes);
    let mut suite = Suite::new("objects-versions").step_bound(4_000);
    for (at, &one) in ALL.iter().enumerate() {
        for &other in &ALL[at..] {
            let name = format!("{}-{}", one.name(), other.name());
            let operations: [&[u32]; 2] = [&[number(one, 0)], &[number(other, 1)]];
            suite = suite.program(threads(&name, CLAIM, &versions, &medium, &operations));
        }
    }
    let operations = ALL.map(|kind| number(kind, 0));
    suite.programs((1..=3).map(|length| {
        let name = format!("sequences-of-{length}");
        sequences(&name, CLAIM, &versions, &medium, &operations, length)
    }))
}

#[derive(Clone, Copy)]
enum Kind {
    /// Overwrites 8 bytes.
    Write,
    /// Rolls back to the version [`BACK`].
    Back,
    Checkpoint,
}

const ALL: [Kind; 3] = [Kind::Write, Kind::Back, Kind::Checkpoint];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Write => "write",
            Kind::Back => "back",
            Kind::Checkpoint => "checkpoint",
        }
    }
}

fn number(kind: Kind, thread: u32) -> u32 {
    kind as u32 + thread * ALL.len() as u32
}

fn kind(operation: u32) -> Kind {
    ALL[operation as usize % ALL.len()]
}

const BLOCK: u64 = 512;
/// A log with room for two entries of a commit block and a block each.
const LOG: u64 = 4 * BLOCK;
/// The versions that find room, with the current one.
const MOST: usize = 3;
/// The object.
const ID: u64 = 1;
/// The writes at the start, so also the number of the current version.
const WRITTEN: u64 = 4;
/// Of the versions at the start, the one after the oldest.
const BACK: u64 = 3;

type OnDisk = Store<Disk<Sectors>, IntervalLock>;

struct Versions;

/// The versions, the oldest first: number, time and the first byte.
#[derive(Clone)]
struct Past {
    versions: Vec<(u64, u64, u8)>,
    /// The writes since the start. A store does not show it.
    writes: u64,
}

impl PartialEq for Past {
    fn eq(&self, other: &Self) -> bool {
        self.versions == other.versions
    }
}

impl fmt::Debug for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "versions, times and bytes {:?}", self.versions)
    }
}

fn medium(region: &Arc<Simulated>) -> Disk<Sectors> {
    Disk::new(Sectors::new(region.clone(), Arc::default()))
}

fn options() -> Options {
    let mode = Mode::Versions { log: LOG };
    Options::new().mode(mode).region(2 * LOG).skip_number(1)
}

fn lock() -> IntervalLock {
    IntervalLock::with_shards(1, 1 << 20)
}

/// Returns a medium with an object that has as many versions as find room.
fn bytes() -> Vec<u8> {
    let region = Simulated::new(&[0; 8192 + 16_384 + 4096 + 40 * BLOCK as usize]);
    let of_space = space::Options::new().block(BLOCK as u32).size(160 * BLOCK);
    let of_space = of_space.rings(1, 16_384).id(7);
    let space = Space::create(medium(&region), &of_space, lock()).expect("there is room");
    let store = Store::create(space, &options()).expect("there is room");
    assert_eq!(store.create_object().expect("there is room"), ID);
    for time in 1..=WRITTEN {
        let number = store.write_version(ID, 0, &[time as u8; 8], time);
        assert_eq!(number.expect("there is room"), time);
    }
    store.space().checkpoint().expect("nothing fails");
    region.bytes()
}

fn open(region: &Arc<Simulated>) -> Result<OnDisk, String> {
    let opened = || Store::open(Space::open(medium(region), lock())?, &options());
    opened().map_err(|why: Error| why.to_string())
}

impl Subject for Versions {
    type Store = (OnDisk, Arc<Simulated>);
    type State = Past;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Self::Store, String> {
        Ok((open(region)?, region.clone()))
    }

    fn state(&self, (store, _): &Self::Store) -> Result<Past, String> {
        let told = |why: Error| why.to_string();
        let mut versions = Vec::new();
        for it in store.versions(ID, usize::MAX).map_err(told)? {
            let mut found = [0; 9];
            let len = store.read_version(ID, it.number, 0, &mut found);
            if len.map_err(told)? != 8 || found[..8] != [found[0]; 8] {
                return Err(format!("version {} has {found:?}", it.number));
            }
            versions.insert(0, (it.number, it.timestamp, found[0]));
        }
        let mut current = [0; 8];
        store.read(ID, 0, &mut current).map_err(told)?;
        match versions.last().is_some_and(|it| current == [it.2; 8]) {
            true => Ok(Past {
                versions,
                writes: 0,
            }),
            false => Err(format!(
                "the object has {current:?}, its versions {versions:?}"
            )),
        }
    }

    /// Writes, rolls back and writes again. Then the check finds nothing, and what memory says is
    /// what another recovery finds.
    fn go_on(&self, open_store: &Self::Store) -> Result<(), String> {
        let told = |why: Error| format!("the store does not go on working: {why}");
        let (store, region) = open_store;
        let before = self.state(open_store)?;
        let new = store.write_version(ID, 0, &[77; 8], 77).map_err(told)?;
        if before.versions.iter().any(|it| it.0 >= new) {
            return Err(format!("{new} is used again, after {before:?}"));
        }
        let last = before.versions.last().expect("the current one").0;
        store.roll_back(ID, last).map_err(told)?;
        let newer = store.write_version(ID, 0, &[78; 8], 78).map_err(told)?;
        if newer <= new {
            return Err(format!("{newer} comes after {new}"));
        }
        let memory = (self.state(open_store)?, store.space().stats().free);
        let again = self.recover(&Simulated::new(&region.bytes()))?;
        let medium = (self.state(&again)?, again.0.space().stats().free);
        let (mut again, _) = again;
        let findings = again.check().map_err(told)?.findings;
        match (memory == medium, findings.first()) {
            (true, None) => Ok(()),
            (_, Some(finding)) => Err(finding.to_string()),
            (false, None) => Err(format!("memory has {memory:?}, the medium {medium:?}")),
        }
    }

    fn apply(&self, state: &Past, operation: u32, result: Option<&str>) -> Option<Past> {
        let mut state = state.clone();
        let versions = &mut state.versions;
        let expected = match kind(operation) {
            Kind::Write => {
                state.writes += 1;
                let new = WRITTEN + state.writes;
                let time = 10 + u64::from(operation);
                versions.push((new, time, time as u8));
                versions.drain(..versions.len().saturating_sub(MOST));
                new.to_string()
            }
            Kind::Back => match versions.iter().position(|it| it.0 == BACK) {
                Some(at) => {
                    versions.truncate(at + 1);
                    "done".to_owned()
                }
                None => "unknown".to_owned(),
            },
            Kind::Checkpoint => "done".to_owned(),
        };
        result.is_none_or(|it| it == expected).then_some(state)
    }

    fn name(&self, operation: u32) -> String {
        kind(operation).name().to_owned()
    }
}

impl Crashable for Versions {
    fn perform(&self, (store, _): &Self::Store, operation: u32) -> String {
        let time = 10 + u64::from(operation);
        let done = match kind(operation) {
            Kind::Write => {
                let number = store.write_version(ID, 0, &[time as u8; 8], time);
                return number.expect("there is room").to_string();
            }
            Kind::Back => store.roll_back(ID, BACK),
            Kind::Checkpoint => store.space().checkpoint().map_err(Error::from),
        };
        match done {
            Ok(()) => "done".to_owned(),
            Err(Error::UnknownVersion { .. }) => "unknown".to_owned(),
            Err(error) => panic!("{error}"),
        }
    }
}

//! Volumes that crash: pairs of operations in two threads, and sequences of operations.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};

use spanlock_interval_lock::IntervalLock;
use spanlock_node_log::{Error, File, Home, Options, Volume};
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences, threads};
use spanlock_verify::Suite;

use crate::files::{Content, Files};
use crate::media::{BLOCK, Disk, Failing, InBlocks, InNvm, World, fail_next};

const CLAIM: &str = "after a crash, each file is as it was when it was last made durable, or later; \
                     no block and no node is lost or shared; and the volume goes on working";

type Pair = (Kind, Kind);

/// Returns a suite for each home.
pub(crate) fn suites() -> [Suite; 2] {
    use Kind::*;
    let nvm = [
        (Write, Fsync),
        (Write, Remove),
        (Append, Fsync),
        (Fsync, Fsync),
        (Fsync, Remove),
    ];
    let block = [
        (Write, Fsync),
        (Append, Fsync),
        (Append, Remove),
        (Fsync, Fsync),
        (Remove, Checkpoint),
    ];
    // Pairs whose steps have too many orders.
    let both = [
        (Write, Write),
        (Write, Fill),
        (Write, Grow),
        (Truncate, Fsync),
        (Truncate, Clean),
        (Truncate, Checkpoint),
        (Create, Create),
        (Create, Remove),
        (Remove, Clean),
    ];
    let nvm_only = [(Write, Create)];
    let block_only = [
        (Write, Clean),
        (Write, Checkpoint),
        (Append, Clean),
        (Append, Truncate),
    ];
    [
        suite::<InNvm>("node-log-nvm", &nvm, &[&both[..], &nvm_only].concat()),
        suite::<InBlocks>("node-log-block", &block, &[&both[..], &block_only].concat()),
    ]
}

fn suite<W: World>(name: &str, explored: &[Pair], bounded: &[Pair]) -> Suite {
    let volumes = Arc::new(Volumes::<W>(PhantomData));
    let medium: MakeMedium = Arc::new(start::<W>);
    let pair = |(one, other): &Pair| {
        let name = format!("{}-{}", one.name(), other.name());
        let operations: [&[u32]; 2] = [&[number(*one, 0)], &[number(*other, 1)]];
        threads(&name, CLAIM, &volumes, &medium, &operations)
    };
    let bounded = bounded.iter().map(pair);
    let bounded = bounded.map(|it| it.bounded(1, "the search has not ended in 60 seconds"));
    let sequences = |name, kinds: &[Kind], length| {
        let kinds: Vec<u32> = kinds.iter().map(|kind| number(*kind, 0)).collect();
        sequences(name, CLAIM, &volumes, &medium, &kinds, length)
    };
    Suite::new(name)
        .step_bound(20_000)
        .without_pairs()
        .programs(explored.iter().map(pair))
        .programs(bounded)
        .program(sequences("sequences-of-1", &ALL, 1))
        .program(sequences("sequences-of-2", &IN_SEQUENCE, 2))
        .program(sequences("churn", &[Kind::Churn], 1))
}

/// The kinds of operations. Most of them are on the file [`A`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Overwrites the first bytes, and syncs.
    Write,
    /// Appends some bytes, and syncs.
    Append,
    /// Syncs.
    Fsync,
    /// Leaves four bytes, and syncs.
    Truncate,
    /// Creates the file [`B`], and syncs it.
    Create,
    Remove,
    Checkpoint,
    Clean,
    /// Overwrites the first bytes.
    Unsynced,
    /// Appends some bytes.
    Grow,
    /// Overwrites the page in the direct node, or makes one after a truncation, and syncs.
    Beyond,
    /// Creates the file [`B`] with as many blocks as a segment has. Syncs nothing.
    Fill,
    /// As `Write`, but the data half's next flush fails.
    DataFails,
    /// As `Write`, but the node half's next flush fails, if it has flushes.
    NodesFail,
    /// Overwrites the first bytes and syncs, so often that both logs come to a third segment.
    Churn,
}

/// All kinds but the costly [`Kind::Churn`].
const ALL: [Kind; 14] = [
    Kind::Write,
    Kind::Append,
    Kind::Fsync,
    Kind::Truncate,
    Kind::Create,
    Kind::Remove,
    Kind::Checkpoint,
    Kind::Clean,
    Kind::Unsynced,
    Kind::Grow,
    Kind::Beyond,
    Kind::Fill,
    Kind::DataFails,
    Kind::NodesFail,
];

/// The kinds of which all sequences of two are searched.
const IN_SEQUENCE: [Kind; 7] = [
    Kind::Truncate,
    Kind::Remove,
    Kind::Checkpoint,
    Kind::Clean,
    Kind::Unsynced,
    Kind::Beyond,
    Kind::Fill,
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Write => "write",
            Kind::Append => "append",
            Kind::Fsync => "fsync",
            Kind::Truncate => "truncate",
            Kind::Create => "create",
            Kind::Remove => "remove",
            Kind::Checkpoint => "checkpoint",
            Kind::Clean => "clean",
            Kind::Unsynced => "unsynced",
            Kind::Grow => "grow",
            Kind::Beyond => "beyond",
            Kind::Churn => "churn",
            Kind::Fill => "fill",
            Kind::DataFails => "data-fails",
            Kind::NodesFail => "nodes-fail",
        }
    }
}

const KINDS: u32 = ALL.len() as u32 + 1;

/// Returns the number of an operation. What it writes depends on `thread`.
fn number(kind: Kind, thread: u32) -> u32 {
    kind as u32 + thread * KINDS
}

fn kind(operation: u32) -> Kind {
    let kind = ALL.get((operation % KINDS) as usize);
    kind.copied().unwrap_or(Kind::Churn)
}

/// Returns what an operation writes.
fn mark(operation: u32) -> [u8; 8] {
    [b'A' + operation as u8; 8]
}

/// The file that exists at the start, with a page in its inode and one in a direct node.
const A: &str = "a";
const B: &str = "b";
/// The offset of the page in the direct node.
const FAR: u64 = 2 * BLOCK;
/// The bytes that a truncation leaves.
const LEFT: u64 = 4;
/// The bytes of the file that fills a segment.
const FILL: u64 = 8 * BLOCK;

type Of<H> = Volume<H, Disk, IntervalLock>;
type VolumeOf<W> = Of<<W as World>::Home>;
type Contents = BTreeMap<String, Content>;

fn options() -> Options {
    let options = Options::new().segment_blocks(8).nodes(8).id(7);
    options.checkpoint_every(None)
}

fn lock(_: u64) -> IntervalLock {
    IntervalLock::with_shards(1, 1 << 20)
}

/// Returns the media of a volume with the file [`A`].
fn start<W: World>() -> Vec<u8> {
    let region = Simulated::new(&vec![0; W::bytes()]);
    let failing = Failing::default();
    let (data, nodes) = (W::data(&region, &failing), W::nodes(&region, &failing));
    let volume = VolumeOf::<W>::create(data, nodes, &options(), lock).expect("there is room");
    let write = |file: Result<File<'_, _, _, _>, Error>, at| {
        let file = file?;
        file.write_at(b"........", at)?;
        file.fsync()
    };
    write(volume.create_file(A), FAR).expect("there is room");
    drop(volume);
    // After an opening, the log goes on in another segment.
    let volume = open::<W>(&region).expect("nothing fails").volume;
    let volume = volume.into_inner().unwrap_or_else(PoisonError::into_inner);
    write(volume.open_file(A), 0).expect("there is room");
    volume.checkpoint().expect("nothing fails");
    region.bytes()
}

/// The volumes under test.
struct Volumes<W>(PhantomData<W>);

/// An open volume.
struct Open<W: World> {
    /// Shared by all operations.
    volume: RwLock<VolumeOf<W>>,
    region: Arc<Simulated>,
    failing: Failing,
}

fn open<W: World>(region: &Arc<Simulated>) -> Result<Open<W>, Error> {
    let failing = Failing::default();
    let (data, nodes) = (W::data(region, &failing), W::nodes(region, &failing));
    Ok(Open {
        volume: RwLock::new(Volume::open(data, nodes, &options(), lock)?),
        region: region.clone(),
        failing,
    })
}

/// Reads all files.
fn content<W: World>(volume: &VolumeOf<W>) -> Result<Contents, Error> {
    let names = volume.names().into_iter();
    let read = |name: String| {
        let file = volume.open_file(&name)?;
        let mut bytes = vec![0; file.len() as usize + 1];
        let len = file.read_at(&mut bytes, 0)?;
        bytes.truncate(len);
        Ok((name, Content(bytes)))
    };
    names.map(read).collect()
}

fn told(why: impl std::fmt::Display) -> String {
    format!("the volume does not go on working: {why}")
}

/// Checks that a volume is sound. Makes a checkpoint.
fn check<W: World>(volume: &mut VolumeOf<W>) -> Result<(), String> {
    let findings = volume.check().map_err(told)?.findings;
    match findings.is_empty() {
        true => Ok(()),
        false => Err(told(findings.join("; "))),
    }
}

/// Opens a copy of a volume's media.
fn reopened<W: World>(open: &Open<W>) -> Result<VolumeOf<W>, String> {
    let region = Simulated::new(&open.region.bytes());
    let volume = self::open::<W>(&region).map_err(told)?.volume;
    Ok(volume.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Checks what files have.
fn is_there<W: World>(volume: &VolumeOf<W>, expected: &Contents) -> Result<(), String> {
    let found = content::<W>(volume).map_err(told)?;
    match found == *expected {
        true => Ok(()),
        false => Err(told(format!(
            "files have {found:?} instead of {expected:?}"
        ))),
    }
}

fn create<H: Home>(volume: &Of<H>, files: &mut Contents) -> Result<(), Error> {
    let file = volume.create_file("c")?;
    file.write_at(&[1; 8], 0)?;
    file.fsync()?;
    files.entry("c".to_owned()).or_default().write(&[1; 8], 0);
    Ok(())
}

/// Changes files and nodes, and cleans.
fn use_further<H: Home>(volume: &Of<H>, files: &mut Contents) -> Result<(), Error> {
    if let Some(content) = files.get_mut(A) {
        let file = volume.open_file(A)?;
        file.append(&[2; 8])?;
        content.write(&[2; 8], content.0.len() as u64);
        file.write_at(&[3; 8], 0)?;
        content.write(&[3; 8], 0);
        file.fsync()?;
    }
    volume.clean().map(drop)
}

impl<W: World> Subject for Volumes<W> {
    type Store = Open<W>;
    type State = Files;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Open<W>, String> {
        open(region).map_err(|why| why.to_string())
    }

    fn state(&self, open: &Open<W>) -> Result<Files, String> {
        let volume = open.volume.read().unwrap_or_else(PoisonError::into_inner);
        let content = content::<W>(&volume).map_err(|why| why.to_string())?;
        Ok(Files::found(content))
    }

    fn go_on(&self, open: &Open<W>) -> Result<(), String> {
        let volume = &mut *open.volume.write().unwrap_or_else(PoisonError::into_inner);
        let mut expected = content::<W>(volume).map_err(told)?;
        // One node first: after it in the log may be one of a commit that was cut off.
        create(volume, &mut expected).map_err(told)?;
        is_there::<W>(&reopened::<W>(open)?, &expected)?;
        use_further(volume, &mut expected).map_err(told)?;
        for volume in [&mut reopened::<W>(open)?, volume] {
            is_there::<W>(volume, &expected)?;
            check::<W>(volume)?;
        }
        Ok(())
    }

    fn apply(&self, files: &Files, operation: u32, result: Option<&str>) -> Option<Files> {
        let mut files = files.clone();
        let kind = kind(operation);
        let is_durable = result == Some("done");
        let name = if matches!(kind, Kind::Create | Kind::Fill) {
            B
        } else {
            A
        };
        let mark = &mark(operation);
        match kind {
            Kind::Clean => return Some(files),
            Kind::Checkpoint if is_durable => files.settle_all(),
            Kind::Checkpoint => {}
            Kind::Create | Kind::Fill => match files.now(B) {
                Some(_) => return result.is_none_or(|it| it == "exists").then_some(files),
                None if result == Some("exists") => return None,
                None => {
                    let mut new = Content::default();
                    files.set(B, Some(new.clone()));
                    if kind == Kind::Fill {
                        new.write(mark, FILL - 8);
                        files.set(B, Some(new));
                    }
                }
            },
            _ => match files.now(A) {
                None => return result.is_none_or(|it| it == "gone").then_some(files),
                Some(_) if result == Some("gone") => return None,
                Some(mut file) => {
                    match kind {
                        Kind::Append | Kind::Grow => file.write(mark, file.0.len() as u64),
                        Kind::Truncate => file.0.truncate(LEFT as usize),
                        Kind::Beyond => file.write(mark, FAR),
                        Kind::Fsync | Kind::Remove => {}
                        _ => file.write(mark, 0),
                    }
                    files.set(A, (kind != Kind::Remove).then_some(file));
                }
            },
        }
        let is_later = match kind {
            Kind::Unsynced | Kind::Grow | Kind::Fill => true,
            Kind::Remove => !W::REMOVES_AT_ONCE,
            _ => false,
        };
        if is_durable && !is_later {
            files.settle(name);
        }
        Some(files)
    }

    fn is_unknown(&self, result: &str) -> bool {
        result == "failed"
    }

    fn name(&self, operation: u32) -> String {
        kind(operation).name().to_owned()
    }
}

impl<W: World> Crashable for Volumes<W> {
    fn perform(&self, open: &Open<W>, operation: u32) -> String {
        let volume = &*open.volume.read().unwrap_or_else(PoisonError::into_inner);
        let mark = &mark(operation);
        let file = || volume.open_file(A);
        let synced = |file: File<'_, _, _, _>| file.fsync();
        let write = || file().and_then(|it| it.write_at(mark, 0).map(|()| it));
        let done = match kind(operation) {
            Kind::Write => write().and_then(synced),
            Kind::Append => file()
                .and_then(|it| it.append(mark).map(|_| it))
                .and_then(synced),
            Kind::Fsync => file().and_then(synced),
            Kind::Truncate => file()
                .and_then(|it| it.truncate(LEFT).map(|()| it))
                .and_then(synced),
            Kind::Create => volume.create_file(B).and_then(synced),
            Kind::Remove => volume.remove(A),
            Kind::Checkpoint => volume.checkpoint(),
            Kind::Clean => volume.clean().map(drop),
            Kind::Unsynced => write().map(drop),
            Kind::Grow => file().and_then(|it| it.append(mark).map(drop)),
            Kind::Beyond => {
                let written = file().and_then(|it| it.write_at(mark, FAR).map(|()| it));
                written.and_then(synced)
            }
            Kind::Churn => (0..20).try_for_each(|_| write().and_then(synced)),
            Kind::Fill => {
                let mut bytes = vec![0; FILL as usize];
                bytes[FILL as usize - 8..].copy_from_slice(mark);
                volume.create_file(B).and_then(|it| it.write_at(&bytes, 0))
            }
            Kind::DataFails => {
                fail_next(&open.failing.data);
                write().and_then(synced)
            }
            Kind::NodesFail => {
                fail_next(&open.failing.nodes);
                write().and_then(synced)
            }
        };
        match done {
            Ok(()) => "done".to_owned(),
            Err(Error::NotFound { .. } | Error::Removed { .. }) => "gone".to_owned(),
            Err(Error::Exists { .. }) => "exists".to_owned(),
            Err(Error::Io { .. } | Error::Failed { .. }) => "failed".to_owned(),
            Err(error) => panic!("{error}"),
        }
    }
}

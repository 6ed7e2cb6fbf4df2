//! Compares a file with a file of the host, under the mix of operations of fsx, the file system
//! exerciser of FreeBSD and xfstests: its lengths, its alignments, and a check of the size after
//! each operation. Vectored reads and writes take the place of its mapped ones. Cleanings on
//! request come in addition.
//!
//! Each test performs `OPERATIONS`, times `SPANLOCK_ROUNDS`, in histories that begin with an empty
//! volume. A history that fails prints its last operations, and the seed that repeats it.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread;

use crate::common::{PAGE, Rng, number, scaled};
use spanlock_file_core::{Error, File, FormatOptions};
use spanlock_pmem::{MappedFile, Options};
use spanlock_srl::SrlArray;

/// The operations of each test.
const OPERATIONS: usize = 10_000;
/// The operations of a history.
const HISTORY: usize = 2_000;
/// The largest size that the operations give the file. Like the next, it is fsx's default.
const LARGEST: u64 = 256 << 10;
/// The most bytes that an operation reads or writes.
const LONGEST: u64 = 64 << 10;
/// Pages of a volume that has room for every operation, and of one that has not.
const ROOMY: u64 = 192;
const TIGHT: u64 = 72;
/// The operations that a failure prints.
const PRINTED: usize = 50;

type Volume = spanlock_file_core::Volume<MappedFile, SrlArray>;
type Handle = File<MappedFile, SrlArray>;

/// How the volume of a test is made.
#[derive(Clone, Copy, Debug)]
struct Setup {
    pages: u64,
    checksums: bool,
}

#[derive(Clone, Debug)]
enum Op {
    /// Reads at a position into buffers of these lengths.
    Read(u64, Vec<u64>),
    /// Writes buffers of these lengths at a position.
    Write(u64, Vec<u64>),
    Append(u64),
    Truncate(u64),
    Punch(Range<u64>),
    Allocate(Range<u64>),
    AllocateKeepingSize(Range<u64>),
    /// Cleans the file's log.
    Clean,
    /// Cleans all logs.
    CleanAll,
    /// Drops the volume, and opens it again.
    Reopen,
}

impl Op {
    fn name(&self) -> &'static str {
        match self {
            Op::Read(_, bufs) if bufs.len() > 1 => "vectored read",
            Op::Read(..) => "read",
            Op::Write(_, bufs) if bufs.len() > 1 => "vectored write",
            Op::Write(..) => "write",
            Op::Append(_) => "append",
            Op::Truncate(_) => "truncate",
            Op::Punch(_) => "punch",
            Op::Allocate(_) => "allocate",
            Op::AllocateKeepingSize(_) => "allocate keeping size",
            Op::Clean => "clean",
            Op::CleanAll => "clean all",
            Op::Reopen => "reopen",
        }
    }
}

/// The names of all operations.
const NAMES: [&str; 12] = [
    "read",
    "vectored read",
    "write",
    "vectored write",
    "append",
    "truncate",
    "punch",
    "allocate",
    "allocate keeping size",
    "clean",
    "clean all",
    "reopen",
];

/// Draws operations.
struct Draw {
    rng: Rng,
    /// What the positions of reads, writes and truncations are multiples of, as set by fsx's
    /// options `-r`, `-w` and `-t`.
    reads: u64,
    writes: u64,
    truncations: u64,
    /// Whether logs are cleaned on request. The other histories leave it to the operations that
    /// need pages.
    cleans: bool,
}

impl Draw {
    fn new(seed: u64) -> Draw {
        let mut rng = Rng::new(seed);
        // The first numbers of similar seeds are similar.
        (0..16).for_each(|_| _ = rng.next());
        let mut boundary = || [1, 1, 512, PAGE][rng.below(4) as usize];
        let (reads, writes, truncations) = (boundary(), boundary(), boundary());
        Draw {
            rng,
            reads,
            writes,
            truncations,
            cleans: seed.is_multiple_of(2),
        }
    }

    /// Returns a multiple of `boundary`. If that is any number, it is often near a page's border.
    fn position(&mut self, boundary: u64) -> u64 {
        let at = self.rng.below(LARGEST + 1);
        match boundary == 1 && self.rng.below(3) == 0 {
            true => (at / PAGE * PAGE + self.rng.below(20)).clamp(10, LARGEST) - 10,
            false => at / boundary * boundary,
        }
    }

    fn range(&mut self, boundary: u64) -> Range<u64> {
        let start = self.position(boundary);
        let len = self.rng.below(LONGEST + 1) / boundary * boundary;
        start..(start + len).min(LARGEST)
    }

    /// Returns a position and the lengths of buffers: of one, or of several.
    fn buffers(&mut self, boundary: u64) -> (u64, Vec<u64>) {
        let Range { start, end } = self.range(boundary);
        let (mut rest, mut lengths) = (end - start, Vec::new());
        if self.rng.below(2) == 0 {
            for _ in 0..1 + self.rng.below(3) {
                let len = self.rng.below(rest + 1);
                lengths.push(len);
                rest -= len;
            }
        }
        lengths.push(rest);
        (start, lengths)
    }

    /// Returns an operation on a file of this size.
    fn op(&mut self, size: u64) -> Op {
        let (reads, writes) = (self.reads, self.writes);
        match self.rng.below(512) {
            0..4 => Op::Reopen,
            4..128 => {
                let (at, lengths) = self.buffers(reads);
                Op::Read(at, lengths)
            }
            128..256 => {
                let (at, lengths) = self.buffers(writes);
                Op::Write(at, lengths)
            }
            256..304 => Op::Append(self.rng.below((LARGEST - size).min(LONGEST) + 1)),
            304..368 => Op::Truncate(self.position(self.truncations)),
            368..432 => Op::Punch(self.range(writes)),
            432..464 => Op::Allocate(self.range(writes)),
            496..498 if self.cleans => Op::Clean,
            498..500 if self.cleans => Op::CleanAll,
            _ => Op::AllocateKeepingSize(self.range(writes)),
        }
    }
}

/// The bytes that the operations write, which differ from one operation to the next. Bytes of one
/// operation that change places are noticed too.
fn fill(bytes: &mut [u8], seed: u64) {
    for (words, at) in bytes.chunks_mut(8).zip(0_u64..) {
        let word = seed.wrapping_add(at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        words.copy_from_slice(&word.to_le_bytes()[..words.len()]);
    }
}

/// Cuts `bytes` into pieces of these lengths.
fn cut<'b>(mut bytes: &'b mut [u8], lengths: &[u64]) -> Vec<&'b mut [u8]> {
    let mut piece = |len: &u64| bytes.split_off_mut(..*len as usize).expect("enough bytes");
    lengths.iter().map(&mut piece).collect()
}

fn lock(capacity: u64) -> SrlArray {
    SrlArray::with_segment_size(capacity, PAGE).expect("memory")
}

/// A history under way: the file, and the one of the host that it is compared with.
struct History {
    setup: Setup,
    seed: u64,
    draw: Draw,
    folder: tempfile::TempDir,
    /// The volume and its file. None while it is closed.
    open: Option<(Volume, Handle)>,
    host: fs::File,
    /// What is written, and what is read from either file.
    bytes: Vec<u8>,
    host_bytes: Vec<u8>,
    done: usize,
    /// How often logs were cleaned before the volume was last opened.
    cleaned: u64,
    /// How often they were cleaned on request.
    requested: u64,
    last: VecDeque<Op>,
}

impl History {
    fn new(setup: Setup, seed: u64) -> History {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("volume");
        let region = MappedFile::create(path, setup.pages * PAGE, Options::new()).expect("space");
        let options = FormatOptions::new().inodes(32).max_file_size(LARGEST);
        let options = options.data_checksums(setup.checksums);
        let volume = Volume::format(region, &options, lock).expect("there is room");
        let file = volume.create("a").expect("there is room");
        History {
            setup,
            seed,
            draw: Draw::new(seed),
            folder,
            open: Some((volume, file)),
            host: tempfile::tempfile().expect("a temporary file"),
            bytes: vec![0; LARGEST as usize],
            host_bytes: vec![0; LARGEST as usize],
            done: 0,
            cleaned: 0,
            requested: 0,
            last: VecDeque::new(),
        }
    }

    fn volume(&self) -> &Volume {
        &self.open.as_ref().expect("it is open").0
    }

    fn file(&self) -> &Handle {
        &self.open.as_ref().expect("it is open").1
    }

    fn cleaned(&self) -> u64 {
        let stats = self.volume().stats();
        self.cleaned + stats.compactions + stats.unlinked_pages
    }

    fn host_size(&self) -> u64 {
        self.host.metadata().expect("its size").len()
    }

    /// Performs an operation. Returns its name, and whether there was room for it.
    fn step(&mut self) -> (&'static str, bool) {
        let op = self.draw.op(self.host_size());
        if self.last.len() == PRINTED {
            self.last.pop_front();
        }
        self.last.push_back(op.clone());
        let result = self.perform(&op);
        let has_room = match result {
            Ok(()) => true,
            Err(Error::NoSpace { .. }) if self.setup.pages == TIGHT => false,
            Err(error) => panic!("{op:?}: {error}"),
        };
        assert_eq!(self.file().size(), self.host_size(), "size after {op:?}");
        self.done += 1;
        (op.name(), has_room)
    }

    /// Performs an operation on the file, and then on the one of the host.
    fn perform(&mut self, op: &Op) -> Result<(), Error> {
        match op {
            Op::Read(at, lengths) => self.read(*at, lengths)?,
            Op::Write(at, lengths) => {
                let len: u64 = lengths.iter().sum();
                let seed = self.draw.rng.next();
                let bytes = &mut self.bytes[..len as usize];
                fill(bytes, seed);
                let pieces = cut(bytes, lengths);
                let pieces: Vec<_> = pieces.iter().map(|it| IoSlice::new(it)).collect();
                let (_, file) = self.open.as_ref().expect("it is open");
                match *pieces {
                    [ref all] => file.write_at(all, *at)?,
                    _ => file.write_vectored_at(&pieces, *at)?,
                }
                let bytes = &self.bytes[..len as usize];
                self.host.write_all_at(bytes, *at).expect("space");
            }
            Op::Append(len) => {
                let seed = self.draw.rng.next();
                fill(&mut self.bytes[..*len as usize], seed);
                let (bytes, size) = (&self.bytes[..*len as usize], self.host_size());
                assert_eq!(self.file().append(bytes)?, size);
                self.host.write_all_at(bytes, size).expect("space");
            }
            Op::Truncate(size) => {
                self.file().truncate(*size)?;
                self.host.set_len(*size).expect("space");
            }
            Op::Punch(range) => {
                self.file().punch_hole(range.clone())?;
                let end = range.end.min(self.host_size());
                if range.start < end {
                    let zeros = vec![0; (end - range.start) as usize];
                    self.host.write_all_at(&zeros, range.start).expect("space");
                }
            }
            Op::Allocate(range) => {
                self.file().allocate(range.clone())?;
                if !range.is_empty() && range.end > self.host_size() {
                    self.host.set_len(range.end).expect("space");
                }
            }
            Op::AllocateKeepingSize(range) => self.file().allocate_keeping_size(range.clone())?,
            Op::Clean | Op::CleanAll => {
                let before = self.cleaned();
                match op {
                    Op::Clean => self.file().clean()?,
                    _ => self.volume().clean()?,
                };
                self.requested += self.cleaned() - before;
                self.check();
            }
            Op::Reopen => self.reopen()?,
        }
        Ok(())
    }

    fn read(&mut self, at: u64, lengths: &[u64]) -> Result<(), Error> {
        let len = lengths.iter().sum::<u64>() as usize;
        let (_, file) = self.open.as_ref().expect("it is open");
        let bytes = &mut self.bytes[..len];
        bytes.fill(0xEE);
        let mut pieces = cut(bytes, lengths);
        let read = match &mut *pieces {
            [all] => file.read_at(all, at)?,
            _ => {
                let pieces = pieces.into_iter().map(IoSliceMut::new);
                file.read_vectored_at(&mut pieces.collect::<Vec<_>>(), at)?
            }
        };
        let there = self.host_size().saturating_sub(at).min(len as u64) as usize;
        assert_eq!(read, there, "bytes read at {at}");
        let (bytes, host_bytes) = (&self.bytes[..there], &mut self.host_bytes[..there]);
        self.host.read_exact_at(host_bytes, at).expect("its bytes");
        if bytes != host_bytes {
            let is_other = |(here, host): (&u8, &u8)| here != host;
            let first = bytes.iter().zip(&*host_bytes).position(is_other);
            let first = first.expect("one differs");
            panic!(
                "byte {} is {}, not {}",
                at + first as u64,
                bytes[first],
                host_bytes[first]
            );
        }
        assert!(self.bytes[there..len].iter().all(|byte| *byte == 0xEE));
        Ok(())
    }

    /// Compares everything.
    fn check(&mut self) {
        self.read(0, &[LARGEST]).expect("it can be read");
        assert_eq!(self.volume().check().expect("a check").damaged, []);
    }

    fn reopen(&mut self) -> Result<(), Error> {
        let (before, metadata) = (self.volume().stats(), self.file().metadata());
        self.cleaned = self.cleaned();
        drop(self.open.take());
        let region = MappedFile::open(self.folder.path().join("volume"), Options::new());
        let (volume, _) = Volume::open(region.expect("it is there"), lock)?;
        let file = volume.open_file("a")?;
        self.open = Some((volume, file));
        assert_eq!(self.file().metadata(), metadata);
        let after = self.volume().stats();
        assert_eq!(before.pages_free, after.pages_free);
        assert_eq!(before.log_pages, after.log_pages);
        self.check();
        Ok(())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        if thread::panicking() {
            let History {
                setup, seed, done, ..
            } = self;
            eprintln!("operation {done} of a history with {setup:?}; the last operations:");
            self.last.iter().for_each(|op| eprintln!("  {op:?}"));
            eprintln!("SPANLOCK_SEED={seed} makes this history the test's first");
        }
    }
}

/// Performs the histories of a test. Unless told otherwise, each test has its own.
fn compare(first: u64, setup: Setup) {
    let first = number("SPANLOCK_SEED", first);
    let (mut done, mut refused) = (BTreeMap::<_, usize>::new(), 0);
    let (mut cleaned, mut requested) = (0, 0);
    for seed in first..first + scaled(OPERATIONS).div_ceil(HISTORY) as u64 {
        let mut history = History::new(setup, seed);
        for _ in 0..HISTORY {
            match history.step() {
                (name, true) => *done.entry(name).or_default() += 1,
                (_, false) => refused += 1,
            }
        }
        history.check();
        cleaned += history.cleaned();
        requested += history.requested;
    }
    println!(
        "{done:?}; {refused} without room; logs cleaned {cleaned} times, {requested} on request"
    );
    for name in NAMES {
        assert!(done.contains_key(name), "no operation was a {name}");
    }
    assert!(cleaned > requested && requested > 0 && (refused > 0) == (setup.pages == TIGHT));
}

#[test]
fn a_file_agrees_with_one_of_the_host() {
    compare(
        1_000_000,
        Setup {
            pages: ROOMY,
            checksums: false,
        },
    );
}

#[test]
fn a_file_with_checksums_agrees_with_one_of_the_host_when_there_is_little_space() {
    compare(
        2_000_000,
        Setup {
            pages: TIGHT,
            checksums: true,
        },
    );
}

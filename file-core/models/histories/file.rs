//! The operations of one file. They write whole words of eight bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use spanlock_file_core::FormatOptions;
use spanlock_pmem::simulated::Simulated;
use spanlock_srl::SrlArray;

use super::{Sequential, made_apart, reopened};
use crate::store::{FILE, Handle, PAGE, Volume, lock, lock_of, needs_a_page};

/// The words of a page.
const WORDS: u64 = PAGE / 8;
/// The pages that a read covers. No operation reaches further.
const MOST_PAGES: u64 = 3;
/// The first word and the number of words that a new file has. It ends within its second page.
const INITIAL: u64 = WORDS + 1;
/// What its first word is.
const FIRST: u8 = 0xFF;
/// The words of an answer that can differ from zero.
const KEPT: usize = 16;

/// An operation on words of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum FileOp {
    /// Writes `len` words, the first at `at`.
    Write {
        name: &'static str,
        at: u64,
        len: u64,
    },
    Append,
    /// Sets the size in words.
    Truncate {
        name: &'static str,
        size: u64,
    },
    /// Makes a hole of `len` words, the first at `at`.
    Punch {
        name: &'static str,
        at: u64,
        len: u64,
    },
    /// Gives the words up to `end` pages.
    Allocate {
        end: u64,
    },
    /// As `Allocate`, but the size stays.
    AllocateKeepingSize {
        end: u64,
    },
    /// Cleans the file's log, which changes no answer.
    Clean,
    Read,
    Size,
}

/// Writes the first page's first word.
const LOW: FileOp = write("write-low", 0, 1);
/// Writes a word in the second half of that page.
const HIGH: FileOp = write("write-high", WORDS / 2, 1);
/// Writes the words beside the border of two pages.
const ACROSS: FileOp = write("write-across", WORDS - 1, 2);
/// Writes beyond the end, and leaves a hole.
const FAR: FileOp = write("write-far", 2 * WORDS, 1);

/// Cuts off all but the first half of the first page.
const CUT: FileOp = FileOp::Truncate {
    name: "cut",
    size: WORDS / 2,
};
/// Sets a size beyond the end.
const STRETCH: FileOp = FileOp::Truncate {
    name: "stretch",
    size: 2 * WORDS + 1,
};
/// Makes a hole of the first page.
const PUNCH: FileOp = punch("punch", 0, WORDS);
/// Makes a hole of parts of two pages.
const PUNCH_ACROSS: FileOp = punch("punch-across", WORDS / 2, WORDS);
/// Gives the third page to the file.
const ALLOCATE: FileOp = FileOp::Allocate { end: 2 * WORDS + 2 };
const ALLOCATE_KEEPING_SIZE: FileOp = FileOp::AllocateKeepingSize { end: 2 * WORDS + 2 };

const fn punch(name: &'static str, at: u64, len: u64) -> FileOp {
    FileOp::Punch { name, at, len }
}

const fn write(name: &'static str, at: u64, len: u64) -> FileOp {
    FileOp::Write { name, at, len }
}

impl FileOp {
    pub(super) const ALL: &[FileOp] = &[
        LOW,
        HIGH,
        ACROSS,
        FAR,
        CUT,
        STRETCH,
        PUNCH,
        PUNCH_ACROSS,
        ALLOCATE,
        ALLOCATE_KEEPING_SIZE,
        FileOp::Append,
        FileOp::Size,
        FileOp::Read,
    ];
    /// Operations beside cleanings, which are drawn more often than any other.
    pub(super) const CLEANED: &[FileOp] = &[
        FileOp::Clean,
        FileOp::Clean,
        LOW,
        ACROSS,
        CUT,
        PUNCH,
        ALLOCATE_KEEPING_SIZE,
        FileOp::Append,
        FileOp::Read,
    ];
    /// Operations of few steps. A read of all pages takes many, so that a search of it takes too
    /// long; at the end of each execution, the main thread reads all the same.
    pub(super) const SEARCHED: &[FileOp] =
        &[LOW, ACROSS, FAR, CUT, PUNCH, FileOp::Append, FileOp::Size];
}

impl fmt::Display for FileOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileOp::Write { name, .. }
            | FileOp::Truncate { name, .. }
            | FileOp::Punch { name, .. } => name,
            FileOp::Allocate { .. } => "allocate",
            FileOp::AllocateKeepingSize { .. } => "allocate-keeping-size",
            FileOp::Clean => "clean",
            FileOp::Append => "append",
            FileOp::Read => "read",
            FileOp::Size => "size",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum FileAnswer {
    Done,
    /// The word at which an append began.
    At(u64),
    /// The size in words.
    Size(u64),
    /// The size in words, and each word that is not zero.
    Content(u64, [(u16, u8); KEPT]),
}

impl fmt::Display for FileAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileAnswer::Done => f.write_str("done"),
            FileAnswer::At(word) => write!(f, "at {word}"),
            FileAnswer::Size(words) => write!(f, "{words} words"),
            FileAnswer::Content(words, kept) => {
                write!(f, "{words} words:")?;
                let kept = kept.iter().filter(|(_, stamp)| *stamp != 0);
                kept.into_iter()
                    .try_for_each(|(at, stamp)| write!(f, " {at}={stamp}"))
            }
        }
    }
}

/// What a file contains: its size in words, and each word that is not zero.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Content {
    size: u64,
    words: BTreeMap<u16, u8>,
}

impl Content {
    fn write(&mut self, at: u64, len: u64, stamp: u8) {
        self.size = self.size.max(at + len);
        self.words
            .extend((at..at + len).map(|word| (word as u16, stamp)));
    }

    fn truncate(&mut self, size: u64) {
        self.size = size;
        self.words.retain(|at, _| u64::from(*at) < size);
    }

    fn answer(&self) -> FileAnswer {
        let mut kept = [(0, 0); KEPT];
        assert!(self.words.len() <= KEPT, "a scenario changes fewer words");
        for (into, (&at, &stamp)) in kept.iter_mut().zip(&self.words) {
            *into = (at, stamp);
        }
        FileAnswer::Content(self.size, kept)
    }
}

/// A file, whose lock has segments of so many bytes. With whole pages, a search takes few steps.
/// With half pages, an access to half a page does not lock all of it.
pub(super) struct Pages<const SEGMENT: u64> {
    file: Handle,
}

impl<const SEGMENT: u64> Sequential for Pages<SEGMENT> {
    type Op = FileOp;
    type Answer = FileAnswer;
    type State = Content;
    const AT_END: &[FileOp] = &[FileOp::Size, FileOp::Read];

    fn new() -> Self {
        let volume = formatted(|capacity| lock_of(capacity, SEGMENT));
        let file = volume.open_file(FILE).expect("it is there");
        Pages { file }
    }

    fn perform(&self, op: FileOp, stamp: u8) -> FileAnswer {
        perform(&self.file, op, stamp)
    }

    fn initial() -> Content {
        initial()
    }

    fn apply(content: &mut Content, op: FileOp, stamp: u8) -> FileAnswer {
        apply(content, op, stamp)
    }
}

/// The same file with a log of several pages, so that a cleaning unlinks and copies.
pub(super) struct Sparse {
    file: Handle,
}

impl Sparse {
    /// Returns a volume whose file has a log of four pages: three with a group that is needed, and
    /// one of which nothing is needed.
    fn make() -> Vec<u8> {
        let volume = formatted(lock);
        let file = volume.open_file(FILE).expect("it is there");
        let overwrite = |file: &Handle| {
            file.write_at(&[FIRST; 8], 0).expect("there is room");
        };
        let fill = || {
            let again = |it: &Volume| overwrite(&it.open_file(FILE).expect("it is there"));
            while !needs_a_page(&volume, again) {
                overwrite(&file);
            }
        };
        fill();
        file.write_at(&[0; 8], PAGE).expect("there is room");
        fill();
        overwrite(&file);
        fill();
        overwrite(&file);
        let (stats, again) = (volume.stats(), reopened(&volume.pmem().bytes()));
        assert_eq!((stats.log_pages, stats.unlinked_pages), (5, 0));
        let file = again.open_file(FILE).expect("it is there");
        let cleaned = file.clean().expect("no operation has panicked");
        assert!(cleaned.pages_unlinked > 0 && cleaned.pages_copied > 0);
        volume.pmem().bytes()
    }
}

impl Sequential for Sparse {
    type Op = FileOp;
    type Answer = FileAnswer;
    type State = Content;
    const AT_END: &[FileOp] = Pages::<PAGE>::AT_END;

    fn new() -> Self {
        static MEDIUM: OnceLock<Vec<u8>> = OnceLock::new();
        let volume = reopened(MEDIUM.get_or_init(|| made_apart(Sparse::make)));
        let file = volume.open_file(FILE).expect("it is there");
        Sparse { file }
    }

    fn perform(&self, op: FileOp, stamp: u8) -> FileAnswer {
        perform(&self.file, op, stamp)
    }

    fn initial() -> Content {
        initial()
    }

    fn apply(content: &mut Content, op: FileOp, stamp: u8) -> FileAnswer {
        apply(content, op, stamp)
    }
}

/// Returns a volume with the file.
fn formatted(lock: impl Fn(u64) -> SrlArray + Send + Sync + 'static) -> Volume {
    let region = Simulated::new(&[0; 24 * PAGE as usize]);
    let options = FormatOptions::new().inodes(8).clock(|| 0);
    let options = options.max_file_size(4 * PAGE);
    let volume = Volume::format(region, &options, lock).expect("there is room");
    let file = volume.create(FILE).expect("there is room");
    let mut initial = vec![0; INITIAL as usize * 8];
    initial[..8].fill(FIRST);
    file.write_at(&initial, 0).expect("there is room");
    drop(file);
    volume
}

fn perform(file: &Handle, op: FileOp, stamp: u8) -> FileAnswer {
    match op {
        FileOp::Write { at, len, .. } => {
            let written = file.write_at(&[stamp; 16][..len as usize * 8], at * 8);
            written.expect("there is room");
            FileAnswer::Done
        }
        FileOp::Truncate { size, .. } => {
            file.truncate(size * 8).expect("there is room");
            FileAnswer::Done
        }
        FileOp::Punch { at, len, .. } => {
            let range = at * 8..(at + len) * 8;
            file.punch_hole(range).expect("there is room");
            FileAnswer::Done
        }
        FileOp::Allocate { end } => {
            file.allocate(0..end * 8).expect("there is room");
            FileAnswer::Done
        }
        FileOp::AllocateKeepingSize { end } => {
            let allocated = file.allocate_keeping_size(0..end * 8);
            allocated.expect("there is room");
            FileAnswer::Done
        }
        FileOp::Clean => {
            file.clean().expect("no operation has panicked");
            FileAnswer::Done
        }
        FileOp::Append => {
            let at = file.append(&[stamp; 8]).expect("there is room");
            FileAnswer::At(at / 8)
        }
        FileOp::Size => FileAnswer::Size(file.size() / 8),
        FileOp::Read => {
            let mut bytes = vec![0xEE; (MOST_PAGES * PAGE) as usize];
            let read = file.read_at(&mut bytes, 0).expect("the range is valid");
            let word = |(at, word): (u16, &[u8])| {
                let is_whole = word.iter().all(|byte| *byte == word[0]);
                assert!(is_whole, "word {at} is torn");
                (word[0] != 0).then_some((at, word[0]))
            };
            let words = (0..).zip(bytes[..read].chunks(8)).filter_map(word);
            let size = read as u64 / 8;
            let words = words.collect();
            Content { size, words }.answer()
        }
    }
}

fn initial() -> Content {
    Content {
        size: INITIAL,
        words: BTreeMap::from([(0, FIRST)]),
    }
}

fn apply(content: &mut Content, op: FileOp, stamp: u8) -> FileAnswer {
    match op {
        FileOp::Write { at, len, .. } => content.write(at, len, stamp),
        FileOp::Append => {
            let at = content.size;
            content.write(at, 1, stamp);
            return FileAnswer::At(at);
        }
        FileOp::Truncate { size, .. } => content.truncate(size),
        FileOp::Punch { at, len, .. } => {
            let hole = at..at + len;
            content
                .words
                .retain(|it, _| !hole.contains(&u64::from(*it)));
        }
        FileOp::Allocate { end } => content.size = content.size.max(end),
        FileOp::AllocateKeepingSize { .. } | FileOp::Clean => {}
        FileOp::Size => return FileAnswer::Size(content.size),
        FileOp::Read => return content.answer(),
    }
    FileAnswer::Done
}

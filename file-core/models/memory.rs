//! Races in memory: the index, the size and the count of operations in flight.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use spanlock_file_core::{Error, File, FormatOptions};
use spanlock_pmem::simulated::Simulated;
use spanlock_srl::SrlArray;
use spanlock_verify::{self as verify, Program, Scene, Suite, note};

use crate::store::{self, FILE, PAGE, Volume, content, full_but_for};

pub(crate) fn suite() -> Suite {
    Suite::new("file-core-memory")
        .step_bound(4_000)
        .program(writers(
            "roots",
            "two threads add the index's first node",
            &[],
            [0, 16],
        ))
        .program(writers(
            "parents",
            "two threads add a level to the index",
            &[0],
            [64, 80],
        ))
        .program(writers(
            "children",
            "two threads add the same node to the index",
            &[0, 64],
            [128, 144],
        ))
        .no_pair("read", "read", UNCHANGED)
        .no_pair("read", "check", UNCHANGED)
        .no_pair("check", "check", UNCHANGED)
        .no_pair("punch", "check", "the suite file-core-index has this pair")
        .no_pair("punch", "read", "the suite file-core-index has this pair")
        .no_pair("punch", "punch", "the suite file-core-holes has this pair")
        .program(halves())
        .program(reader("read-root", &[16], [0, 64]))
        .program(reader("read-child", &[0, 240], [128, 144]))
        .program(check("check-root", &[16], 64))
        .program(check("check-child", &[0, 240], 144))
        .program(compaction())
        .no_pair(
            "clean",
            "clean",
            "a thread that cleans waits for another one that does",
        )
        .no_pair("clean", "check", UNCHANGED)
        .no_pair(
            "clean",
            "punch",
            "the suites file-core-emptied and file-core-sparse have this pair",
        )
        .program(last_free_pages())
        .program(cleaner_and_reader())
        .program(cleaner_and_writer())
}

const UNCHANGED: &str = "neither changes anything";

/// Makes a lock with few segments, so that a read of the whole file takes few steps.
pub(crate) fn wide(capacity: u64) -> SrlArray {
    SrlArray::with_segment_size(capacity, 16 * PAGE).expect("memory, and a power of two")
}

/// An open volume and its file.
pub(crate) struct Open {
    volume: Volume,
    file: File<Arc<Simulated>, SrlArray>,
}

impl Open {
    /// Opens a volume whose file has these pages.
    pub(crate) fn with(pages: &[u64]) -> Open {
        Open::under(wide, pages)
    }

    fn under(lock: fn(u64) -> SrlArray, pages: &[u64]) -> Open {
        let region = Simulated::new(&[0; 24 * PAGE as usize]);
        let options = FormatOptions::new().clock(|| 0);
        let options = options.inodes(8).max_file_size(256 * PAGE);
        let options = options.data_checksums(true);
        let volume = Volume::format(region, &options, lock).expect("there is room");
        let file = volume.create(FILE).expect("there is room");
        let open = Open { volume, file };
        pages.iter().for_each(|page| open.write(*page));
        open
    }

    /// Opens a volume whose file is empty, and has a page for its log.
    fn emptied() -> Open {
        let open = Open::with(&[0]);
        open.file.truncate(0).expect("there is room");
        open
    }

    pub(crate) fn write(&self, page: u64) {
        let written = self.file.write_at(&bytes(page), page * PAGE);
        written.expect("there is room");
    }

    pub(crate) fn read(&self, page: u64) -> [u8; 8] {
        let mut found = [0; 8];
        let read = self.file.read_at(&mut found, page * PAGE);
        read.expect("the range is valid");
        found
    }

    /// Makes pages of the file a hole.
    pub(crate) fn punch(&self, pages: Range<u64>) {
        let bytes = pages.start * PAGE..pages.end * PAGE;
        self.file.punch_hole(bytes).expect("there is room");
    }

    fn clean(&self) {
        self.file.clean().expect("no operation has panicked");
    }

    /// Asserts that the volume has no damaged page.
    pub(crate) fn check(&self) {
        let report = self.volume.check().expect("the lock is large enough");
        assert_eq!(report.damaged, []);
    }

    /// Asserts that the pages have been written.
    pub(crate) fn assert_wrote(&self, pages: &[u64]) {
        for page in pages {
            assert_eq!(self.read(*page), bytes(*page), "page {page}");
        }
        self.assert_sound();
    }

    /// Asserts that recovery would find what memory has.
    fn assert_sound(&self) {
        let region = Simulated::new(&self.volume.pmem().bytes());
        let (again, _) = Volume::open(region, wide).expect("the volume is sound");
        let [now, again] = [&self.volume, &again].map(|it| content(it).expect("it is sound"));
        assert_eq!(now, again, "memory differs from what recovery finds");
    }
}

/// Returns what a page begins with.
fn bytes(page: u64) -> [u8; 8] {
    (page + 1).to_le_bytes()
}

/// Two threads each write a page of a file that has the pages `before`.
fn writers(name: &str, claim: &str, before: &'static [u64], [one, other]: [u64; 2]) -> Scene<Open> {
    Program::new(name, claim)
        .scene(|| Open::with(before))
        .thread(["write"], move |open| open.write(one))
        .thread(["write"], move |open| open.write(other))
        .at_end(move |open| open.assert_wrote(&[before, &[one, other]].concat()))
}

/// Two threads each write a half of a page, under a lock that allows both at a time.
fn halves() -> Scene<Open> {
    const HALF: u64 = PAGE / 2;
    let narrow = |capacity| SrlArray::with_segment_size(capacity, HALF).expect("memory");
    let write = |open: &Open, half: u64| {
        let written = open.file.write_at(&bytes(half), half * HALF);
        written.expect("there is room");
    };
    let claim = "a write that copies the other bytes of a page loses no write to them";
    Program::new("halves", claim)
        .scene(move || Open::under(narrow, &[1]))
        .thread(["write"], move |open| write(open, 2))
        .thread(["write"], move |open| write(open, 3))
        .at_end(|open| {
            let mut found = [[0; 8]; 2];
            for (half, found) in (2..).zip(&mut found) {
                let read = open.file.read_at(found, half * HALF);
                read.expect("the range is valid");
            }
            assert_eq!(found, [2, 3].map(bytes));
            open.assert_sound();
        })
}

/// A thread reads a page that nobody writes, while another adds nodes of the index above it.
fn reader(name: &str, before: &'static [u64], [hole, written]: [u64; 2]) -> Scene<Open> {
    let claim = "a reader finds nodes of the index whole, which another thread adds";
    Program::new(name, claim)
        .scene(|| Open::with(before))
        .thread(["write"], move |open| open.write(written))
        .thread(["read"], move |open| assert_eq!(open.read(hole), [0; 8]))
        .at_end(move |open| open.assert_wrote(&[before, &[written]].concat()))
}

/// A thread checks the volume, while another adds nodes of the index.
fn check(name: &str, before: &'static [u64], written: u64) -> Scene<Open> {
    let claim = "a check finds nodes of the index whole, which another thread adds";
    Program::new(name, claim)
        .scene(|| Open::with(before))
        .thread(["write"], move |open| open.write(written))
        .thread(["check"], |open| open.check())
        .at_end(move |open| open.assert_wrote(&[before, &[written]].concat()))
}

/// Two threads write to a file whose log has room for one of them: the other compacts it.
fn compaction() -> Scene<Open> {
    static MEDIUM: OnceLock<Vec<u8>> = OnceLock::new();
    let write = |open: &Open, page: u64| match open.file.write_at(&bytes(page), page * PAGE) {
        Ok(()) => note("written"),
        Err(Error::NoSpace { .. }) => note("no space"),
        Err(error) => panic!("{error}"),
    };
    let claim = "a compaction keeps what operations have changed that ended before it";
    Program::new("compaction", claim)
        .scene(move || {
            let region = Simulated::new(MEDIUM.get_or_init(|| apart(|| full_but_for(1))));
            let volume = store::open(region).expect("the medium is sound");
            let file = volume.open_file(FILE).expect("it is there");
            Open { volume, file }
        })
        .thread(["write"], move |open| write(open, 1))
        .thread(["write"], move |open| write(open, 0))
        .at_end(|open| open.assert_sound())
}

/// Makes bytes outside the model.
fn apart(make: fn() -> Vec<u8>) -> Vec<u8> {
    let made = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&made);
    verify::apart(Box::new(move || *into.lock().expect("no panic") = make()));
    let made = made.lock().expect("no panic");
    made.clone()
}

/// On a full volume, a thread frees a page while another one takes the two pages that were free
/// before: the allocator's spare, which the freed page replaces.
fn last_free_pages() -> Scene<(Open, File<Arc<Simulated>, SrlArray>)> {
    let claim = "a thread that frees a page hides no other free page";
    Program::new("free-pages", claim)
        .scene(|| {
            let open = Open::with(&[0]);
            let full = open.volume.create("full").expect("there is room");
            let two = [0; 2 * PAGE as usize];
            full.write_at(&two, 0).expect("there is room");
            let mut filled = (2..).map(|page| full.write_at(&bytes(page), page * PAGE));
            let last = filled.find_map(Result::err);
            assert!(matches!(last, Some(Error::NoSpace { .. })), "{last:?}");
            drop(filled);
            full.punch_hole(0..2 * PAGE).expect("a hole takes no page");
            (open, full)
        })
        .thread(["punch"], |(open, _)| {
            let punched = open.file.punch_hole(0..PAGE);
            punched.expect("a hole takes no page");
        })
        .thread(["write"], |(_, full)| {
            let written = full.write_at(&[1; 2 * PAGE as usize], 0);
            written.expect("two pages were free all the time");
        })
        .at_end(|(open, _)| open.assert_wrote(&[]))
}

/// A thread cleans the file's log, while another reads a page whose group is copied.
fn cleaner_and_reader() -> Scene<Open> {
    let claim = "a reader finds what it reads while a cleaning moves the groups";
    Program::new("move-read", claim)
        .scene(|| {
            let open = Open::with(&[0, 1]);
            // The log's first page has both groups, which are copied.
            (0..62).for_each(|_| open.write(1));
            open
        })
        .thread(["clean"], |open| open.clean())
        .thread(["read"], |open| assert_eq!(open.read(0), bytes(0)))
        .at_end(|open| open.assert_wrote(&[0, 1]))
}

/// A thread cleans the log of an empty file, while another writes to the file.
fn cleaner_and_writer() -> Scene<Open> {
    let claim = "an operation reserves no slots in a page that a cleaning frees";
    Program::new("replace-write", claim)
        .scene(Open::emptied)
        .thread(["clean"], |open| open.clean())
        .thread(["write"], |open| open.write(1))
        .at_end(|open| open.assert_wrote(&[1]))
}

//! Files that enter memory and leave it: threads that load one file, and evictions beside the
//! operations on the file that they evict.
//!
//! The cache has room for no file that is not open, so the opening of one file evicts the other
//! unless that is open, too.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use spanlock_file_core::{Error, OpenOptions};
use spanlock_pmem::Pmem;
use spanlock_pmem::simulated::Simulated;
use spanlock_srl::SrlArray;
use spanlock_verify::{self as verify, Program, Scene, Suite, note};

use crate::store::{FILE, Handle, LARGEST, PAGE, Volume, content, format};

/// The file whose opening evicts [`FILE`].
const OTHER: &str = "b";
/// The bytes at the start of each file, and those that the programs write there.
const BEFORE: [u8; 8] = *b"content.";
const AFTER: [u8; 8] = *b"written.";

pub(crate) fn suite() -> Suite {
    let claim = "a file that one thread changes and another evicts and opens has the change";
    let evicting = "a file that was changed and evicted has the change and its size";
    let evicting = Program::new("append-evict", evicting);
    let reopening = Program::new("append-reopen", claim);
    Suite::new("file-core-inodes")
        .step_bound(4_000)
        .no_pair("append", "append", "the suite file-core has this pair")
        .no_pair("append", "open", "the append opens the file")
        .no_pair("append", "remove", "the suite file-core has this pair")
        .no_pair("append", "write", "the suite file-core has such pairs")
        .no_pair("open", "write", "a thread that writes has opened the file")
        .no_pair(
            "remove",
            "remove",
            "the suite file-core-names has this pair",
        )
        .no_pair("remove", "write", "the suite file-core has such pairs")
        .no_pair("write", "write", "the suite file-core has such pairs")
        .program(
            program(
                "open-open",
                "threads that open a file, which is not in memory, open one file",
                absent,
            )
            .thread(["open"], |files| files.keep(files.open(FILE)))
            .thread(["open"], |files| files.keep(files.open(FILE)))
            .at_end(|files| files.assert_same()),
        )
        .program(
            program(
                "failed",
                "threads that open a damaged file get an error, and the next opening loads it",
                damaged,
            )
            .thread(["open"], Files::assert_fails)
            .thread(["open"], Files::assert_fails)
            .at_end(|files| {
                files.assert_fails();
                files.store(&files.inode);
                files.keep(files.open(FILE));
                files.assert_same();
            }),
        )
        .program(
            evicting
                .scene(cached)
                .thread(["append"], Files::append)
                .thread(["evict"], |files| {
                    assert_eq!(start(&files.open(OTHER)), BEFORE);
                })
                .at_end(Files::assert_appended),
        )
        .program(
            reopening
                .scene(cached)
                .thread(["append"], Files::append)
                .thread(["evict"], |files| {
                    drop(files.open(OTHER));
                    let size = files.open(FILE).size();
                    note(if size == SIZE { "before" } else { "after" });
                })
                .at_end(Files::assert_appended),
        )
        .program(
            program(
                "open-evict",
                "a file that is opened while it is evicted is one file",
                cached,
            )
            .thread(["open"], |files| files.keep(files.open(FILE)))
            .thread(["evict"], |files| drop(files.open(OTHER)))
            .at_end(|files| files.assert_same()),
        )
        .program(
            program("write-evict", "a file that is open is not evicted", held)
                .thread(["write"], |files| {
                    let handle = files.handles()[0].clone();
                    let written = handle.write_at(&AFTER, 0);
                    written.expect("there is room");
                })
                .thread(["evict"], |files| drop(files.open(OTHER)))
                .at_end(|files| {
                    assert_eq!(start(&files.open(FILE)), AFTER);
                    files.assert_same();
                }),
        )
        .program(
            program(
                "evict-evict",
                "each of two files can evict the other",
                absent,
            )
            .thread(["evict"], |files| drop(files.open(OTHER)))
            .thread(["evict"], |files| drop(files.open(FILE)))
            .at_end(|files| {
                files.keep(files.open(FILE));
                files.assert_same();
            }),
        )
        .program(
            program(
                "open-remove",
                "a file that is loaded while its name is removed is as it was, and then free",
                absent,
            )
            .thread(["open"], |files| {
                let opened = files.volume.open_file(FILE);
                note(match opened {
                    Ok(file) => {
                        assert_eq!(start(&file), BEFORE);
                        "opened"
                    }
                    Err(Error::NotFound { .. }) => "removed",
                    Err(error) => panic!("{error}"),
                });
            })
            .thread(["remove"], Files::remove)
            .at_end(|files| files.assert_sound()),
        )
        .program(
            program(
                "remove-evict",
                "a file that is evicted while it is removed becomes free once",
                cached,
            )
            .thread(["remove"], Files::remove)
            .thread(["evict"], |files| drop(files.open(OTHER)))
            .at_end(|files| files.assert_sound()),
        )
}

/// The size of each file.
const SIZE: u64 = PAGE + 8;

/// Where the inode of [`FILE`] is, which was created first.
const INODE_AT: u64 = PAGE + 128;

fn program(name: &str, claim: &str, make: fn() -> Files) -> Scene<Files> {
    Program::new(name, claim).scene(make)
}

/// A volume with two files, and handles that the threads leave open.
struct Files {
    volume: Volume,
    handles: Mutex<Vec<Handle>>,
    /// The start of the inode of [`FILE`].
    inode: [u8; 8],
}

/// Opens a volume without a file in memory.
fn absent() -> Files {
    static MEDIUM: OnceLock<Vec<u8>> = OnceLock::new();
    let medium = MEDIUM.get_or_init(|| {
        let made = Arc::new(Mutex::new(Vec::new()));
        let into = made.clone();
        verify::apart(Box::new(move || {
            let volume = format(24);
            let file = volume.create(OTHER).expect("there is room");
            file.write_at(&BEFORE, 0).expect("there is room");
            file.write_at(&BEFORE, PAGE).expect("there is room");
            *into.lock().expect("no panic") = volume.pmem().bytes();
        }));
        made.lock().expect("no panic").clone()
    });
    let inode = medium[INODE_AT as usize..][..8].try_into();
    Files {
        volume: open_caching_none(Simulated::new(medium)),
        handles: Mutex::default(),
        inode: inode.expect("it is as long"),
    }
}

fn open_caching_none(region: Arc<Simulated>) -> Volume {
    let options = OpenOptions::new().clock(|| 0).cached_files(0);
    // With one segment, an operation locks in few steps.
    let lock = |capacity| {
        let made = SrlArray::with_segment_size(capacity, LARGEST);
        Ok::<_, Infallible>(made.expect("memory, and a power of two"))
    };
    let opened = Volume::open_with(region, &options, lock);
    opened.expect("the medium is sound").0
}

/// Opens a volume with [`FILE`] in memory, but not open.
fn cached() -> Files {
    let files = absent();
    drop(files.open(FILE));
    files
}

/// Opens a volume with [`FILE`] open.
fn held() -> Files {
    let files = absent();
    files.keep(files.open(FILE));
    files
}

/// Opens a volume, and damages the inode of [`FILE`].
fn damaged() -> Files {
    let files = absent();
    files.store(&[!0; 8]);
    files
}

fn start(file: &Handle) -> [u8; 8] {
    let mut found = [0; 8];
    file.read_at(&mut found, 0).expect("the range is valid");
    found
}

impl Files {
    fn open(&self, name: &str) -> Handle {
        self.volume.open_file(name).expect("it is there")
    }

    fn append(&self) {
        let appended = self.open(FILE).append(&AFTER);
        assert_eq!(appended.expect("there is room"), SIZE);
    }

    /// Evicts [`FILE`], and asserts that it has what was appended.
    fn assert_appended(&self) {
        drop(self.open(OTHER));
        let sizes = [FILE, OTHER].map(str::to_owned).into_iter();
        let listed: Vec<_> = sizes.zip([SIZE + 8, SIZE]).collect();
        assert_eq!(self.volume.list(), listed);
        let mut found = [0; 8];
        let read = self.open(FILE).read_at(&mut found, SIZE);
        assert_eq!(read.expect("the range is valid"), 8);
        assert_eq!(found, AFTER);
        self.assert_sound();
    }

    fn remove(&self) {
        self.volume.remove(FILE).expect("nobody else removes it");
    }

    /// Keeps a handle open.
    fn keep(&self, handle: Handle) {
        self.handles().push(handle);
    }

    /// Returns the handles that were kept.
    fn handles(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.handles.lock().expect("no panic")
    }

    /// Stores the start of the inode of [`FILE`].
    fn store(&self, bytes: &[u8; 8]) {
        let region = self.volume.pmem();
        // SAFETY: no other thread uses the region.
        let written = unsafe { region.write(INODE_AT, bytes) };
        region.persist(written);
    }

    fn assert_fails(&self) {
        let opened = self.volume.open_file(FILE);
        assert!(matches!(opened.err(), Some(Error::Corrupt { .. })));
    }

    /// Asserts that the handles that were kept, and a new one, are of one file.
    fn assert_same(&self) {
        let mut handles = core::mem::take(&mut *self.handles());
        handles.push(self.open(FILE));
        for (number, handle) in (0..).zip(&handles) {
            let bytes = [b'0' + number; 8];
            handle.write_at(&bytes, 0).expect("there is room");
            for other in &handles {
                assert_eq!(start(other), bytes, "the handles are of two files");
            }
        }
        drop(handles);
        self.assert_sound();
    }

    /// Asserts that memory has what recovery would find, and that nothing else is in use.
    fn assert_sound(&self) {
        let again = open_caching_none(Simulated::new(&self.volume.pmem().bytes()));
        let [now, again] = [&self.volume, &again].map(|volume| {
            let content = content(volume).expect("it is sound");
            let stats = volume.stats();
            (content, stats.pages_free, stats.inodes_free)
        });
        assert_eq!(now, again, "memory differs from what recovery finds");
    }
}

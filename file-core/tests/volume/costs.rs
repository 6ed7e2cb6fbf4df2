//! The exact costs of each operation: the lines that it flushes, and the fences that it takes.
//!
//! An operation that appends to a log usually finds room there. The first tests count that case.
//! The others count what is added when a log needs a page, or is cleaned.

use std::io::IoSlice;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{Handle, Mem, PAGE, Volume, format, write_some_that_stay};
use spanlock_file_core::{CleanReport, Error, FormatOptions};

/// Pages of the file that the operations change.
const PAGES: u64 = 32;
/// Slots of a log page.
const SLOTS: u64 = 63;

/// Lines flushed, and fences.
type Cost = (u64, u64);

/// The cost of nothing.
const FREE: Cost = (0, 0);
/// The cost of a change that commits one slot: its line and its mark, each flushed and fenced.
const ONE_SLOT: Cost = (2, 2);
/// One slot. The line of the new inode shares the slot's fence.
const CREATE: Cost = plus(ONE_SLOT, (1, 0));
/// The mark of the name is erased.
const REMOVE: Cost = (1, 1);
/// One slot, then the mark of the old name is erased.
const RENAME: Cost = plus(ONE_SLOT, REMOVE);
/// The mark of a replaced name is erased along with another one.
const REPLACED: Cost = (1, 0);
/// A transaction of the journal: it is opened, a record is written, and it is truncated. Opening
/// and truncating write two superblocks each. Superblocks and records take 8 lines each.
const JOURNAL: Cost = (5 * 8, 5);
/// The slot, then the record, then the new mark together with the erasure of the old one.
const ACROSS: Cost = plus(JOURNAL, (1 + 2, 2));
/// As above, in both directions at once.
const EXCHANGE: Cost = plus(JOURNAL, (2 + 4, 2));
/// The cost of a page that is added to a log: the page is streamed and fenced, the pointer to it
/// published.
const LOG_PAGE: Cost = (1, 2);
/// The cost of unlinking any number of pages of a log in place.
const UNLINK: Cost = (1, 1);
/// The cost of copying the live content of pages: the new pages are streamed and fenced, the
/// pointer to them published.
const COPY: Cost = (1, 2);

/// An operation on the [stage](stage) and its file.
type Operation = fn(&Volume, &Handle) -> Result<(), Error>;

const fn plus(a: Cost, b: Cost) -> Cost {
    (a.0 + b.0, a.1 + b.1)
}

/// Returns what `operation` costs.
fn cost<T>(mem: &Mem, operation: impl FnOnce() -> T) -> (Cost, T) {
    let before = mem.flushes_and_fences();
    let result = operation();
    let after = mem.flushes_and_fences();
    ((after.0 - before.0, after.1 - before.1), result)
}

fn bytes(pages: u64) -> Vec<u8> {
    vec![7; (pages * PAGE) as usize]
}

/// Formats a volume whose logs have room: those of the root, of the directories `one` and `two`
/// with two files each, and of the file `file`.
fn stage(options: &FormatOptions) -> (Volume, Handle) {
    let volume = format(1024, options);
    for directory in ["one", "two"] {
        volume.create_dir(directory).unwrap();
        for name in ["a", "b"] {
            volume.create(&format!("{directory}/{name}")).unwrap();
        }
    }
    volume.create_dir("empty").unwrap();
    volume.create_dir("one/empty").unwrap();
    let file = volume.create("file").unwrap();
    file.write_at(&bytes(PAGES), 0).unwrap();
    (volume, file)
}

/// Changes of the file, and reads.
const ON_FILES: &[(&str, Cost, Operation)] = &[
    ("write a page", ONE_SLOT, |_, f| f.write_at(&bytes(1), 0)),
    ("write 16 pages", ONE_SLOT, |_, f| f.write_at(&bytes(16), 0)),
    ("write 16 pages, partly", ONE_SLOT, |_, f| {
        f.write_at(&bytes(15), 5)
    }),
    ("write a part of a page", ONE_SLOT, |_, f| {
        f.write_at(b"x", 9)
    }),
    ("write buffers", ONE_SLOT, |_, f| {
        f.write_vectored_at(&[IoSlice::new(b"x"), IoSlice::new(b"y")], 9)
    }),
    ("write nothing", FREE, |_, f| f.write_at(b"", 9)),
    ("write past the end", ONE_SLOT, |_, f| {
        f.write_at(&bytes(1), (PAGES + 7) * PAGE)
    }),
    ("append a page", ONE_SLOT, |_, f| {
        f.append(&bytes(1)).map(drop)
    }),
    ("append a byte", ONE_SLOT, |_, f| f.append(b"x").map(drop)),
    ("shrink by pages", ONE_SLOT, |_, f| f.truncate(3 * PAGE)),
    ("shrink by bytes", ONE_SLOT, |_, f| {
        f.truncate(PAGES * PAGE - 9)
    }),
    ("shrink to nothing", ONE_SLOT, |_, f| f.truncate(0)),
    ("grow", ONE_SLOT, |_, f| f.truncate(PAGES * PAGE + 9)),
    ("punch a page", ONE_SLOT, |_, f| f.punch_hole(0..PAGE)),
    ("punch pages, partly", ONE_SLOT, |_, f| {
        f.punch_hole(9..3 * PAGE + 9)
    }),
    ("punch a part of a page", ONE_SLOT, |_, f| {
        f.punch_hole(8..9)
    }),
    ("allocate past the end", ONE_SLOT, |_, f| {
        f.allocate(PAGES * PAGE..2 * PAGES * PAGE)
    }),
    ("allocate, keeping the size", ONE_SLOT, |_, f| {
        f.allocate_keeping_size(PAGES * PAGE..2 * PAGES * PAGE)
    }),
    ("allocate what is there", FREE, |_, f| f.allocate(0..PAGE)),
    ("set the time", ONE_SLOT, |_, f| {
        f.set_modified(UNIX_EPOCH + Duration::from_secs(1))
    }),
    ("read", FREE, |_, f| f.read_at(&mut [0; 9], 9).map(drop)),
    ("clean a settled log", FREE, |_, f| f.clean().map(drop)),
];

/// Changes of names, lookups, and operations on the whole volume.
const ON_NAMES: &[(&str, Cost, Operation)] = &[
    ("create", CREATE, |v, _| v.create("new").map(drop)),
    (
        "create with the longest name",
        plus(CREATE, (18, 0)),
        |v, _| v.create(&"n".repeat(1024)).map(drop),
    ),
    ("create in a directory", CREATE, |v, _| {
        v.open_dir("one")?.create("new").map(drop)
    }),
    ("open", FREE, |v, _| v.open_file("one/a").map(drop)),
    ("create a directory", CREATE, |v, _| v.create_dir("new")),
    ("create a directory in one", CREATE, |v, _| {
        v.open_dir("one")?.create_dir("new").map(drop)
    }),
    ("remove", REMOVE, |v, _| v.remove("one/a")),
    ("remove with pages, open", REMOVE, |v, _| v.remove("file")),
    ("remove a directory", REMOVE, |v, _| v.remove_dir("empty")),
    ("link", ONE_SLOT, |v, _| v.link("file", "new")),
    ("link across", ONE_SLOT, |v, _| v.link("one/a", "two/new")),
    ("link across handles", ONE_SLOT, |v, _| {
        v.open_dir("one")?.link("a", &v.open_dir("two")?, "new")
    }),
    ("rename", RENAME, |v, _| v.rename("one/a", "one/new")),
    ("rename to itself", FREE, |v, _| v.rename("one/a", "one/a")),
    ("rename, replacing", plus(RENAME, REPLACED), |v, _| {
        v.rename("one/a", "one/b")
    }),
    (
        "rename a directory, replacing",
        plus(RENAME, REPLACED),
        |v, _| v.rename("two", "empty"),
    ),
    ("rename across", ACROSS, |v, _| v.rename("one/a", "two/new")),
    (
        "rename across, replacing",
        plus(ACROSS, REPLACED),
        |v, _| v.rename("one/a", "two/b"),
    ),
    ("rename a directory across", ACROSS, |v, _| {
        v.rename("one/empty", "two/new")
    }),
    ("rename into", ACROSS, |v, _| {
        let (one, two) = (v.open_dir("one")?, v.open_dir("two")?);
        one.rename_into("a", &two, "new")
    }),
    ("exchange", EXCHANGE, |v, _| v.exchange("one/a", "one/b")),
    ("exchange across", EXCHANGE, |v, _| {
        v.exchange("one/a", "two/b")
    }),
    ("list", FREE, |v, _| {
        v.list();
        v.read_dir("one").map(drop)
    }),
    (
        "create directories",
        plus(plus(CREATE, LOG_PAGE), CREATE),
        |v, _| v.create_dir_all("new/newer"),
    ),
    ("open or create", CREATE, |v, _| {
        v.open_or_create("new").map(drop)
    }),
    ("clean settled logs", FREE, |v, _| v.clean().map(drop)),
    ("exchange handles", EXCHANGE, |v, _| {
        let (one, two) = (v.open_dir("one")?, v.open_dir("two")?);
        one.exchange("a", &two, "b")
    }),
    ("remove by handle", REMOVE, |v, _| {
        v.open_dir("one")?.remove("a")
    }),
    ("remove a directory by handle", REMOVE, |v, _| {
        v.open_dir("one")?.remove_dir("empty")
    }),
    ("rename by handle", RENAME, |v, _| {
        v.open_dir("one")?.rename("a", "new")
    }),
];

/// Lines more that an operation flushes if the volume has data checksums. One slot has room for the
/// checksums of a few pages.
const FOR_CHECKSUMS: &[(&str, u64)] = &[
    ("write 16 pages", 1),
    ("write 16 pages, partly", 1),
    ("punch pages, partly", 1),
    ("allocate past the end", 2),
    ("allocate, keeping the size", 2),
];

#[test]
fn an_operation_costs_exactly_this() {
    for checksums in [false, true] {
        let options = FormatOptions::new().data_checksums(checksums);
        for &(name, expected, operation) in ON_FILES.iter().chain(ON_NAMES) {
            let more = FOR_CHECKSUMS.iter().find(|it| it.0 == name && checksums);
            let expected = plus(expected, (more.map_or(0, |it| it.1), 0));
            let (volume, file) = stage(&options);
            let (found, result) = cost(volume.pmem(), || operation(&volume, &file));
            assert_eq!((found, result), (expected, Ok(())), "{name}, {checksums}");
        }
    }
}

/// One page in 63 slots. Log pages without anything live are unlinked when the log has grown.
#[test]
fn a_log_that_needs_a_page_costs_two_fences_more() {
    let volume = format(512, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    let mut unlinked = 0;
    for nth in 0..16 * SLOTS {
        let (found, _) = cost(volume.pmem(), || file.write_at(&bytes(1), 0).unwrap());
        let mut expected = ONE_SLOT;
        if nth % SLOTS == 0 {
            expected = plus(expected, LOG_PAGE);
        }
        if volume.stats().unlinked_pages > unlinked {
            unlinked = volume.stats().unlinked_pages;
            expected = plus(expected, UNLINK);
        }
        assert_eq!(found, expected, "write {nth}");
    }
    assert!(unlinked > 0);
    assert_eq!(volume.stats().compactions, 0);
}

#[test]
fn copying_what_is_live_costs_two_fences_more() {
    let volume = format(2048, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    write_some_that_stay(&file, 8 * SLOTS, 1);
    let (mut before, mut copies) = (volume.stats(), 0);
    for nth in 0..20 * SLOTS {
        let page = if nth % 60 == 0 { 100 + nth / 60 } else { 0 };
        let (found, _) = cost(volume.pmem(), || {
            file.write_at(&bytes(1), page * PAGE).unwrap()
        });
        let after = volume.stats();
        let mut expected = ONE_SLOT;
        if nth % SLOTS == 0 {
            expected = plus(expected, LOG_PAGE);
        }
        if after.unlinked_pages > before.unlinked_pages {
            expected = plus(expected, UNLINK);
        }
        if after.compactions > before.compactions {
            expected = plus(expected, COPY);
            copies += 1;
        }
        assert_eq!(found, expected, "write {nth}");
        before = after;
    }
    assert!(copies > 0);
}

#[test]
fn a_cleaning_on_request_costs_one_fence_or_two_for_each_step() {
    let volume = format(512, &FormatOptions::new());
    let clean = |file: &Handle| cost(volume.pmem(), || file.clean().unwrap());
    let nothing = CleanReport::default();

    // A page without anything live is unlinked. What is live in the others is copied.
    let file = volume.create("overwritten").unwrap();
    assert_eq!(clean(&file), (FREE, nothing), "no log");
    (0..3 * SLOTS).for_each(|_| file.write_at(&bytes(1), 0).unwrap());
    let (found, report) = clean(&file);
    assert_eq!(found, plus(UNLINK, COPY));
    assert_eq!((report.pages_unlinked, report.pages_copied), (1, 2));
    assert_eq!(clean(&file), (FREE, nothing));

    // Something in each page is live: all are copied, the last one in a second step.
    let file = volume.create("mixed").unwrap();
    for nth in 0..4 * SLOTS {
        let page = if nth % 9 == 0 { nth / 9 } else { 0 };
        file.write_at(&bytes(1), page * PAGE).unwrap();
    }
    let (found, report) = clean(&file);
    assert_eq!(found, plus(COPY, COPY));
    assert_eq!((report.pages_unlinked, report.pages_copied), (0, 5));
    assert_eq!(clean(&file), (FREE, nothing));

    // Nothing in the only page is live: the head becomes zero.
    volume.create_dir("emptied").unwrap();
    volume.create("emptied/a").unwrap();
    volume.remove("emptied/a").unwrap();
    let directory = volume.open_dir("emptied").unwrap();
    let (found, report) = cost(volume.pmem(), || directory.clean().unwrap());
    assert_eq!(found, COPY, "of nothing");
    assert_eq!((report.pages_unlinked, report.pages_copied), (1, 0));
    assert_eq!(
        cost(volume.pmem(), || directory.clean().unwrap()),
        (FREE, nothing)
    );
}

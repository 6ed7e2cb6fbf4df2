//! Logs whose checksums are all correct but whose content is invalid. They are forged, because no
//! bit flip produces one.
//!
//! Each of these volumes has a file that is intact. All of them are opened, opened read-only,
//! checked and repaired: see [`judged`].

use core::convert::Infallible;
use core::time::Duration;

use spanlock_pmem::{MappedFile, Options, Pmem};
use spanlock_range_lock::RwCounter;

use super::forged::{geometry, region, store, with_log};
use crate::log::record::{GroupWriter, WriteHeader, put_add, put_rename, slots_for};
use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::layout::*;
use crate::medium::reports::RecoveryReport;
use crate::volume::fsck;
use crate::{FormatOptions, OpenOptions};

mod records;

/// The page before the forged log of the root. It has the name "kept".
const KEPT_PAGE: u32 = 99;
/// The page of the forged log; free in the volume.
const LOG_PAGE: u32 = 100;
/// Another free page.
const FREE_PAGE: u32 = 110;
const PAGES: u32 = 128;

/// Returns the group, with its mark, of the `bytes`-byte record that `put` writes.
fn group(log: &PageId, slot: u32, bytes: usize, put: impl FnOnce(&mut GroupWriter<'_>)) -> Vec<u8> {
    let mut slots = vec![0; slots_for(bytes) * SLOT_BYTES];
    put(&mut GroupWriter::new(&mut slots));
    let mark = mark_of(log.seed(), slot, &slots);
    slots[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
    slots
}

/// Returns a write record with one extent.
fn write(log: &PageId, slot: u32, file_page: u32, extent: Extent, end: u64) -> Vec<u8> {
    let header = WriteHeader {
        file_page,
        pages: extent.len,
        extents: 1,
        end,
        ..WriteHeader::default()
    };
    group(log, slot, header.record_bytes(), |g| {
        header.put(g, [extent].into_iter())
    })
}

/// The content of the file "kept".
const KEPT: [u8; 9000] = [0xA7; 9000];

type Volume<'r> = crate::Volume<&'r MappedFile, RwCounter>;

/// Formats a volume with the file "kept", whose inode is `number`; `others` creates the inodes
/// before it.
fn formatted(region: &MappedFile, number: u32, others: impl FnOnce(&Volume<'_>)) {
    let options = FormatOptions::new().inodes(32).max_file_size(1 << 30);
    let volume = Volume::format(region, &options, |_| RwCounter::new()).unwrap();
    others(&volume);
    let kept = volume.create("kept").unwrap();
    kept.write_at(&KEPT, 0).unwrap();
    assert_eq!(kept.inode().number, number);
}

fn assert_kept(volume: &Volume<'_>, what: &str) {
    let mut found = [0; KEPT.len()];
    let kept = volume.open_file("kept").unwrap();
    assert_eq!(kept.size(), KEPT.len() as u64, "{what}");
    kept.read_at(&mut found, 0).unwrap();
    assert!(found == KEPT, "{what}");
}

/// Opens the volume, and returns what is damaged, and in which inode. If it is damaged, checks that
/// a check lists that very damage; that meanwhile "kept" is readable, and the file `refused` is
/// not; and that a repair repairs all damage. Undoes the repair.
fn judged(region: &MappedFile, refused: Option<&str>) -> Result<(), (&'static str, Option<u32>)> {
    let opened = Volume::open(region, |_| RwCounter::new());
    let checked = fsck::check(region).unwrap();
    let read_only = OpenOptions::new().read_only(true);
    let locks = |_| Ok::<_, Infallible>(RwCounter::new());
    let (volume, report) = Volume::open_with(region, &read_only, locks).unwrap();
    let (what, inode) = match opened {
        Ok((opened, _)) => {
            assert_kept(&opened, "sound");
            assert!(checked.is_sound() && report.findings.is_empty());
            return Ok(());
        }
        Err(Error::Corrupt { what, place }) => (what, place.inode),
        Err(error) => panic!("{error}"),
    };
    let is_listed = |all: &[fsck::Finding]| {
        let mut all = all.iter().filter(|it| it.is_damage());
        all.any(|it| it.what == what && it.place.inode == inode)
    };
    assert!(is_listed(&checked.findings), "{what}: {checked:?}");
    assert!(is_listed(&report.findings), "{what}: {report:?}");
    assert_kept(&volume, what);
    if let Some(path) = refused {
        let error = volume.open_file(path).unwrap_err();
        let expected = matches!(error, Error::Corrupt { what: found, .. } if found == what);
        assert!(expected, "{what}: {error}");
    }
    drop(volume);

    let mut before = vec![0; region.len() as usize];
    // SAFETY: no other thread uses the region, here and below.
    unsafe { region.read(0, &mut before) };
    let repaired = fsck::repair(region).unwrap();
    assert!(repaired.is_repaired(), "{what}: {repaired:?}");
    assert_eq!(repaired.findings.len(), checked.findings.len(), "{what}");
    assert!(is_listed(&repaired.findings), "{what}: {repaired:?}");
    assert!(fsck::check(region).unwrap().is_sound(), "{what}");
    let (volume, _) = Volume::open(region, |_| RwCounter::new()).unwrap();
    assert_kept(&volume, what);
    for (path, _) in volume.list() {
        volume.open_file(&path).unwrap();
    }
    drop(volume);
    store(region, 0, &before);
    Err((what, inode))
}

/// Stores the page of a log, with these slots.
fn put_page(region: &MappedFile, id: &PageId, slots: &[u8], next: Option<u32>) {
    let mut image = [0; PAGE];
    image[..slots.len()].copy_from_slice(slots);
    id.put_tail(&mut image, next.map_or(0, |page| seal(id.seed(), page)));
    store(region, page_at(id.page), &image);
}

/// Replaces the log of inode `number` by as many pages as `slots` needs, and a next pointer to
/// `next`, in a volume with the files "a" and "kept". Returns the damage that [`judged`] finds.
fn opened(
    number: u32,
    slots: impl FnOnce(&PageId) -> Vec<u8>,
    next: Option<u32>,
) -> Result<(), &'static str> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let region = MappedFile::create(path, PAGES as u64 * PAGE_BYTES, Options::default()).unwrap();
    formatted(&region, 2, |volume| drop(volume.create("a").unwrap()));

    let generation = if number == ROOT {
        ROOT_GENERATION
    } else {
        ROOT_GENERATION + 1
    };
    let id = PageId {
        log: LogId {
            inode: number,
            generation,
        },
        birth: 5,
        page: LOG_PAGE,
    };
    let slots = slots(&id);
    let count = slots.len().div_ceil(TAIL_AT).max(1);
    for nth in 0..count {
        let page = LOG_PAGE + nth as u32;
        let slots = slots.chunks(TAIL_AT).nth(nth).unwrap_or(&[]);
        let next = if nth + 1 < count {
            Some(page + 1)
        } else {
            next
        };
        put_page(&region, &PageId { page, ..id }, slots, next);
    }
    let first = match number {
        ROOT => {
            let id = PageId {
                birth: 4,
                page: KEPT_PAGE,
                ..id
            };
            let kept = group(&id, 0, 20, |g| put_add(g, file(2, 3), "kept"));
            put_page(&region, &id, &kept, Some(LOG_PAGE));
            KEPT_PAGE
        }
        _ => LOG_PAGE,
    };
    let head = seal(id.log.head_seed(), first);
    let at = geometry(&region).inode_at(number);
    store(&region, at, &head.to_le_bytes());
    judged(&region, (number == 1).then_some("a")).map_err(|(what, _)| what)
}

fn file(number: u32, generation: u64) -> InodeId {
    InodeId {
        number,
        generation,
        kind: Kind::File,
    }
}

fn one(start: u32) -> Extent {
    Extent { start, len: 1 }
}

#[test]
fn a_valid_log_opens() {
    assert_eq!(
        opened(
            1,
            |c| write(c, 0, 7, one(FREE_PAGE), 7 * PAGE_BYTES + 1),
            None
        ),
        Ok(())
    );
    let dead_and_live = |c: &PageId| {
        [
            write(c, 0, 0, one(LOG_PAGE), 1),
            write(c, 1, 0, one(FREE_PAGE), 1),
        ]
        .concat()
    };
    assert_eq!(
        opened(1, dead_and_live, None),
        Ok(()),
        "a dead group may name any page"
    );
}

#[test]
fn a_page_in_use_twice_is_damage() {
    let twice = Err("a page that is in use twice");
    let two = |c: &PageId| {
        let second = write(c, 1, 1, one(FREE_PAGE), 2 * PAGE_BYTES);
        [write(c, 0, 0, one(FREE_PAGE), 1), second].concat()
    };
    assert_eq!(opened(1, two, None), twice, "by two pages of a file");
    assert_eq!(
        opened(1, |c| write(c, 0, 0, one(LOG_PAGE), 1), None),
        twice,
        "by data and log"
    );
    assert_eq!(
        opened(1, |_| Vec::new(), Some(LOG_PAGE)),
        twice,
        "a chain that meets itself"
    );
}

#[test]
fn a_pointer_outside_the_data_area_is_damage() {
    let out = Err("a pointer outside the data area");
    for page in [1, PAGES - 1, PAGES, u32::MAX] {
        assert_eq!(
            opened(1, |c| write(c, 0, 0, one(page), 1), None),
            out,
            "data in page {page}"
        );
        assert_eq!(
            opened(1, |_| Vec::new(), Some(page)),
            out,
            "a log in page {page}"
        );
    }
    let long = Extent {
        start: FREE_PAGE,
        len: PAGES,
    };
    assert_eq!(
        opened(1, |c| write(c, 0, 0, long, PAGES as u64 * PAGE_BYTES), None),
        out
    );
    assert_eq!(
        opened(0, |_| Vec::new(), Some(0)),
        Err("a log pointer with a wrong checksum")
    );
}

#[test]
fn a_write_record_with_an_impossible_end_is_damage() {
    let last = Err("a write record that does not end in its last page");
    for end in [5 * PAGE_BYTES, 6 * PAGE_BYTES + 1, 1 << 30] {
        assert_eq!(
            opened(1, |c| write(c, 0, 5, one(FREE_PAGE), end), None),
            last,
            "{end}"
        );
    }
    let past = |c: &PageId| write(c, 0, 1 << 18, one(FREE_PAGE), (1 << 30) + 1);
    assert_eq!(
        opened(1, past, None),
        Err("a write record past the largest file size")
    );
}

/// Returns a group that sets the size, and makes holes of these extents.
fn holes(log: &PageId, size: u64, extents: &[Extent]) -> Vec<u8> {
    let header = WriteHeader {
        extents: extents.len() as u32,
        ..WriteHeader::of_size(size)
    };
    group(log, 0, header.record_bytes(), |g| {
        header.put(g, extents.iter().copied())
    })
}

#[test]
fn a_size_past_the_largest_is_damage() {
    let largest = 1 << 30;
    assert_eq!(opened(1, |c| holes(c, largest, &[]), None), Ok(()));
    let past = Err("a write record past the largest file size");
    assert_eq!(opened(1, |c| holes(c, largest + 1, &[]), None), past);
    assert_eq!(opened(1, |c| holes(c, u64::MAX, &[]), None), past);
    let long = Extent {
        start: 0,
        len: u32::MAX,
    };
    assert_eq!(opened(1, |c| holes(c, 1, &[long, long]), None), past);
}

#[test]
fn only_a_group_longer_than_a_page_may_cross_one() {
    let from = |slot: u32, pages: u32| {
        move |c: &PageId| {
            let header = WriteHeader {
                file_page: 0,
                pages,
                extents: pages,
                end: u64::from(pages) * PAGE_BYTES,
                ..WriteHeader::default()
            };
            let extents = (0..pages).map(|i| one(FREE_PAGE + i));
            let mut slots = vec![0; slot as usize * SLOT_BYTES];
            slots.extend(group(c, slot, header.record_bytes(), |g| {
                header.put(g, extents)
            }));
            slots
        }
    };
    assert_eq!(opened(1, from(59, 10), None), Ok(()));
    let crosses = Err("a committed group that crosses a page");
    assert_eq!(opened(1, from(62, 10), None), crosses);
    assert_eq!(opened(1, from(1, 600), None), crosses);
    // It may cross one, but the volume has fewer pages.
    let long = Err("a committed group longer than any write");
    assert_eq!(opened(1, from(0, 600), None), long);
}

#[test]
fn a_record_in_the_wrong_log_is_damage() {
    let name = |c: &PageId| group(c, 0, 17, |g| put_add(g, file(1, 2), "b"));
    assert_eq!(
        opened(1, name, None),
        Err("a directory's record in the log of a file")
    );
    let data = |c: &PageId| write(c, 0, 0, one(FREE_PAGE), 1);
    assert_eq!(
        opened(0, data, None),
        Err("a file's record in the log of a directory")
    );
    let unknown = |c: &PageId| group(c, 0, 20, |g| g.put(&[9; 20]));
    assert_eq!(opened(1, unknown, None), Err("a record of unknown kind"));
    let longer = |c: &PageId| group(c, 0, 60, |g| put_add(g, file(1, 2), "b"));
    assert_eq!(
        opened(0, longer, None),
        Err("a record whose length does not fit its group")
    );
}

#[test]
fn a_name_or_inode_listed_twice_is_damage() {
    let two = |a: (u32, u64, &'static str), b: (u32, u64, &'static str)| {
        move |c: &PageId| {
            let group = |slot, (inode, generation, name): (_, _, &str)| {
                group(c, slot, 16 + name.len(), |g| {
                    put_add(g, file(inode, generation), name)
                })
            };
            [group(0, a), group(1, b)].concat()
        }
    };
    let links = two((1, 2, "a"), (1, 2, "b"));
    assert_eq!(opened(0, links, None), Ok(()), "a file may have two names");
    let twice = Err("a name that occurs twice in a directory");
    assert_eq!(opened(0, two((1, 2, "a"), (1, 2, "a")), None), twice);
    let impossible = Err("an impossible name or inode in a directory");
    for inode in [0, 32, u32::MAX] {
        assert_eq!(
            opened(0, two((1, 2, "a"), (inode, 2, "b")), None),
            impossible
        );
    }
    for name in ["", ".", "..", "a/b", "a\0b"] {
        assert_eq!(opened(0, two((1, 2, "a"), (2, 2, name)), None), impossible);
    }
    assert_eq!(
        opened(0, two((1, 2, "a"), (3, 2, "b")), None),
        Err("an unreadable inode")
    );
    let other = Err("an inode of another generation");
    assert_eq!(opened(0, two((1, 3, "a"), (3, 2, "b")), None), other);
    assert_eq!(opened(0, two((1, 2, "a"), (1, 3, "b")), None), other);
}

/// Returns the identity of a directory.
fn directory(number: u32, generation: u64) -> InodeId {
    InodeId {
        kind: Kind::Directory,
        ..file(number, generation)
    }
}

#[test]
fn a_directory_that_is_named_twice_or_is_a_file_is_damage() {
    let names = |each: &'static [(InodeId, &str)]| {
        move |c: &PageId| {
            let slots = each.iter().zip(0..).map(|(&(id, name), slot)| {
                group(c, slot, 16 + name.len(), |g| put_add(g, id, name))
            });
            slots.collect::<Vec<_>>().concat()
        }
    };
    // Inode 1 is a file.
    let other = Err("an inode of another kind");
    const FILE: InodeId = InodeId {
        number: 1,
        generation: 2,
        kind: Kind::Directory,
    };
    assert_eq!(opened(0, names(&[(FILE, "a")]), None), other);
    let twice = Err("a directory that is named twice");
    assert_eq!(opened(0, names(&[(FILE, "a"), (FILE, "b")]), None), twice);
}

/// A directory that names itself, or one that it lies in.
#[test]
fn a_cycle_of_directories_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let region = MappedFile::create(path, PAGES as u64 * PAGE_BYTES, Options::default()).unwrap();
    formatted(&region, 3, |volume| volume.create_dir_all("a/b").unwrap());
    let geometry = geometry(&region);
    let [a, b] = [directory(1, 2), directory(2, 3)];
    for named in [a, b] {
        let id = PageId {
            log: b.log(),
            birth: 0,
            page: LOG_PAGE,
        };
        let slots = group(&id, 0, 17, |g| put_add(g, named, "c"));
        put_page(&region, &id, &slots, None);
        let head = seal(id.log.head_seed(), LOG_PAGE);
        store(&region, geometry.inode_at(b.number), &head.to_le_bytes());
        let twice = ("a directory that is named twice", Some(b.number));
        assert_eq!(judged(&region, None), Err(twice));
    }
}

#[test]
fn a_rename_of_something_else_is_damage() {
    let renames = |id: InodeId| {
        move |c: &PageId| {
            let add = group(c, 0, 17, |g| put_add(g, file(1, 2), "a"));
            let rename = group(c, 1, 20, |g| put_rename(g, id, "b", "a"));
            [add, rename].concat()
        }
    };
    assert_eq!(opened(0, renames(file(1, 2)), None), Ok(()));
    let other = Err("a rename whose old name has another inode");
    assert_eq!(opened(0, renames(file(2, 2)), None), other);
}

/// Two files of many have long logs, which are read after those of the others.
#[test]
fn long_logs_among_many_files_are_read_by_any_number_of_threads() {
    let (_folder, region) = region(8192);
    let options = FormatOptions::new().inodes(96).max_file_size(1 << 30);
    let volume = Volume::format(&region, &options, |_| RwCounter::new()).unwrap();
    (0..80).for_each(|i| drop(volume.create(&format!("{i}")).unwrap()));
    drop(volume);
    let geometry = geometry(&region);
    let free: Vec<u32> = (geometry.data_end() - 6000..geometry.data_end()).collect();
    for (number, free) in [30, 60].into_iter().zip(free.chunks(3000)) {
        let log = file(number, ROOT_GENERATION + u64::from(number)).log();
        // All groups map the same page.
        with_log(&region, log, free, &vec![(3, one(free[2999])); 140_000]);
    }
    let opened = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let open = || {
            let opened = Volume::open(&region, |_| RwCounter::new());
            let report = opened.map(|(_, report)| RecoveryReport {
                duration: Duration::ZERO,
                ..report
            });
            (report, fsck::check(&&region).unwrap())
        };
        pool.build().unwrap().install(open)
    };
    let (report, checked) = opened(1);
    let report = report.unwrap();
    assert_eq!((report.files, report.committed_groups), (80, 280_080));
    assert!(checked.is_sound());
    assert_eq!(opened(3), (Ok(report), checked));

    let inode = |number| geometry.inode_at(number) + 16;
    let [one, other] = [free[100], free[3100]].map(page_at);
    for damaged in [
        &[(60, other)][..],
        &[(70, inode(70)), (60, other)],
        &[(60, other), (30, one)],
        &[(30, one), (20, inode(20))],
    ] {
        let flip = |at| store(&region, at, &(region.load(at) ^ 1).to_le_bytes());
        damaged.iter().for_each(|&(_, at)| flip(at));
        let (report, checked) = opened(1);
        assert_eq!(checked.damage().count(), damaged.len());
        let first = damaged.last().map(|(number, _)| *number);
        match &report {
            Err(Error::Corrupt { place, .. }) => assert_eq!(place.inode, first),
            other => panic!("{other:?}"),
        }
        assert_eq!(opened(3), (report, checked));
        damaged.iter().for_each(|&(_, at)| flip(at));
    }
}

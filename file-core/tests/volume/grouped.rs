//! Changes that become durable together: what a crash during a sync leaves of changes that overlap,
//! and what a volume does on its own.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use spanlock_file_core::{Durability, FileCore, FormatOptions, fsck};

use crate::common::{Handle, Mem, PAGE, content, format, open, segments};

fn grouping() -> FormatOptions {
    FormatOptions::new().durability(Durability::AtSync)
}

/// A change of a file.
type Act = fn(&Handle);

/// Performs `before` and a sync, and then the changes and another sync. Returns what `show` says
/// about a crash image of each operation on the region, from the first change on.
fn images<T: Ord>(before: Act, changes: &[Act], show: impl Fn(&Handle) -> T) -> BTreeSet<T> {
    let mut shown = BTreeSet::new();
    for seed in 0..20 {
        let images: Arc<Mutex<Vec<Vec<u64>>>> = Arc::default();
        let takes = Arc::new(AtomicBool::new(false));
        let (into, when) = (Arc::clone(&images), Arc::clone(&takes));
        let hook = move |image: &mut dyn FnMut() -> Vec<u64>| {
            if when.load(Ordering::Relaxed) {
                into.lock().unwrap().push(image());
            }
        };
        let words = vec![0; 128 * PAGE as usize / 8];
        let mem = Mem::simulated(words, seed, Box::new(hook));
        let volume = FileCore::format(mem, &grouping(), segments).unwrap();
        let file = volume.create("a").unwrap();
        before(&file);
        file.sync().unwrap();
        takes.store(true, Ordering::Relaxed);
        changes.iter().for_each(|change| change(&file));
        file.sync().unwrap();
        takes.store(false, Ordering::Relaxed);
        for image in images.lock().unwrap().drain(..) {
            let mem = Mem::from_words(image);
            assert!(fsck::check(&mem).unwrap().is_sound());
            let (volume, _) = open(&mem).unwrap();
            shown.insert(show(&volume.open_file("a").unwrap()));
        }
    }
    shown
}

/// Returns what the file contains after the first of these changes, the first two, and so on.
fn prefixes(before: Act, changes: &[Act]) -> BTreeSet<Vec<u8>> {
    let volume = format(128, &grouping());
    let file = volume.create("a").unwrap();
    before(&file);
    let mut contents = BTreeSet::from([content(&file)]);
    for change in changes {
        change(&file);
        contents.insert(content(&file));
    }
    contents
}

/// A later change contains bytes of an earlier one that it overlaps. So it never survives without
/// the earlier one, of which these bytes would be a part.
#[test]
fn a_crash_leaves_a_prefix_of_changes_that_overlap() {
    let two_pages: Act = |file| file.write_at(&[b'o'; 2 * PAGE as usize], 0).unwrap();
    let write_both: Act = |file| file.write_at(&[b'A'; 2 * PAGE as usize], 0).unwrap();
    let write_few: Act = |file| file.write_at(&[b'B'; 10], PAGE + 100).unwrap();
    let write_first: Act = |file| file.write_at(&[b'C'; 10], 0).unwrap();
    let empty: Act = |file| file.truncate(0).unwrap();
    let cut: Act = |file| file.truncate(PAGE + 5).unwrap();
    let append: Act = |file| _ = file.append(&[b'D'; 300]).unwrap();
    let sparse: Act = |file| file.write_at(b"o", 6 * PAGE - 1).unwrap();
    let write_four: Act = |file| file.write_at(&[b'E'; 4 * PAGE as usize], PAGE).unwrap();
    let punch: Act = |file| file.punch_hole(2 * PAGE..3 * PAGE).unwrap();
    let punch_second: Act = |file| file.punch_hole(PAGE..2 * PAGE).unwrap();
    let allocate: Act = |file| file.allocate(0..3 * PAGE).unwrap();
    let cases: &[(&str, Act, &[Act])] = &[
        ("a write into a write", two_pages, &[write_both, write_few]),
        (
            "a write after a truncation",
            two_pages,
            &[empty, write_first],
        ),
        ("an append after a cut", two_pages, &[cut, append]),
        ("appends to one page", two_pages, &[append, append, append]),
        ("an allocation", sparse, &[write_four, punch, allocate]),
        ("a chain", two_pages, &[write_few, write_both, write_first]),
        ("a cut into a hole", two_pages, &[punch_second, cut]),
        (
            "an allocation after a write",
            empty,
            &[write_first, allocate],
        ),
    ];
    for (name, before, changes) in cases {
        let found = images(*before, changes, content);
        let expected = prefixes(*before, changes);
        assert!(found.is_subset(&expected), "{name}");
        assert!(
            found.len() > 1,
            "{name}: no crash image without the changes"
        );
    }
}

/// Changes that do not overlap survive independently of each other.
#[test]
fn changes_that_do_not_overlap_share_a_round() {
    let changes: &[Act] = &[
        |file| file.write_at(&[b'A'; PAGE as usize], 0).unwrap(),
        |file| file.write_at(&[b'B'; PAGE as usize], PAGE).unwrap(),
    ];
    let before: Act = |file| file.write_at(&[b'o'; 2 * PAGE as usize], 0).unwrap();
    let found = images(before, changes, |file| {
        let content = content(file);
        [content[0], content[PAGE as usize]]
    });
    assert_eq!(found, BTreeSet::from([*b"oo", *b"Ao", *b"oB", *b"AB"]));
}

/// The truncation copies no bytes: it relies on the hole.
#[test]
fn a_cut_into_a_hole_leaves_no_bytes_past_the_end() {
    let before: Act = |file| file.write_at(&[b'o'; 2 * PAGE as usize], 0).unwrap();
    let changes: &[Act] = &[
        |file| file.punch_hole(PAGE..2 * PAGE).unwrap(),
        |file| file.truncate(PAGE + 5).unwrap(),
    ];
    let grown = images(before, changes, |file| {
        let size = file.size() as usize;
        file.truncate(2 * PAGE).unwrap();
        content(file)[size..].iter().all(|byte| *byte == 0)
    });
    assert_eq!(grown, BTreeSet::from([true]));
}

/// An allocation that finds the file long enough relies on the change that made it so.
#[test]
fn an_allocation_survives_only_with_the_size_that_it_found() {
    let before: Act = |file| file.truncate(0).unwrap();
    let punch: Act = |file| file.punch_hole(5 * PAGE..6 * PAGE).unwrap();
    let write: Act = |file| file.write_at(&[b'A'; 10], 5 * PAGE).unwrap();
    let grow: Act = |file| file.truncate(PAGE).unwrap();
    let allocate: Act = |file| file.allocate(0..1000).unwrap();
    let write_first: Act = |file| file.write_at(&[b'B'; 10], 0).unwrap();
    let cases: [(&[Act], u64); 2] = [
        (&[punch, punch, write, allocate, write_first], 5 * PAGE + 10),
        (&[punch, punch, grow, allocate, write_first], PAGE),
    ];
    for (changes, size) in cases {
        let sizes = images(before, changes, Handle::size);
        assert_eq!(sizes, BTreeSet::from([0, size]));
    }
}

/// If an append is lost, none of its bytes appears when the file grows later.
#[test]
fn bytes_past_the_end_are_zero_after_a_crash() {
    let before: Act = |file| file.write_at(&[b'o'; 10], 0).unwrap();
    let changes: &[Act] = &[
        |file| _ = file.append(&[b'A'; 10]).unwrap(),
        |file| file.write_at(b"B", 0).unwrap(),
    ];
    let grown = images(before, changes, |file| {
        let size = file.size() as usize;
        file.truncate(30).unwrap();
        content(file)[size..].to_vec()
    });
    let zeros = |len| vec![0; len];
    assert!(
        grown.is_subset(&BTreeSet::from([zeros(20), zeros(10)])),
        "{grown:?}"
    );
}

#[test]
fn each_round_of_a_sync_takes_a_fence() {
    let fences = |changes: &[(u64, u64)]| {
        let volume = format(256, &grouping());
        let file = volume.create("a").unwrap();
        file.write_at(&[1; 8 * PAGE as usize], 0).unwrap();
        volume.sync().unwrap();
        for &(first, pages) in changes {
            let data = vec![2; (pages * PAGE) as usize];
            file.write_at(&data, first * PAGE).unwrap();
        }
        let (_, before) = volume.pmem().flushes_and_fences();
        volume.sync().unwrap();
        volume.pmem().flushes_and_fences().1 - before
    };
    assert_eq!(
        fences(&[(0, 1), (1, 1), (2, 2), (7, 1)]),
        2,
        "no two overlap"
    );
    assert_eq!(fences(&[(0, 1), (0, 1)]), 3);
    assert_eq!(
        fences(&[(0, 2), (1, 2), (2, 2), (4, 1)]),
        4,
        "a chain of three"
    );
    assert_eq!(
        fences(&[(0, 8), (3, 1), (5, 1)]),
        3,
        "the small ones do not overlap"
    );
    assert_eq!(fences(&[(3, 2), (0, 4), (4, 1), (0, 1)]), 4);
    assert_eq!(fences(&[(3, 1), (3, 1), (0, 8), (7, 1)]), 5);
}

/// A change that waits for a sync keeps a removed file, and so its inode, until the sync.
#[test]
fn a_volume_without_inodes_syncs() {
    let volume = format(1024, &grouping().inodes(32));
    for nth in 0..100 {
        let name = format!("file {nth}");
        volume.create(&name).unwrap().write_at(b"x", 0).unwrap();
        volume.remove(&name).unwrap();
    }
}

/// Otherwise, the second panic would abort the process.
#[test]
fn a_volume_that_a_panic_drops_survives_another_panic() {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let volume = format(256, &grouping());
        let file = volume.create("a").unwrap();
        file.write_at(b"x", 0).unwrap();
        volume.pmem().set_read_only(true);
        // The region panics in this call, and again in the sync when `volume` is dropped.
        drop(volume.create("b"));
    }));
    assert!(result.is_err());
}

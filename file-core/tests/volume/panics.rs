//! A region that panics once in the middle of an operation. Operations that return afterwards must
//! still be durable. Also a lock factory that panics.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    AnyLock, Mem, PAGE, Volume, content, format, open, reopen, segments, write_some_that_stay,
};
use spanlock_file_core::{Error, FormatOptions};

type Model = BTreeMap<String, Vec<u8>>;

fn read_all(volume: &Volume) -> Model {
    let names = volume.list().into_iter();
    names
        .map(|(name, _)| (name.clone(), content(&volume.open_file(&name).unwrap())))
        .collect()
}

/// Creates a volume with files "a" and "b", with this many groups in the log of "a".
fn prepared(writes: u64) -> Volume {
    let volume = format(64, &FormatOptions::new().inodes(32));
    let file = volume.create("a").unwrap();
    volume.create("b").unwrap().write_at(b"b", 0).unwrap();
    write_some_that_stay(&file, writes, 10);
    volume
}

/// Makes each of `act`'s operations on the region panic in turn, then keeps using the volume.
fn each_operation(writes: u64, act: fn(&Volume) -> Result<(), Error>) {
    for operation in 1.. {
        let volume = prepared(writes);
        let before = read_all(&volume);
        volume.pmem().panic_at(operation);
        let result = catch_unwind(AssertUnwindSafe(|| act(&volume)));
        volume.pmem().panic_at(0);
        if let Ok(result) = result {
            result.unwrap();
            assert!(
                operation > 4,
                "the operation touched the region too few times"
            );
            return;
        }
        let what = format!("operation {operation}");
        // Reads still work and return the old content.
        assert_eq!(read_all(&volume), before, "{what}");
        // The interrupted operation may be present or not. Operations that return from now on must
        // be.
        let recovered = read_all(&reopen(&volume));
        let mut returned = Vec::new();
        for (name, data) in [("a", b"later"), ("b", b"other"), ("c", b"a new")] {
            let written = volume
                .open_or_create(name)
                .and_then(|file| file.write_at(data, 3 * PAGE));
            match written {
                Ok(()) => returned.push((name, data)),
                Err(Error::Poisoned { .. }) => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
        assert!(
            returned.iter().any(|(name, _)| *name == "b"),
            "{what}: b is not affected"
        );
        match volume.remove("b") {
            Ok(()) => returned.retain(|(name, _)| *name != "b"),
            Err(error) => assert!(matches!(error, Error::Poisoned { .. }), "{what}: {error}"),
        }
        let after = read_all(&reopen(&volume));
        assert_eq!(after.contains_key("b"), volume.exists("b"), "{what}");
        for (name, data) in returned {
            assert_eq!(
                after[name][3 * PAGE as usize..][..data.len()],
                data[..],
                "{what}: {name}"
            );
        }
        assert!(
            recovered
                .keys()
                .all(|name| name == "b" || after.contains_key(name)),
            "{what}"
        );
    }
}

#[test]
fn a_panic_in_a_write_loses_nothing() {
    each_operation(62, |volume| volume.open_file("a")?.write_at(b"after", 0));
}

/// An overwrite of a whole page calls the region first to prefetch its slot, which it has reserved.
/// No group will ever be there, so the log must take no more appends: cleanings would wait for it.
#[test]
fn a_panic_in_a_prefetch_poisons_the_log() {
    let volume = prepared(2);
    let file = volume.open_file("a").unwrap();
    let page = [7; PAGE as usize];
    volume.pmem().panic_at(1);
    let result = catch_unwind(AssertUnwindSafe(|| file.write_at(&page, 0)));
    volume.pmem().panic_at(0);
    result.unwrap_err();
    assert_eq!(file.write_at(&page, 0), Err(Error::Poisoned { inode: 1 }));
}

#[test]
fn a_panic_in_a_write_that_needs_a_log_page_loses_nothing() {
    each_operation(63, |volume| volume.open_file("a")?.write_at(b"after", 0));
}

#[test]
fn a_panic_in_a_compaction_loses_nothing() {
    each_operation(6 * 63, |volume| {
        volume.open_file("a")?.write_at(b"after", 0)?;
        assert_eq!(volume.stats().compactions, 1);
        Ok(())
    });
}

#[test]
fn a_panic_in_a_cleaning_on_request_loses_nothing() {
    each_operation(3 * 63, |volume| {
        let report = volume.open_file("a")?.clean()?;
        assert!(report.pages_freed > 0);
        Ok(())
    });
}

#[test]
fn a_panic_while_a_log_loses_its_last_page_loses_nothing() {
    for operation in 1.. {
        let volume = format(64, &FormatOptions::new().inodes(32).clock(|| 7));
        let file = volume.create("a").unwrap();
        file.write_at(b"before", 0).unwrap();
        file.truncate(0).unwrap();
        volume.pmem().panic_at(operation);
        let cleaned = catch_unwind(AssertUnwindSafe(|| file.clean()));
        volume.pmem().panic_at(0);
        if let Ok(report) = cleaned {
            assert_eq!(report.unwrap().pages_freed, 1);
            assert!(operation > 2, "a store and a fence");
            return;
        }
        let refused = Err(Error::Poisoned { inode: 1 });
        assert_eq!(file.write_at(b"after", 0), refused);
        assert_eq!(file.clean(), Err(Error::Poisoned { inode: 1 }));
        // The root's log and others are cleaned all the same.
        volume.clean().unwrap();
        volume.create("b").unwrap().write_at(b"after", 0).unwrap();
        let reopened = reopen(&volume);
        assert_eq!(content(&reopened.open_file("a").unwrap()), b"");
        assert_eq!(content(&reopened.open_file("b").unwrap()), b"after");
    }
}

#[test]
fn a_panic_in_a_creation_loses_nothing() {
    each_operation(62, |volume| volume.create("c").map(drop));
}

#[test]
fn a_panic_in_a_removal_loses_nothing() {
    let volume = prepared(62);
    for operation in 1..=3 {
        let volume = reopen(&volume);
        let file = volume.open_file("a").unwrap();
        volume.pmem().panic_at(operation);
        let removed = catch_unwind(AssertUnwindSafe(|| volume.remove("a")));
        volume.pmem().panic_at(0);
        assert!(removed.is_err(), "a removal has three operations");
        // The file may be gone, so no write to it may succeed.
        assert!(matches!(
            file.write_at(b"x", 0),
            Err(Error::Poisoned { .. })
        ));
        assert!(!reopen(&volume).exists("a"), "the store is visible");
        volume.remove("a").unwrap();
        volume.create("a").unwrap().write_at(b"new", 0).unwrap();
        assert_eq!(content(&reopen(&volume).open_file("a").unwrap()), b"new");
    }
}

#[test]
fn a_panic_in_a_removal_that_compacts_the_directory_loses_nothing() {
    // The last state before a removal that compacts the directory.
    let volume = prepared(0);
    let name = |nth| format!("{nth} {}", "long".repeat(250));
    for nth in 0..18 {
        // In each page of the directory's log, some name stays.
        if nth % 3 == 0 {
            volume.create(&format!("stays {nth}")).unwrap();
        }
        volume.create(&name(nth)).unwrap();
    }
    assert_eq!(volume.stats().compactions, 0);
    let (mut long, mut words) = (String::new(), Vec::new());
    for nth in 0..18 {
        (long, words) = (name(nth), volume.pmem().words());
        volume.remove(&long).unwrap();
        if volume.stats().compactions > 0 {
            break;
        }
    }
    for operation in 4.. {
        let volume = open(&Mem::from_words(words.clone())).unwrap().0;
        volume.pmem().panic_at(operation);
        let removed = catch_unwind(AssertUnwindSafe(|| volume.remove(&long)));
        volume.pmem().panic_at(0);
        if removed.is_ok() {
            assert!(operation > 7, "{operation}");
            return;
        }
        // The removal itself is complete, but the directory accepts no more changes.
        assert!(!reopen(&volume).exists(&long) && !volume.exists(&long));
        let poisoned = Error::Poisoned { inode: 0 };
        assert_eq!(volume.remove("b"), Err(poisoned.clone()));
        assert_eq!(volume.create("c").unwrap_err(), poisoned);
        volume.open_file("b").unwrap().write_at(b"B", 0).unwrap();
        assert_eq!(content(&reopen(&volume).open_file("b").unwrap()), b"B");
    }
}

/// Returns a factory that panics while the flag is set.
fn panicking(broken: &Arc<AtomicBool>) -> impl Fn(u64) -> AnyLock + use<> {
    let broken = Arc::clone(broken);
    move |capacity| {
        assert!(!broken.load(Ordering::Relaxed), "the factory fails");
        segments(capacity)
    }
}

#[test]
fn a_panic_in_the_lock_factory_of_a_creation_loses_nothing() {
    let broken = Arc::new(AtomicBool::new(false));
    let options = FormatOptions::new().inodes(32);
    let volume = Volume::format(Mem::new(64 * PAGE), &options, panicking(&broken)).unwrap();
    volume.create("a").unwrap().write_at(b"a", 0).unwrap();
    let (words, stats) = (volume.pmem().words(), volume.stats());
    for create in [Volume::create, Volume::open_or_create] {
        broken.store(true, Ordering::Relaxed);
        let created = catch_unwind(AssertUnwindSafe(|| create(&volume, "x").map(drop)));
        assert!(created.is_err());
        // Nothing has changed: no name, no lost inode, no byte on the medium.
        assert!(!volume.exists("x"));
        assert_eq!(volume.stats(), stats);
        assert!(volume.pmem().words() == words);
    }
    broken.store(false, Ordering::Relaxed);
    volume.create("x").unwrap().write_at(b"x", 0).unwrap();
    assert_eq!(read_all(&reopen(&volume)), read_all(&volume));
    volume.remove("x").unwrap();
    assert_eq!(reopen(&volume).list(), [("a".to_owned(), 1)]);
}

#[test]
fn a_panic_in_the_lock_factory_of_an_opening_loses_nothing() {
    let mem = prepared(0).pmem().clone();
    let words = mem.words();
    let broken = Arc::new(AtomicBool::new(true));
    let factory = panicking(&broken);
    let (volume, _) = Volume::open(Arc::clone(&mem), factory).unwrap();
    for _ in 0..2 {
        let opened = catch_unwind(AssertUnwindSafe(|| volume.open_file("a").map(drop)));
        assert!(opened.is_err());
    }
    assert!(mem.words() == words);
    broken.store(false, Ordering::Relaxed);
    assert_eq!(volume.open_file("a").unwrap().size(), volume.list()[0].1);
    assert_eq!(open(&mem).unwrap().1.files, 2);
}

/// Formatting over an old volume is cut off at each of its operations. The region then holds the
/// old volume, no volume, or the new one, but never a mixture.
#[test]
fn a_format_that_is_cut_off_leaves_no_mixture() {
    let old = format(96, &FormatOptions::new().inodes(32));
    for name in ["one", "two"] {
        old.create(name)
            .unwrap()
            .write_at(name.as_bytes(), 0)
            .unwrap();
    }
    let bytes = old.pmem().bytes();
    let (mut olds, mut nones) = (0, 0);
    for operation in 1.. {
        let mem = Mem::from_bytes(&bytes);
        mem.panic_at(operation);
        let options = FormatOptions::new().inodes(64);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            Volume::format(Arc::clone(&mem), &options, segments).map(drop)
        }));
        mem.panic_at(0);
        match open(&Mem::from_bytes(&mem.bytes())) {
            Ok((volume, _)) if ended.is_err() && volume.list().len() == 2 => {
                for name in ["one", "two"] {
                    let file = volume.open_file(name).unwrap();
                    assert_eq!(content(&file), name.as_bytes());
                }
                olds += 1;
            }
            Ok((volume, _)) => assert!(volume.list().is_empty(), "operation {operation}"),
            Err(Error::NotAVolume { .. }) => nones += 1,
            Err(error) => panic!("operation {operation}: {error}"),
        }
        if ended.is_ok() {
            break;
        }
    }
    assert!(olds > 0 && nones > 3, "{olds} {nones}");
}

/// A result must hold after a reopening, even if the operation finds nothing to do.
#[test]
fn an_operation_with_nothing_to_do_refuses_a_poisoned_log() {
    type Act = fn(&Volume) -> Result<(), Error>;
    let allocate: Act = |volume| volume.open_file("a")?.allocate(0..3 * PAGE);
    let cases: [(&str, Act, Act); 4] = [
        ("allocate", |it| it.open_file("a")?.truncate(0), allocate),
        ("rename", |it| it.rename("a", "c"), |it| it.rename("a", "b")),
        (
            "rename across",
            |it| it.rename("a", "c"),
            |it| it.rename("d/a", "a"),
        ),
        (
            "exchange",
            |it| it.rename("a", "c"),
            |it| it.exchange("d/a", "a"),
        ),
    ];
    for (name, breaks, does_nothing) in cases {
        let mut refused = 0;
        for operation in 1.. {
            let volume = format(64, &FormatOptions::new());
            let file = volume.create("a").unwrap();
            file.write_at(&[1; 3 * PAGE as usize], 0).unwrap();
            volume.create_dir("d").unwrap();
            volume.link("a", "d/a").unwrap();
            volume.link("a", "b").unwrap();
            does_nothing(&volume).unwrap();
            volume.pmem().panic_at(operation);
            let result = catch_unwind(AssertUnwindSafe(|| breaks(&volume)));
            volume.pmem().panic_at(0);
            if result.is_ok() {
                break;
            }
            match does_nothing(&volume) {
                Ok(()) => {
                    let again = reopen(&volume);
                    let size = again.open_file("a").unwrap().size();
                    assert_eq!(size, 3 * PAGE, "{name}, {operation}");
                }
                Err(error) => {
                    assert!(matches!(error, Error::Poisoned { .. }), "{name}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 2, "{name}");
    }
}

/// A directory whose removal has panicked may still exist. A name in it that was never there does
/// not.
#[test]
fn nothing_exists_in_a_directory_whose_removal_has_panicked() {
    let mut doubtful = 0;
    for operation in 1.. {
        let volume = format(64, &FormatOptions::new());
        volume.create_dir("d").unwrap();
        volume.pmem().panic_at(operation);
        let removed = catch_unwind(AssertUnwindSafe(|| volume.remove_dir("d")));
        volume.pmem().panic_at(0);
        if removed.is_ok() {
            break;
        }
        if matches!(volume.open_dir("d"), Err(Error::Poisoned { .. })) {
            assert!(volume.exists("d"));
            doubtful += 1;
        }
        assert!(!volume.exists("d/never"));
    }
    assert!(doubtful > 0);
}

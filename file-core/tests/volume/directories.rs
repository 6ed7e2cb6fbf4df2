//! Directories, links and renames.

use std::sync::Arc;

use crate::common::{Volume, content, format, reopen};
use spanlock_file_core::{Error, FormatOptions, Kind};

fn volume() -> Volume {
    format(128, &FormatOptions::new().inodes(64))
}

fn names(volume: &Volume, path: &str) -> Vec<String> {
    let entries = volume.read_dir(path).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn paths(volume: &Volume) -> Vec<String> {
    volume.list().into_iter().map(|(path, _)| path).collect()
}

/// Creates a file that contains its path.
fn write(volume: &Volume, path: &str) {
    let file = volume.create(path).unwrap();
    file.write_at(path.as_bytes(), 0).unwrap();
}

fn read(volume: &Volume, path: &str) -> String {
    String::from_utf8(content(&volume.open_file(path).unwrap())).unwrap()
}

fn named(path: &str) -> String {
    path.to_owned()
}

/// Asserts that nothing is in use: neither pages nor inodes.
fn assert_empty(volume: &Volume) {
    let stats = volume.stats();
    assert_eq!(stats.inodes_free, stats.inodes_total);
    assert_eq!(stats.pages_free + stats.log_pages, stats.pages_total);
    assert!(stats.log_pages <= 1, "{stats:?}");
    assert_eq!(reopen(volume).stats().pages_free, stats.pages_free);
}

#[test]
fn a_tree_reads_back() {
    let volume = volume();
    volume.create_dir_all("a/b/c").unwrap();
    volume.create_dir_all("a/b/c").unwrap();
    volume.create_dir("a/d").unwrap();
    for path in ["top", "a/1", "a/b/1", "a/b/c/1", "a/b/c/2"] {
        write(&volume, path);
    }
    for volume in [&volume, &reopen(&volume)] {
        assert_eq!(paths(volume), ["a/1", "a/b/1", "a/b/c/1", "a/b/c/2", "top"]);
        for path in paths(volume) {
            assert_eq!(read(volume, &path), path);
            assert_eq!(volume.kind(&path), Ok(Kind::File));
        }
        assert_eq!(names(volume, ""), ["a", "top"]);
        assert_eq!(names(volume, "a"), ["1", "b", "d"]);
        assert_eq!(names(volume, "a/d"), [""; 0]);
        assert_eq!(volume.kind("a/d"), Ok(Kind::Directory));
        assert!(volume.exists("a/b/c") && !volume.exists("a/b/d"));
        assert!(volume.check().unwrap().damaged.is_empty());
    }
}

#[test]
fn a_deep_tree_and_a_wide_one_read_back() {
    let volume = format(4096, &FormatOptions::new().inodes(2048));
    let deep = vec!["d"; 300].join("/");
    volume.create_dir_all(&deep).unwrap();
    write(&volume, &format!("{deep}/end"));
    for number in 0..500 {
        volume.create_dir(&format!("wide {number}")).unwrap();
    }
    let again = reopen(&volume);
    assert_eq!(paths(&again), [format!("{deep}/end")]);
    assert_eq!(names(&again, "").len(), 501);
}

#[test]
fn an_error_says_what_is_wrong_with_a_path() {
    let volume = volume();
    volume.create_dir("d").unwrap();
    write(&volume, "f");
    write(&volume, "d/f");
    let not_a_directory = |path| Error::NotADirectory { name: named(path) };
    let is_a_directory = |path| Error::IsADirectory { name: named(path) };
    let not_found = |path| Error::NotFound { name: named(path) };
    let exists = |path| Error::Exists { name: named(path) };

    assert_eq!(volume.create("f/x").unwrap_err(), not_a_directory("f"));
    assert_eq!(volume.create_dir("d/f/x"), Err(not_a_directory("d/f")));
    assert_eq!(volume.create_dir_all("d/f/x"), Err(not_a_directory("d/f")));
    assert_eq!(volume.create_dir_all("d/f"), Err(not_a_directory("d/f")));
    let long = format!("new/{}", "n".repeat(1025));
    for path in [
        "", "/new", "new//x", "new/x/", "new/.", "new/..", "new/\0", &long,
    ] {
        assert!(volume.create_dir_all(path).is_err(), "{path:?}");
        assert!(!volume.exists("new"), "{path:?}");
    }
    assert_eq!(volume.open_file("d/x/y").unwrap_err(), not_found("d/x"));
    assert_eq!(volume.open_file("d").unwrap_err(), is_a_directory("d"));
    assert_eq!(volume.open_or_create("d").unwrap_err(), is_a_directory("d"));
    assert_eq!(volume.open_or_create("x/y").unwrap_err(), not_found("x"));
    assert_eq!(volume.remove("d"), Err(is_a_directory("d")));
    assert_eq!(volume.remove_dir("f"), Err(not_a_directory("f")));
    assert_eq!(volume.remove_dir("x"), Err(not_found("x")));
    assert_eq!(volume.create("d").unwrap_err(), exists("d"));
    assert_eq!(volume.create_dir("f"), Err(exists("f")));
    assert_eq!(volume.link("d", "e"), Err(is_a_directory("d")));
    assert_eq!(volume.link("f", "d/f"), Err(exists("d/f")));
    assert_eq!(volume.link("x", "y"), Err(not_found("x")));
    let not_empty = Error::NotEmpty { name: named("d") };
    assert_eq!(volume.remove_dir("d"), Err(not_empty.clone()));
    assert_eq!(volume.links("f"), Ok(1));

    for path in ["", "/", "/f", "d/", "d//f", "./f", "d/..", "d/../f", "f\0"] {
        let created = volume.create(path).unwrap_err();
        assert!(matches!(created, Error::NameInvalid { .. }), "{path:?}");
        assert!(volume.remove(path).is_err() && volume.rename("f", path).is_err());
    }
    assert!(not_empty.to_string().contains("remove what is in it first"));
    assert_eq!(paths(&reopen(&volume)), ["d/f", "f"]);
}

#[test]
fn a_removed_directory_frees_all_that_it_had() {
    let volume = volume();
    for round in 0..200 {
        volume.create_dir_all("a/b").unwrap();
        write(&volume, "a/b/f");
        let handle = volume.open_dir("a/b").unwrap();
        volume.remove("a/b/f").unwrap();
        volume.remove_dir("a/b").unwrap();
        let gone = Error::NotFound { name: named("x") };
        assert_eq!(handle.create("x").unwrap_err(), gone, "{round}");
        assert_eq!(handle.create_dir("x").unwrap_err(), gone);
        assert!(handle.read().is_err() && !handle.exists("f"));
        volume.remove_dir("a").unwrap();
    }
    assert_empty(&volume);
}

#[test]
fn a_handle_follows_its_directory() {
    let volume = volume();
    volume.create_dir("a").unwrap();
    let a = volume.open_dir("a").unwrap();
    let b = a.create_dir("b").unwrap();
    b.create("f").unwrap().write_at(b"f", 0).unwrap();
    volume.rename("a", "c").unwrap();
    assert_eq!(read(&volume, "c/b/f"), "f");
    a.rename("b", "e").unwrap();
    a.open_dir("e").unwrap().link("f", &a, "g").unwrap();
    assert_eq!(paths(&volume), ["c/e/f", "c/g"]);
    b.remove("f").unwrap();
    a.remove_dir("e").unwrap();
    let names: Vec<_> = a.read().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["g"]);
    assert!(matches!(a.create("x/y"), Err(Error::NameInvalid { .. })));
    let other = self::volume().open_dir("").unwrap();
    assert_eq!(a.link("g", &other, "g"), Err(Error::OtherVolume));
}

#[test]
fn a_file_stays_until_its_last_name_and_handle_are_gone() {
    let volume = volume();
    volume.create_dir("d").unwrap();
    write(&volume, "a");
    volume.link("a", "d/b").unwrap();
    volume.link("d/b", "c").unwrap();
    let file = volume.open_file("d/b").unwrap();
    volume.open_file("a").unwrap().write_at(b"A", 0).unwrap();
    assert_eq!(content(&file), b"A");
    assert_eq!(volume.links("c"), Ok(3));
    let again = reopen(&volume);
    assert_eq!(again.links("a"), Ok(3));
    again.open_file("c").unwrap().write_at(b"C", 0).unwrap();
    assert_eq!(read(&again, "d/b"), "C");
    for volume in [&volume, &again] {
        volume.remove("a").unwrap();
        volume.remove("d/b").unwrap();
        assert_eq!(volume.links("c"), Ok(1));
        assert_eq!(reopen(volume).links("c"), Ok(1));
        volume.remove_dir("d").unwrap();
        volume.remove("c").unwrap();
    }
    assert_empty(&again);
    assert_eq!(content(&file), b"A");
    drop(file);
    assert_empty(&volume);
}

/// A file that is removed while it is open, before a crash, has no name: its pages are free.
#[test]
fn a_crash_frees_a_file_that_was_removed_while_it_was_open() {
    let volume = volume();
    let file = volume.create("a").unwrap();
    file.write_at(&[1; 40_000], 0).unwrap();
    volume.remove("a").unwrap();
    file.write_at(b"x", 0).unwrap();
    assert!(volume.stats().pages_free < reopen(&volume).stats().pages_free);
    assert_empty(&reopen(&volume));
}

#[test]
fn a_rename_keeps_the_file_and_replaces_another() {
    let volume = volume();
    write(&volume, "a");
    write(&volume, "b");
    let (a, b) = (
        volume.open_file("a").unwrap(),
        volume.open_file("b").unwrap(),
    );
    volume.rename("a", "c").unwrap();
    assert_eq!(paths(&volume), ["b", "c"]);
    volume.rename("c", "b").unwrap();
    assert_eq!(paths(&volume), ["b"]);
    assert_eq!(
        (read(&volume, "b"), content(&b)),
        (named("a"), b"b".to_vec())
    );
    a.append(b"!").unwrap();
    assert_eq!(read(&reopen(&volume), "b"), "a!");
    // The new name has one marked group: once that is erased, nothing comes back.
    volume.remove("b").unwrap();
    assert_eq!(reopen(&volume).list(), []);
    write(&volume, "a");
    volume.rename("a", "b").unwrap();
    write(&volume, "a");
    assert_eq!(read(&reopen(&volume), "a"), "a");
    for name in ["a", "b"] {
        volume.remove(name).unwrap();
    }
    drop((a, b));
    assert_empty(&volume);
}

#[test]
fn a_rename_between_names_of_one_file_does_nothing() {
    let volume = volume();
    write(&volume, "a");
    volume.link("a", "b").unwrap();
    volume.rename("a", "b").unwrap();
    volume.rename("a", "a").unwrap();
    assert_eq!(paths(&reopen(&volume)), ["a", "b"]);
    assert_eq!(volume.links("a"), Ok(2));
    // Replacing one of several names leaves the file.
    write(&volume, "c");
    volume.rename("c", "b").unwrap();
    assert_eq!((read(&volume, "a"), volume.links("a")), (named("a"), Ok(1)));
}

#[test]
fn a_rename_replaces_only_what_it_may() {
    let volume = volume();
    for directory in ["d", "e", "full", "full/x"] {
        volume.create_dir(directory).unwrap();
    }
    write(&volume, "f");
    let before = volume.pmem().words();
    let is_a_directory = Error::IsADirectory { name: named("d") };
    assert_eq!(volume.rename("f", "d"), Err(is_a_directory));
    let not_a_directory = Error::NotADirectory { name: named("f") };
    assert_eq!(volume.rename("d", "f"), Err(not_a_directory));
    let not_empty = Error::NotEmpty {
        name: named("full"),
    };
    assert_eq!(volume.rename("d", "full"), Err(not_empty));
    let missing = Error::NotFound { name: named("x") };
    assert_eq!(volume.rename("x", "y"), Err(missing));
    let missing = Error::NotFound { name: named("x") };
    assert_eq!(volume.rename("x", "full/y"), Err(missing.clone()));
    assert_eq!(volume.exchange("x", "full/x"), Err(missing.clone()));
    assert_eq!(volume.exchange("full/x", "x"), Err(missing));
    let is_a_directory = Error::IsADirectory {
        name: named("full/x"),
    };
    assert_eq!(volume.rename("f", "full/x"), Err(is_a_directory));
    let not_empty = Error::NotEmpty {
        name: named("full"),
    };
    assert_eq!(volume.rename("full/x", "full"), Err(not_empty));
    for path in ["full/x", "full/y", "full/x/y"] {
        let error = volume.rename("full", path).unwrap_err();
        assert!(matches!(error, Error::InsideItself { .. }), "{error}");
        assert!(error.to_string().contains("is inside it"));
    }
    for paths in [["full", "full/x"], ["full/x", "full"]] {
        let error = volume.exchange(paths[0], paths[1]).unwrap_err();
        assert!(matches!(error, Error::InsideItself { .. }), "{error}");
    }
    volume.exchange("f", "f").unwrap();
    assert!(volume.pmem().words() == before, "nothing is written");

    let free = volume.stats().inodes_free;
    let replaced = volume.open_dir("e").unwrap();
    volume.rename("full", "e").unwrap();
    assert!(replaced.create("x").is_err());
    assert_eq!(volume.stats().inodes_free, free + 1);
    for volume in [&volume, &reopen(&volume)] {
        assert_eq!(names(volume, ""), ["d", "e", "f"]);
        assert_eq!(names(volume, "e"), ["x"]);
    }
}

#[test]
fn a_rename_moves_a_file_to_another_directory() {
    let volume = volume();
    for directory in ["d", "e"] {
        volume.create_dir(directory).unwrap();
    }
    for path in ["d/a", "e/b", "f"] {
        write(&volume, path);
    }
    let replaced = volume.open_file("e/b").unwrap();
    volume.rename("d/a", "e/b").unwrap();
    volume.rename("f", "d/g").unwrap();
    assert_eq!(content(&replaced), b"e/b");
    for volume in [&volume, &reopen(&volume)] {
        assert_eq!(paths(volume), ["d/g", "e/b"]);
        assert_eq!(
            (read(volume, "d/g"), read(volume, "e/b")),
            (named("f"), named("d/a"))
        );
        assert_eq!((volume.links("d/g"), volume.links("e/b")), (Ok(1), Ok(1)));
    }
    // Names of one file stay both.
    volume.link("d/g", "e/g").unwrap();
    volume.rename("d/g", "e/g").unwrap();
    assert_eq!(paths(&reopen(&volume)), ["d/g", "e/b", "e/g"]);
    volume.open_file("d/g").unwrap();
    // Each name has one marked group: once that is erased, nothing comes back.
    drop(replaced);
    for path in ["d/g", "e/b", "e/g"] {
        volume.remove(path).unwrap();
    }
    for directory in ["d", "e"] {
        volume.remove_dir(directory).unwrap();
    }
    assert_empty(&volume);
}

#[test]
fn a_rename_moves_a_directory_to_another_directory() {
    let volume = volume();
    volume.create_dir_all("a/b/c").unwrap();
    volume.create_dir_all("x/y").unwrap();
    write(&volume, "a/b/c/f");
    let (b, y) = (
        volume.open_dir("a/b").unwrap(),
        volume.open_dir("x/y").unwrap(),
    );
    let free = volume.stats().inodes_free;
    volume.rename("a/b", "x/y").unwrap();
    assert_eq!(volume.stats().inodes_free, free + 1);
    assert!(y.create("g").is_err(), "it was replaced");
    b.create("g").unwrap();
    assert_eq!(paths(&reopen(&volume)), ["x/y/c/f", "x/y/g"]);
    // What is below what has changed, in memory and after recovery.
    for volume in [&volume, &reopen(&volume)] {
        assert!(volume.rename("x", "x/y/c/x").is_err());
        volume.rename("a", "x/y/c/a").unwrap();
        volume.rename("x/y/c", "c").unwrap();
        volume.rename("x", "c/a/x").unwrap();
        assert!(volume.rename("c", "c/a/x/y/c").is_err());
        assert_eq!(paths(volume), ["c/a/x/y/g", "c/f"]);
        assert_eq!(paths(&reopen(volume)), paths(volume));
    }
}

#[test]
fn an_exchange_swaps_what_two_names_stand_for() {
    let volume = volume();
    volume.create_dir_all("d/e").unwrap();
    for path in ["a", "b", "d/f", "d/e/g"] {
        write(&volume, path);
    }
    let long = "l".repeat(900);
    volume.rename("b", &long).unwrap();
    volume.exchange("a", &long).unwrap();
    volume.exchange("a", "d/f").unwrap();
    // A file and a directory.
    volume.exchange("a", "d/e").unwrap();
    let root = volume.open_dir("").unwrap();
    let d = volume.open_dir("d").unwrap();
    d.exchange("f", &root, "a").unwrap();
    let other = self::volume().open_dir("").unwrap();
    assert_eq!(d.exchange("f", &other, "a"), Err(Error::OtherVolume));
    assert_eq!(d.rename_into("f", &other, "a"), Err(Error::OtherVolume));
    for volume in [&volume, &reopen(&volume)] {
        assert_eq!(paths(volume), ["a", "d/e", "d/f/g", &long]);
        assert_eq!(read(volume, "a"), "b");
        assert_eq!(read(volume, "d/e"), "d/f");
        assert_eq!(read(volume, "d/f/g"), "d/e/g");
        assert_eq!(read(volume, &long), "a");
        // What is below what is known.
        assert!(volume.exchange("d", "d/f/g").is_err());
    }
    d.rename_into("f", &root, "e").unwrap();
    for path in ["a", "d/e", "e/g", &long] {
        volume.remove(path).unwrap();
    }
    for directory in ["d", "e"] {
        volume.remove_dir(directory).unwrap();
    }
    assert_empty(&volume);
}

/// The logs of both directories are cleaned meanwhile.
#[test]
fn changes_of_two_directories_do_not_make_logs_grow() {
    let volume = volume();
    for directory in ["d", "e"] {
        volume.create_dir(directory).unwrap();
    }
    let name = |nth: usize| format!("{}/{}{nth}", ["d", "e"][nth % 2], "n".repeat(nth % 7 * 150));
    write(&volume, &name(0));
    write(&volume, "f");
    for nth in 1..2000 {
        volume.rename(&name(nth - 1), &name(nth)).unwrap();
        volume.exchange("f", &name(nth)).unwrap();
    }
    let stats = volume.stats();
    assert!(stats.log_pages < 30, "{stats:?}");
    let again = reopen(&volume);
    assert_eq!(paths(&again), [&name(1999), "f"]);
    assert_eq!(again.stats().pages_free, stats.pages_free);
}

/// Long names take groups of several slots, and the directory's log is cleaned meanwhile.
#[test]
fn renames_do_not_make_a_log_grow() {
    let volume = volume();
    let name = |nth: usize| format!("{}{nth}", "n".repeat(nth % 7 * 150));
    write(&volume, &name(0));
    for nth in 1..3000 {
        volume.rename(&name(nth - 1), &name(nth)).unwrap();
    }
    let stats = volume.stats();
    assert!(stats.log_pages < 12, "{stats:?}");
    let again = reopen(&volume);
    assert_eq!(read(&again, &name(2999)), name(0));
    assert_eq!(again.stats().pages_free, stats.pages_free);
}

#[test]
fn a_full_volume_renames_or_says_so() {
    let volume = format(48, &FormatOptions::new().inodes(32));
    write(&volume, "a");
    let hog = volume.create("hog").unwrap();
    while hog.append(&[9; 4096]).is_ok() {}
    let names = ["a", "b"];
    let mut at = 0;
    for _ in 0..500 {
        match volume.rename(names[at], names[1 - at]) {
            Ok(()) => at = 1 - at,
            Err(error) => assert!(matches!(error, Error::NoSpace { .. }), "{error}"),
        }
        assert_eq!(paths(&volume), [names[at], "hog"]);
    }
    assert_eq!(read(&reopen(&volume), names[at]), "a");
    volume.remove(names[at]).unwrap();
}

#[test]
fn a_full_volume_changes_two_directories_or_says_so() {
    let volume = format(48, &FormatOptions::new().inodes(32));
    volume.create_dir("d").unwrap();
    write(&volume, "a");
    write(&volume, "d/c");
    let hog = volume.create("hog").unwrap();
    while hog.append(&[9; 4096]).is_ok() {}
    let names = ["a", "d/b"];
    let (mut at, mut exchanged, mut refused) = (0, false, 0);
    for round in 0..1000 {
        let done = match round % 2 {
            0 => volume.rename(names[at], names[1 - at]),
            _ => volume.exchange(names[at], "d/c"),
        };
        match done {
            Ok(()) if round % 2 == 0 => at = 1 - at,
            Ok(()) => exchanged = !exchanged,
            Err(Error::NoSpace { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        let has = ["a", "d/c"][usize::from(exchanged)];
        assert_eq!(read(&volume, names[at]), has, "{round}");
    }
    let again = reopen(&volume);
    assert_eq!(again.list(), volume.list());
    assert_eq!(again.stats().pages_free, volume.stats().pages_free);
    println!("{refused} were refused");
}

/// Threads rename and link in one directory: no name of the file is ever missing.
#[test]
fn a_replaced_name_is_never_missing() {
    let volume = Arc::new(volume());
    write(&volume, "target");
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let volume = &volume;
            scope.spawn(move || {
                for round in 0..200 {
                    let name = format!("{thread} {round}");
                    write(volume, &name);
                    volume.rename(&name, "target").unwrap();
                }
            });
        }
        let readers = scope.spawn(|| {
            let mut found = 0;
            for _ in 0..2000 {
                assert!(volume.exists("target"));
                found += usize::from(!read(&volume, "target").is_empty());
            }
            found
        });
        assert_eq!(readers.join().unwrap(), 2000);
    });
    assert_eq!(paths(&reopen(&volume)), ["target"]);
    assert_eq!(volume.stats().inodes_free, volume.stats().inodes_total - 1);
}

/// Threads create, link, rename and remove the same names in the same directories.
#[test]
fn threads_may_change_one_tree() {
    let volume = volume();
    let allowed = |error: Error| match error {
        Error::NotFound { .. } | Error::Exists { .. } | Error::NotEmpty { .. } => {}
        Error::IsADirectory { .. } | Error::NotADirectory { .. } => {}
        Error::InsideItself { .. } => {}
        // Directories that were moved far below stay there.
        Error::NoInodes { .. } | Error::NoSpace { .. } => {}
        error => panic!("{error}"),
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let volume = &volume;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for _ in 0..1500 {
                    let path = |rng: &mut fastrand::Rng| {
                        let directory = ["", "a/", "b/"][rng.usize(..3)];
                        format!("{directory}{}", ["a", "b", "c"][rng.usize(..3)])
                    };
                    let (one, two) = (path(&mut rng), path(&mut rng));
                    let done = match rng.u32(..8) {
                        0 => volume.create(&one).map(drop),
                        1 => volume.create_dir(&one),
                        2 => volume.remove(&one),
                        3 => volume.remove_dir(&one),
                        4 => volume.link(&one, &two),
                        5 => volume.open_file(&one).and_then(|it| it.write_at(b"x", 0)),
                        6 => volume.exchange(&one, &two),
                        _ => volume.rename(&one, &two),
                    };
                    done.unwrap_or_else(allowed);
                }
            });
        }
    });
    let again = reopen(&volume);
    assert_eq!(again.list(), volume.list());
    let (now, then) = (volume.stats(), again.stats());
    assert_eq!(now.inodes_free, then.inodes_free);
    assert_eq!(now.pages_free, then.pages_free);
    for path in paths(&volume) {
        assert_eq!(volume.links(&path), again.links(&path));
    }
}

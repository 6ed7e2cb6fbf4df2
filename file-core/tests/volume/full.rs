//! A full volume: failed operations lose nothing, and operations that free space keep working.

use crate::common::{PAGE, Rng, Volume, content, format, reopen};
use spanlock_file_core::{Error, FormatOptions};

/// Fills the volume with files of `pages` pages each. Returns how many.
fn fill(volume: &Volume, pages: u64) -> u8 {
    for i in 0..=u8::MAX {
        let file = match volume.create(&i.to_string()) {
            Ok(file) => file,
            Err(Error::NoSpace { .. }) => return i,
            Err(error) => panic!("{error}"),
        };
        for page in 0..pages {
            match file.write_at(&[i; PAGE as usize], page * PAGE) {
                Ok(()) => {}
                Err(Error::NoSpace { needed, free }) => {
                    assert!(free < needed || free == 0, "{free} of {needed}");
                    return i + 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    u8::MAX
}

#[test]
fn a_write_without_space_changes_nothing() {
    let volume = format(64, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    file.write_at(&[1; 10_000], 0).unwrap();
    let before = volume.stats();
    let huge = vec![2; 100 * PAGE as usize];
    for _ in 0..3 {
        let error = file.write_at(&huge[..60 * PAGE as usize], 500).unwrap_err();
        assert!(
            matches!(error, Error::NoSpace { needed: 61, .. }),
            "{error}"
        );
    }
    assert_eq!(volume.stats(), before);
    assert_eq!(content(&file), [1; 10_000]);
    assert_eq!(
        content(&reopen(&volume).open_file("a").unwrap()),
        [1; 10_000]
    );
}

#[test]
fn a_volume_can_be_filled_overwritten_emptied_and_refilled() {
    for pages in [48, 64, 200, 2000] {
        let volume = format(pages, &FormatOptions::new().inodes(256));
        let mut counts = Vec::new();
        for round in 0..4_u8 {
            let files = fill(&volume, 8);
            counts.push(files);
            let stats = volume.stats();
            // A write that needs one page for its log and one for its data may leave one page free.
            assert!(stats.pages_free <= stats.pages_reserved + 1, "{stats:?}");
            overwrite_everything(&volume, files, round);
            for i in 0..files {
                volume.remove(&i.to_string()).unwrap();
            }
            assert_eq!(volume.list(), []);
            let stats = volume.stats();
            assert_eq!(
                stats.pages_free + stats.log_pages,
                stats.pages_total,
                "{pages} pages"
            );
        }
        let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
        assert!(most - least <= 1, "space is lost: {counts:?}");
    }
}

/// Overwrites every page of every file many times, although only the reserve is free.
fn overwrite_everything(volume: &Volume, files: u8, round: u8) {
    let mut rng = Rng::new(round as u64 + 1);
    for i in 0..files {
        let file = volume.open_file(&i.to_string()).unwrap();
        let pages = file.size() / PAGE;
        for n in 0..100_u64 {
            if pages > 0 {
                let at = rng.below(pages) * PAGE;
                file.write_at(&[round ^ n as u8; PAGE as usize], at)
                    .unwrap();
            }
        }
        for page in 0..pages {
            file.write_at(&[i; PAGE as usize], page * PAGE).unwrap();
        }
    }
    let reopened = reopen(volume);
    for i in 0..files {
        let bytes = content(&reopened.open_file(&i.to_string()).unwrap());
        assert!(bytes.iter().all(|&b| b == i), "file {i}");
    }
}

#[test]
fn a_full_volume_reopens_and_can_be_overwritten() {
    let volume = format(128, &FormatOptions::new());
    let files = fill(&volume, 5);
    let volume = reopen(&volume);
    assert!(volume.stats().pages_free <= volume.stats().pages_reserved + 1);
    assert!(matches!(
        volume
            .open_file("0")
            .unwrap()
            .append(&[0; 2 * PAGE as usize]),
        Err(Error::NoSpace { .. })
    ));
    overwrite_everything(&volume, files, 1);
    for i in (0..files).rev() {
        volume.remove(&i.to_string()).unwrap();
    }
    assert!(fill(&volume, 5) >= files - 1);
}

#[test]
fn an_overwrite_may_take_half_of_the_reserve() {
    for (pages, half) in [(256, 2), (1024, 7), (4096, 31)] {
        let volume = format(pages, &FormatOptions::new());
        let file = volume.create("a").unwrap();
        while file.append(&[1; PAGE as usize]).is_ok() {}
        let stats = volume.stats();
        assert_eq!(
            (stats.pages_free, stats.pages_reserved),
            (2 * half, 2 * half)
        );
        let bytes = vec![2; ((half + 1) * PAGE) as usize];
        let error = Error::NoSpace {
            needed: half + 1,
            free: half,
        };
        assert_eq!(file.write_at(&bytes, PAGE), Err(error));
        for _ in 0..100 {
            file.write_at(&bytes[PAGE as usize..], PAGE).unwrap();
        }
    }
}

#[test]
fn overwrites_stop_when_logs_have_taken_half_of_the_reserve() {
    let volume = format(1024, &FormatOptions::new());
    // Each log is full of groups that are needed: their pages are not neighbours in the file.
    let mut files: Vec<_> = (0..12)
        .map(|i| volume.create(&i.to_string()).unwrap())
        .collect();
    for page in (0..126).step_by(2) {
        for file in &files {
            file.write_at(&[1; PAGE as usize], page * PAGE).unwrap();
        }
    }
    let rest = volume.create("rest").unwrap();
    while rest.append(&[1; PAGE as usize]).is_ok() {}
    let done: Vec<_> = files.iter().map(|it| it.write_at(b"2", 0)).collect();
    assert_eq!(done.iter().filter(|it| it.is_ok()).count(), 6, "{done:?}");
    assert!(matches!(done[11], Err(Error::NoSpace { .. })), "{done:?}");
    volume.remove("11").unwrap();
    files.pop();
    for file in &files {
        file.write_at(b"2", 0).unwrap();
    }
}

#[test]
fn many_small_files_can_all_be_removed() {
    let volume = format(256, &FormatOptions::new().inodes(4096));
    let mut count = 0;
    loop {
        match volume.create(&format!("{count:0300}")) {
            Ok(_) => count += 1,
            Err(Error::NoSpace { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(count > 700, "{count}");
    assert_eq!(volume.list().len(), count);
    for i in 0..count {
        volume.remove(&format!("{i:0300}")).unwrap();
    }
    for volume in [&volume, &reopen(&volume)] {
        assert_eq!(volume.list(), []);
        let stats = volume.stats();
        assert!(
            stats.log_pages <= 8,
            "the directory's log is empty: {stats:?}"
        );
        volume
            .create("a")
            .unwrap()
            .write_at(&[1; 100 * PAGE as usize], 0)
            .unwrap();
    }
}

#[test]
fn concurrent_writers_of_a_full_volume_lose_nothing() {
    let volume = format(300, &FormatOptions::new());
    std::thread::scope(|scope| {
        for t in 0..4_u8 {
            let volume = &volume;
            scope.spawn(move || {
                let file = volume.create(&t.to_string()).unwrap();
                let mut written = 0;
                for i in 0..200 {
                    match file.append(&[t; 3 * PAGE as usize]) {
                        Ok(at) => {
                            assert_eq!(at, written * 3 * PAGE, "append {i}");
                            written += 1;
                        }
                        Err(Error::NoSpace { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                assert_eq!(file.size(), written * 3 * PAGE);
            });
        }
    });
    let reopened = reopen(&volume);
    assert_eq!(reopened.list(), volume.list());
    for t in 0..4_u8 {
        let bytes = content(&reopened.open_file(&t.to_string()).unwrap());
        assert!(bytes.iter().all(|&b| b == t));
    }
    let (now, then) = (volume.stats(), reopened.stats());
    assert_eq!(
        (now.pages_free, now.log_pages),
        (then.pages_free, then.log_pages),
        "nothing leaks"
    );
}

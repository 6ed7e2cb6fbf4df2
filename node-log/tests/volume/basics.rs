//! Each operation alone.

use spanlock_node_log::Error;

use crate::common::{BLOCK, SEGMENTS, World, check, content, for_each_world, options, pattern};

fn files_have_names_and_contents<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    let file = volume.create_file("one").unwrap();
    assert_eq!((file.name(), file.len(), file.is_empty()), ("one", 0, true));
    assert!(matches!(
        volume.create_file("one"),
        Err(Error::Exists { .. })
    ));
    file.write_at(b"hello", 0).unwrap();
    assert_eq!(
        volume.create_file("two").unwrap().append(b"other").unwrap(),
        0
    );
    assert_eq!(volume.names(), ["one", "two"]);
    assert_eq!(content::<W>(&volume, "one"), b"hello");
    assert_eq!(content::<W>(&volume, "two"), b"other");
    let again = volume.open_file("one").unwrap();
    let clone = again.clone();
    volume.remove("one").unwrap();
    assert!(matches!(volume.remove("one"), Err(Error::NotFound { .. })));
    assert!(matches!(
        volume.open_file("one"),
        Err(Error::NotFound { .. })
    ));
    for file in [again, clone] {
        let removed = |it: Result<(), Error>| matches!(it, Err(Error::Removed { .. }));
        assert!(removed(file.read_at(&mut [0], 0).map(drop)));
        assert!(removed(file.write_at(&[0], 0)));
        assert!(removed(file.append(&[0]).map(drop)));
        assert!(removed(file.truncate(7)));
        assert!(removed(file.fsync()));
    }
    volume.create_file("one").unwrap();
    assert_eq!(content::<W>(&volume, "one"), b"");
    check::<W>(&mut volume);
}

/// Writes in, across and behind pages, against plain bytes.
fn writes_leave_what_they_do_not_cover<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    let file = volume.create_file("file").unwrap();
    let mut model = Vec::new();
    let steps = [
        (0, 100),
        (50, 100),
        (4000, 200),
        (4096, 4096),
        (4095, 4098),
        (20_000, 1),
        (20_001, 5000),
        (8192, 8192),
        (0, 30_000),
        (29_999, 2),
        (12_288, 4000),
    ];
    for (nth, (offset, len)) in (0..).zip(steps) {
        let data = pattern(nth, len);
        file.write_at(&data, offset as u64).unwrap();
        model.resize(model.len().max(offset + len), 0);
        model[offset..offset + len].copy_from_slice(&data);
        assert_eq!(content::<W>(&volume, "file"), model, "{nth}");
        if nth % 3 == 0 {
            file.fsync().unwrap();
        }
    }
    let mut part = vec![0; 5000];
    assert_eq!(file.read_at(&mut part, 4090).unwrap(), 5000);
    assert_eq!(part, model[4090..9090]);
    assert_eq!(file.read_at(&mut part, model.len() as u64).unwrap(), 0);
    assert_eq!(file.read_at(&mut part, u64::MAX).unwrap(), 0);
    check::<W>(&mut volume);
}

/// What lies behind the end is zero when the file grows over it again.
fn a_truncation_takes_bytes_away_for_good<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    for syncs in [false, true] {
        for grow in [0, 1, 2] {
            let name = format!("{syncs} {grow}");
            let file = volume.create_file(&name).unwrap();
            file.write_at(&[7; 3 * BLOCK], 0).unwrap();
            if syncs {
                file.fsync().unwrap();
            }
            file.truncate(5000).unwrap();
            assert_eq!(content::<W>(&volume, &name), [7; 5000]);
            match grow {
                0 => file.truncate(9000).unwrap(),
                1 => file.write_at(&[0], 8999).unwrap(),
                _ => {
                    file.write_at(&[0], 6000).unwrap();
                    file.truncate(9000).unwrap();
                }
            }
            let mut model = vec![7; 5000];
            model.resize(9000, 0);
            assert_eq!(content::<W>(&volume, &name), model);
            file.truncate(0).unwrap();
            assert!(file.is_empty());
        }
    }
    check::<W>(&mut volume);
    assert_eq!(volume.statistics().used, 0);
}

/// A page of each kind of node: the first and last ones that have it.
fn a_file_reaches_to_its_largest_size<W: World>() {
    let world = W::new(SEGMENTS);
    let mut volume = world.create(&options()).unwrap();
    let (most, n) = (spanlock_node_log::MAX_FILE_BYTES, 1016_u64);
    let starts = [
        0,
        923,
        923 + n,
        923 + 2 * n,
        923 + 2 * n + n * n,
        923 + 2 * n + 2 * n * n,
    ];
    let ends = starts.iter().skip(1).map(|it| it - 1);
    let mut pages: Vec<u64> = starts.iter().copied().chain(ends).collect();
    pages.push(most / BLOCK as u64 - 1);
    let file = volume.create_file("file").unwrap();
    for (page, nth) in pages.iter().zip(1..) {
        file.write_at(&[nth; BLOCK], page * BLOCK as u64).unwrap();
    }
    assert_eq!(file.len(), most);
    assert!(most > 4_300_000_000_000);
    let check_pages = |volume: &crate::common::VolumeOf<W>, below: u64| {
        let file = volume.open_file("file").unwrap();
        for (page, nth) in pages.iter().zip(1..).filter(|it| *it.0 < below) {
            let mut found = [0; BLOCK];
            assert_eq!(
                file.read_at(&mut found, page * BLOCK as u64).unwrap(),
                BLOCK
            );
            assert_eq!(found, [nth; BLOCK], "page {page}");
        }
    };
    check_pages(&volume, u64::MAX);
    let too_large = file.write_at(&[0; 2], most - 1);
    assert!(matches!(too_large, Err(Error::TooLarge { .. })));
    assert!(matches!(file.append(&[0]), Err(Error::TooLarge { .. })));
    assert!(matches!(
        file.truncate(most + 1),
        Err(Error::TooLarge { .. })
    ));
    file.fsync().unwrap();
    check::<W>(&mut volume);
    drop(volume);
    let mut volume = world.open(&options()).unwrap();
    check_pages(&volume, u64::MAX);
    // From the back, so that each kind of node is taken away.
    for page in starts.iter().rev() {
        let nodes = volume.statistics().free_nodes;
        let file = volume.open_file("file").unwrap();
        file.truncate(page * BLOCK as u64).unwrap();
        file.fsync().unwrap();
        check_pages(&volume, *page);
        if *page > 0 {
            assert!(volume.statistics().free_nodes > nodes, "page {page}");
        }
    }
    check::<W>(&mut volume);
    assert_eq!(volume.statistics().used, 0);
}

fn names_are_checked<W: World>() {
    let world = W::new(SEGMENTS);
    let volume = world.create(&options()).unwrap();
    let (longest, longer) = ("ä".repeat(127) + "x", "ä".repeat(128));
    for name in ["", "a/b", "a\0", &longer] {
        let refused = volume.create_file(name);
        assert!(matches!(refused, Err(Error::BadName { .. })), "{name:?}");
    }
    for name in [" ", ".", &longest] {
        let file = volume.create_file(name).unwrap();
        file.write_at(name.as_bytes(), 0).unwrap();
        file.fsync().unwrap();
    }
    drop(volume);
    let volume = world.open(&options()).unwrap();
    for name in [" ", ".", &longest] {
        assert_eq!(content::<W>(&volume, name), name.as_bytes());
    }
}

for_each_world! {
    files_have_names_and_contents
    writes_leave_what_they_do_not_cover
    a_truncation_takes_bytes_away_for_good
    a_file_reaches_to_its_largest_size
    names_are_checked
}

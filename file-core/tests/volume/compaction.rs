//! Compaction of logs: endless overwrites in a volume of a few pages.

use crate::common::{PAGE, Rng, content, format, reopen};
use spanlock_file_core::FormatOptions;

#[test]
fn a_million_overwrites_do_not_fill_the_volume() {
    let volume = format(64, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    file.write_at(&[0; 3 * PAGE as usize], 0).unwrap();
    let writes = if cfg!(debug_assertions) {
        100_000
    } else {
        2_000_000_u64
    };
    for i in 0..writes {
        // Only 8 bytes, so that the test spends its time in the log.
        file.write_at(&i.to_le_bytes(), i % 3 * PAGE).unwrap();
    }
    let stats = volume.stats();
    assert!(stats.log_pages <= 10, "{stats:?}");
    // Each page's groups are dead soon, so cleaning copies nothing.
    assert!(stats.unlinked_pages >= writes / 63 - 10, "{stats:?}");
    let reopened = reopen(&volume);
    for volume in [&volume, &reopened] {
        let bytes = content(&volume.open_file("a").unwrap());
        for i in writes - 3..writes {
            let at = (i % 3 * PAGE) as usize;
            assert_eq!(bytes[at..at + 8], i.to_le_bytes());
        }
    }
    assert_eq!(reopened.stats().pages_free, stats.pages_free);
}

#[test]
fn a_sparse_and_fragmented_file_survives_its_compactions() {
    for checksums in [false, true] {
        let options = FormatOptions::new()
            .max_file_size(1 << 44)
            .data_checksums(checksums);
        let volume = format(2048, &options);
        let file = volume.create("a").unwrap();
        let mut rng = Rng::new(4);
        // Three regions far apart, with runs of random length.
        let mut model = std::collections::BTreeMap::new();
        for i in 1..6000_u64 {
            let first = rng.below(3) * (1 << 27) + rng.below(100);
            let pages = 1 + rng.below(4);
            file.write_at(
                &i.to_le_bytes().repeat((pages * PAGE / 8) as usize),
                first * PAGE,
            )
            .unwrap();
            (first..first + pages).for_each(|page| _ = model.insert(page, i));
        }
        assert!(volume.stats().compactions > 2, "{:?}", volume.stats());
        let reopened = reopen(&volume);
        assert_eq!(reopened.list(), volume.list());
        let file = reopened.open_file("a").unwrap();
        for region in 0..3 {
            for page in (0..104).map(|p| region * (1 << 27) + p) {
                let mut bytes = vec![1; PAGE as usize];
                let n = file.read_at(&mut bytes, page * PAGE).unwrap();
                let expected = model.get(&page).copied().unwrap_or(0);
                assert_eq!(
                    bytes[..n],
                    expected.to_le_bytes().repeat(n / 8),
                    "page {page}"
                );
            }
        }
        assert!(reopened.check().unwrap().damaged.is_empty());
        assert_eq!(reopened.stats().pages_free, volume.stats().pages_free);
    }
}

#[test]
fn the_directory_is_compacted_too() {
    let volume = format(64, &FormatOptions::new());
    volume
        .create("stays")
        .unwrap()
        .write_at(b"stays", 0)
        .unwrap();
    for i in 0..10_000 {
        let name = format!("file {}", i % 7);
        volume.create(&name).unwrap();
        volume.remove(&name).unwrap();
    }
    let stats = volume.stats();
    assert!(
        stats.log_pages <= 10 && stats.unlinked_pages > 0,
        "{stats:?}"
    );
    let volume = reopen(&volume);
    assert_eq!(volume.list(), [("stays".to_owned(), 5)]);
    assert_eq!(content(&volume.open_file("stays").unwrap()), b"stays");
}

#[test]
fn readers_proceed_while_logs_are_compacted() {
    let volume = format(128, &FormatOptions::new());
    let file = volume.create("a").unwrap();
    file.write_at(&[7; PAGE as usize], 9 * PAGE).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u64)
            .map(|t| {
                let file = &file;
                scope.spawn(move || {
                    (0..4000_u64).for_each(|i| file.write_at(&i.to_le_bytes(), t * PAGE).unwrap());
                })
            })
            .collect();
        let mut page = [0; PAGE as usize];
        while !writers.iter().all(|w| w.is_finished()) {
            assert_eq!(file.read_at(&mut page, 9 * PAGE), Ok(page.len()));
            assert_eq!(page, [7; PAGE as usize]);
        }
    });
    assert!(volume.stats().unlinked_pages > 0);
    let bytes = content(&reopen(&volume).open_file("a").unwrap());
    for t in 0..3 {
        assert_eq!(bytes[t * PAGE as usize..][..8], 3999_u64.to_le_bytes());
    }
}

/// Before, the log had many live groups, which justified many pages.
#[test]
fn a_log_that_was_replaced_on_a_full_volume_does_not_grow_again() {
    let options = FormatOptions::new().max_file_size(64 << 20);
    let volume = format(4096, &options);
    let file = volume.create("a").unwrap();
    let page = [1; PAGE as usize];
    for nth in 0..1500 {
        file.write_at(&page, 2 * nth * PAGE).unwrap();
    }
    let write_often = |pages: usize| {
        let write = |_| {
            file.write_at(&page, 0).unwrap();
            volume.stats().log_pages
        };
        (0..63 * pages).map(write).max().unwrap()
    };
    write_often(60);
    file.truncate(PAGE).unwrap();
    let filler = volume.create("filler").unwrap();
    while filler.append(&page).is_ok() {}
    let compactions = volume.stats().compactions;
    while volume.stats().compactions == compactions {
        write_often(1);
    }
    volume.remove("filler").unwrap();
    drop(filler);
    let most = write_often(200);
    assert!(most < 20, "{most}");
}

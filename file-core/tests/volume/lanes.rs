//! Threads that append to log pages of their own: what recovery finds is what memory has.

use std::thread;
use std::time::{Duration, SystemTime};

use spanlock_file_core::{Error, FormatOptions};

use crate::common::{Handle, PAGE, Rng, content, format, reopen};

/// As many as a log has lanes.
const LANES: usize = 16;

/// Performs a random operation on the first pages of a file.
fn perform(file: &Handle, rng: &mut Rng) -> Result<(), Error> {
    const PAGES: u64 = 24;
    let first = rng.below(PAGES) * PAGE;
    let stamp = [rng.below(255) as u8 + 1; 4 * PAGE as usize];
    match rng.below(40) {
        0 => file.punch_hole(first..first + 3 * PAGE),
        1 => file.truncate(first + rng.below(PAGE)),
        2 => file.allocate(first..first + 3 * PAGE),
        3 => file.append(&stamp[..100]).map(drop),
        4 => file.clean().map(drop),
        5 => {
            let time = Duration::from_secs(rng.below(1 << 40));
            file.set_modified(SystemTime::UNIX_EPOCH + time)
        }
        6 => file.write_at(&stamp[..rng.below(3 * PAGE) as usize], first + 1),
        _ => file.write_at(&stamp[..PAGE as usize], first),
    }
}

#[test]
fn operations_of_several_threads_are_recovered_in_their_order() {
    const THREADS: u64 = 4;
    for round in 0..24 {
        // Every other volume is nearly full.
        let pages = [160, 1024][round as usize % 2];
        let volume = format(pages, &FormatOptions::new().data_checksums(true));
        let file = volume.create("shared").unwrap();
        file.give_lanes(&[0]).unwrap();
        thread::scope(|scope| {
            for t in 0..THREADS {
                let (file, mut rng) = (&file, Rng::new(round << 8 | t));
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        match perform(file, &mut rng) {
                            Ok(()) | Err(Error::NoSpace { .. }) => {}
                            Err(error) => panic!("round {round}: {error}"),
                        }
                    }
                });
            }
        });
        let again = reopen(&volume);
        let found = again.open_file("shared").unwrap();
        assert_eq!(content(&file), content(&found), "round {round}");
        assert_eq!(file.metadata(), found.metadata(), "round {round}");
        assert_eq!(volume.check().unwrap().damaged, []);
        assert_eq!(volume.stats().pages_free, again.stats().pages_free);
    }
}

#[test]
fn lanes_that_nobody_uses_do_not_keep_a_log_long() {
    let volume = format(1024, &FormatOptions::new());
    let file = volume.create("shared").unwrap();
    let lanes: Vec<usize> = (0..LANES).collect();
    file.give_lanes(&lanes).unwrap();
    let overwrite = |times: u64| {
        for nth in 0..times {
            file.write_at(&nth.to_le_bytes(), 0).unwrap();
        }
    };
    overwrite(63 * 200);
    // The root's log has a page, too.
    let pages = volume.stats().log_pages;
    assert!(pages <= 12, "{pages} pages for one live group");
    // Lanes in use may each have a page.
    file.give_lanes(&lanes).unwrap();
    overwrite(63 * 20);
    let pages = volume.stats().log_pages;
    assert!(pages <= 12 + 2 * LANES as u64, "{pages} pages");
    file.clean().unwrap();
    assert_eq!(volume.stats().log_pages, 2);
    assert_eq!(
        content(&file),
        content(&reopen(&volume).open_file("shared").unwrap())
    );
}

#[test]
fn a_recovered_log_gets_lanes_again() {
    let volume = format(256, &FormatOptions::new());
    let file = volume.create("shared").unwrap();
    file.give_lanes(&[0, 1, 2]).unwrap();
    file.write_at(&[1; 8], 0).unwrap();
    let again = reopen(&volume);
    let found = again.open_file("shared").unwrap();
    found.write_at(&[2; 8], 0).unwrap();
    found.give_lanes(&[0, 1, 2]).unwrap();
    found.write_at(&[3; 8], 0).unwrap();
    let last = reopen(&again);
    assert_eq!(content(&last.open_file("shared").unwrap()), [3; 8]);
}

//! Crash images, by the x86 model, at every operation on the region. Operations that returned must
//! be present; all others must be present as a whole or not at all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{
    MakeLock, Mem, PAGE, Rng, Volume, content, lock_kinds, open, scaled, segments,
    write_some_that_stay,
};
use spanlock_file_core::{Error, FormatOptions, Stats, fsck};

type Model = BTreeMap<String, Vec<u8>>;

/// The states that a crash may leave: the one before the current operation, or the one after it.
#[derive(Default)]
struct Allowed {
    before: Model,
    after: Option<Model>,
    /// The last image and its content.
    last: Option<(Vec<u64>, Model)>,
    images: u64,
}

fn read_all(volume: &Volume) -> Model {
    let names = volume.list().into_iter();
    names
        .map(|(name, _)| (name.clone(), content(&volume.open_file(&name).unwrap())))
        .collect()
}

/// Returns a region in which every operation is followed by a crash image. The image must hold one
/// of the allowed states.
fn watched(words: Vec<u64>, seed: u64, allowed: &Arc<Mutex<Allowed>>) -> Arc<Mem> {
    let allowed = Arc::clone(allowed);
    let hook = move |image: &mut dyn FnMut() -> Vec<u64>| {
        let image = image();
        let allowed = &mut *allowed.lock().unwrap();
        let mem = Mem::from_words(image.clone());
        assert!(fsck::check(&mem).unwrap().is_sound());
        let (volume, _) = open(&mem).expect("a crash image must open");
        let found = read_all(&volume);
        assert!(volume.check().unwrap().damaged.is_empty());
        let known = found == allowed.before || allowed.after.as_ref() == Some(&found);
        assert!(known, "neither before nor after: {:?}", volume.list());
        allowed.last = Some((image, found));
        allowed.images += 1;
    };
    Mem::simulated(words, seed, Box::new(hook))
}

/// Applies a random operation to one of `files` files: first to the model, then, once the result is
/// allowed, to the volume. One operation in `removals` removes the file.
fn step(
    volume: &Volume,
    allowed: &Arc<Mutex<Allowed>>,
    rng: &mut Rng,
    [files, removals]: [u64; 2],
) {
    let mut model = allowed.lock().unwrap().before.clone();
    // All names but the first, and writes of more than seven pages, need groups of several slots.
    let number = rng.below(files);
    let name = format!("file {number}{}", "-".repeat(60 * number as usize));
    let (what, offset) = (rng.below(removals), rng.below(5) * PAGE / 2);
    let exists = model.contains_key(&name);
    let data = vec![rng.next() as u8; [1, 100, 4096, 10_000, 40_000][rng.below(5) as usize]];
    match (what, exists) {
        (0, true) => drop(model.remove(&name)),
        (_, false) => drop(model.insert(name.clone(), Vec::new())),
        (_, true) => {
            let file = model.get_mut(&name).unwrap();
            let end = offset as usize + data.len();
            file.resize(file.len().max(end), 0);
            file[offset as usize..end].copy_from_slice(&data);
        }
    }
    allowed.lock().unwrap().after = Some(model.clone());
    let result = match (what, exists) {
        (0, true) => volume.remove(&name),
        (_, false) => volume.create(&name).map(drop),
        (_, true) => volume.open_file(&name).unwrap().write_at(&data, offset),
    };
    let mut allowed = allowed.lock().unwrap();
    allowed.after = None;
    match result {
        Ok(()) => allowed.before = model,
        Err(error) => assert!(matches!(error, Error::NoSpace { .. }), "{error}"),
    }
}

/// Runs rounds of `steps` operations with crash images. Each round starts from a crash image of the
/// previous round and first performs `warm` operations without crash images.
fn rounds(volume: Volume, kind: [u64; 2], rounds: u64, [warm, steps]: [u64; 2]) -> (u64, u64) {
    let before = read_all(&volume);
    let allowed = Arc::new(Mutex::new(Allowed {
        before,
        ..Allowed::default()
    }));
    let mut image = volume.pmem().words();
    let mut compactions = 0;
    for round in 0..rounds {
        let mut rng = Rng::new(round + 1);
        let (volume, _) = open(&Mem::from_words(image)).unwrap();
        for _ in 0..warm {
            step(&volume, &allowed, &mut rng, kind);
        }
        let image_now = volume.pmem().words();
        let (volume, _) = open(&watched(image_now, round + 1, &allowed)).unwrap();
        for _ in 0..steps {
            step(&volume, &allowed, &mut rng, kind);
        }
        assert_eq!(read_all(&volume), allowed.lock().unwrap().before);
        compactions += volume.stats().compactions;
        let mut allowed = allowed.lock().unwrap();
        match allowed.last.take() {
            Some((last, found)) => (image, allowed.before) = (last, found),
            // No operation stored anything: there was no space.
            None => image = volume.pmem().words(),
        }
    }
    (allowed.lock().unwrap().images, compactions)
}

#[test]
fn every_operation_is_all_or_nothing() {
    let volume = crate::common::format(48, &FormatOptions::new().inodes(32).data_checksums(true));
    let (images, _) = rounds(volume, [4, 12], 8, [20, 30]);
    assert!(images > 1000, "{images}");
}

/// 20,000 operations, with crash images during one in a hundred; `SPANLOCK_ROUNDS` multiplies them.
#[test]
fn random_operations_are_all_or_nothing() {
    let volume = crate::common::format(48, &FormatOptions::new().inodes(32).data_checksums(true));
    let (images, _) = rounds(volume, [4, 12], scaled(40) as u64, [495, 5]);
    assert!(images > 1000, "{images}");
}

#[test]
fn every_operation_is_all_or_nothing_on_a_full_volume() {
    let volume = crate::common::format(48, &FormatOptions::new().inodes(32));
    for name in ["file 0", "file 1"] {
        volume
            .create(name)
            .unwrap()
            .write_at(&[1; 5 * PAGE as usize], 0)
            .unwrap();
    }
    let hog = volume.create("hog").unwrap();
    while hog.append(&[9; PAGE as usize]).is_ok() {}
    let (images, compactions) = rounds(volume, [1, 100], 10, [45, 40]);
    assert!(images > 1000 && compactions > 2, "{images} {compactions}");
}

/// Crashes during random writes to a file whose log is about to be cleaned, until `is_cleaned`.
fn crash_while_cleaning(volume: &Volume, is_cleaned: fn(&Stats) -> bool) {
    assert!(!is_cleaned(&volume.stats()));
    let before = read_all(volume);
    let allowed = Arc::new(Mutex::new(Allowed {
        before,
        ..Allowed::default()
    }));
    let (volume, _) = open(&watched(volume.pmem().words(), 5, &allowed)).unwrap();
    let mut rng = Rng::new(3);
    while !is_cleaned(&volume.stats()) {
        step(&volume, &allowed, &mut rng, [1, u64::MAX]);
    }
    for _ in 0..10 {
        step(&volume, &allowed, &mut rng, [1, u64::MAX]);
    }
}

#[test]
fn unlinking_log_pages_is_all_or_nothing() {
    let volume = crate::common::format(48, &FormatOptions::new().inodes(32));
    let file = volume.create("file 0").unwrap();
    for i in 0..2 * 63 - 3_u64 {
        file.write_at(&i.to_le_bytes(), i % 2 * PAGE).unwrap();
    }
    crash_while_cleaning(&volume, |stats| stats.unlinked_pages > 0);
}

#[test]
fn copying_live_groups_is_all_or_nothing() {
    let volume = crate::common::format(64, &FormatOptions::new().inodes(32));
    let file = volume.create("file 0").unwrap();
    write_some_that_stay(&file, 6 * 63 - 3, 20);
    crash_while_cleaning(&volume, |stats| stats.compactions > 0);
}

/// A crash can tear a free inode, or a bit flip can corrupt it, so that its generation is lost. The
/// next file may then get the number, generation and log pages of an older file.
#[test]
fn a_file_may_have_the_identity_of_an_older_one() {
    /// The position of the first file's inode: its head, and its generation.
    const HEAD: usize = (PAGE as usize + 128) / 8;
    const GENERATION: usize = HEAD + 1;
    let mut same_log_page = 0;
    for seed in 1..9 {
        let volume = crate::common::format(48, &FormatOptions::new().inodes(32));
        let older = volume.create("older").unwrap();
        // Leave marks on several log pages that refer to other pages than the next file's.
        for i in 0..100 + 10 * seed {
            older.write_at(&[0xDD; 10], i % 7 * PAGE).unwrap();
        }
        volume.remove("older").unwrap();
        drop(older);
        let mut words = volume.pmem().words();
        let (head, generation) = (words[HEAD], words[GENERATION]);
        words[GENERATION] ^= 1 << 40;

        let allowed = Arc::new(Mutex::new(Allowed::default()));
        let (volume, _) = open(&watched(words, seed, &allowed)).unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..30 {
            step(&volume, &allowed, &mut rng, [1, u64::MAX]);
            let words = volume.pmem().words();
            assert_eq!(words[GENERATION], generation);
            same_log_page += u64::from(words[HEAD] == head);
        }
        assert_eq!(read_all(&volume), allowed.lock().unwrap().before);
    }
    assert!(same_log_page > 0);
}

/// A region that holds no volume after the crash says what to do, and can be formatted again.
#[test]
fn a_crash_while_formatting_leaves_the_old_or_the_new_volume_or_none() {
    let old = crate::common::format(48, &FormatOptions::new());
    old.create("old").unwrap().write_at(b"old", 0).unwrap();
    let options = FormatOptions::new().inodes(100);
    let none = Arc::new(AtomicU64::new(0));
    // A region that was just created is all zero.
    let created = vec![0; 48 * PAGE as usize / 8];
    for (words, has_old) in [(old.pmem().words(), true), (created, false)] {
        for seed in 1..40 {
            let (count, again) = (Arc::clone(&none), options.clone());
            let hook = move |image: &mut dyn FnMut() -> Vec<u64>| {
                let mem = Mem::from_words(image());
                let error = match open(&mem) {
                    Ok((volume, _)) => {
                        let found = volume.list();
                        let is_allowed = has_old && found == [("old".to_owned(), 3)];
                        assert!(found.is_empty() || is_allowed, "{found:?}");
                        return;
                    }
                    Err(error) => error,
                };
                let message = error.to_string();
                assert!(message.contains("format "), "{message}");
                // A superblock that is only partly present.
                let is_none = matches!(error, Error::NotAVolume { .. } | Error::Corrupt { .. });
                assert!(is_none, "{message}");
                drop(Volume::format(Arc::clone(&mem), &again, segments).unwrap());
                assert!(open(&mem).unwrap().0.list().is_empty());
                count.fetch_add(1, Ordering::Relaxed);
            };
            let mem = Mem::simulated(words.clone(), seed, Box::new(hook));
            Volume::format(Arc::clone(&mem), &options, segments).unwrap();
        }
    }
    assert!(none.load(Ordering::Relaxed) > 100);
}

#[test]
fn a_superblock_repair_may_crash() {
    for seed in 1..40 {
        for at in [20, 47 * PAGE + 20] {
            let volume = crate::common::format(48, &FormatOptions::new());
            volume.create("a").unwrap().write_at(b"a", 0).unwrap();
            let mut words = volume.pmem().words();
            words[at as usize / 8] ^= 1;
            let hook = |image: &mut dyn FnMut() -> Vec<u64>| {
                let (volume, _) = open(&Mem::from_words(image())).unwrap();
                assert_eq!(volume.list(), [("a".to_owned(), 1)]);
            };
            let mem = Mem::simulated(words, seed, Box::new(hook));
            assert!(open(&mem).unwrap().1.superblock_repaired);
            assert!(!open(&mem).unwrap().1.superblock_repaired);
        }
    }
}

/// Returns `pages` pages filled with a stamp that encodes the writer and the write.
fn stamped(stamp: u64, pages: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat((pages * PAGE / 8) as usize)
}

/// Runs writers that each overwrite their own run of pages in single writes, and count their
/// writes.
fn crash_beside_writers(make: MakeLock, seed: u64) -> u64 {
    const WRITERS: u64 = 3;
    const PAGES: u64 = 2;
    let volume = crate::common::format(96, &FormatOptions::new().inodes(32).data_checksums(true));
    let file = volume.create("shared").unwrap();
    file.write_at(&stamped(0, WRITERS * PAGES), 0).unwrap();

    let returned: Arc<[AtomicU64; WRITERS as usize]> = Arc::default();
    let images = Arc::new(AtomicU64::new(0));
    let hook = {
        let (returned, images) = (Arc::clone(&returned), Arc::clone(&images));
        let mut rng = Rng::new(seed);
        move |image: &mut dyn FnMut() -> Vec<u64>| {
            if rng.below(8) != 0 {
                return;
            }
            // Read this first: every write counted by now is durable in the image.
            let least: Vec<u64> = returned.iter().map(|r| r.load(Ordering::Acquire)).collect();
            let (volume, _) = open(&Mem::from_words(image())).unwrap();
            let bytes = content(&volume.open_file("shared").unwrap());
            for (t, (run, least)) in bytes
                .chunks_exact((PAGES * PAGE) as usize)
                .zip(least)
                .enumerate()
            {
                let stamp = u64::from_le_bytes(run[..8].try_into().unwrap());
                assert_eq!(run, stamped(stamp, PAGES), "writer {t}: torn");
                assert!(
                    stamp >= least,
                    "writer {t}: write {least} returned, but found {stamp}"
                );
            }
            assert!(volume.check().unwrap().damaged.is_empty());
            images.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mem = Mem::simulated(volume.pmem().words(), seed, Box::new(hook));
    let (volume, _) = Volume::open(mem, make).unwrap();
    let file = volume.open_file("shared").unwrap();
    thread::scope(|scope| {
        for t in 0..WRITERS {
            let (file, returned) = (&file, &returned);
            scope.spawn(move || {
                // Enough writes that the log is cleaned while other writes are in flight.
                for i in 1..=300 {
                    file.write_at(&stamped(i, PAGES), t * PAGES * PAGE).unwrap();
                    returned[t as usize].store(i, Ordering::Release);
                }
            });
        }
    });
    assert!(volume.stats().unlinked_pages > 0);
    images.load(Ordering::Relaxed)
}

#[test]
fn each_write_of_several_writers_is_all_or_nothing() {
    for (lock, make) in lock_kinds() {
        for seed in 1..4 {
            let images = crash_beside_writers(make, seed);
            assert!(images > 100, "{lock}: {images}");
        }
    }
}

//! Damaged and foreign regions. Opening one must return an error or the whole content, never panic,
//! and never return anything else.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{Mem, PAGE, Rng, Volume, content, format, open, write_some_that_stay};
use crate::fsck::new_mark;
use spanlock_file_core::{Error, FORMAT_VERSION, FormatOptions, fsck};

type Content = BTreeMap<String, Vec<u8>>;

fn read_all(volume: &Volume) -> Content {
    let names = volume.list().into_iter();
    names
        .map(|(name, _)| (name.clone(), content(&volume.open_file(&name).unwrap())))
        .collect()
}

/// Creates a small volume with every feature: long names, removals, several extents, several log
/// pages, and a log that was cleaned.
fn sample() -> (Vec<u8>, Content) {
    let volume = format(96, &FormatOptions::new().inodes(32));
    let busy = volume.create("busy").unwrap();
    for i in 0..800_u64 {
        busy.write_at(&i.to_le_bytes(), i % 3 * PAGE).unwrap();
    }
    assert!(volume.stats().unlinked_pages > 0);
    write_some_that_stay(&busy, 800, 3);
    assert!(volume.stats().compactions > 0);
    volume
        .create(&"long name ".repeat(100))
        .unwrap()
        .write_at(&[3; 9000], 77)
        .unwrap();
    volume
        .create("gone")
        .unwrap()
        .write_at(&[4; 5000], 0)
        .unwrap();
    volume.create("empty").unwrap();
    volume.remove("gone").unwrap();
    volume
        .create("again")
        .unwrap()
        .write_at(b"again", PAGE * 3)
        .unwrap();
    (volume.pmem().bytes(), read_all(&volume))
}

/// Opens damaged bytes and returns whether that succeeded. If so, names and sizes must be
/// unchanged.
fn opens(mem: &Arc<Mem>, expected: &Content, what: impl Fn() -> String) -> bool {
    match open(mem) {
        Ok((volume, _)) => {
            let sizes: Vec<_> = expected
                .iter()
                .map(|(n, c)| (n.clone(), c.len() as u64))
                .collect();
            assert_eq!(volume.list(), sizes, "{}", what());
            true
        }
        Err(Error::Corrupt { .. } | Error::NotAVolume { .. } | Error::Version { .. }) => false,
        Err(error) => panic!("{}: {error}", what()),
    }
}

#[test]
fn a_region_without_a_volume_is_an_error() {
    for len in [8, 64, 72, PAGE, 2 * PAGE, 15 * PAGE, 16 * PAGE, 100 * PAGE] {
        let error = open(&Mem::new(len)).unwrap_err();
        assert_eq!(error, Error::NotAVolume { len });
        let wanted = if len < 16 * PAGE {
            format!("no volume here: a region of {len} bytes is too short")
        } else {
            "no volume here: neither the first nor the last page".to_owned()
        };
        assert!(error.to_string().starts_with(&wanted), "{error}");
    }
    let mut rng = Rng::new(1);
    let noise: Vec<u8> = (0..64 * PAGE).map(|_| rng.next() as u8).collect();
    assert!(matches!(
        open(&Mem::from_bytes(&noise)),
        Err(Error::NotAVolume { .. })
    ));
}

#[test]
fn an_error_names_the_other_format_version() {
    let (mut bytes, _) = sample();
    bytes[8] = FORMAT_VERSION as u8 + 1;
    let crc = crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let error = Error::Version {
        found: FORMAT_VERSION + 1,
        supported: FORMAT_VERSION,
    };
    assert_eq!(open(&Mem::from_bytes(&bytes)).unwrap_err(), error);
}

/// Computes the checksum bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &byte| {
        (0..8).fold(crc ^ byte as u32, |crc, _| {
            crc >> 1 ^ (0x82F6_3B78 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn a_truncated_volume_is_an_error() {
    let (bytes, _) = sample();
    let expected = bytes.len() as u64;
    for len in (8..bytes.len()).step_by(776) {
        let error = open(&Mem::from_bytes(&bytes[..len])).unwrap_err();
        let found = len as u64;
        if found < 64 {
            assert_eq!(error, Error::NotAVolume { len: found });
        } else {
            assert_eq!(error, Error::Truncated { expected, found });
        }
    }
}

#[test]
fn a_region_that_has_grown_opens() {
    let (mut bytes, expected) = sample();
    bytes.resize(bytes.len() + 10 * PAGE as usize, 0);
    let (volume, report) = open(&Mem::from_bytes(&bytes)).unwrap();
    assert_eq!(
        (read_all(&volume), report.superblock_repaired),
        (expected, false)
    );
    // The second superblock is no longer at the end. It is not searched for, but the error mentions
    // the possible growth.
    bytes[20] ^= 1;
    let error = open(&Mem::from_bytes(&bytes)).unwrap_err().to_string();
    assert!(error.contains("if the region was enlarged"), "{error}");
    bytes[..8].fill(0);
    let error = open(&Mem::from_bytes(&bytes)).unwrap_err().to_string();
    assert!(error.contains("has grown since"), "{error}");
    assert!(error.contains("no volume here"), "{error}");
}

#[test]
fn one_sound_superblock_suffices() {
    let (bytes, expected) = sample();
    let last = bytes.len() - PAGE as usize;
    for at in [0, last] {
        for bit in 0..64 * 8 {
            let mut flipped = bytes.clone();
            flipped[at + bit / 8] ^= 1 << (bit % 8);
            let mem = Mem::from_bytes(&flipped);
            let (volume, report) = open(&mem).unwrap();
            assert!(report.superblock_repaired, "bit {bit} at {at}");
            assert_eq!(volume.list().len(), expected.len());
            assert_eq!(mem.bytes(), bytes, "repaired");
        }
    }
    let mut both = bytes.clone();
    both[10] ^= 1;
    both[last + 10] ^= 1;
    assert!(matches!(
        open(&Mem::from_bytes(&both)),
        Err(Error::Corrupt { .. })
    ));
}

/// Returns the pages that hold metadata: the inode table, and the pages that look like log pages.
fn metadata_pages(bytes: &[u8]) -> Vec<usize> {
    let pages = bytes.chunks_exact(PAGE as usize).enumerate();
    let tail_checks = |page: &[u8]| {
        page[4040..4092] != [0; 52] && crc32c(&page[4040..4092]).to_le_bytes() == page[4092..]
    };
    pages
        .filter(|(i, page)| *i == 1 || tail_checks(page))
        .map(|(i, _)| i)
        .collect()
}

#[test]
fn flipped_metadata_bits_never_change_the_content() {
    let (bytes, expected) = sample();
    let pages = metadata_pages(&bytes);
    assert!(pages.len() > 8, "{pages:?}");
    let (mut errors, mut harmless) = (0, 0);
    let mem = Mem::from_bytes(&bytes);
    // Flips every bit; unoptimized builds flip only some of them.
    let stride = if cfg!(debug_assertions) { 23 } else { 1 };
    for page in pages {
        let bits = page * 8 * PAGE as usize..(page + 1) * 8 * PAGE as usize;
        for bit in bits.step_by(stride) {
            mem.flip(bit);
            match opens(&mem, &expected, || format!("bit {bit}")) {
                true => harmless += 1,
                false => errors += 1,
            }
            mem.flip(bit);
        }
    }
    assert!(errors > 1000 && harmless > 1000, "{errors} {harmless}");
}

/// A group is committed only at its own place: a copy of it in an empty slot is damage.
#[test]
fn a_group_in_another_slot_is_damage() {
    let volume = format(96, &FormatOptions::new().inodes(32));
    let file = volume.create("a").unwrap();
    file.write_at(&[1; 5000], 0).unwrap();
    file.write_at(&[2; 100], 9000).unwrap();
    let bytes = volume.pmem().bytes();
    let mut copies = 0;
    for page in metadata_pages(&bytes).into_iter().filter(|page| *page > 1) {
        let slot = |nth: usize| page * PAGE as usize + nth * 64;
        let is_empty = |nth: usize| bytes[slot(nth)..slot(nth + 1)] == [0; 64];
        for from in (0..63).filter(|from| !is_empty(*from)) {
            for to in (0..63).filter(|to| is_empty(*to)).step_by(7) {
                let mut copied = bytes.clone();
                copied.copy_within(slot(from)..slot(from + 1), slot(to));
                let error = open(&Mem::from_bytes(&copied)).unwrap_err();
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                copies += 1;
            }
        }
    }
    assert!(copies > 20, "{copies}");
}

#[test]
fn many_flipped_bits_or_swapped_pages_never_panic() {
    let (bytes, expected) = sample();
    let mut rng = Rng::new(7);
    for round in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + round % 20 {
            let at = rng.below(bytes.len() as u64) as usize;
            damaged[at] ^= 1 << rng.below(8);
        }
        opens(&Mem::from_bytes(&damaged), &expected, || {
            format!("round {round}")
        });
    }
    for round in 0..200 {
        // Swaps whole pages.
        let mut damaged = bytes.clone();
        let pages = bytes.len() as u64 / PAGE;
        let (from, to) = (rng.below(pages) * PAGE, rng.below(pages) * PAGE);
        damaged.copy_within(from as usize..(from + PAGE) as usize, to as usize);
        match open(&Mem::from_bytes(&damaged)) {
            Ok((volume, _)) => assert_eq!(volume.list().len(), expected.len(), "round {round}"),
            Err(Error::Corrupt { .. }) => {}
            Err(error) => panic!("round {round}: {error}"),
        }
    }
}

#[test]
fn an_error_locates_the_damage() {
    let (mut bytes, _) = sample();
    // The directory's log is the first page allocated; its first slot names "busy".
    let at = bytes.windows(4).position(|w| w == b"busy").unwrap();
    bytes[at] = b'B';
    let error = open(&Mem::from_bytes(&bytes)).unwrap_err();
    let Error::Corrupt { place, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((place.inode, place.page()), (Some(0), at as u64 / PAGE));
    assert_eq!(place.slot(), at as u64 % PAGE / 64);
    let page = at as u64 / PAGE;
    assert!(
        error
            .to_string()
            .contains(&format!("inode 0, byte {}", at / 64 * 64)),
        "{error}"
    );
    assert!(
        error.to_string().contains(&format!("page {page}")),
        "{error}"
    );
}

/// A file with pages past its size keeps its size and its data if the group that sets the size is
/// damaged after a cleaning.
#[test]
fn a_cleaned_file_keeps_its_size_without_the_group_that_sets_it() {
    let volume = format(2000, &FormatOptions::new().inodes(32));
    let file = volume.create("a").unwrap();
    file.write_at(&[9; 20 * PAGE as usize - 100], 0).unwrap();
    for _ in 0..100 {
        file.write_at(&[9; 100], 0).unwrap();
    }
    file.allocate_keeping_size(20 * PAGE..30 * PAGE).unwrap();
    let before = volume.pmem().words();
    file.clean().unwrap();
    let mut words = volume.pmem().words();
    drop((file, volume));

    // The first group of the new log.
    let mark = new_mark(&before, &words);
    words[mark] ^= 4;
    let mem = Mem::from_words(words);
    let found = fsck::repair(&mem).unwrap().findings;
    assert_eq!(found.len(), 1, "{found:?}");
    let (volume, _) = open(&mem).unwrap();
    let now = content(&volume.open_file("a").unwrap());
    assert!(now == [9; 20 * PAGE as usize - 100], "{} bytes", now.len());
}

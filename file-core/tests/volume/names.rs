//! Names of all lengths, and many names.

use crate::common::{Rng, content, format, reopen};
use spanlock_file_core::{FormatOptions, MAX_NAME_BYTES};

#[test]
fn names_of_every_length_work() {
    let volume = format(4096, &FormatOptions::new().inodes(1100));
    for len in 1..=MAX_NAME_BYTES {
        let file = volume.create(&"n".repeat(len)).unwrap();
        file.write_at(&len.to_le_bytes(), 0).unwrap();
    }
    // Every third file is removed and every sixth is created again.
    for len in (3..=MAX_NAME_BYTES).step_by(3) {
        volume.remove(&"n".repeat(len)).unwrap();
    }
    for len in (6..=MAX_NAME_BYTES).step_by(6) {
        volume.create(&"n".repeat(len)).unwrap();
    }
    let reopened = reopen(&volume);
    assert_eq!(reopened.list(), volume.list());
    for len in 1..=MAX_NAME_BYTES {
        let name = "n".repeat(len);
        match reopened.open_file(&name) {
            Ok(file) if len % 3 == 0 => assert_eq!(file.size(), 0),
            Ok(file) => assert_eq!(content(&file), len.to_le_bytes()),
            Err(_) => assert!(len % 3 == 0 && len % 6 != 0),
        }
    }
}

#[test]
fn names_may_contain_any_character_but_slash_and_nul() {
    let volume = format(64, &FormatOptions::new());
    let mut names: Vec<String> = [
        "...",
        ".a",
        "\\",
        " ",
        "\n",
        "\u{1}",
        "ü",
        "日本",
        "👩‍👩‍👧",
        "a\u{301}",
        "á",
        "\u{10FFFF}",
    ]
    .map(String::from)
    .to_vec();
    for name in &names {
        volume.create(name).unwrap();
    }
    names.sort();
    let listed: Vec<String> = reopen(&volume)
        .list()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(listed, names);
}

#[test]
fn a_volume_holds_thousands_of_files() {
    const FILES: usize = 3000;
    let volume = format(8192, &FormatOptions::new().inodes(4096));
    let mut rng = Rng::new(11);
    let mut names: Vec<String> = (0..FILES)
        .map(|i| format!("{i}{}", "-".repeat(rng.below(100) as usize)))
        .collect();
    for name in &names {
        volume
            .create(name)
            .unwrap()
            .write_at(name.as_bytes(), 0)
            .unwrap();
    }
    assert_eq!(volume.stats().inodes_free, 4095 - FILES as u64);
    names.sort();
    let volume = reopen(&volume);
    assert_eq!(volume.list().len(), FILES);
    for ((listed, size), name) in volume.list().iter().zip(&names) {
        assert_eq!((listed, *size), (name, name.len() as u64));
        assert_eq!(content(&volume.open_file(name).unwrap()), name.as_bytes());
    }
    for name in &names {
        volume.remove(name).unwrap();
    }
    let stats = volume.stats();
    assert_eq!((stats.inodes_free, volume.list().len()), (4095, 0));
    assert_eq!(stats.pages_free + stats.log_pages, stats.pages_total);
}

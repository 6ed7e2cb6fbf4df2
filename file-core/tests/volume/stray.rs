//! Words that are not zero within sound groups.

use crate::common::{Mem, PAGE, format, open};
use crate::fsck::{damage_of, mend, new_mark, readable};
use crate::read_only::{open_read_only, read_all};
use spanlock_file_core::fsck::Repair;
use spanlock_file_core::{Error, FormatOptions};

/// Returns the words of a volume of one file, the file's name, and the words that hold the marks of
/// the groups of its name and of its write. Each group has at least three slots.
fn long_groups() -> (Vec<u64>, String, [usize; 2]) {
    // With checksums, the group of the write has several slots.
    let volume = format(64, &FormatOptions::new().inodes(32).data_checksums(true));
    let name = "n".repeat(150);
    let start = volume.pmem().words();
    let file = volume.create(&name).unwrap();
    let created = volume.pmem().words();
    file.write_at(&[7; 30 * PAGE as usize], 0).unwrap();
    let sound = volume.pmem().words();
    let marks = [new_mark(&start, &created), new_mark(&created, &sound)];
    (sound, name, marks)
}

/// A flipped bit in the first word of a further slot leaves the group sound. Only that word is
/// repaired.
#[test]
fn a_stray_word_within_a_group_costs_nothing() {
    let (sound, name, [of_name, of_write]) = long_groups();
    let intact = readable(&Mem::from_words(sound.clone()));
    for (mark, path) in [(of_name, "/"), (of_write, &name)] {
        let mut words = sound.clone();
        words[mark + 8] ^= 1;
        let mem = Mem::from_words(words.clone());
        assert!(matches!(open(&mem), Err(Error::Corrupt { .. })));
        let report = mend(&mem, "a stray word");
        let finding = damage_of(&report, "not zero within a committed group");
        assert_eq!(finding.repair, Repair::ClearWord);
        assert_eq!(finding.place.at, (mark as u64 + 8) * 8);
        assert_eq!(finding.path.as_deref(), Some(path));
        assert_eq!(report.damage().count(), 1);
        assert!(mem.words() == sound);

        // With a second one, the group counts as damaged.
        words[mark + 16] ^= 1;
        let mem = Mem::from_words(words);
        let report = mend(&mem, "two stray words");
        assert!(report.damage().count() > 1);
        assert!(readable(&mem) != intact);
    }
}

/// A word that is not zero within a sound group costs nothing.
#[test]
fn a_stray_word_keeps_nothing_from_being_read() {
    let (sound, _, marks) = long_groups();
    let (volume, _) = open(&Mem::from_words(sound.clone())).unwrap();
    let expected = read_all(&volume);
    drop(volume);
    for mark in marks {
        let mut words = sound.clone();
        words[mark + 8] ^= 1;
        let mem = Mem::from_words(words);
        let (volume, report) = open_read_only(&mem).unwrap();
        assert_eq!(report.findings.len(), 1);
        assert_eq!(report.findings[0].repair, Repair::ClearWord);
        assert_eq!(read_all(&volume), expected);
        let absent = volume.open_file("absent").err();
        assert!(matches!(absent, Some(Error::NotFound { .. })), "{absent:?}");
    }
}

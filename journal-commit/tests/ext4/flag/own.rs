//! Only the file system's own journal clears the flag.

use spanlock_journal_commit::jbd2::Place;

use super::*;

/// A journal in a storage of its own sets the flag, which does no harm. It does not clear it,
/// because the file system's own journal may need it.
#[test]
fn another_journal_does_not_clear_the_flag() {
    if !images::have_e2fsprogs() {
        return;
    }
    let (block_bytes, features) = KINDS[0];
    let image = Image::new(block_bytes, features, 1);
    let home = Arc::new(Recorded::from_image(image.bytes()));
    let journal = open(&image, &home);
    fill(&journal, &image, 3);
    drop(journal);
    let log = Arc::new(Recorded::new(64 * block_bytes as usize));
    format(log.clone(), &FormatOptions::new(block_bytes)).unwrap();
    Journal::open(log.clone(), home.clone(), Options::new(block_bytes))
        .unwrap()
        .close()
        .unwrap();
    recover(log, home.clone(), block_bytes, &Place::whole()).unwrap();
    let crashed = home.medium();
    assert!(is_flag_set(&crashed));
    assert_eq!(byte_of(&image, &preen(&image, &crashed).1), 3);
    let mut block = vec![0; block_bytes as usize];
    home.read_at(&mut block, 1024).unwrap();
    assert_eq!(block, crashed[1024..2048]);
}

/// A journal in the blocks of a file is not the file system's own, either.
#[test]
fn a_journal_in_another_file_does_not_clear_the_flag() {
    if !images::have_e2fsprogs() {
        return;
    }
    let (block_bytes, features) = KINDS[0];
    let image = Image::new(block_bytes, features, 65);
    let home = Arc::new(Recorded::from_image(image.bytes()));
    let journal = open(&image, &home);
    fill(&journal, &image, 3);
    drop(journal);
    let place = images::place_of(&image.file[1..]);
    let new = FormatOptions::new(block_bytes)
        .place(place.clone())
        .overwrite();
    format(home.clone(), &new).unwrap();
    let options = Options::new(block_bytes).place(place.clone());
    let other = Journal::open(home.clone(), home.clone(), options).unwrap();
    other.close().unwrap();
    recover(home.clone(), home.clone(), block_bytes, &place).unwrap();
    let crashed = home.medium();
    assert!(is_flag_set(&crashed));
    let checked = preen(&image, &crashed).1;
    assert_eq!(image.file_of(&checked)[..block_bytes as usize], [3; 1024]);
}

/// The superblock's copy of the journal's inode says where the own journal begins: in a map of
/// blocks, an extent, or a tree of extents. Without a usable copy, no journal clears the flag.
#[test]
fn the_own_journal_is_where_the_copy_of_its_inode_says() {
    if !images::have_e2fsprogs() {
        return;
    }
    let check = |image: &Image, changes: &[(usize, &[u8])], is_own: bool| {
        let mut bytes = image.bytes();
        for (at, change) in changes {
            bytes[*at..][..change.len()].copy_from_slice(change);
        }
        let device = Arc::new(Recorded::from_image(bytes));
        let journal = open(image, &device);
        assert!(is_flag_set(&device.medium()));
        journal.close().unwrap();
        assert_eq!(is_flag_set(&device.medium()), !is_own, "{changes:?}");
    };
    let (block_bytes, features) = KINDS[1];
    let image = Image::new(block_bytes, features, 1);
    let root = 1024 + 0x10C;
    check(&image, &[], true);
    let map: Vec<u8> = (image.journal[..15].iter())
        .flat_map(|number| (*number as u32).to_le_bytes())
        .collect();
    check(&image, &[(root, &map)], true);
    check(&image, &[(root, &map[4..])], false);
    // The kind of the copy, the magic of the extents, and their number.
    for (at, change) in [(1024 + 0xFD, [0]), (root, [0]), (root + 2, [0])] {
        check(&image, &[(at, &change)], false);
    }
    // A tree: the root has the number of a block with the extents.
    let leaf = image.file[0] as usize * block_bytes as usize;
    let extents = &image.bytes()[root..][..60];
    let number = (image.file[0] as u32).to_le_bytes();
    let index = [
        &[0x0A, 0xF3, 1, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &number[..],
        &[0; 4],
    ];
    let index = index.concat();
    check(&image, &[(root, &index), (leaf, extents)], true);
    check(&image, &[(root, &index)], false);
    check(&image, &[(root, &index), (leaf, &index)], false);
    check(&image, &[(root, &index), (root + 16, &[0xFF; 6])], false);
}

/// An external journal has the UUID by which its file system names it.
#[test]
fn an_external_journal_clears_the_flag_of_its_own_file_system() {
    if !images::have_e2fsprogs() {
        return;
    }
    let (block_bytes, features) = KINDS[1];
    let mut image = Image::new(block_bytes, features, 1).bytes();
    let uuid = [7; 16];
    image[1024 + 0xD0..][..16].copy_from_slice(&uuid);
    image[1024 + 0xE0..][..4].fill(0);
    for (uuid, is_own) in [(uuid, true), ([8; 16], false)] {
        let home = Arc::new(Recorded::from_image(image.clone()));
        let log = Arc::new(Recorded::new(64 * block_bytes as usize));
        let place = Place::external(block_bytes);
        let new = FormatOptions::new(block_bytes)
            .place(place.clone())
            .overwrite();
        format(log.clone(), &new.uuid(uuid)).unwrap();
        let options = Options::new(block_bytes).place(place);
        let journal = Journal::open(log, home.clone(), options).unwrap();
        assert!(is_flag_set(&home.medium()));
        journal.close().unwrap();
        assert_eq!(is_flag_set(&home.medium()), !is_own);
    }
}

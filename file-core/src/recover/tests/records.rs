//! Marks and records that no version of this crate writes.

use super::*;
use crate::medium::extent::Extent;

/// Returns a function that makes a group of one record, of these bytes.
fn raw(bytes: Vec<u8>) -> impl FnOnce(&PageId) -> Vec<u8> {
    move |log| group(log, 0, bytes.len(), |g| g.put(&bytes))
}

#[test]
fn a_group_with_a_wrong_mark_is_damage() {
    let changed = |change: fn(&mut Vec<u8>)| {
        move |c: &PageId| {
            let mut slots = holes(c, PAGE_BYTES, &[]);
            change(&mut slots);
            slots
        }
    };
    assert_eq!(opened(1, changed(|_| ()), None), Ok(()));
    let mark = changed(|slots| slots[..WORD_BYTES].fill(0xFF));
    assert_eq!(opened(1, mark, None), Err("an invalid commit mark"));
    let record = changed(|slots| slots[30] ^= 1);
    let wrong = Err("a committed group whose checksum is wrong");
    assert_eq!(opened(1, record, None), wrong);
    // The group of 600 extents ends in the next page, which the log does not have.
    let cut = |c: &PageId| {
        let many = [one(0); 600];
        let mut slots = holes(c, PAGE_BYTES, &many);
        slots.truncate(TAIL_AT);
        slots
    };
    let longer = Err("a committed group longer than its log");
    assert_eq!(opened(1, cut, None), longer);
}

#[test]
fn a_write_record_that_contradicts_itself_is_damage() {
    let with = |header: WriteHeader, extents: &'static [Extent], sums: &'static [u8]| {
        move |c: &PageId| {
            let bytes = 32 + extents.len() * EXTENT_BYTES + sums.len();
            group(c, 0, bytes, |g| {
                header.put(g, extents.iter().copied());
                g.put(sums);
            })
        }
    };
    const ONE: &[Extent] = &[Extent {
        start: FREE_PAGE,
        len: 1,
    }];
    let sound = WriteHeader {
        pages: 1,
        extents: 1,
        end: PAGE_BYTES,
        ..WriteHeader::default()
    };
    assert_eq!(opened(1, with(sound, ONE, &[]), None), Ok(()));
    let nothing = with(WriteHeader::default(), &[], &[]);
    assert_eq!(
        opened(1, nothing, None),
        Err("a write record that does nothing")
    );
    let longer = Err("a write record longer than its group");
    for extents in [5, 100, u32::MAX] {
        let header = WriteHeader { extents, ..sound };
        assert_eq!(opened(1, with(header, ONE, &[]), None), longer);
    }
    let sums = Err("a write record whose extents do not add up");
    for pages in [0, 2] {
        let header = WriteHeader { pages, ..sound };
        assert_eq!(opened(1, with(header, ONE, &[]), None), sums);
    }
    const NONE: &[Extent] = &[Extent {
        start: FREE_PAGE,
        len: 0,
    }];
    let header = WriteHeader { pages: 0, ..sound };
    assert_eq!(opened(1, with(header, NONE, &[]), None), sums);
    let header = WriteHeader {
        checksums: true,
        ..sound
    };
    assert_eq!(
        opened(1, with(header, ONE, &[0; 4]), None),
        Err("a write record with data checksums in a volume without them, or the reverse")
    );
}

/// The file claims pages that belong to others, too, and must not get them.
#[test]
fn a_file_with_more_pages_than_the_volume_is_damage() {
    let most = |c: &PageId| {
        let all = |slot, file_page| {
            let extent = Extent {
                start: 20,
                len: 100,
            };
            let end = (u64::from(file_page) + 100) * PAGE_BYTES;
            write(c, slot, file_page, extent, end)
        };
        [all(0, 0), all(1, 200), all(2, 400)].concat()
    };
    let many = Err("a file with more pages than the volume");
    assert_eq!(opened(1, most, None), many);
}

#[test]
fn a_name_that_cannot_be_decoded_is_damage() {
    type Change = fn(&mut Vec<u8>);
    let name = |change: Change| {
        // An addition of "b", a file whose inode is 1.
        let mut bytes = vec![2, 2, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'b'];
        change(&mut bytes);
        raw(bytes)
    };
    assert_eq!(opened(0, name(|_| ()), None), Ok(()));
    let cases: [(Change, _); 3] = [
        (|it| it[1] = 9, "a name of something unknown"),
        (|it| it[2] = 200, "a directory record longer than its group"),
        (|it| it[16] = 0xFF, "a name that is not UTF-8"),
    ];
    for (change, what) in cases {
        assert_eq!(opened(0, name(change), None), Err(what));
    }
}

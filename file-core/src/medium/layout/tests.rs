//! Every field reads back, and every flipped bit is detected.

use super::*;

const ID: PageId = PageId {
    log: LogId {
        inode: 7,
        generation: 9,
    },
    birth: 3,
    page: 20,
};

#[test]
fn a_superblock_reads_back_and_every_flipped_bit_is_detected() {
    let geometry = Geometry {
        pages: 300,
        inodes: 64,
        max_file_size: 1 << 20,
        data_checksums: true,
    };
    let bytes = geometry.encode();
    assert_eq!(Geometry::decode(&bytes), Superblock::Valid(geometry));
    for bit in 0..SUPER_BYTES * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(
            matches!(
                Geometry::decode(&flipped),
                Superblock::Damaged | Superblock::Absent
            ),
            "bit {bit}"
        );
    }
}

#[test]
fn a_pointer_of_another_page_or_with_a_flipped_bit_is_refused() {
    let seed = ID.seed();
    let word = seal(seed, 77);
    assert_eq!(unseal(seed, word), Ok(Some(77)));
    assert_eq!(unseal(seed, 0), Ok(None));
    let others = [
        PageId { page: 21, ..ID },
        PageId { birth: 4, ..ID },
        PageId {
            log: LogId {
                generation: 10,
                ..ID.log
            },
            ..ID
        },
        PageId {
            log: LogId { inode: 8, ..ID.log },
            ..ID
        },
    ];
    for other in others {
        assert_eq!(unseal(other.seed(), word), Err(()));
    }
    assert_eq!(unseal(ID.log.head_seed(), word), Err(()));
    for bit in 0..64 {
        assert_eq!(unseal(seed, word ^ 1 << bit), Err(()));
        assert_eq!(unseal(seed, 1 << bit), Err(()));
    }
}

#[test]
fn a_tail_reads_back_in_its_own_page_only() {
    let mut image = [0; PAGE];
    ID.put_tail(&mut image, 5);
    assert_eq!(PageId::from_tail(&image, ID.log, ID.page), Some((ID, 5)));
    assert_eq!(PageId::from_tail(&image, ID.log, ID.page + 1), None);
    let other = LogId { inode: 8, ..ID.log };
    assert_eq!(PageId::from_tail(&image, other, ID.page), None);
}

#[test]
fn a_mark_holds_its_number_of_slots() {
    let slots = [3; 5 * SLOT_BYTES];
    let mark = mark_of(ID.seed(), 50, &slots);
    assert_eq!(slots_of_mark(mark), Some(5));
    assert_ne!(mark, mark_of(ID.seed(), 51, &slots));
    assert_ne!(mark, mark_of(PageId { page: 21, ..ID }.seed(), 50, &slots));
    assert_eq!(slots_of_mark(0), None);
    let many = vec![3; 70_000 * SLOT_BYTES];
    assert_eq!(slots_of_mark(mark_of(ID.seed(), 0, &many)), Some(70_000));
}

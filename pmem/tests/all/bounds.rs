//! Accesses outside the region, or unaligned ones, panic like slice indexing and change nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{assert_holds, folder, get, pattern, put, region};
use spanlock_pmem::{Durable, MappedFile, Pmem};

const LEN: u64 = 4096;

/// Returns the message of the panic that `action` must end in.
fn panic_of(action: impl FnOnce()) -> String {
    let panicked = catch_unwind(AssertUnwindSafe(action)).expect_err("it must panic");
    *panicked.downcast::<String>().expect("a formatted message")
}

/// Returns the panic of every method that names the `len` bytes at `at`.
fn every_panic(region: &MappedFile, at: u64, len: usize) -> [String; 3] {
    let mut bytes = vec![0; len];
    [
        // SAFETY: only one thread runs.
        panic_of(|| unsafe { region.read(at, &mut bytes) }),
        // SAFETY: only one thread runs.
        panic_of(|| drop(unsafe { region.write(at, &pattern(1, len)) })),
        // SAFETY: only one thread runs.
        panic_of(|| drop(unsafe { region.write_streaming(at, &pattern(1, len)) })),
    ]
}

#[test]
fn bytes_outside_the_region_are_refused() {
    let folder = folder();
    let region = region(&folder, LEN);
    for (at, len, range) in [
        (LEN - 6, 10, "4090..4100"),
        (LEN, 1, "4096..4097"),
        (LEN + 1, 0, "4097..4097"),
        (0, 4097, "0..4097"),
        (u64::MAX, 0, "18446744073709551615..18446744073709551615"),
        (u64::MAX, 2, "18446744073709551615..18446744073709551617"),
        (
            u64::MAX - 63,
            64,
            "18446744073709551552..18446744073709551616",
        ),
    ] {
        for message in every_panic(&region, at, len) {
            assert_eq!(
                message,
                format!("range {range} out of bounds of a region of 4096 bytes")
            );
        }
    }
    assert_holds(&region, 0, &[0; LEN as usize]);
}

#[test]
fn words_outside_the_region_are_refused() {
    let folder = folder();
    let region = region(&folder, LEN);
    for at in [LEN, u64::MAX - 7] {
        let range = format!("{at}..{}", u128::from(at) + 8);
        let expected = format!("range {range} out of bounds of a region of 4096 bytes");
        assert_eq!(panic_of(|| _ = region.load(at)), expected);
        assert_eq!(
            panic_of(|| drop(region.publish(at, 1, Durable::at_rest()))),
            expected
        );
    }
}

#[test]
fn a_prefetch_changes_nothing_and_refuses_bytes_outside_the_region() {
    let folder = folder();
    let region = region(&folder, LEN);
    for (at, len) in [(0, 0), (0, LEN), (63, 2), (LEN, 0)] {
        region.prefetch(at, len);
    }
    assert_holds(&region, 0, &[0; LEN as usize]);
    for (at, len, range) in [
        (LEN - 6, 10, "4090..4100"),
        (1, u64::MAX, "1..18446744073709551616"),
    ] {
        let expected = format!("range {range} out of bounds of a region of 4096 bytes");
        assert_eq!(panic_of(|| region.prefetch(at, len)), expected);
    }
}

#[test]
fn unaligned_words_are_refused() {
    let folder = folder();
    let region = region(&folder, LEN);
    for at in [1, 4, 7, 12, LEN - 4, u64::MAX] {
        let expected = format!("offset {at} of a word is not a multiple of 8");
        assert_eq!(panic_of(|| _ = region.load(at)), expected);
        assert_eq!(
            panic_of(|| drop(region.publish(at, 1, Durable::at_rest()))),
            expected
        );
    }
    assert_holds(&region, 0, &[0; LEN as usize]);
}

#[test]
fn the_edges_are_inside() {
    let folder = folder();
    let region = region(&folder, LEN);
    put(&region, 0, &pattern(1, LEN as usize));
    assert_holds(&region, 0, &pattern(1, LEN as usize));
    put(&region, LEN, &[]);
    assert_eq!(get(&region, LEN, 0), [0_u8; 0]);
    // SAFETY: only one thread runs.
    let nothing = unsafe { region.write_streaming(LEN, &[]) };
    region.fence(nothing);

    let mark = region.publish(LEN - 8, 0x0102_0304_0506_0708, Durable::at_rest());
    region.persist(mark);
    assert_eq!(region.load(LEN - 8), 0x0102_0304_0506_0708);
    assert_eq!(
        get(&region, LEN - 8, 8),
        [8, 7, 6, 5, 4, 3, 2, 1],
        "words are little-endian"
    );
}

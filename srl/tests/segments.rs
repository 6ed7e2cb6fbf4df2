//! How positions map to segments.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::collections::BTreeSet;

use spanlock_range_lock::{RangeError, Span};
use spanlock_srl::{SegmentError, Segments};

fn span(start: u64, end: u64) -> Span {
    Span::new(start..end).unwrap().unwrap()
}

#[test]
fn touched_segments_are_those_of_the_positions() {
    for size in [1, 2, 4, 8] {
        for capacity in 1..20 {
            let segments = Segments::new(capacity, size).unwrap();
            assert_eq!((segments.size(), segments.capacity()), (size, capacity));
            assert_eq!(segments.count(), capacity.div_ceil(size));
            for start in 0..capacity {
                for end in start + 1..=capacity {
                    let touched = segments.touched(span(start, end)).unwrap();
                    let expected: BTreeSet<_> = (start..end).map(|at| at / size).collect();
                    assert_eq!(touched.clone().collect::<BTreeSet<_>>(), expected);
                    assert!(touched.end <= segments.count());
                }
            }
        }
    }
}

#[test]
fn a_span_past_the_capacity_is_an_error_with_both_bounds() {
    let segments = Segments::new(10, 4).unwrap();
    // The last segment is short. Some of these spans end before a full segment would end.
    for (start, end) in [(0, 11), (9, 12), (10, 11), (11, 12), (0, u64::MAX)] {
        let expected = RangeError::PastCapacity {
            start,
            end,
            capacity: 10,
        };
        assert_eq!(segments.touched(span(start, end)), Err(expected));
    }
    assert_eq!(segments.touched(span(9, 10)), Ok(2..3));
}

#[test]
fn the_largest_positions_map_without_overflow() {
    let segments = Segments::new(u64::MAX, 1).unwrap();
    assert_eq!(segments.count(), u64::MAX);
    assert_eq!(segments.touched(Span::FULL), Ok(0..u64::MAX));
    assert_eq!(
        segments.touched(span(u64::MAX - 1, u64::MAX)),
        Ok(u64::MAX - 1..u64::MAX)
    );
    let segments = Segments::new(u64::MAX, 1 << 63).unwrap();
    assert_eq!((segments.count(), segments.size()), (2, 1 << 63));
    assert_eq!(segments.touched(Span::FULL), Ok(0..2));
    assert_eq!(segments.touched(span(0, 1 << 63)), Ok(0..1));
    assert_eq!(segments.touched(span(1 << 63, (1 << 63) + 1)), Ok(1..2));
}

#[test]
fn a_capacity_of_zero_has_no_segments() {
    let segments = Segments::new(0, 4096).unwrap();
    assert_eq!(segments.count(), 0);
    assert!(segments.touched(span(0, 1)).is_err());
}

#[test]
fn a_size_must_be_a_power_of_two() {
    for shift in 0..64 {
        assert!(Segments::new(1, 1 << shift).is_ok());
    }
    for size in [0, 3, 5, 4095, 4097, u64::MAX] {
        assert_eq!(Segments::new(1, size), Err(SegmentError::Size { size }));
    }
    for (size, next) in [(0, "1"), (3, "4"), (4097, "8192")] {
        let message = SegmentError::Size { size }.to_string();
        assert!(message.contains(&format!("size {size} ")), "{message}");
        assert!(message.ends_with(&format!("use {next}")), "{message}");
    }
}

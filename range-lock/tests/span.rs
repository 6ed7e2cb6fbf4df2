//! Spans, accesses, tokens, and error messages.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::error::Error;

use spanlock_range_lock::{Access, RangeError, Span, Token, TryLockError};

fn span(start: u64, end: u64) -> Span {
    Span::new(start..end).unwrap().unwrap()
}

#[test]
fn a_span_is_in_order_and_not_empty() {
    for start in 0..6 {
        for end in 0..6 {
            match Span::new(start..end) {
                Ok(Some(span)) => {
                    assert!(start < end);
                    assert_eq!((span.start(), span.end()), (start, end));
                    assert_eq!(span.len(), end - start);
                    assert_eq!(span.range(), start..end);
                }
                Ok(None) => assert_eq!(start, end),
                Err(error) => {
                    assert!(start > end);
                    assert_eq!(error, RangeError::Reversed { start, end });
                }
            }
        }
    }
}

#[test]
fn spans_may_end_at_the_last_position() {
    assert_eq!(span(0, u64::MAX), Span::FULL);
    assert_eq!(Span::FULL.len(), u64::MAX);
    assert_eq!(span(u64::MAX - 1, u64::MAX).len(), 1);
    assert_eq!(Span::new(u64::MAX..u64::MAX), Ok(None));
    assert!(Span::FULL.overlaps(span(u64::MAX - 1, u64::MAX)));
    assert!(!span(0, u64::MAX - 1).overlaps(span(u64::MAX - 1, u64::MAX)));
}

#[test]
fn overlap_is_a_common_position() {
    let spans: Vec<_> = (0..6)
        .flat_map(|start| (start + 1..7).map(move |end| span(start, end)))
        .collect();
    for a in &spans {
        for b in &spans {
            let common = a.range().any(|at| b.range().contains(&at));
            assert_eq!(a.overlaps(*b), common, "{a:?} and {b:?}");
        }
    }
}

#[test]
fn only_readers_share() {
    use Access::*;
    assert!(!Read.conflicts_with(Read));
    assert!(Read.conflicts_with(Write));
    assert!(Write.conflicts_with(Read));
    assert!(Write.conflicts_with(Write));
}

#[test]
fn options_and_tokens_are_small() {
    // An optional span is no larger than a range.
    assert_eq!(size_of::<Option<Span>>(), 16);
    assert_eq!(size_of::<Token>(), size_of::<usize>());
    assert_eq!(Token::new(7).into_word(), 7);
    assert_eq!(Token::NONE.into_word(), 0);
}

#[test]
fn spans_can_be_constants() {
    const HEADER: Span = match Span::new(0..64) {
        Ok(Some(span)) => span,
        _ => panic!("in order and not empty"),
    };
    assert_eq!(HEADER.len(), 64);
    assert_eq!(format!("{HEADER:?}"), "0..64");
}

#[test]
fn errors_name_the_bounds() {
    let reversed = RangeError::Reversed { start: 7, end: 3 };
    assert_eq!(
        reversed.to_string(),
        "range 7..3 is reversed: it ends before it starts"
    );
    let past = RangeError::PastCapacity {
        start: 5,
        end: 11,
        capacity: 10,
    };
    assert_eq!(
        past.to_string(),
        "range 5..11 ends past the lock's capacity of 10"
    );
    // A try reports the range error itself, instead of wrapping it as a source.
    let tried = TryLockError::from(past);
    assert_eq!(tried.to_string(), past.to_string());
    assert!(tried.source().is_none());
    assert_eq!(
        TryLockError::WouldBlock.to_string(),
        "a conflicting hold or request is in the way"
    );
}

/// The records of the feature `deadlock-detection` take no space without it.
#[cfg(not(feature = "deadlock-detection"))]
#[test]
fn detection_that_is_off_has_no_size() {
    use spanlock_range_lock::{LockId, RwCounter, Token, WriteHold};

    assert_eq!(size_of::<LockId>(), 0);
    let parts = size_of::<(&RwCounter, Option<(Span, Token)>)>();
    assert_eq!(size_of::<WriteHold<'_, RwCounter>>(), parts);
}

#[test]
fn rounding_goes_outwards_within_the_capacity() {
    let span = |range| Span::new(range).unwrap().unwrap();
    for (range, granularity, capacity, expected) in [
        (5..6, 1, 100, 5..6),
        (5..6, 8, 100, 0..8),
        (8..16, 8, 100, 8..16),
        (97..98, 8, 100, 96..100),
        (5..6, u64::MAX, u64::MAX, 0..u64::MAX),
        (
            u64::MAX - 1..u64::MAX,
            4096,
            u64::MAX,
            u64::MAX - 4095..u64::MAX,
        ),
        (5..200, 8, 100, 0..200),
        (5..6, 0, 100, 5..6),
    ] {
        let rounded = span(range.clone()).rounded(granularity, capacity);
        assert_eq!(rounded.range(), expected, "{range:?}");
        assert!(rounded.contains(span(range)));
    }
}

//! Parts and their spans against their definitions, unit by unit.

use proptest::prelude::*;

use super::*;

type Spans = Vec<(Span, Access)>;

/// Returns the spans that a lock of this granularity acquires for `requests`.
fn normalised(
    requests: impl IntoIterator<Item = (Range<u64>, Access)>,
    granularity: u64,
    capacity: u64,
) -> Result<Spans, RangeError> {
    let mut parts = Parts::default();
    let form = parts.fill(requests.into_iter().map(Ok), (granularity, capacity), false)?;
    let spans = Vec::from_iter(parts.spans(granularity, capacity));
    assert!(spans.len() <= parts.as_slice().len(), "one for each part");
    if let Some(batch) = form.batch(&parts) {
        let rounded =
            |&(span, access): &(Span, Access)| (span.rounded(granularity, capacity), access);
        assert_eq!(Vec::from_iter(batch.iter().map(rounded)), spans, "{form:?}");
    }
    Ok(spans)
}

/// A small capacity, so that the last unit may be cut off.
const CAPACITY: u64 = 50;

/// Returns the strongest access requested anywhere in the unit of `at`.
fn asked(requests: &[(Range<u64>, Access)], granularity: u64, at: u64) -> Option<Access> {
    let unit = |at: u64| at / granularity;
    let meets = |range: &Range<u64>| {
        !range.is_empty() && unit(range.start) <= unit(at) && unit(at) <= unit(range.end - 1)
    };
    let meeting = requests.iter().filter(|(range, _)| meets(range));
    meeting.map(|&(_, access)| access).max()
}

fn requests() -> impl Strategy<Value = Vec<(Range<u64>, Access)>> {
    let access = prop_oneof![
        Just(Access::Read),
        Just(Access::Upgradable),
        Just(Access::Write)
    ];
    let range =
        (0..=CAPACITY, 0..12_u64).prop_map(|(start, len)| start..(start + len).min(CAPACITY));
    prop::collection::vec((range, access), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_unit_has_its_strongest_access_once(requests in requests(), granularity in 1..9_u64) {
        let parts = normalised(requests.clone(), granularity, CAPACITY).unwrap();
        for at in 0..CAPACITY {
            let held: Vec<_> = (parts.iter())
                .filter(|(span, _)| span.range().contains(&at))
                .map(|&(_, access)| access)
                .collect();
            let expected = Vec::from_iter(asked(&requests, granularity, at));
            prop_assert_eq!(held, expected, "position {}", at);
        }
        for pair in parts.windows(2) {
            let [(low, how), (high, other)] = [pair[0], pair[1]];
            prop_assert!(low.end() <= high.start());
            // Where no unit has several parts, there are as few spans as possible.
            prop_assert!(granularity > 1 || low.end() < high.start() || how != other);
        }
        for (span, _) in &parts {
            prop_assert!(span.start() % granularity == 0);
            prop_assert!(span.end() % granularity == 0 || span.end() == CAPACITY);
        }
        // The order of the requests does not matter.
        let backwards = requests.into_iter().rev();
        prop_assert_eq!(&normalised(backwards, granularity, CAPACITY).unwrap(), &parts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranges_that_do_not_overlap_are_parts(requests in requests()) {
        let mut parts = Parts::default();
        parts.fill(requests.iter().cloned().map(Ok), (1, CAPACITY), false).unwrap();
        let exact = Vec::from_iter(parts.as_slice().iter().map(|&(span, how)| (span.range(), how)));
        let overlaps = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let asked = || requests.iter().filter(|(range, _)| !range.is_empty());
        for request @ (range, _) in asked() {
            let meeting = asked().filter(|(other, _)| overlaps(range, other)).count();
            prop_assert!(meeting > 1 || exact.contains(request), "{range:?} in {exact:?}");
        }
        prop_assert!(exact.is_sorted_by(|(low, _), (high, _)| low.end <= high.start));
        for (range, how) in exact {
            for at in range {
                prop_assert_eq!(asked_at(&requests, at), Some(how));
            }
        }
        // Apart, they are the same or an error.
        let overlap = asked().enumerate().any(|(i, (range, _))| {
            asked().take(i).any(|(other, _)| overlaps(range, other))
        });
        let apart = Parts::default().fill(requests.iter().cloned().map(Ok), (1, CAPACITY), true);
        let is_overlap = matches!(apart, Err(RangeError::Overlap { .. }));
        prop_assert_eq!((apart.is_err(), is_overlap), (overlap, overlap));
    }
}

fn asked_at(requests: &[(Range<u64>, Access)], at: u64) -> Option<Access> {
    asked(requests, 1, at)
}

#[test]
fn the_full_range_is_normalised() {
    let everything = [(0..u64::MAX, Access::Read), (5..6, Access::Write)];
    let whole = normalised(everything.clone(), u64::MAX, u64::MAX).unwrap();
    assert_eq!(whole, [(Span::FULL, Access::Write)]);
    let exact = normalised(everything, 1, u64::MAX).unwrap();
    let ranges = Vec::from_iter(exact.iter().map(|(span, how)| (span.range(), *how)));
    let (read, write) = (Access::Read, Access::Write);
    let expected = [(0..5, read), (5..6, write), (6..u64::MAX, read)];
    assert_eq!(ranges, expected);
    // Rounding up does not overflow.
    let last = normalised([(u64::MAX - 1..u64::MAX, write)], 4096, u64::MAX).unwrap();
    assert_eq!(last[0].0.range(), u64::MAX - 4095..u64::MAX);
}

#[test]
#[allow(clippy::reversed_empty_ranges)]
fn one_invalid_range_is_an_error() {
    let reversed = normalised([(0..4, Access::Read), (4..3, Access::Read)], 1, 10);
    assert_eq!(reversed, Err(RangeError::Reversed { start: 4, end: 3 }));
    let past = normalised([(0..4, Access::Read), (4..11, Access::Read)], 8, 10);
    let expected = RangeError::PastCapacity {
        start: 4,
        end: 11,
        capacity: 10,
    };
    assert_eq!(past, Err(expected));
    assert_eq!(normalised([(20..20, Access::Write)], 8, 10), Ok(vec![]));
    let none: [(Range<u64>, Access); 0] = [];
    assert_eq!(normalised(none, 8, 10), Ok(vec![]));
}

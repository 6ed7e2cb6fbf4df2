//! The array lock: a tail of words that is created when it is first needed.

use std::ops::Range;

use spanlock_range_lock::RangeLockExt;
use spanlock_range_lock::rw_word::MAX_READERS;
use spanlock_srl::SrlArray;
use spanlock_testkit::models::data::Data;
use spanlock_testkit::models::unwinding::Sleepless;
use spanlock_testkit::{driven, models, primitive};
use spanlock_verify::{Program, Suite};

/// Every program of the array lock.
pub(crate) fn suite() -> Suite {
    let array = primitive!("srl-array", super::of_four(); wait, downgrade, upgrade, split, batch);
    let sleepless = || driven!(super::of_four().with_parking::<Sleepless>(); batch);
    let array = super::of_segments(array, MAX_READERS).unwinding(sleepless);
    models::range_lock(array, programs()).step_bound(super::STEP_BOUND)
}

fn programs() -> [Program; 4] {
    [
        Program::new(
            "tail-growth",
            "two threads that need the missing tail at the same time use the same tail",
        )
        .scene(|| Shared::with(array()))
        .thread(WRITE, |shared| shared.write(2..3))
        .thread(WRITE, |shared| shared.write(2..3))
        .at_end(|shared| shared.expect([0, 0, 2, 0]))
        .into(),
        Program::new(
            "tail-readers",
            "two readers of one segment, which need the missing tail at the same time, do not \
             block each other",
        )
        .scene(|| Shared::with(array()))
        .thread(TRY, |shared| shared.try_read(2..3))
        .thread(TRY, |shared| shared.try_read(2..3))
        .at_end(|shared| assert!(shared.lock.try_write(0..4).is_ok(), "a hold remains"))
        .into(),
        Program::new(
            "tail-across",
            "requests for a segment of the head and one of the missing tail exclude each other",
        )
        .scene(|| Shared::with(array()))
        .thread(WRITE, |shared| shared.write(1..3))
        .thread(WRITE, |shared| shared.write(1..3))
        .at_end(|shared| shared.expect([0, 2, 2, 0]))
        .into(),
        Program::new(
            "tail-wide",
            "a wide request for the head and the tail, and a request that creates the tail, \
             exclude each other",
        )
        .scene(|| Shared::with(array().wide_above(1)))
        .thread(WRITE, |shared| shared.write(0..4))
        .thread(WRITE, |shared| shared.write(2..3))
        .at_end(|shared| shared.expect([1, 1, 2, 1]))
        .into(),
    ]
}

const WRITE: [&str; 2] = ["acquire-exclusive", "release"];
const TRY: [&str; 2] = ["try", "release"];

/// Creates an array of two words in the head and two in the tail, which is missing.
fn array() -> SrlArray {
    SrlArray::with_head(4, 1, 2).expect("1 is a power of two")
}

/// A lock, and the data that it protects.
struct Shared {
    lock: SrlArray,
    data: Data,
}

impl Shared {
    fn with(lock: SrlArray) -> Self {
        let data = Data::new();
        Shared { lock, data }
    }

    /// Adds one at each position of a range, under a hold of the range.
    fn write(&self, range: Range<u64>) {
        let hold = self.lock.write(range.clone()).expect("in range");
        self.data.add_one(&range);
        drop(hold);
    }

    /// Reads a range that no thread writes.
    fn try_read(&self, range: Range<u64>) {
        let hold = self.lock.try_read(range.clone()).expect("only readers");
        assert_eq!(self.data.sum(&range), 0);
        drop(hold);
    }

    /// Checks the value at each position.
    fn expect(&self, values: [u32; 4]) {
        for (at, value) in (0..).zip(values) {
            let range = at..at + 1;
            let hold = self.lock.try_read(range.clone()).expect("not held");
            assert_eq!(self.data.sum(&range), value, "a write was lost at {at}");
            drop(hold);
        }
    }
}

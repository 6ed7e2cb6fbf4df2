//! The table in `README.md` says what each lock can do. This test derives the table from the traits
//! and methods that the locks have, and compares it with the README.

use core::fmt::Write;
use core::marker::PhantomData;
use core::ops::Range;

use spanlock::range_lock::{
    RawRangeLockBatch, RawRangeLockBatchWait, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, RawRangeLockUpgradeWait, RawRangeLockWait,
};
use spanlock::{
    IntervalLock, RawRangeLock, RwCounter, RwDistributed, SrlArray, SrlPacked, SrlTree,
    SrlTreePacked,
};

/// Returns whether a type implements a trait. If it does, `Probe` has an inherent constant `FOUND`,
/// which takes precedence over the constant of `Otherwise`.
macro_rules! implements {
    ($lock:ty: $trait:path) => {{
        #[allow(dead_code)]
        struct Probe<L>(PhantomData<L>);
        #[allow(dead_code)]
        trait Otherwise {
            const FOUND: bool = false;
        }
        impl<L> Otherwise for Probe<L> {}
        #[allow(dead_code)]
        impl<L: $trait> Probe<L> {
            const FOUND: bool = true;
        }
        Probe::<$lock>::FOUND
    }};
}

/// The result of calling a method that a lock does not have.
struct Missing;

/// Whether a method was found, according to the type of its result.
trait Outcome {
    const FOUND: bool = true;
}
impl Outcome for Missing {
    const FOUND: bool = false;
}
impl<T, E> Outcome for Result<T, E> {}

fn found<R: Outcome>(_: R) -> bool {
    R::FOUND
}

/// A method that some locks have. The lock's inherent method takes precedence over this one.
trait MayReclaim {
    fn shrink_range(&self, _: Range<u64>) -> Missing {
        Missing
    }
}
impl<L: RawRangeLock> MayReclaim for L {}

struct Column {
    name: &'static str,
    granularity: u64,
    has: [bool; ROWS.len()],
}

const ROWS: [&str; 15] = [
    "blocking: `read`, `upgradable_read`, `write`",
    "`try_read`, `try_upgradable_read`, `try_write`",
    "deadline: `…_for`, `…_until`",
    "future: `…_async`",
    "`downgrade`, `downgrade_to_upgradable`",
    "`try_upgrade`",
    "`upgrade`, which waits; with a deadline; as a future",
    "`shrink`, `split`, `split_off`",
    "`append`, `try_append`",
    "`append` with a deadline",
    "`append` as a future",
    "several ranges: `lock_all`, `try_lock_all`",
    "several ranges with a deadline",
    "several ranges as a future",
    "frees memory while in use: `shrink_range`",
];

macro_rules! column {
    ($lock:ident = $new:expr) => {{
        let lock: $lock = $new;
        Column {
            name: stringify!($lock),
            granularity: lock.granularity(),
            has: [
                implements!($lock: RawRangeLock),
                implements!($lock: RawRangeLock),
                implements!($lock: RawRangeLockWait),
                implements!($lock: RawRangeLockWait),
                implements!($lock: RawRangeLockDowngrade),
                implements!($lock: RawRangeLockUpgrade),
                implements!($lock: RawRangeLockUpgradeWait),
                implements!($lock: RawRangeLockSplit),
                implements!($lock: RawRangeLockSplit),
                implements!($lock: RawRangeLockSplit) && implements!($lock: RawRangeLockWait),
                implements!($lock: RawRangeLockSplit) && implements!($lock: RawRangeLockWait),
                implements!($lock: RawRangeLockBatch),
                implements!($lock: RawRangeLockBatchWait),
                implements!($lock: RawRangeLockBatchWait),
                found(lock.shrink_range(0..0)),
            ],
        }
    }};
}

/// Returns the table as it must appear in `README.md`.
fn table() -> String {
    const CAPACITY: u64 = 1 << 20;
    let columns = [
        column!(RwCounter = RwCounter::new()),
        column!(RwDistributed = RwDistributed::new()),
        column!(SrlArray = SrlArray::new(CAPACITY).unwrap()),
        column!(SrlPacked = SrlPacked::new(CAPACITY).unwrap()),
        column!(SrlTree = SrlTree::new(CAPACITY).unwrap()),
        column!(SrlTreePacked = SrlTreePacked::new(CAPACITY).unwrap()),
        column!(IntervalLock = IntervalLock::new()),
    ];
    let mut text = String::from("| |");
    for column in &columns {
        write!(text, " `{}` |", column.name).unwrap();
    }
    text += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
    text += "| granularity |";
    for column in &columns {
        text += match column.granularity {
            u64::MAX => " whole range |",
            1 => " exact |",
            _ => " segments |",
        };
    }
    for (row, name) in ROWS.iter().enumerate() {
        write!(text, "\n| {name} |").unwrap();
        for column in &columns {
            text += if column.has[row] {
                " yes |"
            } else {
                " **no** |"
            };
        }
    }
    text
}

#[test]
fn the_readme_says_what_each_lock_can_do() {
    let readme = include_str!("../README.md");
    let table = table();
    assert!(
        readme.contains(&format!("\n\n{table}\n\n")),
        "the table in spanlock/README.md does not match the locks; replace it with:\n\n{table}\n"
    );
}

#[test]
fn the_probe_finds_implemented_traits_only() {
    assert!(implements!(u8: Copy));
    assert!(!implements!(String: Copy));
}

//! Random batches, compared with plain bytes in memory, with checkpoints and reopenings between.

use std::sync::Arc;

use proptest::prelude::*;
use spanlock_journal_commit::testing::Recorded;
use spanlock_object_store::space::{Disk, Error, Medium, Options, Persistent};
use spanlock_pmem::simulated::Simulated;

use crate::common::{Content, Locked, MEDIUM, create, draw, open, options, perform};

/// What happens between two batches.
#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    Checkpoint,
    Reopen,
}

fn between() -> impl Strategy<Value = Between> {
    prop_oneof![
        8 => Just(Between::Nothing),
        1 => Just(Between::Checkpoint),
        1 => Just(Between::Reopen),
    ]
}

/// Performs batches and compares the space with the model after each.
fn run<M: Medium>(
    mut space: Locked<M>,
    reopened: impl Fn() -> M,
    batches: &[(u64, Between)],
) -> Result<(), TestCaseError> {
    let mut model = Content::empty();
    for (seed, between) in batches {
        let steps = draw(&mut fastrand::Rng::with_seed(*seed));
        match perform(&space, &steps) {
            Ok(()) => model.apply(&steps),
            Err(Error::NoSpace { .. }) => {}
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
        let free = space.stats().free;
        match between {
            Between::Nothing => {}
            Between::Checkpoint => space.checkpoint().unwrap(),
            Between::Reopen => {
                drop(space);
                space = open(reopened()).unwrap();
            }
        }
        prop_assert_eq!(&Content::of(&space).unwrap(), &model);
        prop_assert_eq!(space.stats().free, free);
    }
    prop_assert_eq!(space.check().unwrap(), []);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn a_space_is_plain_bytes(
        batches in prop::collection::vec((any::<u64>(), between()), 1..80),
        // Some media are so small that batches find no room.
        places in prop_oneof![Just(100), Just(30)],
        rings in 1..3_u32,
    ) {
        let options: Options = options().rings(rings, 16_384);
        let len = MEDIUM - (100 - places) * 512 + (rings as usize - 1) * 16_384;
        let device = Arc::new(Recorded::new(len));
        let space = create(Disk::new(device.clone()), &options);
        run(space, || Disk::new(device.clone()), &batches)?;
        let region = Simulated::new(&vec![0; len.next_multiple_of(512)]);
        let space = create(Persistent::new(region.clone()), &options);
        run(space, || Persistent::new(region.clone()), &batches)?;
    }
}

//! Crashes of renames, exchanges and links on a volume that groups changes: what a name stands for
//! is durable before the name is.

use std::sync::Arc;

use spanlock_file_core::{Durability, Error};
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences};
use spanlock_verify::Suite;

use crate::grouped::State;
use crate::names::{self, Names, OPS, Op, effect, told};
use crate::store::{GROUPING, PAGE, Volume, open_grouping};

const CLAIM: &str = "after a crash, every change of a name that returned is there, and so is every \
                     change of a file that returned before a name was given; any other change is \
                     there as a whole or not at all";

/// The operations that change "a" and "b". The others are those of [`OPS`].
const PATCHES: [(u32, &str); 2] = [(100, "a"), (101, "b")];

const NAMES: [Op; 6] = [
    Op::Rename,
    Op::Replace,
    Op::Link,
    Op::Unlink,
    Op::Move,
    Op::Exchange,
];

pub(crate) fn suite() -> Suite {
    let subject = Arc::new(GroupedNames);
    let medium: MakeMedium = Arc::new(|| names::medium(GROUPING));
    let operations = NAMES.map(|op| op as u32);
    let operations = [&PATCHES.map(|(number, _)| number)[..], &operations].concat();
    let alone = "the thread that gives a name syncs before it takes a mutex; the pairs are in \
                 `file-core-names`, and those of a change and a sync in `file-core-grouped`";
    let mut suite = Suite::new("file-core-grouped-names").step_bound(2_000);
    for (at, one) in operations.iter().enumerate() {
        for other in &operations[at..] {
            suite = suite.no_pair(&subject.name(*one), &subject.name(*other), alone);
        }
    }
    let sequence = |operations: &[u32], length| {
        let name = format!("sequences-of-{length}");
        sequences(&name, CLAIM, &subject, &medium, operations, length)
    };
    // Three operations of all kinds take minutes.
    let few = [PATCHES[0].0, PATCHES[1].0, Op::Exchange as u32];
    let lengths = [(&operations[..], 1), (&operations, 2), (&few, 3)];
    suite.programs(lengths.map(|(operations, length)| sequence(operations, length)))
}

/// The file that an operation changes, if it is one of [`PATCHES`].
fn patched(operation: u32) -> Option<&'static str> {
    let patch = PATCHES.iter().find(|(number, _)| *number == operation);
    patch.map(|(_, path)| *path)
}

/// Changes a file in the model, under all of its names. A file contains one letter, which tells it
/// from others, and which the change makes a capital.
fn patch(state: &mut names::State, path: &str) -> &'static str {
    let Some(before) = state.get(path).cloned() else {
        return "missing";
    };
    let after = before.as_deref().map(str::to_uppercase);
    for what in state.values_mut().filter(|it| **it == before) {
        what.clone_from(&after);
    }
    "done"
}

/// The file core with changes that become durable together, as a store of names.
struct GroupedNames;

impl Subject for GroupedNames {
    type Store = Volume;
    type State = State<names::State>;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Volume, String> {
        open_grouping(region.clone(), PAGE, Durability::AtSync).map_err(told)
    }

    fn state(&self, volume: &Volume) -> Result<Self::State, String> {
        Names.state(volume).map(State::Found)
    }

    fn go_on(&self, volume: &Volume) -> Result<(), String> {
        Names.go_on(volume)
    }

    fn apply(
        &self,
        state: &Self::State,
        operation: u32,
        result: Option<&str>,
    ) -> Option<Self::State> {
        let (mut memory, mut possible) = state.parts();
        let expected = if let Some(path) = patched(operation) {
            let mut effects = possible.clone();
            effects.iter_mut().for_each(|it| _ = patch(it, path));
            possible.extend(effects);
            patch(&mut memory, path)
        } else {
            let op = OPS[operation as usize].0;
            let done = effect(&mut memory, op);
            if op == Op::Unlink {
                possible.iter_mut().for_each(|it| _ = effect(it, op));
            } else {
                possible = vec![memory.clone()];
            }
            done
        };
        possible.sort();
        possible.dedup();
        let after = State::Expected { memory, possible };
        result.is_none_or(|it| it == expected).then_some(after)
    }

    fn name(&self, operation: u32) -> String {
        match patched(operation) {
            Some(path) => format!("patch-{path}"),
            None => Names.name(operation),
        }
    }
}

impl Crashable for GroupedNames {
    fn perform(&self, volume: &Volume, operation: u32) -> String {
        let Some(path) = patched(operation) else {
            return Names.perform(volume, operation);
        };
        let file = match volume.open_file(path) {
            Ok(file) => file,
            Err(Error::NotFound { .. }) => return "missing".to_owned(),
            Err(error) => panic!("{error}"),
        };
        let mut letter = [0];
        file.read_at(&mut letter, 0).expect("nothing fails");
        letter.make_ascii_uppercase();
        file.write_at(&letter, 0).expect("there is room");
        "done".to_owned()
    }
}

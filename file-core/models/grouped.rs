//! Crashes of volumes that group changes: each change that no sync has made durable may be lost,
//! whatever became of the others.

use std::sync::Arc;

use spanlock_file_core::{Durability, Error};
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences, threads};
use spanlock_verify::{Mode, Program, Suite};

use crate::cleaning::sparse;
use crate::store::{
    Content, Files, Handle, Kind, NO_SPACE, Open, PAGE, SHORT, content, end, full_but_for, number,
    open_grouping, roomy_grouping, thorough,
};

const CLAIM: &str = "after a crash, every change that a sync has made durable is there, and every \
                     other one is there as a whole or not at all";

/// The operation that syncs. The others are those of [`Files`].
const SYNC: u32 = u32::MAX;

const KINDS: [Kind; 6] = [
    Kind::Patch,
    Kind::Second,
    Kind::Append,
    Kind::Truncate,
    Kind::Punch,
    Kind::Create,
];

/// The operations of sequences with a cleaning on demand. A cleaning also syncs.
const CLEANED: [Kind; 5] = [
    Kind::Clean,
    Kind::Patch,
    Kind::Append,
    Kind::Truncate,
    Kind::First,
];

pub(crate) fn suites() -> [Suite; 4] {
    let roomy = On::new(roomy_grouping);
    let full = On::new(|| full_but_for(1));
    let thorough = On::new(|| thorough(1));
    let on_demand = On::new(sparse);
    let [patch, append, wide] = [Kind::Patch, Kind::Append, Kind::Wide].map(|kind| number(kind, 0));
    let [hole, cut] = [Kind::Other, Kind::Truncate].map(|kind| number(kind, 0));
    let second = number(Kind::Second, 1);
    let searched = [
        ["patch", "second"],
        ["patch", "sync"],
        ["append", "sync"],
        ["second", "sync"],
        ["wide", "sync"],
        ["hole-second", "sync"],
        ["truncate", "sync"],
        ["sync", "sync"],
    ];
    [
        suite(
            "file-core-grouped",
            &[&KINDS[..], &[Kind::Wide, Kind::Other]].concat(),
            &searched,
        )
        .programs((1..=2).map(|length| roomy.sequences(&KINDS, length)))
        // Three changes that wait for a sync have so many images that few kinds are searched.
        .program(roomy.sequences(&[Kind::Punch, Kind::Create], 3))
        .program(roomy.threads("patch-sync", [&[patch], &[SYNC]]))
        .program(roomy.threads("append-sync", [&[append], &[SYNC]]))
        .program(roomy.threads("patch-second", [&[patch], &[second]]))
        // The append keeps bytes of the write.
        .program(roomy.threads("overlaps-sync", [&[wide, append], &[SYNC]]))
        // The truncation copies no bytes of the page that the hole removes.
        .program(roomy.threads("cut-sync", [&[hole, cut], &[SYNC]]))
        .program(roomy.threads("two-syncs", [&[SYNC], &[second, SYNC]])),
        suite("file-core-grouped-full", &KINDS, &[])
            .programs((1..=2).map(|length| full.sequences(&KINDS, length))),
        suite("file-core-grouped-cleaning", &KINDS, &[])
            .programs((1..=2).map(|length| thorough.sequences(&KINDS, length))),
        suite("file-core-grouped-clean", &CLEANED, &[])
            .programs((1..=2).map(|length| on_demand.sequences(&CLEANED, length)))
            .program(on_demand.sequences(&[Kind::Clean, Kind::Truncate], 3)),
    ]
}

/// Creates a suite of these kinds and syncs, which has programs for the pairs `searched`.
fn suite(name: &str, kinds: &[Kind], searched: &[[&str; 2]]) -> Suite {
    let why = "two changes meet as in the suites of volumes that do not group them; sequences have \
               each with a sync";
    let mut names: Vec<_> = kinds.iter().map(|it| it.name()).collect();
    names.push("sync");
    let mut suite = Suite::new(name).step_bound(2_000);
    for (at, one) in names.iter().enumerate() {
        let others = names[at..].iter();
        for other in others.filter(|it| !searched.contains(&[*one, **it])) {
            suite = suite.no_pair(one, other, why);
        }
    }
    suite
}

/// The programs on one volume.
struct On {
    subject: Arc<Grouped>,
    medium: MakeMedium,
}

impl On {
    fn new(medium: fn() -> Vec<u8>) -> On {
        let files = Files {
            created: SHORT,
            segment: PAGE,
        };
        On {
            subject: Arc::new(Grouped(files)),
            medium: Arc::new(medium),
        }
    }

    fn sequences(&self, kinds: &[Kind], length: u32) -> Program {
        let name = format!("sequences-of-{length}");
        let operations = kinds.iter().map(|kind| number(*kind, 0));
        let operations: Vec<u32> = operations.chain([SYNC]).collect();
        sequences(
            &name,
            CLAIM,
            &self.subject,
            &self.medium,
            &operations,
            length,
        )
    }

    fn threads(&self, name: &str, operations: [&[u32]; 2]) -> Program {
        let modes = [Mode::Cut];
        threads(
            name,
            CLAIM,
            &self.subject,
            &self.medium,
            &operations,
            &modes,
        )
    }
}

/// The file core with changes that become durable together.
struct Grouped(Files);

/// Whether an operation is durable when it returns, although the volume groups changes.
fn is_durable(operation: u32) -> bool {
    operation == number(Kind::Create, 0)
}

/// What a volume contains.
#[derive(Clone, Debug)]
pub(crate) enum State<C> {
    /// What recovery has found.
    Found(C),
    /// What memory has, and what recovery may find.
    Expected { memory: C, possible: Vec<C> },
}

impl<C: Clone> State<C> {
    /// Returns what memory has, and what recovery may find.
    pub(crate) fn parts(&self) -> (C, Vec<C>) {
        match self {
            State::Found(found) => (found.clone(), vec![found.clone()]),
            State::Expected { memory, possible } => (memory.clone(), possible.clone()),
        }
    }
}

/// What recovery finds equals what is expected if it is possible.
impl<C: PartialEq> PartialEq for State<C> {
    fn eq(&self, other: &State<C>) -> bool {
        match (self, other) {
            (State::Found(one), State::Found(other)) => one == other,
            (State::Found(found), State::Expected { possible, .. })
            | (State::Expected { possible, .. }, State::Found(found)) => possible.contains(found),
            (
                State::Expected { memory, possible },
                State::Expected {
                    memory: other,
                    possible: others,
                },
            ) => memory == other && possible == others,
        }
    }
}

impl Subject for Grouped {
    type Store = Open;
    type State = State<Content>;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Open, String> {
        let volume = open_grouping(region.clone(), self.0.segment, Durability::AtSync);
        Ok(Open::new(volume.map_err(|why| why.to_string())?))
    }

    fn state(&self, open: &Open) -> Result<Self::State, String> {
        content(&open.volume).map(State::Found)
    }

    fn go_on(&self, open: &Open) -> Result<(), String> {
        if let Some(file) = &open.file {
            assert_zeros_past_the_end(file)?;
        }
        self.0.go_on(open)
    }

    fn apply(
        &self,
        state: &Self::State,
        operation: u32,
        result: Option<&str>,
    ) -> Option<Self::State> {
        let (memory, mut possible) = state.parts();
        if operation == SYNC || operation == number(Kind::Clean, 0) {
            possible = vec![memory.clone()];
            return Some(State::Expected { memory, possible });
        }
        let after = self.0.apply(&memory, operation, result)?;
        if result != Some(NO_SPACE) {
            let effect = |it: &Content| self.0.effect(it, operation, end(&memory));
            let effects: Vec<Content> = possible.iter().map(effect).collect();
            if is_durable(operation) {
                possible.clear();
            }
            possible.extend(effects);
            possible.sort();
            possible.dedup();
        }
        Some(State::Expected {
            memory: after,
            possible,
        })
    }

    fn name(&self, operation: u32) -> String {
        match operation {
            SYNC => "sync".to_owned(),
            _ => self.0.name(operation),
        }
    }
}

/// Makes the file longer: the new bytes must be zero.
fn assert_zeros_past_the_end(file: &Handle) -> Result<(), String> {
    let size = file.size();
    match file.truncate(size.next_multiple_of(PAGE)) {
        Ok(()) => {}
        Err(Error::NoSpace { .. }) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    }
    let mut grown = vec![1; (file.size() - size) as usize];
    let read = file.read_at(&mut grown, size);
    read.map_err(|why| why.to_string())?;
    match grown.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(format!("bytes past the end of {size} are not zero")),
    }
}

impl Crashable for Grouped {
    fn perform(&self, open: &Open, operation: u32) -> String {
        match operation {
            SYNC => {
                open.volume.sync().expect("the region does not panic");
                "done".to_owned()
            }
            _ => self.0.perform(open, operation),
        }
    }
}

//! Crashes of a file that is changed while it gets another name: each change of its content beside
//! a rename within the directory and a rename to another one, and sequences of these. Also renames
//! that add a page to a directory's log.

use std::sync::Arc;

use spanlock_file_core::Error;
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences, threads};
use spanlock_verify::{Program, Suite};

use crate::names::NEW;
use crate::store::{
    Content, FILE, Files, Kind, Open, PAGE, SHORT, Volume, WHY_BOUNDED, fill_log, fill_names,
    format, needs_a_page, number,
};

const CLAIM: &str = "after a crash, every change of the file and every rename that returned is \
                     there, every other one is there as a whole or not at all, and the file has \
                     one name";

/// The operations that rename the file: within the root, and to a directory. The others are those
/// of [`Files`].
const RENAME: u32 = u32::MAX;
const MOVE: u32 = u32::MAX - 1;

const RENAMES: [u32; 2] = [RENAME, MOVE];

/// The changes of the file.
const CHANGES: [Kind; 4] = [Kind::Patch, Kind::Append, Kind::Truncate, Kind::Punch];

/// The name in the directory.
const MOVED: &str = "d/x";

const CHANGES_ALONE: &str = "`file-core` and `file-core-page-end` have the pairs of changes";
const NAMES_ALONE: &str = "`file-core-names` has the pairs of renames";

/// The suite of volumes whose logs have room.
pub(crate) fn suite() -> Suite {
    let on = On::new(roomy, NEW, SHORT);
    let suite = on.suite("file-core-names-and-data");
    let suite = suite.programs(on.beside(RENAME));
    let suite = suite.programs(on.beside(MOVE));
    suite.programs([1, 2].map(|length| on.sequences(&CHANGES, length)))
}

/// The suite of volumes on which a change adds a page to the file's log.
pub(crate) fn file_page_end() -> Suite {
    let on = On::new(full_file, OTHER, SHORT);
    let suite = on.suite("file-core-names-and-data-page-end");
    let suite = suite.programs(on.beside(RENAME));
    let [patch, append, truncate, punch] = on.beside(MOVE);
    let suite = suite.programs([patch, append, truncate, punch.bounded(1, WHY_BOUNDED)]);
    suite.program(on.sequences(&CHANGES, 2))
}

/// The suite of volumes on which a rename or a creation adds a page to a directory's log.
pub(crate) fn directory_page_end() -> Suite {
    let root = On::new(full_directories, OTHER, SHORT);
    let directory = On::new(full_directories, OTHER, "d/b");
    let all = On::new(full_logs, OTHER, SHORT);
    let [patch, create] = [Kind::Patch, Kind::Create].map(|kind| number(kind, 0));
    let other = "`file-core-page-end` has this pair";
    let suite = Suite::new("file-core-names-page-end").step_bound(2_000);
    let suite = suite
        .no_pair("patch", "patch", other)
        .no_pair("patch", "create", other)
        .no_pair("create", "create", other);
    suite
        .program(root.pair(patch, RENAME))
        .program(root.pair(patch, MOVE))
        .program(root.pair(create, RENAME))
        .program(directory.pair(create, MOVE))
        .program(root.pair(RENAME, RENAME))
        .program(root.pair(RENAME, MOVE))
        .program(root.pair(MOVE, MOVE))
        .program(all.named("full-logs-patch-rename", patch, RENAME))
        .program(root.sequences(&[Kind::Patch, Kind::Create], 2))
}

/// Another name of one slot than [`SHORT`].
const OTHER: &str = "c";

/// The programs on one volume.
struct On {
    medium: MakeMedium,
    mixed: Arc<Mixed>,
}

impl On {
    /// The file is renamed to `renamed`, and `created` is the file that is created.
    fn new(make: fn() -> Vec<u8>, renamed: &'static str, created: &'static str) -> On {
        On {
            medium: Arc::new(make),
            mixed: Arc::new(Mixed {
                files: Files {
                    created,
                    segment: PAGE,
                    lanes: &[],
                },
                renamed,
            }),
        }
    }

    /// Returns a suite without programs, and without the pairs that other suites have.
    fn suite(&self, name: &str) -> Suite {
        let mut suite = Suite::new(name).step_bound(2_000);
        let names = RENAMES.map(|it| self.mixed.name(it));
        for (alone, why) in [
            (&CHANGES.map(|it| it.name().to_owned())[..], CHANGES_ALONE),
            (&names, NAMES_ALONE),
        ] {
            for (at, one) in alone.iter().enumerate() {
                for other in &alone[at..] {
                    suite = suite.no_pair(one, other, why);
                }
            }
        }
        suite
    }

    /// Returns a program for each change beside a rename.
    fn beside(&self, rename: u32) -> [Program; CHANGES.len()] {
        CHANGES.map(|kind| self.pair(number(kind, 0), rename))
    }

    fn pair(&self, one: u32, other: u32) -> Program {
        let [first, second] = [one, other].map(|it| self.mixed.name(it));
        self.named(&format!("{first}-{second}"), one, other)
    }

    fn named(&self, name: &str, one: u32, other: u32) -> Program {
        let operations: [&[u32]; 2] = [&[one], &[other]];
        threads(name, CLAIM, &self.mixed, &self.medium, &operations)
    }

    /// Returns a program of all sequences of so many renames and operations of `kinds`.
    fn sequences(&self, kinds: &[Kind], length: u32) -> Program {
        let operations = kinds.iter().map(|kind| number(*kind, 0));
        let operations: Vec<u32> = operations.chain(RENAMES).collect();
        let name = format!("sequences-of-{length}");
        sequences(&name, CLAIM, &self.mixed, &self.medium, &operations, length)
    }
}

/// A volume with free space, and with a directory whose log has a page. A first page has many
/// images, and [`full_directories`] covers pages that are added.
fn with_directory() -> Volume {
    let volume = format(32);
    volume.create_dir("d").expect("there is room");
    volume.create("d/gone").expect("there is room");
    volume.remove("d/gone").expect("it is there");
    volume
}

fn roomy() -> Vec<u8> {
    with_directory().pmem().bytes()
}

fn full_file() -> Vec<u8> {
    let volume = with_directory();
    fill_log(&volume, 0);
    volume.pmem().bytes()
}

/// A volume on which the next name in the root and in the directory each adds a page to a log, and
/// the file's log has room.
fn full_directories() -> Vec<u8> {
    filled().pmem().bytes()
}

/// A volume as [`full_directories`], on which a change of the file adds a page to its log, too.
fn full_logs() -> Vec<u8> {
    let volume = filled();
    fill_log(&volume, 0);
    volume.pmem().bytes()
}

fn filled() -> Volume {
    let volume = with_directory();
    for directory in ["", "d/"] {
        fill_names(&volume, directory);
    }
    for to in [OTHER, MOVED] {
        let rename = |volume: &Volume| volume.rename(FILE, to).expect("there is room");
        assert!(needs_a_page(&volume, rename), "the log has room for {to}");
    }
    volume
}

/// The file core, as a store whose file has one of several names.
struct Mixed {
    files: Files,
    /// The name that a rename within the root gives the file.
    renamed: &'static str,
}

impl Mixed {
    /// Returns the path that a rename gives the file; `None` for another operation.
    fn target(&self, operation: u32) -> Option<&'static str> {
        match operation {
            RENAME => Some(self.renamed),
            MOVE => Some(MOVED),
            _ => None,
        }
    }

    /// Returns the file's path, which is the one that exists.
    fn place(&self, exists: impl Fn(&str) -> bool) -> Result<&'static str, String> {
        let places = [FILE, self.renamed, MOVED];
        let mut found = places.into_iter().filter(|it| exists(it));
        match (found.next(), found.next()) {
            (Some(place), None) => Ok(place),
            _ => Err(format!("not one of {places:?} is there")),
        }
    }
}

/// Renames in the model. Returns the result.
fn rename(state: &mut Content, from: &str, to: &str) -> &'static str {
    match state.remove(from) {
        Some(file) => {
            state.insert(to.to_owned(), file);
            "done"
        }
        None => "missing",
    }
}

impl Subject for Mixed {
    type Store = Open;
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Open, String> {
        let volume = self.files.recover(region)?.volume;
        let place = self.place(|it| volume.exists(it))?;
        let file = volume.open_file(place).map_err(|why| why.to_string())?;
        let file = Some(file);
        Ok(Open { volume, file })
    }

    fn state(&self, open: &Open) -> Result<Content, String> {
        self.files.state(open)
    }

    /// Gives the file its first name back, unless it has it. Then goes on as [`Files`].
    fn go_on(&self, open: &Open) -> Result<(), String> {
        let place = self.place(|it| open.volume.exists(it))?;
        let back = open.volume.rename(place, FILE);
        back.map_err(|why| format!("{place} cannot be renamed: {why}"))?;
        self.files.go_on(open)
    }

    fn apply(&self, state: &Content, operation: u32, result: Option<&str>) -> Option<Content> {
        let mut state = state.clone();
        if let Some(to) = self.target(operation) {
            let expected = rename(&mut state, FILE, to);
            return result.is_none_or(|it| it == expected).then_some(state);
        }
        // The handle is one of the file, whatever the file's name is.
        let place = self.place(|it| state.contains_key(it)).ok()?;
        rename(&mut state, place, FILE);
        let mut state = self.files.apply(&state, operation, result)?;
        rename(&mut state, FILE, place);
        Some(state)
    }

    fn name(&self, operation: u32) -> String {
        match operation {
            RENAME => "rename".to_owned(),
            MOVE => "move".to_owned(),
            _ => self.files.name(operation),
        }
    }
}

impl Crashable for Mixed {
    fn perform(&self, open: &Open, operation: u32) -> String {
        let Some(to) = self.target(operation) else {
            return self.files.perform(open, operation);
        };
        match open.volume.rename(FILE, to) {
            Ok(()) => "done".to_owned(),
            Err(Error::NotFound { .. }) => "missing".to_owned(),
            Err(error) => panic!("{error}"),
        }
    }
}

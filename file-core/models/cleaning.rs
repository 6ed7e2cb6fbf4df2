//! Crashes of cleanings on request: each together with an operation in another thread, and in
//! sequences.

use std::sync::Arc;

use spanlock_file_core::Error;
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::{Crashable, MakeMedium, sequences, threads};
use spanlock_verify::Suite;

use crate::store::{
    Content, DIRECTORY, FILE, Files, Handle, Kind, LARGEST, Open, PAGE, SHORT, Volume, WHY_BOUNDED,
    content, format, needs_a_page, number, open,
};

/// The operations beside a cleaning, in another thread and in sequences.
const OTHERS: [Kind; 6] = [
    Kind::Patch,
    Kind::Append,
    Kind::Truncate,
    Kind::Punch,
    Kind::Create,
    Kind::Remove,
];

/// The renames beside a cleaning. Sequences have none: the model follows no file to its new name.
const RENAMES: [Kind; 2] = [Kind::Rename, Kind::Across];

const CLAIM: &str = "after a crash, a cleaning has changed nothing that a file contains, and a \
                     volume of which everything is removed and cleaned has no page in use";

pub(crate) fn suites() -> [Suite; 3] {
    let long = [Kind::Append, Kind::Truncate, Kind::Punch];
    [
        suite("file-core-unlinked", unlinked, &[]),
        suite("file-core-sparse", sparse, &long),
        suite("file-core-emptied", emptied, &[]),
    ]
}

/// Returns a suite that searches crashes of a cleaning beside each operation, for those in
/// `bounded` with a bound, and of sequences.
fn suite(suite_name: &str, medium: fn() -> Vec<u8>, bounded: &[Kind]) -> Suite {
    let subject = Arc::new(Cleaned::new());
    let mut suite = Suite::new(suite_name).step_bound(2_000);
    let twice = "two cleanings exclude each other from their first step on";
    suite = suite.no_pair("clean", "clean", twice);
    let others = [&OTHERS[..], &RENAMES].concat();
    for (at, one) in others.iter().enumerate() {
        for other in &others[at..] {
            suite = suite.no_pair(one.name(), other.name(), "a pair of another suite");
        }
        let medium: MakeMedium = match one {
            Kind::Across => Arc::new(move || with_directory(medium())),
            _ => Arc::new(medium),
        };
        let name = format!("clean-{}", one.name());
        let operations: [&[u32]; 2] = [&[number(Kind::Clean, 0)], &[number(*one, 1)]];
        let program = threads(&name, CLAIM, &subject, &medium, &operations);
        suite = suite.program(match bounded.contains(one) {
            true => program.bounded(1, WHY_BOUNDED),
            false => program,
        });
    }
    let all = [&[Kind::Clean], &OTHERS[..]].concat();
    let all: Vec<_> = all.iter().map(|it| number(*it, 0)).collect();
    let medium: MakeMedium = Arc::new(medium);
    suite.programs((1..=3).map(|length| {
        let name = format!("sequences-of-{length}");
        sequences(&name, CLAIM, &subject, &medium, &all, length)
    }))
}

/// [`Files`], which are removed in the end.
pub(crate) struct Cleaned(Files);

impl Cleaned {
    pub(crate) fn new() -> Cleaned {
        Cleaned(Files {
            created: SHORT,
            segment: LARGEST,
            lanes: &[],
        })
    }

    /// Recovers a volume from what is on its medium.
    fn again(&self, volume: &Volume) -> Result<Volume, String> {
        let region = Simulated::new(&volume.pmem().bytes());
        self.recover(&region).map(|open| open.volume)
    }
}

/// Removes all files and the directory, and cleans.
pub(crate) fn give_all_back(volume: &Volume) -> Result<(), Error> {
    for (name, _) in volume.list() {
        volume.remove(&name)?;
    }
    if volume.exists(DIRECTORY) {
        volume.remove_dir(DIRECTORY)?;
    }
    volume.clean().map(drop)
}

fn told(why: Error) -> String {
    why.to_string()
}

/// Overwrites the start of the file until the next write needs a page of the log.
fn fill_page(volume: &Volume, file: &Handle) {
    let overwrite = |file: &Handle| file.write_at(b"content.", 0).expect("there is room");
    overwrite(file);
    while !needs_a_page(volume, |it| {
        overwrite(&it.open_file(FILE).expect("it is there"))
    }) {
        overwrite(file);
    }
}

fn file_of(volume: &Volume) -> Handle {
    volume.open_file(FILE).expect("it is there")
}

/// A volume whose file has a log of two pages. Of the first, nothing is needed.
pub(crate) fn unlinked() -> Vec<u8> {
    let volume = format(32);
    let file = file_of(&volume);
    fill_page(&volume, &file);
    for page in 0..2 {
        let written = file.write_at(b"content.", page * PAGE);
        written.expect("there is room");
    }
    assert_eq!(volume.stats().log_pages, 3);
    volume.pmem().bytes()
}

/// A volume whose file has a log of three pages with a needed group each.
pub(crate) fn sparse() -> Vec<u8> {
    let volume = format(32);
    let file = file_of(&volume);
    file.write_at(b"content.", 2 * PAGE).expect("there is room");
    fill_page(&volume, &file);
    file.write_at(b"content.", PAGE).expect("there is room");
    fill_page(&volume, &file);
    file.write_at(b"content.", 0).expect("there is room");
    assert_eq!(volume.stats().log_pages, 4);
    volume.pmem().bytes()
}

/// Adds a directory, whose log has a page already.
fn with_directory(medium: Vec<u8>) -> Vec<u8> {
    let volume = open(Simulated::new(&medium)).expect("the medium is sound");
    volume.create_dir(DIRECTORY).expect("there is room");
    let name = format!("{DIRECTORY}/gone");
    volume.create(&name).expect("there is room");
    volume.remove(&name).expect("it is there");
    volume.pmem().bytes()
}

/// A volume whose root has a log of three pages with a name each.
pub(crate) fn scattered() -> Vec<u8> {
    let volume = format(32);
    let long = "n".repeat(1_000);
    for name in ["b", "d"] {
        // More than a page of names that are gone.
        for _ in 0..4 {
            volume.create(&long).expect("there is room");
            volume.remove(&long).expect("it is there");
        }
        volume.create(name).expect("there is room");
    }
    assert_eq!(volume.stats().log_pages, 4);
    volume.pmem().bytes()
}

/// A volume whose file is empty and has a log of one page.
pub(crate) fn emptied() -> Vec<u8> {
    let volume = format(32);
    file_of(&volume).truncate(0).expect("there is room");
    volume.pmem().bytes()
}

impl Subject for Cleaned {
    type Store = Open;
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Open, String> {
        self.0.recover(region)
    }

    fn state(&self, open: &Open) -> Result<Content, String> {
        self.0.state(open)
    }

    /// Cleans what another recovery finds, goes on, and empties a file. When everything has been
    /// removed and cleaned, no page is in use, nor does another recovery find one.
    fn go_on(&self, open: &Open) -> Result<(), String> {
        let cleaned = self.again(&open.volume)?;
        cleaned.clean().map_err(told)?;
        if content(&cleaned)? != content(&open.volume)? {
            return Err("a cleaning has changed a file".to_owned());
        }
        self.0.go_on(open)?;
        let volume = self.again(&open.volume)?;
        let emptied = volume.open_file("new").and_then(|file| {
            file.truncate(0)?;
            file.clean()
        });
        emptied.map_err(told)?;
        for volume in [cleaned, volume] {
            give_all_back(&volume).map_err(told)?;
            for stats in [volume.stats(), self.again(&volume)?.stats()] {
                if stats.pages_free != stats.pages_total {
                    return Err(format!("pages are in use: {stats:?}"));
                }
            }
        }
        Ok(())
    }

    fn apply(&self, state: &Content, operation: u32, result: Option<&str>) -> Option<Content> {
        self.0.apply(state, operation, result)
    }

    fn name(&self, operation: u32) -> String {
        self.0.name(operation)
    }
}

impl Crashable for Cleaned {
    fn perform(&self, open: &Open, operation: u32) -> String {
        self.0.perform(open, operation)
    }
}

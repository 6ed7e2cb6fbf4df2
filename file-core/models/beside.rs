//! Cleanings beside each change of the file and beside a reader: what memory has, and what recovery
//! finds.
//!
//! `cleaning.rs` searches the crashes of changes of a file beside its cleaning.

use std::sync::{Arc, Mutex, OnceLock};

use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::Crashable;
use spanlock_verify::{self as verify, Program, Suite};

use crate::cleaning::{Cleaned, emptied, give_all_back, scattered, sparse, unlinked};
use crate::store::{Content, FILE, Kind, Open, WHY_BOUNDED, content, number};

/// The operations beside a cleaning of the file's log.
const OTHERS: [Kind; 4] = [Kind::Patch, Kind::Append, Kind::Truncate, Kind::Punch];

const CLAIM: &str = "a cleaning changes nothing that the other thread's operation does not change, \
                     nor what recovery finds, and leaks no page";

/// What a cleaning does to the log of a file.
const CLEANINGS: [(&str, MakeBytes); 3] =
    [("unlink", unlinked), ("compact", sparse), ("last", emptied)];

type MakeBytes = fn() -> Vec<u8>;

pub(crate) fn suite() -> Suite {
    let mut suite = Suite::new("file-core-beside-cleaning").step_bound(4_000);
    let names = OTHERS.map(Kind::name);
    let names = [&names[..], &["rename", "remove"]].concat();
    for (at, one) in names.iter().enumerate() {
        for other in &names[at..] {
            suite = suite.no_pair(one, other, "a pair of another suite");
        }
        suite = suite.no_pair("read", one, "this suite is about cleanings");
    }
    suite = suite.no_pair("read", "read", "this suite is about cleanings");
    suite = suite.no_pair("clean", "clean", "two threads that clean a log take turns");
    for (cleaning, medium) in CLEANINGS {
        suite = suite.programs(OTHERS.map(|kind| {
            let name = format!("{cleaning}-{}", kind.name());
            let scene = Program::new(name, CLAIM).scene(scene(medium));
            let scene = scene.thread(["clean"], |it| it.clean_file());
            let scene = scene.thread([kind.name()], move |it| it.perform(kind));
            let program = Program::from(scene.at_end(move |it| it.assert_sound(Some(kind))));
            match cleaning == "compact" && kind != Kind::Patch {
                true => program.unexplored(WHY_BOUNDED),
                false => program,
            }
        }));
    }
    // The suite `file-core-memory` has a reader beside a compaction.
    for (cleaning, medium) in [("unlink", unlinked as MakeBytes), ("last", emptied)] {
        let scene = Program::new(format!("{cleaning}-read"), CLAIM).scene(scene(medium));
        let scene = scene.thread(["clean"], |it| it.clean_file());
        let scene = scene.thread(["read"], |it| it.read());
        suite = suite.program(scene.at_end(|it| it.assert_sound(None)));
    }
    // These change the log of a directory.
    let names = |name| Program::new(name, CLAIM).scene(scene(scattered));
    let rename = names("names-rename").thread(["clean"], |it| it.clean_all());
    let rename = rename.thread(["rename"], |it| it.perform(Kind::Rename));
    let remove = names("names-remove").thread(["clean"], |it| it.clean_all());
    let remove = remove.thread(["remove"], |it| it.perform(Kind::Remove));
    suite
        .program(rename.at_end(|it| it.assert_sound(Some(Kind::Rename))))
        .program(remove.at_end(|it| it.assert_sound(Some(Kind::Remove))))
}

/// Returns a function that recovers a volume from the medium that `make` makes once.
fn scene(make: MakeBytes) -> impl Fn() -> Beside {
    let medium = OnceLock::new();
    move || {
        let (bytes, before) = medium.get_or_init(|| {
            let made = Arc::new(Mutex::new(None));
            let into = made.clone();
            verify::apart(Box::new(move || {
                let bytes = make();
                let open = recover(&bytes);
                let content = Cleaned::new().state(&open).expect("the medium is sound");
                *into.lock().expect("no panic") = Some((bytes, content));
            }));
            let made = made.lock().expect("no panic").take();
            made.expect("the function has run")
        });
        Beside {
            before: before.clone(),
            open: Mutex::new(Some(Arc::new(recover(bytes)))),
        }
    }
}

fn recover(bytes: &[u8]) -> Open {
    let open = Cleaned::new().recover(&Simulated::new(bytes));
    open.expect("the medium is sound")
}

/// An open volume whose file is changed while logs are cleaned.
struct Beside {
    before: Content,
    /// Taken in the end, because a removed file takes space while it is open.
    open: Mutex<Option<Arc<Open>>>,
}

impl Beside {
    fn open(&self) -> Arc<Open> {
        let open = self.open.lock().expect("no panic");
        open.clone().expect("the threads have not ended")
    }

    fn clean_file(&self) {
        self.perform(Kind::Clean);
    }

    fn clean_all(&self) {
        let cleaned = self.open().volume.clean();
        cleaned.expect("no operation has panicked");
    }

    fn perform(&self, kind: Kind) {
        Cleaned::new().perform(&self.open(), number(kind, 0));
    }

    /// Reads the start of the file, which no thread changes.
    fn read(&self) {
        let mut found = [0; 8];
        let read = self.open().file().read_at(&mut found, 0);
        let read = read.expect("the range is valid");
        // The size comes first.
        let (_, content) = self.before[FILE].split_at(8);
        assert_eq!(found[..read], content[..content.len().min(8)]);
    }

    /// Asserts that the volume contains what `kind` makes of the content before, and that no page
    /// is lost.
    fn assert_sound(&self, kind: Option<Kind>) {
        let expected = match kind {
            Some(kind) => {
                let after = Cleaned::new().apply(&self.before, number(kind, 0), None);
                after.expect("the operation is possible")
            }
            None => self.before.clone(),
        };
        let volume = self.open().volume.clone();
        self.open.lock().expect("no panic").take();
        let again = recover(&volume.pmem().bytes()).volume;
        for volume in [&volume, &again] {
            let found = content(volume).expect("it is sound");
            assert_eq!(found, expected);
        }
        assert_eq!(volume.stats().pages_free, again.stats().pages_free);
        give_all_back(&volume).expect("nobody uses the volume");
        let again = recover(&volume.pmem().bytes()).volume;
        assert_eq!(again.list(), []);
        for stats in [volume.stats(), again.stats()] {
            assert_eq!(stats.pages_free, stats.pages_total);
        }
    }
}

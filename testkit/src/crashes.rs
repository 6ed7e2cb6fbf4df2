//! Programs that crash: the operations of a store, in threads or one after another, on a
//! [simulated region](spanlock_pmem::simulated) whose crash images are all judged.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use spanlock_pmem::simulated::{Method, Search, Subject, Wrong};
use spanlock_sync::thread;
use spanlock_verify::{self as verify, ComesBefore, Crashes, Images, Mode, Program, WithOrder};

/// Makes the content of a medium.
pub type MakeMedium = Arc<dyn Fn() -> Vec<u8> + Send + Sync>;

/// A store whose operations programs perform.
pub trait Crashable: Subject<Store: Send + Sync> {
    /// Performs an operation, and returns its result in words.
    fn perform(&self, store: &Self::Store, operation: u32) -> String;
}

/// A store on a medium of given content, and the crash images of one program on it.
struct Crashing<S> {
    subject: Arc<S>,
    medium: MakeMedium,
    search: OnceLock<Search>,
}

impl<S: Crashable> Crashing<S> {
    fn search(&self) -> &Search {
        self.search.get_or_init(|| {
            let made = Arc::new(Mutex::new(Vec::new()));
            let (medium, into) = (self.medium.clone(), made.clone());
            let make = move || *into.lock().unwrap_or_else(PoisonError::into_inner) = medium();
            verify::apart(Box::new(make));
            let method = match verify::mode() {
                Some(Mode::Explorer) => Method::Cut,
                _ => Method::Global,
            };
            let medium = made.lock().unwrap_or_else(PoisonError::into_inner);
            let search = Search::new(&medium, method, verify::step);
            match verify::mode() {
                Some(Mode::Sequence) => search.kills(),
                _ => search,
            }
        })
    }

    /// Runs the operations of each thread, the main thread's first.
    fn run(&self, threads: &[Vec<u32>]) {
        let search = self.search();
        let region = search.region();
        let store = self.subject.recover(&region);
        let store = Arc::new(store.expect("the medium is sound"));
        region.watch();
        verify::finished();
        let work = |operations: Vec<u32>| {
            let (region, store, subject) = (region.clone(), store.clone(), self.subject.clone());
            move || {
                for operation in operations {
                    region.perform(operation, || subject.perform(&store, operation));
                    verify::perform(subject.name(operation));
                }
            }
        };
        let others: Vec<_> = (threads[1..].iter())
            .map(|operations| thread::spawn(work(operations.clone())))
            .collect();
        work(threads[0].clone())();
        for other in others {
            other.join().expect("a thread panicked");
        }
        search.end(&region);
    }
}

impl<S: Crashable> Crashes for Crashing<S> {
    fn executed(&self, comes_before: &ComesBefore<'_>, with_order: &WithOrder<'_>) {
        self.search().record_cuts(comes_before, with_order);
    }

    fn judge(&self) -> Result<Images, String> {
        let apart = |run: Box<dyn FnOnce() + Send>| verify::apart(run);
        let judged = self.search().judge(&self.subject, apart).map_err(report)?;
        Ok(Images {
            count: judged.images,
            during_recovery: judged.during_recovery,
            kills: judged.kills,
        })
    }
}

/// Writes a wrong image to a file beside the executable, and returns the report.
fn report(Wrong { mut text, image }: Wrong) -> String {
    let Some(image) = image else { return text };
    let name = format!("crash-{}.image", std::process::id());
    let exe = std::env::current_exe().unwrap_or_default();
    let path = exe.with_file_name(name);
    let written = std::fs::write(&path, &image);
    text += &match written {
        Ok(()) => format!("the image: {}", path.display()),
        Err(why) => format!(
            "the image could not be written to {}: {why}",
            path.display()
        ),
    };
    text
}

/// Returns a program whose threads perform `operations`, the main thread's first.
pub fn threads<S: Crashable>(
    name: &str,
    claim: &str,
    subject: &Arc<S>,
    medium: &MakeMedium,
    operations: &[&[u32]],
) -> Program {
    let crashing = crashing(subject, medium);
    let names = |its: &&[u32]| its.iter().map(|it| subject.name(*it)).collect::<Vec<_>>();
    let program = Program::new(name, claim).performs(operations.iter().map(names));
    let operations: Vec<Vec<u32>> = operations.iter().map(|its| its.to_vec()).collect();
    let crashes = crashing.clone();
    program
        .run(move || crashing.run(&operations))
        .crashes(crashes)
}

/// Returns a program of one thread that performs every sequence of `length` of the operations, each
/// on a new store.
pub fn sequences<S: Crashable>(
    name: &str,
    claim: &str,
    subject: &Arc<S>,
    medium: &MakeMedium,
    operations: &[u32],
    length: u32,
) -> Program {
    let crashing = crashing(subject, medium);
    let names: Vec<_> = operations.iter().map(|it| subject.name(*it)).collect();
    let crashes = crashing.clone();
    let operations = operations.to_vec();
    let run = move || {
        for number in 0..operations.len().pow(length) {
            let digit = |at| operations[number / operations.len().pow(at) % operations.len()];
            crashing.run(&[(0..length).map(digit).collect()]);
        }
    };
    Program::new(name, claim)
        .performs([names])
        .run(run)
        .crashes(crashes)
}

fn crashing<S: Crashable>(subject: &Arc<S>, medium: &MakeMedium) -> Arc<Crashing<S>> {
    Arc::new(Crashing {
        subject: subject.clone(),
        medium: medium.clone(),
        search: OnceLock::new(),
    })
}

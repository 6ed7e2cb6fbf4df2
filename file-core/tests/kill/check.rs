//! The check after a kill: what must be in the volume, what may be, and that nothing else is.
//!
//! Each thread has files of its own. Nobody else writes them, so they are as its last returned
//! operation left them, or as the operation in flight leaves them.
//!
//! All threads write the shared file. A write is *later* than another if it began after the other
//! had returned; otherwise either may have been last. Two rules follow:
//!
//! - Every page shows one write of that page, or its earlier content.
//! - No page shows a write if a later write of that page *took place*: it returned, or some page
//!   shows it.
//!
//! The second rule says that a returned write is not lost. It also says that a write in flight is
//! in all of its pages or in none.

use std::str::FromStr;

use spanlock_file_core::{DirEntry, Error, Kind as NameKind};

use crate::model::{Model, Seen};
use crate::op::{Answer, Kind, Op, SHARED, SHARED_PAGES, perform};
use crate::{PAGE, THREADS, Volume};

/// A line that the child writes. A line arrives whole or not at all, and the lines of all threads
/// are in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A thread is about to begin an operation.
    Start(usize, Op),
    /// The thread's operation has returned.
    End(usize, Answer),
    /// How often logs were cleaned since the volume was opened.
    Cleaned(u64),
    /// All threads have paused, and the volume was closed. It is opened again.
    Closed,
}

impl Line {
    pub(crate) fn text(&self) -> String {
        match self {
            Line::Start(thread, op) => format!("start {thread} {op}"),
            Line::End(thread, answer) => format!("end {thread} {answer}"),
            Line::Cleaned(count) => format!("cleaned {count}"),
            Line::Closed => "closed".to_owned(),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("not a line of the child: {line:?}");
        if line == "closed" {
            return Ok(Line::Closed);
        }
        let (word, rest) = line.split_once(' ').ok_or_else(wrong)?;
        if word == "cleaned" {
            return rest.parse().map(Line::Cleaned).map_err(|_| wrong());
        }
        let (thread, rest) = rest.split_once(' ').ok_or_else(wrong)?;
        let thread = thread.parse().map_err(|_| wrong())?;
        match word {
            "start" => Ok(Line::Start(thread, rest.parse()?)),
            "end" => Ok(Line::End(thread, rest.parse()?)),
            _ => Err(wrong()),
        }
    }
}

/// What a volume contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    own: Vec<Model>,
    /// The seed of the write that each page of the shared file shows; 0 if none.
    shared: Vec<u64>,
}

impl State {
    /// Returns the state of a volume whose shared file has just been created.
    pub(crate) fn new() -> State {
        State {
            own: vec![Model::default(); THREADS],
            shared: vec![0; SHARED_PAGES as usize],
        }
    }

    /// Checks the volume, which had this state before a child wrote `told`. Returns what it
    /// contains now.
    pub(crate) fn check(&self, volume: &Volume, told: &[Line]) -> Result<State, String> {
        let report = volume.check().map_err(|why| why.to_string())?;
        if !report.damaged.is_empty() {
            return Err(format!("damaged pages: {:?}", report.damaged));
        }
        let (mut now, mut known) = (State::new(), 1);
        for (thread, own) in now.own.iter_mut().enumerate() {
            let seen = Seen::read(volume, thread)?;
            let explained = self.own[thread].explain(&seen, &operations(told, thread));
            *own = explained.map_err(|why| format!("thread {thread}: {why}"))?;
            known += seen.len();
        }
        let mut names = Vec::new();
        walk(volume, "", &mut names).map_err(|why| why.to_string())?;
        if names.len() != known {
            return Err(format!(
                "there are names that nobody has created: {names:?}"
            ));
        }
        now.shared = Shared::new(&self.shared, told).check(&read_shared(volume)?)?;
        Ok(now)
    }
}

/// Adds the paths of all files and directories in a directory.
fn walk(volume: &Volume, directory: &str, paths: &mut Vec<String>) -> Result<(), Error> {
    for DirEntry { name, kind, .. } in volume.read_dir(directory)? {
        let path = match directory {
            "" => name,
            _ => format!("{directory}/{name}"),
        };
        if kind == NameKind::Directory {
            walk(volume, &path, paths)?;
        }
        paths.push(path);
    }
    Ok(())
}

/// Returns the operations of a thread, and their answers. The last may have none.
pub(crate) fn operations(told: &[Line], thread: usize) -> Vec<(Op, Option<Answer>)> {
    let mut all: Vec<(Op, Option<Answer>)> = Vec::new();
    for line in told {
        match *line {
            Line::Start(by, op) if by == thread => all.push((op, None)),
            Line::End(by, answer) if by == thread => {
                all.last_mut()
                    .expect("an operation starts before it ends")
                    .1 = Some(answer);
            }
            _ => {}
        }
    }
    all
}

/// Reads the shared file. Returns the seed of each page; 0 if it is empty.
fn read_shared(volume: &Volume) -> Result<Vec<u64>, String> {
    let file = volume.open_file(SHARED).map_err(|why| why.to_string())?;
    let mut bytes = vec![0; (SHARED_PAGES * PAGE) as usize];
    file.read_at(&mut bytes, 0).map_err(|why| why.to_string())?;
    let seed = |(number, page): (usize, &[u8])| {
        let (words, _) = page.as_chunks();
        let seed = u64::from_le_bytes(words[0]);
        match words.iter().all(|word| *word == words[0]) {
            true => Ok(seed),
            false => Err(format!("page {number} is torn")),
        }
    };
    bytes.chunks(PAGE as usize).enumerate().map(seed).collect()
}

/// A write of the shared file, and when it began and returned. Earlier content is a write that
/// began and returned at 0.
struct Stamp {
    pages: std::ops::Range<u64>,
    seed: u64,
    began: usize,
    /// If it has returned, it must be there, or a later one.
    returned: Option<usize>,
}

impl Stamp {
    fn is_later(&self, other: &Stamp) -> bool {
        other.returned.is_some_and(|returned| self.began > returned)
    }
}

/// All writes of the shared file that may have taken place.
struct Shared(Vec<Stamp>);

impl Shared {
    fn new(before: &[u64], told: &[Line]) -> Shared {
        let earlier = before.iter().zip(0..).map(|(&seed, page)| Stamp {
            pages: page..page + 1,
            seed,
            began: 0,
            returned: Some(0),
        });
        let mut stamps: Vec<Stamp> = earlier.collect();
        let mut open = [None; THREADS];
        for (line, at) in told.iter().zip(1..) {
            match *line {
                Line::Start(thread, op) if op.kind == Kind::Stamp => {
                    open[thread] = Some(stamps.len());
                    stamps.push(Stamp {
                        pages: op.at..op.at + op.len,
                        seed: op.seed,
                        began: at,
                        returned: None,
                    });
                }
                Line::End(thread, answer) => match (open[thread].take(), answer) {
                    (Some(stamp), Answer::Done) => {
                        stamps[stamp].returned = Some(at);
                    }
                    // It must show nowhere.
                    (Some(stamp), _) => stamps[stamp].pages = 0..0,
                    (None, _) => {}
                },
                _ => {}
            }
        }
        Shared(stamps)
    }

    /// Checks which write each page shows, and returns it.
    fn check(&self, shown: &[u64]) -> Result<Vec<u64>, String> {
        let writes = |page: u64| self.0.iter().filter(move |it| it.pages.contains(&page));
        let took_place = |stamp: &Stamp| {
            let mut pages = stamp.pages.clone();
            stamp.returned.is_some() || pages.any(|page| shown[page as usize] == stamp.seed)
        };
        for (&seed, page) in shown.iter().zip(0..) {
            let shows = writes(page).find(|it| it.seed == seed);
            let shows = shows.ok_or_else(|| format!("page {page} was never written so"))?;
            if let Some(later) = writes(page).find(|it| it.is_later(shows) && took_place(it)) {
                let how = match later.returned {
                    Some(_) => "returned but is lost",
                    None => "is only partly there",
                };
                let Stamp { pages, seed, .. } = later;
                return Err(format!(
                    "page {page}: the write of {pages:?} with {seed} {how}"
                ));
            }
        }
        Ok(shown.to_vec())
    }
}

/// Performs operations as a child does, and checks the volume after each step, and after each of
/// several errors.
#[test]
fn the_check_detects_errors() {
    let scene = crate::Scene::new();
    let volume = scene.open();
    let op = |kind, at, len, seed| Op {
        kind,
        file: 0,
        at,
        len,
        seed,
    };
    let create = op(Kind::Create, 0, 0, 1);
    let write = op(Kind::Write, 10, 2 * PAGE, 3);
    let says = |before: &State, told: &[Line], wanted: &str| {
        let error = before.check(&volume, told).expect_err(wanted);
        assert!(error.contains(wanted), "{error}");
    };
    let empty = State::new();
    let mut told = vec![Line::Start(0, create)];
    assert_eq!(empty.check(&volume, &told), Ok(State::new()));
    told.push(Line::End(0, Answer::Done));
    says(&empty, &told, "thread 0: its files are neither");
    assert_eq!(perform(&volume, 0, &create), Answer::Done);
    assert!(empty.check(&volume, &told).is_ok() && empty.check(&volume, &told[..1]).is_ok());
    says(&empty, &[], "thread 0: its files are neither");
    says(
        &empty,
        &[told[0], Line::End(0, Answer::Exists)],
        "was exists, not done",
    );

    // A write that is there in part.
    told.push(Line::Start(0, write));
    let half = Op { len: PAGE, ..write };
    assert_eq!(perform(&volume, 0, &half), Answer::Done);
    says(&empty, &told, "thread 0: its files are neither");
    assert_eq!(perform(&volume, 0, &write), Answer::Done);
    told.push(Line::End(0, Answer::Done));
    let state = empty.check(&volume, &told).expect("all of it is there");
    told[3] = Line::End(0, Answer::NoSpace);
    says(&empty, &told, "thread 0: its files are neither");

    // The next child continues from here.
    assert_eq!(state.check(&volume, &[]), Ok(state.clone()));
    volume.create("other").expect("space");
    says(&state, &[], "names that nobody has created");
    volume.remove("other").expect("it is there");
    volume.create_dir("other").expect("space");
    says(&state, &[], "names that nobody has created");
    volume.remove_dir("other").expect("it is there");
    let shared = volume.open_file(SHARED).expect("it is there");
    shared.write_at(&[1], PAGE + 5).expect("space");
    says(&state, &[], "page 1 is torn");
}

#[test]
fn the_check_of_shared_pages_detects_errors() {
    let start = |thread, at, len, seed| {
        Line::Start(
            thread,
            Op {
                kind: Kind::Stamp,
                file: 0,
                at,
                len,
                seed,
            },
        )
    };
    let end = |thread| Line::End(thread, Answer::Done);
    let check = |told: &[Line], shown: [u64; 2]| Shared::new(&[0, 0], told).check(&shown);
    let says = |told: &[Line], shown, wanted: &str| {
        let error = check(told, shown).expect_err(wanted);
        assert!(error.contains(wanted), "{error}");
    };

    // One after the other.
    let mut told = vec![start(0, 0, 1, 1), end(0), start(0, 0, 1, 3)];
    assert!(check(&told, [1, 0]).is_ok() && check(&told, [3, 0]).is_ok());
    says(&told, [0, 0], "with 1 returned but is lost");
    says(&told, [5, 0], "page 0 was never written so");
    says(&told, [3, 3], "page 1 was never written so");
    told.push(end(0));
    says(&told, [1, 0], "with 3 returned but is lost");
    told[3] = Line::End(0, Answer::NoSpace);
    says(&told, [3, 0], "page 0 was never written so");

    // Two at once: either may be last.
    let told = [start(0, 0, 1, 1), start(1, 0, 1, 3), end(1), end(0)];
    assert!(check(&told, [1, 0]).is_ok() && check(&told, [3, 0]).is_ok());
    says(&told, [0, 0], "is lost");

    // In flight: both pages or none, unless another write overlaps it.
    let told = [start(0, 0, 1, 1), end(0), start(0, 0, 2, 3)];
    assert!(check(&told, [1, 0]).is_ok() && check(&told, [3, 3]).is_ok());
    says(
        &told,
        [3, 0],
        "page 1: the write of 0..2 with 3 is only partly there",
    );
    says(
        &told,
        [1, 3],
        "page 0: the write of 0..2 with 3 is only partly there",
    );
    let told = [start(0, 0, 2, 3), start(1, 1, 1, 5), end(1)];
    assert!(check(&told, [3, 5]).is_ok() && check(&told, [3, 3]).is_ok());
}

//! The cells: a case, a lock, and a number of cores.

use std::rc::Rc;

use spanlock_cores::{Outcome, Program, count, goes_on, set_up, work};
use spanlock_range_lock::{Access, RawRangeLock, Span};

use crate::locks::{self, FAR, Needs, Task};
use crate::{file, row};

/// What each core repeats.
#[derive(Clone, Copy)]
enum Case {
    /// It acquires a page, works, releases it, and works.
    Lock(Pages),
    /// It overwrites or reads a page of a file in the file core.
    File { name: &'static str, writes: bool },
}

#[derive(Clone, Copy)]
struct Pages {
    name: &'static str,
    access: Access,
    /// How far the pages of two cores lie apart, in bytes.
    apart: u64,
    /// How many layouts of the heap are tried. In each but the first, the pages are drawn, too.
    layouts: u64,
}

const PAGE: u64 = 4096;

const fn lock(name: &'static str, access: Access, apart: u64, layouts: u64) -> Case {
    Case::Lock(Pages {
        name,
        access,
        apart,
        layouts,
    })
}

const CASES: [Case; 10] = [
    lock("read-same", Access::Read, 0, 1),
    lock("write-same", Access::Write, 0, 1),
    lock("read-adjacent", Access::Read, PAGE, 1),
    lock("write-adjacent", Access::Write, PAGE, 1),
    lock("read-disjoint", Access::Read, FAR, 1),
    lock("write-disjoint", Access::Write, FAR, 1),
    lock("read-disjoint-layouts", Access::Read, FAR, 1000),
    lock("write-disjoint-layouts", Access::Write, FAR, 1000),
    Case::File {
        name: "file-read",
        writes: false,
    },
    Case::File {
        name: "file-overwrite",
        writes: true,
    },
];

const CORES: [usize; 3] = [2, 8, 56];

/// Nanoseconds of work under the lock, and of work between two acquisitions.
const WORK: u32 = 100;

/// Nanoseconds that do not count, and that do; and the same with many layouts.
const TIMES: (u64, u64) = (200_000, 1_000_000);
const SHORT_TIMES: (u64, u64) = (10_000, 10_000);

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Lock(Pages { name, .. }) | Case::File { name, .. } => name,
        }
    }

    /// Returns whether the command runs a cell. A whole-file lock sees no difference between pages,
    /// and a lock with one mutex sees none either.
    fn is_listed(self, lock: &str, cores: usize) -> bool {
        match self {
            Case::Lock(pages) if pages.layouts > 1 => lock.starts_with("srl") && cores <= 8,
            Case::Lock(pages) if lock.starts_with("rw") => pages.apart == 0,
            Case::Lock(pages) if lock == "interval-tree-1" => pages.apart == FAR,
            Case::Lock(pages) => pages.name != "write-same",
            Case::File { .. } => ["rw-counter", "srl-tree"].contains(&lock),
        }
    }
}

/// Returns all cells with these numbers of cores, or with the usual ones. Each comes with the
/// accesses that it needs to see: `atomics`, or `all`.
///
/// # Errors
/// One is no number.
pub(crate) fn list(cores: &[&str]) -> Result<String, String> {
    let mut all = Vec::new();
    let given: Result<Vec<usize>, _> = cores.iter().map(|it| number(it)).collect();
    let cores = if cores.is_empty() {
        CORES.to_vec()
    } else {
        given?
    };
    for case in CASES {
        for lock in locks::NAMES {
            let cores = cores.iter().filter(|&&cores| case.is_listed(lock, cores));
            // The nodes of these trees, and what the file core keeps under its mutexes, are plain.
            let is_plain = matches!(case, Case::File { .. }) || lock.starts_with("interval");
            let accesses = if is_plain { "all" } else { "atomics" };
            let name = case.name();
            all.extend(cores.map(|cores| format!("{name}\t{lock}\t{cores}\t{accesses}")));
        }
    }
    Ok(all.join("\n"))
}

pub(crate) fn number(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("{text} is no number of cores"))
}

/// Runs a cell, and returns its row.
///
/// # Errors
/// There is no such case or lock, or the model has no parameters for so many cores.
pub(crate) fn run(case: &str, lock: &str, cores: &str) -> Result<String, String> {
    let known = CASES.into_iter().find(|it| it.name() == case);
    let known = known.ok_or_else(|| format!("no case {case}"))?;
    locks::check(lock)?;
    let cores = number(cores)?;
    let program = Program::new(cores).map_err(|error| error.to_string())?;
    let outcomes = match known {
        Case::Lock(pages) => locks::with(
            lock,
            Acquire {
                pages,
                cores,
                program,
            },
        ),
        Case::File { writes, .. } => {
            vec![locks::with(
                lock,
                file::OnFile {
                    writes,
                    cores,
                    program: program.time(file::TIMES.0, file::TIMES.1),
                    page_ns: 0,
                },
            )]
        }
    };
    Ok(row::text(&outcomes))
}

struct Acquire {
    pages: Pages,
    cores: usize,
    program: Program,
}

impl Task for Acquire {
    type Output = Vec<Outcome>;

    fn run<L: RawRangeLock + 'static>(self, make: fn(Needs) -> L) -> Vec<Outcome> {
        let Acquire {
            pages,
            cores,
            program,
        } = self;
        let (warm_up, time) = if pages.layouts == 1 {
            TIMES
        } else {
            SHORT_TIMES
        };
        let program = program.time(warm_up, time);
        let needs = Needs {
            capacity: cores as u64 * FAR,
            cores,
        };
        let layouts = 0..pages.layouts;
        let outcomes = layouts.map(|layout| {
            // SAFETY: the lock of the layout before is gone, and with it all memory.
            let lock = unsafe { set_up(layout, || Rc::new(make(needs))) };
            program.clone().seed(layout + 1).run(move |core| {
                let first = core as u64 * pages.apart + drawn_page(layout, core) * PAGE;
                let span = Span::new(first..first + PAGE).expect("it is not reversed");
                let span = span.expect("it is not empty");
                while goes_on() {
                    let token = lock
                        .lock(span, pages.access)
                        .expect("it is below the capacity");
                    work(WORK);
                    // SAFETY: this core holds the span, by this token.
                    unsafe { lock.unlock(span, pages.access, token) };
                    work(WORK);
                    count();
                }
            })
        });
        outcomes.collect()
    }
}

/// Draws the page that a core uses in a layout other than the first, from its own part of the file.
/// In every other layout, it is one of the first, whose words are next to other objects. It is none
/// of the last, so that the words of two pages never share a line.
fn drawn_page(layout: u64, core: usize) -> u64 {
    let mixed = (layout << 8 | core as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    match layout {
        0 => 0,
        _ if layout.is_multiple_of(2) => mixed % 16,
        _ => mixed % (FAR / PAGE - 128),
    }
}

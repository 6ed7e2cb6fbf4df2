//! Every figure of five papers, beside what this machine shows of it: `cargo compare papers`.
//!
//! The papers' numbers are ratios in most cases, and so are ours: of the same two systems, lock or
//! contestants. Other comparisons measure most of them. Everything is measured twice, and which of
//! two systems is faster only counts if both halves agree.
//!
//! | file | contents |
//! |---|---|
//! | `published.tsv`, `published.rs` | the papers' numbers |
//! | `args.rs` | the arguments |
//! | `plan.rs` | what to measure |
//! | `ready.rs` | what is checked before anything is measured |
//! | `srl.rs` | measures what is shown of [SRL] |
//! | `systems.rs` | lets other comparisons measure what is shown of the other papers |
//! | `rows.rs` | the results |
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

pub mod args;
mod plan;
pub mod published;
mod ready;
mod rows;
mod srl;
mod systems;

use anyhow::{Context, Result};
use indicatif::ProgressBar;

pub use self::plan::Plan;
use self::rows::{Ours, rows};
pub use self::rows::{Row, UNDECIDED};
use crate::load::{LoadWatch, Others};

/// How often everything is measured.
const HALVES: usize = 2;

/// All papers, each with a description.
pub const PAPERS: [(&str, &str); 5] = [
    (
        "SRL",
        "segment range locks of NOVA (IEEE Access, 2021): locks of a shared file",
    ),
    (
        "F2FS",
        "range locks and NVM node logging of F2FS (SYSTOR'19): `node-log`",
    ),
    (
        "JBD",
        "cooperative journal commit of Lustre (H. Cui's thesis, 2018): `journal`",
    ),
    (
        "DNODE",
        "lookups of direct nodes in F2FS (a poster): `node-log`",
    ),
    (
        "OBJ",
        "an object store on OpenNVM (F. Takatsu and others): `objects`",
    ),
];

/// The result of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows, in the order of the papers' figures.
    pub rows: Vec<Row>,
    /// Descriptions of the places where the run stored data.
    pub media: Vec<String>,
    /// The load caused by other programs.
    pub others: Others,
}

/// What measures rows of papers.
type Measure = fn(&Plan, &ProgressBar, &mut Vec<String>) -> Result<Vec<Ours>>;

/// The papers that are measured together, and what measures them.
const MEASURED: [(&[&str], Measure); 4] = [
    (&["SRL"], srl::measured),
    (&systems::OF_NODE_LOG, systems::node_log),
    (&["JBD"], systems::journal),
    (&["OBJ"], systems::objects),
];

/// Runs everything that is planned. `say` receives messages before the rows.
///
/// # Errors
/// There is too little room, or files cannot bypass the page cache, which is noticed before
/// anything is measured; or a measurement fails.
pub fn run(plan: &Plan, bar: &ProgressBar, say: impl Fn(&str)) -> Result<Outcome> {
    let watch = LoadWatch::start();
    ready::check(plan)?;
    let mut media = Vec::new();
    let mut halves = Vec::new();
    for half in 1..=HALVES {
        let mut all = Vec::new();
        for (papers, measure) in MEASURED {
            if plan.of(papers).next().is_none() {
                continue;
            }
            say(&format!("{}, run {half} of {HALVES}", papers.join(", ")));
            let mut of_papers =
                measure(plan, bar, &mut media).with_context(|| papers.join(", "))?;
            all.append(&mut of_papers);
        }
        halves.push(all);
    }
    media.sort();
    media.dedup();
    Ok(Outcome {
        rows: rows(&plan.said, &halves),
        media,
        others: watch.others(),
    })
}

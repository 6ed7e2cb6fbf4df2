//! Promela twins of our protocols, for Spin: what loom and shuttle cannot say, because they look at programs that end. Each
//! tells in its head which functions it mirrors, and which defects it has to find.

use crate::program::{Program, Run};

/// A protocol as a model of its own.
#[derive(Clone, Copy, Debug)]
pub struct Twin {
    /// The file's name, in `verify/promela`.
    pub file: &'static str,
    /// What it is a twin of.
    pub primitive: &'static str,
    /// What it claims.
    pub claim: &'static str,
    /// Macros that each seed a defect.
    pub defects: &'static [&'static str],
}

/// Every twin.
pub const TWINS: &[Twin] = &[
    Twin {
        file: "rw_word.pml",
        primitive: "rw-word",
        claim: "every waiting reader and writer gets in, whatever the others do for ever, if no thread stands still",
        defects: &["NO_RECHECK", "NO_AGING", "NO_WAKE", "LOOK_FIRST"],
    },
    Twin {
        file: "ticket.pml",
        primitive: "interval-tree",
        claim: "every request is granted in its turn, whatever the others do for ever, if no thread stands still",
        defects: &[
            "NO_RECHECK",
            "NO_WAKE",
            "WAKE_FIRST",
            "HOLDERS_ONLY",
            "CANCEL_ALL",
        ],
    },
];

/// Threads of each.
const THREADS: u32 = 3;

/// As programs.
pub fn programs() -> Vec<Program> {
    let program = |twin: &'static Twin| Program {
        primitive: twin.primitive,
        property: "granted",
        claim: twin.claim,
        threads: THREADS,
        // As many as there can be, and then again: the threads go round and round.
        operations: 0,
        faults: &[],
        performs: Vec::new(),
        expected: None,
        run: Run::Twin(twin),
    };
    TWINS.iter().map(program).collect()
}

//! `cargo verify mutants`: weakens each ordering, and omits each fence, wake and flush, one at a
//! time and at run time. A program must fail.
//!
//! Running every program under loom with few preemptions finds the sites. The programs that reach a
//! site then run with its mutant, the cheap ones first, until one fails. They run first with few
//! preemptions. Then those of up to 20,000 executions run with their own bounds, and for an omitted
//! wake under shuttle too.
//!
//! A mutant that survives shows that a program is missing, or that an ordering is stronger than
//! needed. Or it is equivalent, and the source says so above the site's statement:
//! `// equivalent(Relaxed): why` for an ordering, `equivalent(drop)` for a fence or a wake.

use std::process::ExitCode;

use anyhow::Result;
use comfy_table::Cell;
use serde::{Deserialize, Serialize};

use super::args::InjectArgs;
use super::build::Built;
use super::kill::{self, Candidate, Change, Fate, Judged, Reached};
use super::models::Plan;
use super::sites;
use super::table::Column;
use crate::mode::Mode;

/// A mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mutation {
    /// `file:line:column:operation`
    site: String,
    /// `Acquire->Relaxed`, or `drop`; `unreached`, if no program reaches the site.
    mutation: String,
    /// Why no program can fail, from the source.
    reason: Option<String>,
}

pub(super) type Mutant = Judged<Mutation>;

impl Change for Mutation {
    const MANY: &'static str = "mutants";
    const FATES: &'static [Fate] = &[Fate::Killed, Fate::Survived, Fate::Equivalent];
    const MISSING: &'static str = "no mutant's name contains `{}`\n  names look like \
        src/ring.rs:89:19:rmw=Relaxed; `cargo verify mutants --sites` shows them all";
    const COLUMNS: &'static [Column<Self>] = &[
        ("site", |it| Cell::new(&it.site)),
        ("mutation", |it| Cell::new(&it.mutation)),
    ];
    const LAST: Column<Self> = ("reason", |it| Cell::new(it.reason.as_deref().unwrap_or("")));

    fn name(&self) -> String {
        let weaker = self.mutation.rsplit("->").next().unwrap_or_default();
        format!("{}={weaker}", self.site)
    }

    fn arguments(&self) -> [String; 2] {
        ["--weaken".to_owned(), self.name()]
    }

    fn is_equivalent(&self) -> bool {
        self.reason.is_some()
    }

    fn problem(&self, fate: &str, model: Option<&str>) -> String {
        let Mutation { site, mutation, .. } = self;
        match model {
            Some(model) => format!(
                "STALE REASON: {site} {mutation}: the source says that it is equivalent, and \
                 {model} fails"
            ),
            None => format!("{fate}: {site} {mutation}"),
        }
    }
}

/// Runs the command: exit code 0 if no mutant survives without a reason.
pub(super) fn mutants(args: &InjectArgs) -> Result<ExitCode> {
    kill::command(args, |built, plan, reached| {
        Ok((candidates(built, plan, reached)?, Vec::new()))
    })
}

/// Returns every mutant, and the places that name an ordering and that no program reaches.
pub(super) fn candidates<'a>(
    built: &Built,
    plan: &'a Plan,
    reached: &Reached<'a>,
) -> Result<Vec<Candidate<'a, Mutation>>> {
    let mut candidates = Vec::new();
    for (site, models) in &reached.sites {
        for mutation in site.mutations() {
            let reason = sites::reason(&built.workspace.root, site, mutation)?;
            // All searches of an equivalent mutant would take minutes each time. The short ones
            // show most stale reasons.
            let modes: &[Mode] = match (&reason, site.is_wake()) {
                (Some(_), _) => &[],
                (None, true) => &[Mode::Weak, Mode::RmwLoad, Mode::Dfs],
                (None, false) => &[Mode::Weak, Mode::RmwLoad],
            };
            candidates.push(Candidate {
                change: Mutation {
                    site: site.place.clone(),
                    mutation: site.change(mutation),
                    reason,
                },
                right: kill::searches(plan, models, modes),
                others: Vec::new(),
            });
        }
    }
    let missed = sites::unreached(built, reached.sites.keys())?.into_iter();
    candidates.extend(missed.map(|site| Candidate {
        change: Mutation {
            site,
            mutation: "unreached".to_owned(),
            reason: None,
        },
        right: Vec::new(),
        others: Vec::new(),
    }));
    Ok(candidates)
}

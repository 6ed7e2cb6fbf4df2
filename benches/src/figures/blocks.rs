//! The kinds of blocks, and what all of them have in common.

mod input;
mod locks;
mod node_log;
mod storage;
mod summary;
mod targets;
mod value;

use std::rc::Rc;

use anyhow::{Result, bail, ensure};

use self::input::{Options, Source};
use super::markers::Block;
use super::results::{Results, ResultsOf};
use super::table::{Table, code};
use crate::load::Others;
use crate::report::{Machine, Origin};

/// Allows a block to show results of another machine than the other blocks.
const OTHER_MACHINE: &str = "other-machine";

/// A kind of block.
struct Kind {
    name: &'static str,
    /// The keys of its options.
    options: &'static [&'static str],
    render: fn(&Options<'_>, &Source<'_>) -> Result<Table>,
}

#[rustfmt::skip] // A kind is one line.
const KINDS: [Kind; 14] = [
    Kind { name: "headline", options: &["lock", "device"], render: summary::headline },
    Kind { name: "losses", options: &["of"], render: summary::losses },
    Kind { name: "targets", options: &["of"], render: targets::targets },
    Kind { name: "shared-file", options: &["workloads", "threads", "locks"], render: locks::shared_file },
    Kind { name: "micro", options: &["cases", "locks"], render: locks::micro },
    Kind { name: "contention", options: &["sections", "overlaps", "reads", "threads", "locks"], render: locks::contention },
    Kind { name: "commits", options: &["device", "threads", "think", "contestants"], render: storage::commits },
    Kind { name: "overwrites", options: &["cases", "threads", "locks"], render: storage::overwrites },
    Kind { name: "operations", options: &["cases", "locks"], render: storage::operations },
    Kind { name: "recovery", options: &["cases"], render: storage::recovery },
    Kind { name: "objects", options: &["device", "cases", "layouts", "threads"], render: storage::objects },
    Kind { name: "node-log", options: &["cases", "systems", "threads"], render: node_log::node_log },
    Kind { name: "node-log-times", options: &["cases", "systems", "threads"], render: node_log::times },
    Kind { name: "failures", options: &["contestants"], render: storage::failures },
];

/// The text between the markers of a block.
pub(super) enum Rendered {
    /// A table, and the line about its results.
    Table { table: Table, origin: String },
    /// A number within a sentence.
    Value(String),
}

/// Renders a block.
///
/// # Errors
/// There is no such block, it has a wrong option, its results are missing or wrong, or they are
/// from different machines.
pub(super) fn render(
    block: &Block<'_>,
    results: &Results,
    machines: &mut Machines,
) -> Result<Rendered> {
    let (options, source) = (Options(block), Source::new(results));
    if block.name == value::NAME {
        let value = value::value(&options, &source)?;
        machines.check(&source.origins()?, false)?;
        return Ok(Rendered::Value(value));
    }
    let Some(kind) = KINDS.iter().find(|it| it.name == block.name) else {
        let names = KINDS.iter().map(|it| it.name).chain([value::NAME]);
        let names: Vec<_> = names.collect();
        bail!("there is no such block; there are {}", names.join(", "));
    };
    for (key, values) in &block.options {
        let is_flag = *key == OTHER_MACHINE;
        ensure!(
            is_flag || kind.options.contains(key),
            "it has no option `{key}`; it has {}",
            kind.options.join(", ")
        );
        ensure!(
            is_flag == values.is_empty(),
            "`{key}` {}",
            if is_flag {
                "takes no value"
            } else {
                "lacks a value"
            }
        );
    }
    let table = (kind.render)(&options, &source)?;
    let origins = source.origins()?;
    machines.check(&origins, options.values(OTHER_MACHINE).is_some())?;
    let origin = describe(&origins);
    Ok(Rendered::Table { table, origin })
}

/// Ensures that figures which readers may compare are from one machine.
#[derive(Default)]
pub(super) struct Machines(Option<(String, Machine)>);

impl Machines {
    /// Checks the results of a block, which may be from another machine than those of earlier
    /// blocks if `is_other`.
    fn check(&mut self, of_block: &[Rc<ResultsOf>], is_other: bool) -> Result<()> {
        let [first, rest @ ..] = of_block else {
            return Ok(());
        };
        let Origin { name, machine, .. } = &first.origin;
        for Origin {
            name: other_name,
            machine: other,
            ..
        } in rest.iter().map(|it| &it.origin)
        {
            ensure!(
                machine == other,
                "it mixes results of two machines: {name}.json is of {machine}, {other_name}.json of {other}"
            );
        }
        if is_other {
            return Ok(());
        }
        let (of, reference) = self
            .0
            .get_or_insert_with(|| (name.clone(), machine.clone()));
        ensure!(
            reference == machine,
            "{name}.json is of another machine ({machine}) than {of}.json ({reference}): measure one of them again, or add `{OTHER_MACHINE}` to the block"
        );
        Ok(())
    }
}

/// Returns a line about the results of a table.
fn describe(of_block: &[Rc<ResultsOf>]) -> String {
    let origins = || of_block.iter().map(|it| &it.origin);
    let commands: Vec<_> = origins()
        .map(|it| {
            let day = it.date.split(' ').next().unwrap_or_default();
            format!("{} on {day}", code(&it.command))
        })
        .collect();
    let mut media: Vec<&str> = Vec::new();
    for medium in origins().flat_map(|it| &it.media) {
        let short = medium.split(';').next().unwrap_or_default();
        if !media.contains(&short) {
            media.push(short);
        }
    }
    let mut told = format!("Measured by {}.", commands.join(", "));
    told.extend(origins().take(1).map(|it| format!(" {}.", it.machine)));
    if !media.is_empty() {
        told.push_str(&format!(" Files: {}.", media.join("; ")));
    }
    if origins().any(|it| !it.optimised) {
        told.push_str(" **Compiled without optimisations: do not trust these figures.**");
    }
    let shares = origins().filter_map(|it| it.disturbed);
    let worst = shares.reduce(f64::max);
    if let Some(share) = worst {
        let percent = share * 100.0;
        told.push_str(&match Others::of_share(worst).too_much() {
            false => format!(" Other programs took at most {percent:.0} % of the processor time."),
            true => format!(
                " **Other programs took {percent:.0} % of the processor time: do not trust these figures.**"
            ),
        });
    }
    told
}

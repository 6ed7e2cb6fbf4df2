//! The block of targets, met and missed.

use anyhow::Result;
use serde::Deserialize;

use super::input::{Options, Source};
use crate::figures::table::{Table, code, ratio, time};
use crate::measure::thread_count;
use crate::target::Bound;
use crate::workloads::IMPORT;

/// The comparisons with targets.
const OF: [&str; 7] = [
    "micro",
    "compare",
    "journal",
    "file-core",
    "recovery",
    "objects",
    "node-log",
];

/// A verdict names as many rows as this. Of more, it gives the number.
const NAMED: usize = 3;

/// A row of any comparison with targets. Which of the fields it has depends on the comparison.
#[derive(Deserialize)]
struct Row {
    workload: Option<String>,
    case: Option<String>,
    device: Option<String>,
    lock: Option<String>,
    layout: Option<String>,
    mode: Option<String>,
    contestant: Option<String>,
    system: Option<String>,
    threads: Option<usize>,
    think: Option<f64>,
    blocks: Option<u64>,
    targets: Vec<Target>,
}

/// A target of a row.
#[derive(Deserialize)]
struct Target {
    figure: String,
    bound: Bound,
    asked: f64,
    measured: Option<f64>,
    met: Option<bool>,
}

/// Rows with the same target.
struct Group {
    of: &'static str,
    what: String,
    target: String,
    rows: Vec<Judged>,
}

/// A row with a target.
#[derive(PartialEq)]
struct Judged {
    name: String,
    measured: Option<f64>,
    /// `measured` as text.
    told: String,
    met: Option<bool>,
}

/// The targets of comparisons: what is asked, and whether it is met.
pub(super) fn targets(options: &Options<'_>, source: &Source<'_>) -> Result<Table> {
    let chosen = options.choose("of", OF.map(str::to_owned).into_iter())?;
    let mut groups: Vec<Group> = Vec::new();
    for of in OF
        .into_iter()
        .filter(|&it| chosen.iter().any(|of| of == it))
    {
        for row in source.rows::<Row>(of)? {
            for target in &row.targets {
                let (what, name) = row.place(of);
                let target_told = target.told();
                let judged = target.judged(name);
                let same = groups
                    .iter_mut()
                    .find(|it| (it.of, &it.what, &it.target) == (of, &what, &target_told));
                match same {
                    // A target for any number of threads is in the row of each of them.
                    Some(group) if group.rows.contains(&judged) => {}
                    Some(group) => group.rows.push(judged),
                    None => groups.push(Group {
                        of,
                        what,
                        target: target_told,
                        rows: vec![judged],
                    }),
                }
            }
        }
    }
    let mut table = Table::new(["command", "rows", "target", "measured", "verdict"]);
    for group in &groups {
        table.push([
            code(group.of),
            group.what.clone(),
            group.target.clone(),
            group.measured(),
            group.verdict(),
        ]);
    }
    Ok(table)
}

impl Row {
    /// Returns what the row has in common with others of its group, and its own name.
    fn place(&self, of: &str) -> (String, String) {
        let name = |name: &Option<String>| name.as_deref().map(code).unwrap_or_default();
        let threads = thread_count(self.threads.unwrap_or(1));
        if self.contestant.is_some() {
            let (device, workload) = (name(&self.device), name(&self.workload));
            let mut own = threads;
            match (self.blocks, self.think) {
                (Some(blocks), _) if blocks > 1 => own += &format!(", {blocks} blocks"),
                (_, Some(think)) if think > 0.0 => own += &format!(", think {think}"),
                _ => {}
            }
            return (
                format!("{device}, {workload}: {}", name(&self.contestant)),
                own,
            );
        }
        if let (Some(case), Some(layout)) = (&self.case, &self.layout) {
            // Writes of all sizes have the same target, and so have reads.
            let (does, own) = match case.split_once('/') {
                Some((does @ ("write" | "read"), rest)) => {
                    (does, format!("{}, {threads}", code(rest)))
                }
                _ => (&**case, threads),
            };
            let (device, mode) = (name(&self.device), name(&self.mode));
            return (
                format!("{device}, {}: {}, {mode}", code(does), code(layout)),
                own,
            );
        }
        let case = name(&self.workload) + &name(&self.case);
        if self.system.is_some() {
            return (format!("{case}: {}", name(&self.system)), threads);
        }
        match of {
            "recovery" => (case, threads),
            "micro" => (case, name(&self.lock)),
            _ if self.workload.as_deref() == Some(IMPORT) => (case, name(&self.lock)),
            _ => (format!("{case}, {threads}"), name(&self.lock)),
        }
    }
}

impl Target {
    /// Describes what is asked of the row.
    fn told(&self) -> String {
        let sign = match self.bound {
            Bound::AtLeast => "≥",
            Bound::AtMost => "≤",
        };
        let asked = match self.is_time() {
            true => time(self.asked),
            false => self.asked.to_string(),
        };
        let (figure, times) = self.figure();
        let times = times.map(|times| format!(" × {times}")).unwrap_or_default();
        let figure = match figure {
            "ns" => "time",
            "longest_ns" => "longest wait",
            figure => figure,
        };
        format!("{figure} {sign} {asked}{times}")
    }

    /// Returns the figure, and what it is a multiple of.
    fn figure(&self) -> (&str, Option<&str>) {
        match self.figure.split_once(", times ") {
            Some((figure, times)) => (figure, Some(times)),
            None => (&self.figure, None),
        }
    }

    /// Returns whether the figure is a time, and no multiple of one.
    fn is_time(&self) -> bool {
        let (figure, times) = self.figure();
        figure.ends_with("_ns") && times.is_none()
    }

    fn judged(&self, name: String) -> Judged {
        let told = match (self.measured, self.is_time()) {
            (None, _) => "–".to_owned(),
            (Some(ns), true) => time(ns),
            (Some(number), false) => ratio(number),
        };
        Judged {
            name,
            measured: self.measured,
            told,
            met: self.met,
        }
    }
}

impl Group {
    fn measured(&self) -> String {
        if self.rows.len() <= NAMED {
            let each = self
                .rows
                .iter()
                .map(|it| format!("{} {}", it.name, it.told));
            return each.collect::<Vec<_>>().join(", ");
        }
        let number = |it: &&Judged| it.measured.is_some();
        let by = |a: &&Judged, b: &&Judged| a.measured.partial_cmp(&b.measured).expect("no NaN");
        let measured = || self.rows.iter().filter(number);
        let range = measured().min_by(by).zip(measured().max_by(by));
        let range = range.map(|(least, most)| format!("{} to {}", least.told, most.told));
        range.unwrap_or_else(|| "–".to_owned())
    }

    fn verdict(&self) -> String {
        let missed: Vec<_> = self
            .rows
            .iter()
            .filter(|it| it.met == Some(false))
            .collect();
        match (missed.len(), self.rows.len()) {
            (0, _) if self.rows.iter().any(|it| it.met.is_none()) => "not measured".to_owned(),
            (0, _) => "met".to_owned(),
            (count, all) if count == all => "**missed**".to_owned(),
            (count, all) if count > NAMED => format!("**missed** by {count} of {all}"),
            (_, all) => {
                // A short list of measured figures has these already.
                let name = |it: &&Judged| match all <= NAMED {
                    true => it.name.clone(),
                    false => format!("{} ({})", it.name, it.told),
                };
                let names: Vec<_> = missed.iter().map(name).collect();
                format!("**missed** by {}", names.join(", "))
            }
        }
    }
}

//! Lets other comparisons measure what is shown of the papers that they follow.

use anyhow::Result;
use indicatif::ProgressBar;

use super::plan::Plan;
use super::rows::Ours;
use crate::journal::contestants::find;
use crate::journal::devices::{DIRECT, MODELLED_WRITES};
use crate::journal::thesis::{self, FIO, IOR};
use crate::measure::thread_count;
use crate::node_log::systems::{BASELINE, INTEGRATED, NL, RL, SYSTEMS};
use crate::node_log::work::CASES;
use crate::objects::devices::{DISK, PMEM};
use crate::objects::work::GROUPS;
use crate::{journal, node_log, objects};

/// The papers that `node-log` follows.
pub(super) const OF_NODE_LOG: [&str; 2] = ["F2FS", "DNODE"];
/// The numbers of threads with which it runs. The papers' are shown beside the nearest.
const NODE_LOG_THREADS: [usize; 2] = [8, 16];

/// Runs `node-log`.
///
/// # Errors
/// Those of the comparison.
pub(super) fn node_log(
    plan: &Plan,
    bar: &ProgressBar,
    media: &mut Vec<String>,
) -> Result<Vec<Ours>> {
    let cases = plan.distinct(&OF_NODE_LOG, |it| it.case);
    let systems = [BASELINE, RL, NL, INTEGRATED];
    let its = node_log::Plan {
        cases: CASES.iter().filter(|it| cases.contains(&it.name)).collect(),
        systems: SYSTEMS
            .iter()
            .filter(|it| systems.contains(&it.name))
            .collect(),
        threads: NODE_LOG_THREADS.to_vec(),
        seconds: plan.seconds,
        dir: plan.dir.clone(),
    };
    let outcome = node_log::run(&its, bar, |_| ())?;
    media.extend(outcome.media);
    let rows = outcome.rows.iter();
    let all = rows.flat_map(|row| row.paper.iter().map(move |it| (row, it)));
    let chosen = all.filter(|(_, it)| plan.said.iter().any(|said| std::ptr::eq(*said, it.entry)));
    let ours = chosen.filter_map(|(row, it)| {
        Some(Ours {
            said: it.entry,
            subject: row.system,
            here: format!("{}, {}", thread_count(row.threads), row.device),
            ours: it.here?,
        })
    });
    Ok(ours.collect())
}

/// Our contestants for the thesis' systems: on their own, and with runs of a block, without which
/// nothing as small as the thesis' commits is written in parallel.
const IN_PLACE_OF: [(&str, &[&str]); 3] = [
    ("serial", &["serial"]),
    ("cooperative", &["cooperative", "cooperative-4k"]),
    (
        "cooperative-on-the-fly",
        &["cooperative-on-the-fly", "cooperative-on-the-fly-4k"],
    ),
];

/// The devices on which writes take time.
const JOURNAL_DEVICES: [&str; 2] = [MODELLED_WRITES, DIRECT];

/// Runs the patterns of the thesis in `journal`.
///
/// # Errors
/// Those of the comparison.
pub(super) fn journal(
    plan: &Plan,
    bar: &ProgressBar,
    media: &mut Vec<String>,
) -> Result<Vec<Ours>> {
    const JBD: [&str; 1] = ["JBD"];
    let begin = |name: &str| {
        plan.of(&JBD)
            .any(|it| it.case().split('/').next() == Some(name))
    };
    let names = IN_PLACE_OF.iter().flat_map(|it| it.1);
    let its = journal::Plan {
        workloads: [FIO, IOR].into_iter().filter(|it| begin(it)).collect(),
        devices: JOURNAL_DEVICES.to_vec(),
        contestants: names.filter_map(|it| find(it)).collect(),
        threads: plan.distinct(&JBD, |it| it.threads),
        think: Vec::new(),
        seconds: plan.seconds,
        dir: plan.dir.clone(),
    };
    let outcome = journal::run(&its, bar, |_| ())?;
    media.extend(outcome.devices);
    let mut all = Vec::new();
    for said in plan.of(&JBD) {
        let found = IN_PLACE_OF.iter().find(|it| it.0 == said.subject);
        for subject in found.map_or(&[][..], |it| it.1) {
            for device in JOURNAL_DEVICES {
                let ours = thesis::ours(&outcome.rows, said, subject, device);
                all.extend(ours.map(|ours| Ours {
                    said,
                    subject,
                    here: format!("{}, {device}", thread_count(said.threads.unwrap_or(1))),
                    ours,
                }));
            }
        }
    }
    Ok(all)
}

/// The number of threads with which `objects` runs: the paper's cores with two threads each.
const OBJECT_THREADS: usize = 16;

/// Runs `objects`.
///
/// # Errors
/// Those of the comparison.
pub(super) fn objects(
    plan: &Plan,
    bar: &ProgressBar,
    media: &mut Vec<String>,
) -> Result<Vec<Ours>> {
    let cases = plan.distinct(&["OBJ"], |it| it.case);
    let is_chosen = |group: &str| cases.iter().any(|it| it.split('/').next() == Some(group));
    let its = objects::Plan {
        groups: GROUPS
            .iter()
            .map(|it| it.0)
            .filter(|it| is_chosen(it))
            .collect(),
        devices: vec![PMEM, DISK],
        threads: vec![OBJECT_THREADS],
        seconds: plan.seconds,
        dir: plan.dir.clone(),
    };
    let outcome = objects::run(&its, bar, |_| ())?;
    media.extend(outcome.devices);
    let all = outcome.paper.into_iter();
    let chosen = all.filter(|it| plan.said.iter().any(|said| std::ptr::eq(*said, it.paper)));
    let ours = chosen.map(|it| Ours {
        said: it.paper,
        subject: it.paper.subject,
        here: format!(
            "{}, {}",
            thread_count(it.threads.unwrap_or(OBJECT_THREADS)),
            it.device
        ),
        ours: it.here,
    });
    Ok(ours.collect())
}

//! No ordering and no wake is there in vain: weaken one, and a model fails.

use std::collections::BTreeMap;

use spanlock_verify::command::{Built, Ended, build, explore};
use spanlock_verify::plan::{Checker, Job, Mode, jobs};
use spanlock_verify::row::FAILURE;

fn run(built: &Built, job: &Job, more: &[&str]) -> Ended {
    explore(built, job, more, None).expect("the model runs")
}

/// Rows that are searched for a failure: stock loom's, the cheap ones first.
fn rows() -> Vec<Job> {
    let mut rows = jobs();
    // What a fault changes is the word's affair, and shown there.
    rows.retain(|job| {
        let primitive = job.program.primitive;
        let faultless = job.faults.is_empty() || primitive == "rw-word";
        // Slow, and the only one that needs the sections of the tree.
        let needed = job.program.property == "reclamation";
        job.mode == Mode::Weak && (job.quick || needed) && faultless && primitive != "litmus"
    });
    rows.sort_by_key(|job| {
        (
            job.program.threads,
            job.program.operations,
            job.faults.len(),
        )
    });
    rows
}

#[test]
fn every_ordering_and_every_wake_is_needed() {
    let built = build(&[Checker::Loom]).expect("the models build");
    let rows = rows();
    // Where each site is reached. Relaxed sites cannot be weaker.
    let mut sites: BTreeMap<String, Vec<&Job>> = BTreeMap::new();
    for job in &rows {
        let ended = run(&built, job, &["--sites"]);
        let found = ended
            .found
            .unwrap_or_else(|| panic!("{job:?}: {}", ended.stderr));
        for site in found
            .sites
            .into_iter()
            // The models' own watch, and prove nothing of a lock.
            .filter(|site| !site.ends_with("=Relaxed") && !site.starts_with("verify/"))
        {
            sites.entry(site).or_default().push(job);
        }
    }
    assert!(
        sites.len() >= 8,
        "the door reports hardly any sites: {sites:?}"
    );

    let mut survivors = Vec::new();
    for (site, jobs) in &sites {
        let (place, _) = site.rsplit_once('=').expect("place=ordering");
        let mutation = if place.ends_with(":wake") || place.ends_with(":fence") {
            format!("{place}=drop")
        } else {
            format!("{place}=Relaxed")
        };
        let killer = jobs.iter().find(|job| {
            let ended = run(&built, job, &["--weaken", &mutation]);
            let status = ended.status.expect("no time limit was given");
            // A model that fails says so. Whatever else ends a process is no kill.
            let failed = ended.stderr.contains(FAILURE);
            assert!(
                failed != status.success(),
                "{job:?} {mutation}: {}",
                ended.stderr
            );
            failed
        });
        match killer {
            Some(job) => println!("{mutation}: killed by {job:?}"),
            None => survivors.push(mutation),
        }
    }
    assert!(survivors.is_empty(), "no model needs {survivors:?}");
}

//! What the searches leave out makes no difference: beside each checker's own search they find the same outcomes, and the same failures.

use spanlock_verify::command::{Built, Ended, build, explore};
use spanlock_verify::plan::{Checker, Job, jobs};
use spanlock_verify::row::{FAILURE, Found};

/// Programs that are searched in no time even with nothing left out, of all shapes: waits, wakes, yields, tries, values that differ, three threads.
const SAMPLE: &[&str] = &[
    "litmus/",
    "rw-word/give-up/",
    "rw-word/upgrade/",
    "rw-counter/exclusion",
    "rw-counter/try-leaves-no-trace",
    "srl-packed/full-lane",
    "interval-tree/exclusion",
    "interval-tree/upgrade-waits",
    "sections/grace/loom",
];

fn sample(checker: Checker) -> impl Iterator<Item = Job> {
    let sampled = move |job: &Job| {
        let name = job.name();
        let starts = |beginning: &&str| name.starts_with(*beginning);
        job.mode.checker() == checker && job.is_reduced() && SAMPLE.iter().any(starts)
    };
    jobs().into_iter().filter(sampled)
}

fn run(built: &Built, job: &Job, more: &[&str]) -> Ended {
    explore(built, job, more, None).expect("the model runs")
}

fn found(built: &Built, job: &Job, more: &[&str]) -> Found {
    let ended = run(built, job, more);
    ended
        .found()
        .cloned()
        .unwrap_or_else(|| panic!("{job:?} {more:?}: {}", ended.stderr))
}

#[test]
fn nothing_is_lost_by_what_is_left_out() {
    let built = build(&Checker::ALL).expect("the models build");
    for checker in Checker::ALL {
        let (mut executions, mut of_all) = (0, 0);
        for job in sample(checker) {
            let (reduced, plain) = (found(&built, &job, &[]), found(&built, &job, &["--plain"]));
            assert_eq!(reduced.outcomes, plain.outcomes, "{job:?}");
            executions += reduced.executions;
            of_all += plain.executions;
        }
        println!("{checker:?}: {executions} executions of {of_all}");
        assert!(executions * 3 < of_all, "{checker:?}: {executions}");
    }
}

#[test]
fn a_failure_is_found_by_both_searches() {
    let built = build(&[Checker::Shuttle]).expect("the models build");
    let jobs: Vec<_> = sample(Checker::Shuttle).collect();
    let mut killed = 0;
    for job in &jobs {
        let sites = found(&built, job, &["--sites"]).sites;
        for site in sites.iter().filter(|site| site.ends_with(":wake=")) {
            let dropped = format!("{site}drop");
            let fails = |more: &[&str]| {
                let ended = run(&built, job, &[&["--weaken", &dropped], more].concat());
                ended.stderr.contains(FAILURE)
            };
            assert_eq!(fails(&[]), fails(&["--plain"]), "{job:?} {dropped}");
            killed += usize::from(fails(&[]));
        }
    }
    assert!(killed > 3, "{killed}");
}

//! The main function of a binary of models.
//!
//! One row is explored by one process, since a checker keeps its state in statics and a deadlock
//! usually ends in an abort. `--row NAME` is that process. `cargo verify` starts it for each row;
//! so do the tests that this binary has for libtest's protocol, one a row, so that `cargo test`,
//! `cargo nextest run` and `--partition` work on models too.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::Parser;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::info::Description;
use crate::mode::Checker;
use crate::plan::{Job, Unrecorded, jobs};
use crate::rows::counts::Counts;
use crate::rows::pairs;
use crate::rows::row::{Found, Verdict};
use crate::rows::verdict::{told, verdict};
use crate::suite::Suite;
use crate::worlds::refuse;

/// Runs a binary of models, which speaks libtest's protocol: each row is a test. Exits as a test
/// binary does.
///
/// ```no_run
/// use std::process::ExitCode;
/// use spanlock_verify::Suite;
///
/// fn main() -> ExitCode {
///     spanlock_verify::main([Suite::new("ring")])
/// }
/// ```
pub fn main(suites: impl IntoIterator<Item = Suite>) -> ExitCode {
    let suites: Result<Vec<_>, _> = suites.into_iter().map(Suite::complete).collect();
    let suites = suites.unwrap_or_else(|why| refuse(&why));
    for (i, suite) in suites.iter().enumerate() {
        let name = &suite.info.name;
        if suites[..i].iter().any(|other| other.info.name == *name) {
            refuse(&format!("two suites are called `{name}`"));
        }
    }
    let description = Description {
        suites: suites.iter().map(|it| it.info.clone()).collect(),
    };
    let first = std::env::args().nth(1);
    match first.as_deref() {
        Some("--describe") => print_json(&description),
        Some("--row") => row::run(&suites, &description, &row::Args::parse()),
        _ => tests(&suites, &description),
    }
}

fn print_json(value: &impl serde::Serialize) -> ExitCode {
    println!("{}", serde_json::to_string(value).expect("plain data"));
    ExitCode::SUCCESS
}

/// Reads the record of this package: cargo runs its tests in the package's folder.
fn counts() -> Counts {
    Counts::read(Path::new(".")).unwrap_or_else(|why| refuse(&why))
}

/// Speaks libtest's protocol.
fn tests(suites: &[Suite], description: &Description) -> ExitCode {
    let (mutations, rest) = mutations(std::env::args().collect());
    let mutations: Arc<[String]> = mutations.into();
    let args = Arguments::from_iter(rest);
    let mut tests = vec![Trial::test("pairs", {
        let problems = pairs::problems(&description.suites);
        move || match problems.is_empty() {
            true => Ok(()),
            false => Err(problems.join("\n").into()),
        }
    })];
    match Checker::of_this_build() {
        None => {
            for suite in suites {
                tests.extend(suite.checks.iter().map(|(name, check)| {
                    let (name, check) = (format!("{}/{name}", suite.info.name), check.clone());
                    Trial::test(name, move || {
                        check();
                        Ok(())
                    })
                }));
            }
            if !args.list {
                eprintln!(
                    "built without a checker, so no row runs here: `cargo verify` runs them all, \
                     `RUSTFLAGS=\"--cfg spanlock_loom\" cargo test --test models` those of loom"
                );
            }
        }
        Some(checker) => {
            let mut rows = jobs(description, &counts(), Unrecorded::Bounded);
            rows.retain(|job| job.mode.checker() == checker);
            tests.extend(rows.into_iter().map(|job| {
                let (is_long, mutations) = (job.long, mutations.clone());
                let trial = Trial::test(job.name(), move || test(&job, &mutations));
                trial.with_ignored_flag(is_long)
            }));
        }
    }
    libtest_mimic::run(&args, tests).exit_code()
}

/// Takes the options that libtest does not know out of the arguments.
fn mutations(args: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut mutations, mut rest) = (Vec::new(), Vec::new());
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        if arg == "--weaken" || arg == "--bug" {
            mutations.push(arg);
            mutations.extend(args.next());
        } else {
            rest.push(arg);
        }
    }
    (mutations, rest)
}

/// Explores a row in a process of its own.
fn test(job: &Job, mutations: &[String]) -> Result<(), Failed> {
    let scratch = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let output = Command::new(std::env::current_exe()?)
        .args(["--row", &job.name(), "--scratch"])
        .arg(scratch.path().join("scratch"))
        .args(mutations)
        .env_remove("RUST_BACKTRACE")
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let has_failed = !output.status.success() && !told(&stderr).is_empty();
    if job.program.must_fail(job.mode) {
        return match has_failed {
            true => Ok(()),
            false => Err("the known bug is not found".into()),
        };
    }
    if !output.status.success() {
        return Err(match &told(&stderr)[..] {
            [] => format!("{}: {}", output.status, stderr.trim()).into(),
            told => told.join("\n").into(),
        });
    }
    let found: Found = serde_json::from_slice(&output.stdout)?;
    match verdict(job, &found) {
        (Verdict::Failed, why) => Err(why.unwrap_or_default().into()),
        _ => Ok(()),
    }
}

/// What fails, and how it came to that, goes to standard error. Further panics are the checker's
/// unwinding of the first.
#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub(crate) fn report_panics(steps: Option<u64>) {
    let first = std::sync::Once::new();
    std::panic::set_hook(Box::new(move |info| {
        first.call_once(|| row::tell(&info.to_string(), steps));
    }));
}

mod row {
    //! The process of one row.

    use std::path::PathBuf;

    use clap::Parser;

    use super::refuse;

    #[cfg_attr(not(any(spanlock_loom, spanlock_shuttle)), allow(dead_code))]
    /// Explores one row, and prints what it finds as one line of JSON.
    #[derive(Parser, Debug)]
    #[command(name = "models")]
    pub(super) struct Args {
        /// The row's name
        #[arg(long)]
        row: String,
        /// Weaken one site: file:line:column:operation=Ordering, or =drop
        #[arg(long)]
        weaken: Option<String>,
        /// Make one injected bug fire
        #[arg(long)]
        bug: Option<String>,
        /// Report the sites that were reached
        #[arg(long)]
        sites: bool,
        /// The bound instead of the row's: a number, or `none`
        #[arg(long)]
        bound: Option<String>,
        /// At most this many preemptions, whatever the row's bound
        #[arg(long)]
        preemptions: Option<u64>,
        /// Steps between finished operations, instead of the row's
        #[arg(long)]
        steps: Option<u64>,
        /// Leave nothing out of the search
        #[arg(long)]
        plain: bool,
        /// Keep each step, and print those of a failing execution
        #[arg(long)]
        trace: bool,
        /// A file to write to
        #[arg(long)]
        scratch: Option<PathBuf>,
    }

    #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
    pub(super) fn run(_: &[super::Suite], _: &super::Description, _: &Args) -> super::ExitCode {
        refuse("built without a checker; `cargo verify` builds it with one")
    }

    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    pub(super) use checked::{run, tell};

    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    mod checked {
        use std::process::ExitCode;
        use std::str::FromStr;

        use spanlock_sync::check::{self, Config, Site, Weakening};

        use super::super::{Description, Suite, counts, print_json, report_panics};
        use super::{Args, refuse};
        use crate::info::{BugSite, killed_by};
        use crate::mode::Mode;
        use crate::plan::{Job, Unrecorded, jobs};
        use crate::rows::row::{EVENTS, FAILURE, Found};
        use crate::suite::runs_here;
        use crate::trace;
        use crate::worlds::{self, Search};

        /// Explores the row, and prints what was found.
        pub(crate) fn run(suites: &[Suite], description: &Description, args: &Args) -> ExitCode {
            let job = job(description, args);
            let programs = suites.iter().filter(|it| it.info.name == job.program.suite);
            let mut programs = programs.flat_map(|it| &it.programs);
            let program = programs.find(|it| it.info.name == job.program.name);
            let program = program.expect("described just now");
            let mutations = configure(&job, args);
            let search = Search {
                steps: args.steps.or(job.step_bound()),
                is_plain: args.plain,
                scratch: args.scratch.clone(),
                mutations,
                job,
            };
            report_panics(search.steps);
            let explored = worlds::explore(&search, &program.body);
            let sites = if args.sites {
                check::sites()
            } else {
                Vec::new()
            };
            let bugs = if args.sites {
                check::bugs()
            } else {
                Vec::new()
            };
            print_json(&Found {
                executions: check::executions() as u64,
                outcomes: trace::outcomes(),
                explained: explored.explained,
                weakened: check::weakened() as u64,
                injected: check::injected() as u64,
                plans: explored.plans,
                #[cfg(spanlock_loom)]
                longest: None,
                #[cfg(spanlock_shuttle)]
                longest: Some(check::longest() as u64),
                overtaking: trace::overtaking(),
                bug_fired: check::bug_fired() as u64,
                performed: trace::performed(),
                uses_facade: check::operations() > 0,
                sites: sites.iter().map(site).collect(),
                bugs: bugs.iter().map(bug).collect(),
            })
        }

        fn job(description: &Description, args: &Args) -> Job {
            let all = jobs(description, &counts(), Unrecorded::Bounded);
            let job = all.into_iter().find(|job| job.name() == args.row);
            let mut job = job.unwrap_or_else(|| refuse(&format!("there is no row `{}`", args.row)));
            if !runs_here(job.mode) {
                let checker = job.mode.checker().name();
                refuse(&format!("{} needs a build for {checker}", args.row));
            }
            match args.bound.as_deref() {
                None => {}
                Some("none") => job.bound = None,
                Some(number) => match number.parse() {
                    Ok(number) => job.bound = Some(number),
                    Err(_) => refuse(&format!("--bound {number}: a number, or `none`")),
                },
            }
            if let Some(few) = args.preemptions {
                job.bound = Some(job.bound.map_or(few, |bound| bound.min(few)));
            }
            job
        }

        /// Tells the facade what to do. Returns what is wrong on purpose.
        fn configure(job: &Job, args: &Args) -> String {
            let mut mutations = String::new();
            let mut config = Config {
                trace: args.trace,
                threads: Some(job.program.threads as usize),
                ..Config::default()
            };
            if let Some(site) = &args.weaken {
                mutations += &format!(" --weaken {site}");
                let parsed = Weakening::from_str(site);
                config.weaken = Some(parsed.unwrap_or_else(|why| refuse(&why)));
            }
            if let Some(bug) = &args.bug {
                mutations += &format!(" --bug {bug}");
                config.bug = Some(bug.clone());
            }
            if job.mode == Mode::RmwLoad {
                config.mode = check::Mode::RmwLoad;
            }
            check::configure(config).expect("configured once, here");
            mutations
        }

        fn site(site: &Site) -> String {
            let op = format!("{:?}", site.op).to_lowercase();
            format!(
                "{}:{}:{}:{op}={}",
                site.file, site.line, site.column, site.ordering
            )
        }

        fn bug(site: &check::BugSite) -> BugSite {
            BugSite {
                name: site.name.to_owned(),
                what: site.what.to_owned(),
                killed_by: killed_by(site.killed_by),
                place: format!("{}:{}", site.file, site.line),
            }
        }

        /// Tells a failure on standard error.
        pub(crate) fn tell(panic: &str, steps: Option<u64>) {
            for line in format!("execution {}: {panic}", check::executions()).lines() {
                eprintln!("{FAILURE}{line}");
            }
            if let Some(bound) = steps
                && panic.contains("exceeded max_steps bound")
            {
                eprintln!(
                    "{FAILURE}no operation finished within {bound} steps: is a thread spinning? \
                     If an operation takes longer than that, raise `Suite::step_bound`."
                );
            }
            let faults: Vec<_> = check::faults().iter().map(ToString::to_string).collect();
            if !faults.is_empty() {
                eprintln!("{FAILURE}with {}", faults.join(" and "));
            }
            eprintln!("{FAILURE}{EVENTS}{}", trace::events());
            for (i, step) in check::steps().iter().enumerate() {
                let (thread, what) = (step.thread, &step.what);
                // A column a thread.
                let column = thread * 26;
                eprintln!("{i:5}  {:column$}T{thread} {what:<24}  {}", "", step.place);
            }
        }
    }
}

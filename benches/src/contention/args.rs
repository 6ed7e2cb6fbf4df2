//! The arguments of `compare contention`.

use anyhow::{Result, ensure};
use clap::Args;

use super::{Plan, case};
use crate::args::{OutputArgs, names, seconds, selected};
use crate::micro::cases;

/// The arguments of `compare contention`.
#[derive(Args, Clone, Debug)]
pub struct ContentionArgs {
    /// Run the whole grid, 272 cases, instead of 16 cases: sections of 0, 0.3, 3 and 30 µs,
    /// overlaps of 0, 10, 50 and 100 %, 0, 50, 75 and 100 % reads, 1 to 16 threads
    #[arg(long)]
    pub all: bool,

    /// Run only cases whose name contains all of these texts, separated by commas, as in
    /// `overlap-100/,threads-8`
    #[arg(long, value_delimiter = ',', value_name = "TEXT,…")]
    pub filter: Vec<String>,

    /// Locks to compare, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = names(cases::names()), value_name = "LOCK,…")]
    pub locks: Vec<String>,

    /// Seconds to measure each combination of case and lock
    #[arg(long, default_value = "0.4", value_parser = seconds, value_name = "S")]
    pub seconds: f64,

    /// The files for the result.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

impl ContentionArgs {
    /// Returns the plan.
    ///
    /// # Errors
    /// The filter leaves no case.
    pub fn plan(&self) -> Result<Plan> {
        let mut cases = case::cases(self.all);
        cases.retain(|case| {
            let name = case.name();
            self.filter.iter().all(|text| name.contains(text))
        });
        ensure!(
            !cases.is_empty(),
            "--filter {}: no case has such a name; names are like section-3us/overlap-100/reads-75/threads-8{}",
            self.filter.join(","),
            if self.all {
                ""
            } else {
                ", and most run only with --all"
            }
        );
        Ok(Plan {
            cases,
            locks: selected(cases::names(), &self.locks),
            seconds: self.seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: ContentionArgs,
    }

    #[test]
    fn a_filter_selects_cases_by_name() {
        let plan = |args: &[&str]| {
            let args = Alone::parse_from([&["compare"], args].concat());
            args.args.plan()
        };
        let names = |args: &[&str]| {
            let cases = plan(args).unwrap().cases.into_iter();
            cases.map(|it| it.name()).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&["--filter", "section-3us,overlap-100/,reads-75,threads-8"]),
            ["section-3us/overlap-100/reads-75/threads-8"]
        );
        assert_eq!(names(&["--all", "--filter", "threads-16"]).len(), 64);
        let error = plan(&["--filter", "threads-16"]).unwrap_err().to_string();
        assert!(error.contains("--filter threads-16") && error.contains("--all"));
    }
}

//! The load that other programs put on the machine during a run. Figures are only meaningful on an
//! idle machine.

use std::fmt;
use std::fs;

/// The share of the machine's processor time above which figures are not reliable.
const TOO_MUCH: f64 = 0.05;

/// Processor time since the system started, in clock ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    /// All cores, including idle time.
    all: u64,
    /// Time spent by programs, and time stolen by the hypervisor. Kernel time is excluded, because
    /// writing files for this process happens in kernel threads.
    programs: u64,
    /// The same for this process and the children that it has waited for.
    own: u64,
}

impl Ticks {
    /// Reads the current values; `None` if `/proc` is not as on Linux.
    fn now() -> Option<Ticks> {
        let system = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&system, &own)
    }

    fn parse(system: &str, own: &str) -> Option<Ticks> {
        // cpu  user nice system idle iowait irq softirq steal …
        let fields = system.lines().next()?.split_whitespace().skip(1).take(8);
        let fields: Vec<u64> = fields.map(|it| it.parse().ok()).collect::<Option<_>>()?;
        let all: u64 = fields.iter().sum();
        // The process's name is in parentheses and may contain anything. `utime` is the 12th field
        // after it, and `cutime`, the children's, the 14th.
        let (_, own) = own.rsplit_once(')')?;
        let times = own.split_whitespace().skip(11).step_by(2);
        let mut times = times.map(|it| it.parse::<u64>().ok());
        let own = times.next()?? + times.next()??;
        Some(Ticks {
            all,
            programs: fields.first()? + fields.get(1)? + fields.get(7)?,
            own,
        })
    }
}

/// Measures other programs' load from its creation on.
#[derive(Clone, Copy, Debug)]
pub struct LoadWatch(Option<Ticks>);

impl LoadWatch {
    /// Starts measuring.
    pub fn start() -> Self {
        LoadWatch(Ticks::now())
    }

    /// Returns the load of other programs since the start.
    pub fn others(self) -> Others {
        Others(self.0.zip(Ticks::now()).and_then(|(from, to)| {
            let all = to.all.checked_sub(from.all).filter(|&it| it > 0)?;
            let programs = to.programs.saturating_sub(from.programs);
            let own = to.own.saturating_sub(from.own);
            Some(programs.saturating_sub(own) as f64 / all as f64)
        }))
    }
}

/// The share of the machine's processor time used by other programs; `None` if unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Others(Option<f64>);

impl Others {
    /// Creates the load from a share that [`share`](Self::share) returned.
    pub fn of_share(share: Option<f64>) -> Self {
        Others(share)
    }

    /// Returns the share.
    pub fn share(self) -> Option<f64> {
        self.0
    }

    /// Returns whether the load is high enough to distort the figures.
    pub fn too_much(self) -> bool {
        self.0.is_some_and(|share| share > TOO_MUCH)
    }
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => write!(f, "the load of other programs during the run is unknown"),
            Some(share) => {
                let percent = share * 100.0;
                write!(
                    f,
                    "other programs took {percent:.0} % of the machine's processor time during the run"
                )?;
                if self.too_much() {
                    write!(
                        f,
                        ": do not trust these figures; repeat the run on an idle machine"
                    )?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_from_proc() {
        let system = "cpu  100 10 20 1000 50 1 2 7 3 4\ncpu0 1 2 3\n";
        let own = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 60 5 4 3";
        let ticks = Ticks::parse(system, own).unwrap();
        assert_eq!((ticks.all, ticks.programs, ticks.own), (1190, 117, 64));
        assert!(Ticks::parse("", own).is_none());
        assert!(Ticks::parse(system, "42 (a").is_none());
    }

    #[test]
    fn a_high_load_is_reported() {
        assert!(!Others(Some(0.01)).too_much() && !Others(None).too_much());
        let told = Others(Some(0.4)).to_string();
        assert!(told.starts_with("other programs took 40 %") && told.contains("do not trust"));
    }
}

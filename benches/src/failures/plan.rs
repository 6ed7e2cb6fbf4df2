//! The failure planned for a run.

use std::fmt;
use std::str::FromStr;

/// The single failure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePlan {
    /// The operation that fails.
    pub fault: Fault,
    /// The index of that operation, counted from 0 since the log was opened.
    pub index: u64,
    /// The fate of the file's data that was written earlier and not flushed yet.
    pub dirty: Dirty,
}

/// The operation that fails, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write fails with `EIO`, and nothing is written.
    Write,
    /// Half of a write succeeds, and the caller receives the number of bytes written. The call that
    /// writes the rest fails with `ENOSPC`.
    ShortWrite,
    /// A flush fails with `EIO`.
    Flush,
}

/// The fate of dirty data at a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirty {
    /// The next flush makes it durable.
    Kept,
    /// It is lost at once: reads see the content of the medium.
    Lost,
    /// It never reaches the medium, but reads see it until the machine stops, as with ext4 and XFS.
    Cached,
}

impl FailurePlan {
    /// Returns all plans for a run of this many writes and flushes. No plan combines a failed write
    /// with [`Dirty::Cached`]: the next flush would report the loss of that data, and the plans in
    /// which a flush fails cover such a report.
    pub fn all(writes: u64, flushes: u64) -> Vec<FailurePlan> {
        let of_writes = [Fault::Write, Fault::ShortWrite]
            .into_iter()
            .flat_map(|fault| [Dirty::Kept, Dirty::Lost].map(|dirty| (fault, dirty)));
        let of_flushes =
            [Dirty::Kept, Dirty::Lost, Dirty::Cached].map(|dirty| (Fault::Flush, dirty));
        let each = |fault, dirty| {
            let count = if fault == Fault::Flush {
                flushes
            } else {
                writes
            };
            (0..count).map(move |index| FailurePlan {
                fault,
                index,
                dirty,
            })
        };
        let kinds = of_writes.chain(of_flushes);
        kinds
            .flat_map(|(fault, dirty)| each(fault, dirty))
            .collect()
    }

    /// Returns the name shared by all plans that differ only in the index.
    pub fn kind(&self) -> String {
        format!("{}{}", self.fault.name(), self.dirty.suffix())
    }
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Write => "write",
            Fault::ShortWrite => "short-write",
            Fault::Flush => "flush",
        }
    }
}

impl Dirty {
    fn suffix(self) -> &'static str {
        match self {
            Dirty::Kept => "",
            Dirty::Lost => "-lost",
            Dirty::Cached => "-cached",
        }
    }
}

impl fmt::Display for FailurePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fault, dirty) = (self.fault.name(), self.dirty.suffix());
        write!(f, "{fault}-{}{dirty}", self.index)
    }
}

impl FromStr for FailurePlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let faults = [Fault::ShortWrite, Fault::Write, Fault::Flush];
        let of_name = |fault: &Fault| text.strip_prefix(fault.name())?.strip_prefix('-');
        let read = || {
            let fault = *faults.iter().find(|fault| of_name(fault).is_some())?;
            let rest = of_name(&fault)?;
            let end = rest.find('-').unwrap_or(rest.len());
            let all = [Dirty::Kept, Dirty::Lost, Dirty::Cached];
            let dirty = all.into_iter().find(|it| it.suffix() == &rest[end..])?;
            Some(FailurePlan {
                fault,
                index: rest[..end].parse().ok()?,
                dirty,
            })
        };
        read().ok_or_else(|| {
            "expected `write-N`, `short-write-N` or `flush-N` with N counted from 0, optionally followed by `-lost` or `-cached`".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displayed_plan_parses_to_itself() {
        let all = FailurePlan::all(2, 3);
        assert_eq!(all.len(), 2 * 2 * 2 + 3 * 3);
        for plan in all {
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
        for wrong in [
            "",
            "flush",
            "flush-",
            "flush-x",
            "flush-1-gone",
            "read-1",
            "write--1",
        ] {
            assert!(wrong.parse::<FailurePlan>().is_err(), "{wrong}");
        }
    }
}

//! What is to fail in a run, and where.

use std::fmt;
use std::str::FromStr;

/// One failure of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What fails.
    pub fault: Fault,
    /// Which one of them, counted from 0 since the log was opened.
    pub index: u64,
    /// What becomes of the file's data that were written before and not flushed yet.
    pub dirty: Dirty,
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write: `EIO`, and nothing is written.
    Write,
    /// A write: half of it is written, which the caller is told, and the call that brings the rest gets `ENOSPC`.
    ShortWrite,
    /// A flush: `EIO`.
    Flush,
}

/// What becomes of dirty data beside a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirty {
    /// The next flush makes them durable.
    Kept,
    /// They are lost at once: reads see what the medium has.
    Lost,
    /// They will never reach the medium, and reads see them until the machine stops: ext4's and XFS' way.
    Cached,
}

impl Plan {
    /// All plans for a run of so many writes and flushes. A write does not fail beside data that stay in the cache: that is told by a flush, and it is among those.
    pub fn all(writes: u64, flushes: u64) -> Vec<Plan> {
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
            (0..count).map(move |index| Plan {
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

    /// What plans that differ in nothing but the index have in common.
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

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fault, dirty) = (self.fault.name(), self.dirty.suffix());
        write!(f, "{fault}-{}{dirty}", self.index)
    }
}

impl FromStr for Plan {
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
            Some(Plan {
                fault,
                index: rest[..end].parse().ok()?,
                dirty,
            })
        };
        read().ok_or_else(|| {
            "a plan is `write-N`, `short-write-N` or `flush-N`, N counted from 0, and may end in `-lost` or `-cached`".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_they_are_written() {
        let all = Plan::all(2, 3);
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
            assert!(wrong.parse::<Plan>().is_err(), "{wrong}");
        }
    }
}

//! The machine that a run was made on.

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::measure;

/// The properties of a machine that are needed to interpret figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// The size of the memory, rounded up to whole GiB. `None` if it is unknown.
    pub memory_gib: Option<u64>,
    /// The operating system and its release.
    pub kernel: String,
}

impl Machine {
    /// Queries this machine.
    pub fn this() -> Self {
        let unknown = || "unknown".to_owned();
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find(|line| line.starts_with("model name"));
        let processor = model
            .and_then(|line| line.split_once(':'))
            .map(|(_, name)| name.trim().to_owned());
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Machine {
            processor: processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: measure::cores(),
            memory_gib: memory_gib(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
            kernel: release.map_or_else(unknown, |it| format!("Linux {}", it.trim())),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} cores", self.processor, self.cores)?;
        if let Some(memory) = self.memory_gib {
            write!(f, ", {memory} GiB of memory")?;
        }
        // The name of a build follows the version.
        let kernel = self.kernel.split('-').next().unwrap_or_default();
        write!(f, ", {kernel}")
    }
}

/// Returns the total memory according to the text of `/proc/meminfo`.
fn memory_gib(info: &str) -> Option<u64> {
    let total = info.lines().find_map(|it| it.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
    Some(kib.div_ceil(1 << 20))
}

/// Returns the current date and time in UTC.
pub(super) fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    date_and_time(since.as_secs())
}

/// Formats `seconds` since 1970 as date and time.
fn date_and_time(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Years start in March, so that the leap day is the last; 400 of them have 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + next;
    let (hour, minute) = (time / 3600, time / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::{date_and_time, memory_gib};

    #[test]
    fn the_memory_is_rounded_up() {
        let info = "MemTotal:       24685756 kB\nMemFree:        11865436 kB\n";
        assert_eq!(memory_gib(info), Some(24));
        assert_eq!(memory_gib("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn seconds_are_formatted_as_dates() {
        assert_eq!(date_and_time(0), "1970-01-01 00:00 UTC");
        assert_eq!(date_and_time(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date_and_time(1_709_251_199), "2024-02-29 23:59 UTC");
        assert_eq!(date_and_time(4_107_542_400), "2100-03-01 00:00 UTC");
    }
}

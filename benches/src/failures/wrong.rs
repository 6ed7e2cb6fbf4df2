//! Logs that are wrong on purpose. Results about other projects are only meaningful if these logs
//! are caught.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use super::record::RECORD;
use crate::journal::peers::Peer;

/// A log that is wrong on purpose.
pub(super) struct WrongKind {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) open: fn(&Path) -> Result<Box<dyn Peer>>,
}

pub(super) const KINDS: [WrongKind; 5] = [
    WrongKind {
        name: "wrong-early",
        about: "acknowledges before it flushes",
        open: |folder| Log::open(folder, Wrong::Early),
    },
    WrongKind {
        name: "wrong-swallow",
        about: "swallows the error of a flush",
        open: |folder| Log::open(folder, Wrong::Swallow),
    },
    WrongKind {
        name: "wrong-hang",
        about: "hangs after an error",
        open: |folder| Log::open(folder, Wrong::Hang),
    },
    WrongKind {
        name: "wrong-panic",
        about: "panics on an error",
        open: |folder| Log::open(folder, Wrong::Panic),
    },
    WrongKind {
        name: "wrong-format",
        about: "is gone after an error",
        open: |folder| Log::open(folder, Wrong::Format),
    },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Early,
    Swallow,
    Hang,
    Panic,
    Format,
}

/// Records in sequence, each flushed separately. No byte of a record is 0, so a hole is detected.
struct Log {
    file: File,
    folder: PathBuf,
    appended: AtomicU64,
    wrong: Wrong,
}

const FILE: &str = "log";
/// If this file exists, the log cannot be opened any more.
const BROKEN: &str = "broken";

impl Log {
    fn open(folder: &Path, wrong: Wrong) -> Result<Box<dyn Peer>> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(true).write(true);
        Ok(Box::new(Log {
            file: file.open(folder.join(FILE))?,
            folder: folder.to_owned(),
            appended: AtomicU64::new(0),
            wrong,
        }))
    }

    fn append(&self, record: &[u8]) -> Result<()> {
        // Relaxed: only hands out unique positions.
        let place = self.appended.fetch_add(1, Ordering::Relaxed);
        self.file.write_all_at(record, place * RECORD as u64)?;
        let is_due = self.wrong != Wrong::Early || place % 4 == 3;
        let flushed = if is_due {
            self.file.sync_data()
        } else {
            Ok(())
        };
        match self.wrong {
            Wrong::Swallow => Ok(()),
            _ => Ok(flushed?),
        }
    }
}

impl Peer for Log {
    fn append_durable(&self, record: &[u8]) -> Result<()> {
        let appended = self.append(record);
        if appended.is_err() {
            match self.wrong {
                Wrong::Hang => loop {
                    std::thread::park();
                },
                Wrong::Panic => panic!("wrong on purpose"),
                Wrong::Format => {
                    File::create(self.folder.join(BROKEN))?;
                }
                Wrong::Early | Wrong::Swallow => {}
            }
        }
        appended
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.file.sync_data()?)
    }
}

pub(super) fn records(folder: &Path) -> Result<Vec<Vec<u8>>> {
    anyhow::ensure!(!folder.join(BROKEN).exists(), "the log is gone");
    let all = std::fs::read(folder.join(FILE))?;
    let records = all
        .chunks(RECORD)
        .filter(|it| it.iter().any(|byte| *byte != 0));
    Ok(records.map(<[u8]>::to_vec).collect())
}

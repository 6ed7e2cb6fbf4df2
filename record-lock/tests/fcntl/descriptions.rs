//! Calls that do not wait, with several owners in one process: open file descriptions.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use spanlock_record_lock::{Hold, Mode, Owner, RecordLock, posix};

use crate::{alone, errno, fcntl, kind, scaled};

const OWNERS: usize = 4;

/// An owner of the table, and the file description that is its like in the kernel.
struct Pair {
    owner: Owner,
    file: File,
}

impl Pair {
    fn new(table: &RecordLock, path: &Path, id: usize) -> Self {
        let owner = table.owner(id as u64).expect("is new");
        let file = File::options().read(true).write(true).open(path);
        Pair {
            owner,
            file: file.expect("exists"),
        }
    }
}

/// Draws a range as `fcntl` takes it. Most are valid, and most bytes are among the first 32.
fn range(random: &mut fastrand::Rng) -> (i64, i64) {
    let start = match random.u8(..) {
        0..4 => i64::MAX - random.i64(0..4),
        4..8 => -random.i64(1..4),
        _ => random.i64(0..32),
    };
    let len = match random.u8(..) {
        0..16 => 0,
        16..32 => -random.i64(1..8),
        32..34 => i64::MAX - random.i64(0..40),
        34 => i64::MIN,
        _ => random.i64(1..12),
    };
    (start, len)
}

/// Returns all locks of a file that the kernel lists: writes, first byte, last byte.
fn listed(inode: u64) -> Vec<(bool, u64, u64)> {
    let text = fs::read_to_string("/proc/locks").expect("is a file");
    let file = format!(":{inode}");
    let mut locks: Vec<_> = (text.lines())
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() == 8 && words[5].ends_with(&file))
        .map(|words| {
            let end = match words[7] {
                "EOF" => i64::MAX as u64,
                end => end.parse().expect("a number"),
            };
            (
                words[3] == "WRITE",
                words[6].parse().expect("a number"),
                end,
            )
        })
        .collect();
    locks.sort_unstable();
    locks
}

#[test]
fn random_calls_that_do_not_wait_have_the_kernels_answers() {
    let _alone = alone();
    let path = tempfile::NamedTempFile::new().expect("a directory");
    let inode = path.as_file().metadata().expect("is open").ino();
    let table = RecordLock::new();
    let mut pairs: [Pair; OWNERS] = core::array::from_fn(|id| Pair::new(&table, path.path(), id));
    let random = &mut fastrand::Rng::with_seed(9);
    let mut answers = [0_u64; 6];
    for call in 0..scaled(100_000) {
        let id = random.usize(..OWNERS);
        let Pair { owner, file } = &pairs[id];
        let file = file.as_raw_fd();
        let (start, len) = range(random);
        let mode = *random.choice(&[Mode::Read, Mode::Write]).expect("two");
        let told = format!("call {call}: owner {id}, {start}, {len}, {mode:?}");
        match random.u8(..) {
            0..=2 => {
                // Both release first: the file is closed, and the owner dropped.
                let [first, second, third, fourth] = pairs;
                let mut rest = [first, second, third, fourth].map(Some);
                rest[id] = None;
                rest[id] = Some(Pair::new(&table, path.path(), id));
                pairs = rest.map(|pair| pair.expect("exists"));
                answers[0] += 1;
            }
            3..100 => {
                let found = fcntl(file, libc::F_OFD_GETLK, kind(Some(mode)), start, len);
                let ours = posix(start, len).and_then(|range| owner.test(range, mode));
                match (found, ours) {
                    (Ok(lock), Ok(None)) => {
                        assert_eq!(lock.l_type, libc::F_UNLCK as i16, "{told}");
                        answers[1] += 1;
                    }
                    (Ok(lock), Ok(Some(_))) => {
                        let last = match lock.l_len {
                            0 => i64::MAX as u64,
                            len => (lock.l_start + len - 1) as u64,
                        };
                        let is_it = |it: &Hold| {
                            it.owner != id as u64
                                && (it.first, it.last) == (lock.l_start as u64, last)
                                && kind(Some(it.mode)) == lock.l_type
                        };
                        let holds = table.holds(..).expect("memory");
                        assert!(holds.iter().any(is_it), "{told}");
                        answers[2] += 1;
                    }
                    (Err(found), Err(ours)) => assert_eq!(found, Some(errno(ours)), "{told}"),
                    (found, ours) => panic!("{told}: {}, {ours:?}", found.is_ok()),
                }
            }
            chosen => {
                let mode = (chosen < 190).then_some(mode);
                let found = fcntl(file, libc::F_OFD_SETLK, kind(mode), start, len);
                let ours = posix(start, len).and_then(|range| match mode {
                    Some(mode) => owner.try_lock(range, mode),
                    None => owner.unlock(range),
                });
                let ours = ours.map_err(|error| Some(errno(error)));
                assert_eq!(found.map(|_| ()), ours, "{told}, set {mode:?}");
                answers[3 + usize::from(ours.is_err()) + usize::from(mode.is_none())] += 1;
            }
        }
        if call % 16 == 0 {
            let write = |hold: &Hold| (hold.mode == Mode::Write, hold.first, hold.last);
            let mut ours: Vec<_> = table.holds(..).expect("memory").iter().map(write).collect();
            ours.sort_unstable();
            // The kernel lists the locks of all processes, a page at a time. If another process
            // changes its locks between two pages, one of ours may be missing, or there twice.
            if !(0..100).any(|_| listed(inode) == ours) {
                assert_eq!(listed(inode), ours, "{told}");
            }
        }
    }
    assert!(answers.iter().all(|&count| count > 0), "{answers:?}");
}

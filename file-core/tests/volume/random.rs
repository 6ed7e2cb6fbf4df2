//! Compares one file with a byte string through long random histories of fsx's operations.
//!
//! A run has 20,000 operations, times `SPANLOCK_ROUNDS`.

use crate::common::{Handle, PAGE, Rng, Volume, content, format, reopen, scaled};
use spanlock_file_core::{Error, FormatOptions};

/// The largest size that the operations give the file.
const LARGEST: u64 = 24 * PAGE;

struct Pair {
    volume: Volume,
    file: Handle,
    model: Vec<u8>,
    rng: Rng,
}

impl Pair {
    fn new(seed: u64, checksums: bool) -> Pair {
        // There is not always room for what an operation needs.
        let options = FormatOptions::new().inodes(32).data_checksums(checksums);
        let volume = format(44, &options);
        let file = volume.create("a").unwrap();
        Pair {
            volume,
            file,
            model: Vec::new(),
            rng: Rng::new(seed),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.next() % bound
    }

    /// Returns a position in the file. Borders of pages are more likely than others.
    fn position(&mut self) -> u64 {
        let at = self.below(LARGEST);
        match self.below(3) {
            0 => at / PAGE * PAGE,
            1 => (at / PAGE * PAGE + self.below(20)).saturating_sub(10),
            _ => at,
        }
    }

    fn range(&mut self) -> (u64, u64) {
        let (one, other) = (self.position(), self.position());
        let end = match self.below(2) {
            0 => one.max(other),
            _ => (one.min(other) + self.below(100)).min(LARGEST),
        };
        (one.min(other), end)
    }

    fn data(&mut self, len: u64) -> Vec<u8> {
        let seed = self.rng.next();
        (0..len).map(|at| (seed >> (at % 8 * 8)) as u8).collect()
    }

    /// Returns whether the operation was done. Otherwise there was no room for it.
    fn is_done(&self, result: Result<(), Error>) -> bool {
        match result {
            Ok(()) => true,
            Err(Error::NoSpace { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn write(&mut self, start: u64, data: &[u8]) {
        let result = self.file.write_at(data, start);
        if self.is_done(result) {
            self.overwrite(start, data);
        }
    }

    fn overwrite(&mut self, start: u64, data: &[u8]) {
        let end = start as usize + data.len();
        if !data.is_empty() {
            self.model.resize(self.model.len().max(end), 0);
            self.model[start as usize..end].copy_from_slice(data);
        }
    }

    fn step(&mut self) {
        let (start, end) = self.range();
        let size = self.model.len() as u64;
        match self.below(100) {
            0..30 => {
                let data = self.data(end - start);
                self.write(start, &data);
            }
            30..40 => {
                let len = (end - start).min(LARGEST.saturating_sub(size));
                let data = self.data(len);
                let result = self.file.append(&data).map(|at| assert_eq!(at, size));
                if self.is_done(result) {
                    self.overwrite(size, &data);
                }
            }
            40..65 => self.read(start, end),
            65..77 => {
                let result = self.file.truncate(end);
                if self.is_done(result) {
                    self.model.resize(end as usize, 0);
                }
            }
            77..87 => {
                let result = self.file.punch_hole(start..end);
                if self.is_done(result) {
                    self.model[start.min(size) as usize..end.min(size) as usize].fill(0);
                }
            }
            87..92 => {
                let result = self.file.allocate(start..end);
                if self.is_done(result) && start < end {
                    self.model.resize(size.max(end) as usize, 0);
                }
            }
            92..97 => {
                let result = self.file.allocate_keeping_size(start..end);
                self.is_done(result);
            }
            97 => self.check(),
            _ => self.reopen(),
        }
        assert_eq!(self.file.size(), self.model.len() as u64);
    }

    fn read(&self, start: u64, end: u64) {
        let mut buf = vec![0xEE; (end - start) as usize];
        let count = self.file.read_at(&mut buf, start).unwrap();
        let there = self.model.get(start as usize..).unwrap_or_default();
        assert_eq!(buf[..count], there[..there.len().min(buf.len())]);
    }

    fn check(&self) {
        assert_eq!(content(&self.file), self.model);
        assert_eq!(self.volume.check().unwrap().damaged, []);
    }

    fn reopen(&mut self) {
        let before = self.volume.stats();
        let metadata = self.file.metadata();
        self.volume = reopen(&self.volume);
        self.file = self.volume.open_file("a").unwrap();
        let after = self.volume.stats();
        assert_eq!(before.pages_free, after.pages_free);
        assert_eq!(before.log_pages, after.log_pages);
        assert_eq!(metadata, self.file.metadata());
    }
}

#[test]
fn a_file_behaves_like_a_byte_string() {
    for (seed, checksums) in [(1, false), (2, true)] {
        let mut pair = Pair::new(seed, checksums);
        for _ in 0..scaled(10_000) {
            pair.step();
        }
        pair.check();
    }
}

//! Shared by the tests: folders full of files, random numbers, and the command to run.
#![allow(dead_code)] // Each test uses its part.

pub(crate) mod scene;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Pseudorandom numbers determined by a seed (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(len).collect()
    }
}

/// Files by name, with `/` between folders.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Returns files of random bytes, from 1 B to 300 KiB, in a few folders.
pub(crate) fn random_files(count: usize, random: &mut Random) -> Files {
    let file = |i: usize| {
        // Covers all magnitudes up to 300 KiB.
        let bound = [8, 200, 4097, 65_537, 307_200][i % 5];
        let len = 1 + random.below(bound) as usize;
        let name = format!("folder-{}/file-{i}", i % 3);
        (name, random.bytes(len.min(300 << 10)))
    };
    (0..count).map(file).collect()
}

/// Writes `files` below `folder`.
pub(crate) fn write_files(files: &Files, folder: &Path) {
    for (name, content) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

//! Non-temporal copies against a model: every alignment in a line, every length up to several
//! lines, and no byte outside.

use crate::common::{assert_holds, folder, get, pattern};
use spanlock_pmem::{FlushInstruction, Flushed, MappedFile, Options, Pmem};

/// Room for the longest copy at the last alignment, with a line of neighbours on either side.
const LEN: usize = 4096;
const MARGIN: usize = 64;

/// Streams `len` bytes to every offset of a line, from a source with another alignment.
fn every_alignment(region: &MappedFile, len: usize) {
    let mut model = get(region, 0, LEN);
    for offset in 0..64 {
        let at = MARGIN + offset;
        let source = pattern(len * 64 + offset, len + 16);
        let data = &source[offset % 16..][..len];
        // SAFETY: only one thread runs, and it fences before it accesses the bytes.
        let flushed = unsafe { region.write_streaming(at as u64, data) };
        region.fence(flushed);
        model[at..at + len].copy_from_slice(data);
        assert_holds(region, 0, &model);
    }
}

#[test]
fn every_alignment_and_length_is_copied() {
    for instruction in FlushInstruction::available() {
        let folder = folder();
        let options = Options::new().flush_instruction(instruction);
        let path = folder.path().join("region");
        let region = MappedFile::create(path, LEN as u64, options).unwrap();
        for len in 0..=300 {
            every_alignment(&region, len);
        }
    }
}

#[test]
fn whole_pages_and_more_are_copied() {
    let folder = folder();
    let region = crate::common::region(&folder, 1 << 20);
    let mut model = vec![0; 1 << 20];
    for (at, len) in [
        (0, 4096),
        (8192, 65536),
        (100_001, 99_999),
        (1 << 19, 1 << 19),
        (0, 1 << 20),
    ] {
        let data = pattern(at + len, len);
        // SAFETY: only one thread runs, and it fences before it accesses the bytes.
        let flushed = unsafe { region.write_streaming(at as u64, &data) };
        region.fence(flushed.and(Flushed::nothing()));
        model[at..at + len].copy_from_slice(&data);
        assert_holds(&region, 0, &model);
    }
}

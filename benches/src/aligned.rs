//! Memory for reads and writes past the page cache.

use std::ops::Range;

/// Bytes that begin at a page, so that they can be written past the page cache without a copy.
#[derive(Debug)]
pub struct PageAligned {
    memory: Vec<u8>,
    range: Range<usize>,
}

impl PageAligned {
    /// Returns `len` bytes, each 0x5a.
    pub fn new(len: usize) -> Self {
        const PAGE: usize = 4096;
        let memory = vec![0x5a; len + PAGE];
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(PAGE) - address;
        PageAligned {
            memory,
            range: start..start + len,
        }
    }

    /// Returns the bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.range.clone()]
    }
}

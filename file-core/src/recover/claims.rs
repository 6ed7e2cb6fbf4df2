//! The pages of a volume that its logs and files claim, while it is recovered.

use spanlock_sync::atomic::{AtomicU64, Ordering};

use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::layout::Geometry;
use crate::recover::reader::in_data_area;

/// One bit for each page of the data area, set once the page is claimed. Several threads may claim
/// pages at once.
pub(super) struct Claims<'a> {
    geometry: &'a Geometry,
    words: Box<[AtomicU64]>,
}

impl<'a> Claims<'a> {
    pub(super) fn new(geometry: &'a Geometry) -> Self {
        let words = geometry.data_pages().div_ceil(64);
        Claims {
            geometry,
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Claims pages for `inode`. The pointer to them lies at byte `at` of the region.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a page lies outside the data area or is claimed already.
    pub(super) fn claim(&self, extent: Extent, inode: u32, at: u64) -> Result<(), Error> {
        if !in_data_area(self.geometry, extent) {
            return Err(Error::corrupt("a pointer outside the data area", inode, at));
        }
        for page in extent.start..extent.start + extent.len {
            if !self.set(page) {
                return Err(Error::corrupt("a page that is in use twice", inode, at));
            }
        }
        Ok(())
    }

    /// Claims the pages that are not claimed yet, or nothing if they do not lie in the data area.
    pub(super) fn add(&self, extent: Extent) {
        if in_data_area(self.geometry, extent) {
            for page in extent.start..extent.start + extent.len {
                self.set(page);
            }
        }
    }

    /// Sets the bit of a page. Returns whether it was clear.
    fn set(&self, page: u32) -> bool {
        let (word, mask) = self.bit(page);
        // Relaxed: each bit is set once, whichever thread sets it. The end of the parallel scan
        // orders the bits before `free_extents`.
        word.fetch_or(mask, Ordering::Relaxed) & mask == 0
    }

    /// Returns the word that has the bit of a page in the data area, and that bit.
    fn bit(&self, page: u32) -> (&AtomicU64, u64) {
        let bit = page - self.geometry.data_start();
        (&self.words[bit as usize / 64], 1 << (bit % 64))
    }

    /// Calls `each` with every run of unclaimed pages.
    pub(super) fn free_extents(&self, each: &mut dyn FnMut(Extent)) {
        let start = self.geometry.data_start();
        // Relaxed: see `claim`.
        let word = |at: u32| self.words[at as usize].load(Ordering::Relaxed);
        let is_free = |bit: u32| word(bit / 64) & 1 << (bit % 64) == 0;
        let mut bit = 0;
        while bit < self.geometry.data_pages() {
            let first = bit;
            while bit < self.geometry.data_pages() && is_free(bit) {
                bit += 1;
            }
            if bit > first {
                each(Extent {
                    start: start + first,
                    len: bit - first,
                });
            }
            bit += 1;
        }
    }
}

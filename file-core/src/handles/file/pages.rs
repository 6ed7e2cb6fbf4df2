//! The new pages of a change, and where their bytes come from.

use std::io::IoSlice;

use crate::medium::extent::{Extent, ExtentList};
use crate::medium::layout::PAGE;

/// Zeros for pages that an allocation adds, stored this many at a time.
static ZEROS: [u8; 16 * PAGE] = [0; 16 * PAGE];

/// A position in the bytes of a write.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'d> {
    slices: &'d [IoSlice<'d>],
    /// The bytes of the first slice that have been taken.
    taken: usize,
}

impl<'d> Bytes<'d> {
    pub(super) fn new(slices: &'d [IoSlice<'d>]) -> Self {
        Bytes { slices, taken: 0 }
    }

    /// Returns the number of bytes, at most `u64::MAX`.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        let lengths = self.slices.iter().map(|slice| slice.len() as u64);
        lengths
            .fold(0, u64::saturating_add)
            .saturating_sub(self.taken as u64)
    }

    /// Returns what is left of the first slice that is not empty.
    fn first(&mut self) -> &'d [u8] {
        while let Some((first, rest)) = self.slices.split_first() {
            if self.taken < first.len() {
                return &first[self.taken..];
            }
            (self.slices, self.taken) = (rest, 0);
        }
        &[]
    }

    /// Skips bytes.
    pub(super) fn skip(&mut self, mut count: u64) {
        while count > 0 {
            let here = count.min(self.first().len() as u64);
            if here == 0 {
                return;
            }
            self.taken += here as usize;
            count -= here;
        }
    }

    /// Takes as many bytes as fit into `into`, and copies them there.
    pub(super) fn copy_to(&mut self, mut into: &mut [u8]) {
        while !into.is_empty() {
            let first = self.first();
            if first.is_empty() {
                return;
            }
            let here = first.len().min(into.len());
            let (now, later) = into.split_at_mut(here);
            now.copy_from_slice(&first[..here]);
            self.taken += here;
            into = later;
        }
    }

    /// Takes whole pages that are contiguous in memory, at most `most`. There may be none.
    fn pages(&mut self, most: usize) -> &'d [u8] {
        let first = self.first();
        let pages = &first[..(first.len() / PAGE).min(most) * PAGE];
        self.taken += pages.len();
        pages
    }
}

/// The content of a page, on the heap: several of them could overflow a small stack.
pub(super) type Image = Box<[u8]>;

/// Returns a page of zeros.
pub(super) fn blank() -> Image {
    vec![0; PAGE].into()
}

/// The pages that a change adds, in the order of the file.
pub(super) struct NewPages<'d> {
    /// How many pages there are.
    pub(super) count: u32,
    /// The first page, if it keeps bytes that the file had.
    pub(super) head: Option<Image>,
    /// The last page, if it keeps bytes and is not the first.
    pub(super) tail: Option<Image>,
    /// The pages between; zeros if `None`.
    pub(super) whole: Option<Bytes<'d>>,
}

impl NewPages<'_> {
    /// Returns `count` pages of zeros.
    pub(super) fn zeros(count: u32) -> Self {
        NewPages {
            count,
            head: None,
            tail: None,
            whole: None,
        }
    }

    /// Hands the pages to `put`, run by run: the first of the volume's pages that store the run,
    /// and the content. Writes their checksums into `checksums` unless it is empty.
    pub(super) fn each(
        &mut self,
        extents: &ExtentList,
        checksums: &mut [u32],
        mut put: impl FnMut(u32, &[u8]),
    ) {
        let mut done = 0;
        for Extent { start, len } in extents.iter() {
            let mut within = 0;
            while within < len {
                let most = (len - within).min(self.count - done - self.tail.is_some() as u32);
                let assembled: Image;
                let content: &[u8] = match (&self.head, &self.tail, &mut self.whole) {
                    (Some(head), _, _) if done == 0 => head,
                    (_, Some(tail), _) if done + 1 == self.count => tail,
                    (_, _, None) => &ZEROS[..PAGE * (most as usize).min(ZEROS.len() / PAGE)],
                    (_, _, Some(bytes)) => match bytes.pages(most as usize) {
                        [] => {
                            let mut image = blank();
                            bytes.copy_to(&mut image);
                            assembled = image;
                            &assembled
                        }
                        pages => pages,
                    },
                };
                put(start + within, content);
                let pages = content.chunks_exact(PAGE);
                for (page, checksum) in pages.zip(checksums.iter_mut().skip(done as usize)) {
                    *checksum = crc32c::crc32c(page);
                }
                let count = (content.len() / PAGE) as u32;
                (within, done) = (within + count, done + count);
            }
        }
    }
}

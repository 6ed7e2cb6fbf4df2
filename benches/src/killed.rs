//! The lines that a child writes before it is killed, as read by `tests/kill` from `import-child`.
//!
//! Each line is one `write` to a pipe, shorter than the pipe's atomic size. So a line arrives whole
//! or not at all, and the lines of all threads are totally ordered. A thread reports before an
//! operation starts and after it has returned; the operation took effect between the two lines.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Bytes per page.
pub const PAGE: usize = 4096;

/// The files that are overwritten repeatedly. All other files are imported.
pub const HOT_FILES: [&str; 2] = ["hot-0", "hot-1"];

/// The number of pages in each of these files.
pub const HOT_PAGES: u64 = 48;

/// A line written by the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The volume is open and the work begins.
    Begin,
    /// The removal of this file, given by its name in the volume, has returned.
    Removed(String),
    /// The write of a chunk has returned.
    Imported {
        /// The chunk's index.
        chunk: usize,
        /// The file's name in the folder.
        file: String,
    },
    /// A write is about to begin.
    Writing(Overwrite),
    /// The write with this seed has returned.
    Wrote(u64),
    /// The number of logs compacted since the volume was opened.
    Compactions(u64),
    /// The import is complete.
    End,
}

/// A write of whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overwrite {
    /// Determines the bytes of the write. It is unique and never 0.
    pub seed: u64,
    /// The pages, counted from the start of the file.
    pub pages: Range<u64>,
    /// The file's name in the volume.
    pub file: String,
}

impl Overwrite {
    /// Returns all bytes of the write.
    pub fn content(&self) -> Vec<u8> {
        let pages = self.pages.clone().map(|page| page_of(self.seed, page));
        pages.collect::<Vec<_>>().concat()
    }
}

/// Returns the content of page `page` after the write with `seed`. It repeats a 64-byte block that
/// consists of the seed, the page, and six words derived from them. Seed 0 stands for a page that
/// was never written, which is zero.
///
/// This is cheap, so that the child spends its time in writes.
pub fn page_of(seed: u64, page: u64) -> Vec<u8> {
    if seed == 0 {
        return vec![0; PAGE];
    }
    let mut block = [seed; 8];
    block[1] = page;
    for i in 2..block.len() {
        block[i] = next(block[i - 1] ^ block[i - 2]);
    }
    let block: Vec<u8> = block.into_iter().flat_map(u64::to_le_bytes).collect();
    block.repeat(PAGE / block.len())
}

/// Returns a pseudorandom number, distinct for each `state` (SplitMix64).
pub fn next(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Begin => write!(f, "begin"),
            Line::Removed(file) => write!(f, "removed {file}"),
            Line::Imported { chunk, file } => write!(f, "imported {chunk} {file}"),
            Line::Writing(Overwrite { seed, pages, file }) => {
                write!(f, "writing {seed} {} {} {file}", pages.start, pages.end)
            }
            Line::Wrote(seed) => write!(f, "wrote {seed}"),
            Line::Compactions(count) => write!(f, "compactions {count}"),
            Line::End => write!(f, "end"),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().ok();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let read = || match word {
            "begin" => Some(Line::Begin),
            "removed" => Some(Line::Removed(rest.to_owned())),
            "imported" => {
                let (chunk, file) = rest.split_once(' ')?;
                Some(Line::Imported {
                    chunk: chunk.parse().ok()?,
                    file: file.to_owned(),
                })
            }
            "writing" => {
                let mut fields = rest.splitn(4, ' ');
                let mut field = || fields.next();
                Some(Line::Writing(Overwrite {
                    seed: number(field()?)?,
                    pages: number(field()?)?..number(field()?)?,
                    file: field()?.to_owned(),
                }))
            }
            "wrote" => Some(Line::Wrote(number(rest)?)),
            "compactions" => Some(Line::Compactions(number(rest)?)),
            "end" => Some(Line::End),
            _ => None,
        };
        read().ok_or_else(|| format!("not a line of the child: {line:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displayed_line_parses_to_itself() {
        let file = "a folder/a file".to_owned();
        let overwrite = Overwrite {
            seed: u64::MAX,
            pages: 3..5,
            file: file.clone(),
        };
        for line in [
            Line::Begin,
            Line::Removed(file.clone()),
            Line::Imported { chunk: 7, file },
            Line::Writing(overwrite),
            Line::Wrote(1),
            Line::Compactions(2),
            Line::End,
        ] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert!("wrote".parse::<Line>().is_err() && "".parse::<Line>().is_err());
    }

    #[test]
    fn a_page_starts_with_its_seed_and_pages_differ() {
        assert_eq!(page_of(0, 1), [0; PAGE]);
        let (one, other) = (page_of(9, 0), page_of(9, 1));
        assert!(one.len() == PAGE && one[..8] == 9_u64.to_le_bytes() && one[..8] == other[..8]);
        assert!(one[8..16] != other[8..16] && one[4088..] != other[4088..]);
    }
}

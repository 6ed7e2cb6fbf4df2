//! What a child that is going to be killed tells its parent, line by line: between `import-child` and
//! `tests/kill`.
//!
//! A line is one `write` to a pipe, shorter than the pipe takes in one piece: it is there as a whole or not at
//! all, and the lines of all threads have one order. A thread that tells before it begins and after
//! something has returned so tells an interval that holds the truth.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Bytes that each page of an overwrite has.
pub const PAGE: usize = 4096;

/// The files that are overwritten again and again; all others are imported.
pub const HOT_FILES: [&str; 2] = ["hot/0", "hot/1"];

/// Pages of each of them.
pub const HOT_PAGES: u64 = 48;

/// A line of the child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The volume is open, the work begins.
    Begin,
    /// The removal of this file, by its name in the volume, has returned.
    Removed(String),
    /// The write of a chunk has returned.
    Imported {
        /// Which chunk.
        chunk: usize,
        /// Of which file, by its name in the folder.
        file: String,
    },
    /// A write is about to begin.
    Writing(Overwrite),
    /// The write with this seed has returned.
    Wrote(u64),
    /// So many logs were compacted since the volume was opened.
    Compactions(u64),
    /// The import is done.
    End,
}

/// A write of whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overwrite {
    /// From here the bytes follow; no two writes have the same, none has 0.
    pub seed: u64,
    /// Which pages, counted from the file's start.
    pub pages: Range<u64>,
    /// The file's name in the volume.
    pub file: String,
}

impl Overwrite {
    /// All bytes of the write.
    pub fn content(&self) -> Vec<u8> {
        let pages = self.pages.clone().map(|page| page_of(self.seed, page));
        pages.collect::<Vec<_>>().concat()
    }
}

/// What page `page` holds after the write with `seed`: a block of 64 bytes again and again, which begins with
/// seed and page, and has six words that follow from them. Seed 0 stands for no write: zeros.
///
/// Cheap, so that the child spends its time in writes.
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

/// A number that is as good as random, and another for each `state` (SplitMix64).
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
    fn pages_begin_with_their_seed_and_differ() {
        assert_eq!(page_of(0, 1), [0; PAGE]);
        let (one, other) = (page_of(9, 0), page_of(9, 1));
        assert!(one.len() == PAGE && one[..8] == 9_u64.to_le_bytes() && one[..8] == other[..8]);
        assert!(one[8..16] != other[8..16] && one[4088..] != other[4088..]);
    }
}

//! Partitions: the parts of a run on several machines.

use std::fmt;
use std::str::FromStr;

/// The `index`-th (from 1) of `count` parts of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    index: usize,
    count: usize,
}

impl Partition {
    /// Everything in one part.
    pub(super) const WHOLE: Partition = Partition { index: 1, count: 1 };

    /// Returns the items of this part. The parts take turns to receive an item.
    pub(super) fn of<T>(self, items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        items.into_iter().skip(self.index - 1).step_by(self.count)
    }
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.strip_prefix("slice:").unwrap_or(text).split_once('/');
        let numbers = parts.and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, count)) if 1 <= index && index <= count => Ok(Partition { index, count }),
            Some((index, count)) => Err(format!(
                "there is no part {index} of {count}: parts are numbered from 1"
            )),
            None => Err("write K/N for the K-th of N parts, for example 1/3".to_owned()),
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

//! Numbered records.

/// Which record: of which thread, and which of its records, both counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Below [`Id::THREADS`].
    pub thread: u32,
    /// Below [`Id::RECORDS`].
    pub nth: u32,
}

/// Bytes of a record.
pub const RECORD: usize = 256;

impl Id {
    /// The most threads.
    pub const THREADS: u32 = 32;
    /// The most records of a thread.
    pub const RECORDS: u32 = 32;

    /// Its place among all that can be.
    pub fn place(self) -> u64 {
        u64::from(self.thread * Self::RECORDS + self.nth)
    }

    /// What it says: no byte is 0 in it, and each record is another.
    pub fn record(self) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(self.place() + 1);
        let own = [self.thread as u8 + 1, self.nth as u8 + 1];
        let rest = std::iter::repeat_with(|| random.u8(1..));
        own.into_iter().chain(rest).take(RECORD).collect()
    }

    /// Which record this is. `None` if it is none, or has one wrong byte.
    pub fn of(record: &[u8]) -> Option<Id> {
        let id = Id {
            thread: u32::from(*record.first()?).checked_sub(1)?,
            nth: u32::from(*record.get(1)?).checked_sub(1)?,
        };
        let is_one = id.thread < Self::THREADS && id.nth < Self::RECORDS;
        (is_one && id.record() == record).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_tell_which_they_are() {
        let id = Id { thread: 7, nth: 31 };
        let mut record = id.record();
        assert!(record.len() == RECORD && !record.contains(&0));
        assert_eq!(Id::of(&record), Some(id));
        record[200] ^= 1;
        assert_eq!(Id::of(&record), None);
        assert_eq!(Id::of(&[]), None);
    }
}

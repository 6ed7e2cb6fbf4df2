//! Numbered records.

/// The identity of a record: its thread, and its number within the thread, both counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// The thread, below [`Id::THREADS`].
    pub thread: u32,
    /// The record's number, below [`Id::RECORDS`].
    pub nth: u32,
}

/// The length of a record in bytes.
pub const RECORD: usize = 256;

impl Id {
    /// The maximum number of threads.
    pub const THREADS: u32 = 32;
    /// The maximum number of records per thread.
    pub const RECORDS: u32 = 32;

    /// Returns the record's index among all possible records.
    pub fn place(self) -> u64 {
        u64::from(self.thread * Self::RECORDS + self.nth)
    }

    /// Returns the record's content. It has no zero byte and differs from every other record's.
    pub fn record(self) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(self.place() + 1);
        let own = [self.thread as u8 + 1, self.nth as u8 + 1];
        let rest = std::iter::repeat_with(|| random.u8(1..));
        own.into_iter().chain(rest).take(RECORD).collect()
    }

    /// Returns the identity of a record, or `None` if any byte of it is wrong.
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
    fn a_record_is_recognized_and_one_wrong_byte_is_detected() {
        let id = Id { thread: 7, nth: 31 };
        let mut record = id.record();
        assert!(record.len() == RECORD && !record.contains(&0));
        assert_eq!(Id::of(&record), Some(id));
        record[200] ^= 1;
        assert_eq!(Id::of(&record), None);
        assert_eq!(Id::of(&[]), None);
    }
}

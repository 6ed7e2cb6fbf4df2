//! Reading a log from front to back.

use super::format::split_record;
use super::ring::Found;
use super::{Error, Log, Lsn};
use crate::Storage;

/// A record and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub lsn: Lsn,
    /// The first record of its batch. All records of a batch became durable by the same flush,
    /// which came after the flushes of all batches before.
    pub batch: Lsn,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// Iterates over records of a [`Log`] in order: see [`Log::records`]. It ends after an error.
#[derive(Debug)]
pub struct Records<'a, S> {
    log: &'a Log<S>,
    /// The next batch to read, and its first record.
    position: u64,
    record: u64,
    /// The first record to return, and the end: the first record not to return.
    next: u64,
    end: u64,
    batch: Option<Found>,
    /// The first record of `batch`.
    first: u64,
    /// Where the next record of `batch` starts, and its number.
    at: usize,
    number: u64,
}

impl<'a, S: Storage> Records<'a, S> {
    pub(super) fn new(log: &'a Log<S>, from: u64) -> Self {
        let (mark, end) = {
            let ends = log.ends.lock();
            (ends.marks.before(from), ends.marks.end())
        };
        // If the record was truncated a moment ago, the mark may lie after it.
        let record = mark.record.min(from);
        Records {
            log,
            position: mark.position,
            record,
            next: from,
            end: end.record,
            batch: None,
            first: record,
            at: 0,
            number: record,
        }
    }

    fn advance(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if self.number >= self.end {
                return Ok(None);
            }
            if let Some(batch) = &self.batch
                && let Some((before, record, _)) = split_record(&batch.records()[self.at..])
            {
                let lsn = Lsn(self.number);
                self.at += before.len() + record.len();
                self.number += 1;
                if lsn.0 >= self.next {
                    let (batch, data) = (Lsn(self.first), record.to_vec());
                    return Ok(Some(Record { lsn, batch, data }));
                }
            } else {
                self.read_batch()?;
            }
        }
    }

    fn read_batch(&mut self) -> Result<(), Error> {
        let ring = &self.log.ring;
        let found = ring.batch(self.position, self.record, |epoch| epoch <= self.log.epoch);
        let Some(found) = found.map_err(Error::io("reading the log"))? else {
            return Err(self.why_gone());
        };
        self.position += found.bytes.len() as u64;
        (self.first, self.number) = (self.record, self.record);
        self.record += u64::from(found.header.count);
        self.batch = Some(found);
        self.at = 0;
        Ok(())
    }

    /// Returns the error for a batch that is no longer where it was.
    fn why_gone(&self) -> Error {
        let first = self.log.first();
        let lsn = Lsn(self.record.max(self.next));
        if lsn < first {
            return Error::Truncated { lsn, first };
        }
        Error::Corrupt {
            what: "a batch that was durable is missing",
            at: self.log.ring.place(self.position),
            lsn,
        }
    }
}

impl<S: Storage> Iterator for Records<'_, S> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.advance();
        if item.is_err() {
            self.end = 0;
        }
        item.transpose()
    }
}

impl<S: Storage> std::iter::FusedIterator for Records<'_, S> {}

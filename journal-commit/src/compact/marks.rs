//! A sample of the positions at which batches start. From these positions, a reader finds the other
//! batches.

use std::collections::VecDeque;

/// The ring's length divided by the distance between marks. This bounds the number of marks.
const MARKS: u64 = 256;

/// The position of a batch, and its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) position: u64,
    pub(super) record: u64,
}

/// The batches of the log, from its head to the position of the next one.
#[derive(Debug)]
pub(super) struct Marks {
    /// In ascending order. The first mark is the log's head. Each mark is the start of a durable
    /// batch or of the next batch.
    marks: VecDeque<Mark>,
    end: Mark,
    apart: u64,
}

impl Marks {
    pub(super) fn new(position: u64, record: u64, ring: u64) -> Self {
        let head = Mark { position, record };
        Marks {
            marks: VecDeque::from([head]),
            end: head,
            apart: ring / MARKS,
        }
    }

    /// Returns where the next batch will be.
    pub(super) fn end(&self) -> Mark {
        self.end
    }

    /// Notes that the batch at the end has become durable. The next batch starts at `position` with
    /// the record number `record`.
    pub(super) fn advance(&mut self, position: u64, record: u64) {
        let latest = self.marks.back().map_or(0, |mark| mark.position);
        if self.end.position > latest && self.end.position - latest >= self.apart {
            self.marks.push_back(self.end);
        }
        self.end = Mark { position, record };
    }

    /// Returns the last mark whose first record is `record` or an earlier one.
    pub(super) fn before(&self, record: u64) -> Mark {
        if record >= self.end.record {
            return self.end;
        }
        let behind = self.marks.partition_point(|mark| mark.record <= record);
        // Only a record before the head, which is truncated, has no mark before it.
        self.marks[behind.saturating_sub(1)]
    }

    /// Forgets everything before `head`, which is one of the marks or the end.
    pub(super) fn cut(&mut self, head: Mark) {
        self.marks.retain(|mark| mark.position > head.position);
        self.marks.push_front(head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of marks stays small, however many batches there are. The mark for a record lies
    /// before the record, and not too far before it.
    #[test]
    fn marks_are_few_and_near() {
        const RING: u64 = 1 << 20;
        let mut marks = Marks::new(0, 1, RING);
        let mut ends = Vec::from([(0, 1)]);
        for nth in 1..=20_000_u64 {
            let (position, record) = ends[nth as usize - 1];
            let end = (position + 512 * (1 + nth % 3), record + nth % 5 + 1);
            marks.advance(end.0, end.1);
            ends.push(end);
            while end.0 - marks.marks[0].position > RING {
                let head = marks.before(marks.marks[0].record + 3000);
                marks.cut(head);
            }
        }
        assert!(marks.marks.len() as u64 <= MARKS + 1);
        let head = marks.marks[0];
        for &(position, record) in ends.iter().filter(|end| end.0 >= head.position) {
            let mark = marks.before(record);
            assert!(mark.record <= record && mark.position <= position);
            // The distance between marks, and one batch more.
            assert!(position - mark.position <= RING / MARKS + 3 * 512);
            assert!(
                ends.contains(&(mark.position, mark.record)),
                "a batch starts there"
            );
        }
    }

    #[test]
    fn all_marks_can_be_cut() {
        let mut marks = Marks::new(0, 1, 1 << 20);
        marks.advance(512, 8);
        assert_eq!(
            marks.before(7),
            Mark {
                position: 0,
                record: 1
            }
        );
        let end = marks.before(8);
        assert_eq!(
            end,
            Mark {
                position: 512,
                record: 8
            }
        );
        marks.cut(end);
        assert_eq!((marks.marks.len(), marks.before(8)), (1, end));
        marks.advance(1024, 9);
        assert_eq!(marks.before(8), end);
    }
}

//! Linux range lock (patches of 2019): when one waiting reader is cancelled, another is granted.
//!
//! Each request counts the conflicting requests that came before it, and is granted when the count
//! is 0. When a request leaves, it subtracts 1 from the count of each request that it conflicts
//! with. If a signal cancels a waiting reader, the code first clears the mark that the request is a
//! reader. So the request also subtracts 1 from the counts of other readers, which never counted
//! it.
//!
//! | step | writer W | reader R1 | reader R2 |
//! |---|---|---|---|
//! | 1 | holds the range | | |
//! | 2 | | counts 1 (W), waits | counts 1 (W), waits |
//! | 3 | | is cancelled, subtracts 1 from R2 | |
//! | 4 | still holds the range | | is granted |
//!
//! In the fixed form, a request subtracts 1 only from later requests that it conflicts with.
//!
//! - Background: <https://lwn.net/Articles/724502/>. Linux did not merge the patches.
//!
//! This is an interleaving bug. (These patches had another bug: a `try` for a free gap failed. That
//! bug needs no second thread, so it has no entry here.)

use spanlock_sync::{Condvar, Mutex};
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new("linux-range-lock", "https://lwn.net/Articles/724502/").program(|form| {
        Program::new(
            "cancelled-reader",
            "a reader is granted after the writer's release",
        )
        .scene(move || RangeLock::written(form))
        .thread(["unlock"], |lock| lock.leave(0, Kind::Writer))
        .thread(["read cancelled"], |lock| lock.read_and_cancel(1))
        .thread(["read"], |lock| lock.read(2))
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Reader,
    Writer,
}

struct Request {
    id: u32,
    kind: Kind,
    /// The number of conflicting requests that came before and have not left.
    blocked_by: u32,
}

/// A range lock whose requests are all for the same range.
struct RangeLock {
    form: Form,
    /// In order of arrival.
    requests: Mutex<Vec<Request>>,
    changed: Condvar,
}

impl RangeLock {
    /// Creates a lock that writer 0 holds.
    fn written(form: Form) -> Self {
        let writer = Request {
            id: 0,
            kind: Kind::Writer,
            blocked_by: 0,
        };
        RangeLock {
            form,
            requests: Mutex::new(vec![writer]),
            changed: Condvar::new(),
        }
    }

    fn enqueue_reader(&self, id: u32) {
        let mut requests = self.requests.lock();
        let writers = requests.iter().filter(|other| other.kind == Kind::Writer);
        let blocked_by = writers.count() as u32;
        let kind = Kind::Reader;
        requests.push(Request {
            id,
            kind,
            blocked_by,
        });
    }

    fn read(&self, id: u32) {
        self.enqueue_reader(id);
        let mut requests = self.requests.lock();
        while requests.iter().any(|it| it.id == id && it.blocked_by > 0) {
            requests = self.changed.wait(requests);
        }
        let writer = requests.iter().find(|it| it.kind == Kind::Writer);
        assert!(writer.is_none(), "granted while a writer holds the range");
    }

    fn read_and_cancel(&self, id: u32) {
        self.enqueue_reader(id);
        let kind = match self.form {
            Form::Buggy => Kind::Writer,
            Form::Fixed => Kind::Reader,
        };
        self.leave(id, kind);
    }

    /// Removes a request, and lowers the counts of the requests that conflict with one of `kind`.
    fn leave(&self, id: u32, kind: Kind) {
        let mut requests = self.requests.lock();
        let at = requests
            .iter()
            .position(|it| it.id == id)
            .expect("a request");
        requests.remove(at);
        let later = match self.form {
            Form::Buggy => 0,
            Form::Fixed => at,
        };
        for other in &mut requests[later..] {
            if kind == Kind::Writer || other.kind == Kind::Writer {
                // Saturating: in the buggy form, the cancelled reader may have lowered this count
                // before the writer leaves.
                other.blocked_by = other.blocked_by.saturating_sub(1);
            }
        }
        self.changed.notify_all();
    }
}

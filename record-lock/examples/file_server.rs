//! The lock calls of a file server, as FUSE sends them:
//! `cargo run -p spanlock-record-lock --example file_server`.
//!
//! One thread serves everything. A call that has to wait becomes a future in a map, and its waker
//! puts the number of the call into the server's queue. An interrupt drops the future.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

use spanlock_record_lock::{Error, Hold, Mode, Owner, RecordLock, Request};

/// A request of the kernel. `range` is the first and the last byte, as in `fuse_file_lock`.
enum Call {
    Set {
        owner: u64,
        range: [u64; 2],
        mode: Option<Mode>,
        wait: bool,
    },
    Get {
        owner: u64,
        range: [u64; 2],
        mode: Mode,
    },
    /// The kernel sends it for each `close`, also for owners that have locked nothing.
    Flush { owner: u64 },
    /// A signal has interrupted the call of this number.
    Interrupt { call: u64 },
}

#[derive(Debug, PartialEq)]
enum Reply {
    Done,
    Lock(Option<Hold>),
    Again,
    Deadlock,
    Interrupted,
    NoLocks,
}

enum Event {
    Call(u64, Call),
    Ready(u64),
}

/// The waker of a call that waits.
struct Ready {
    call: u64,
    queue: Sender<Event>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        // Without a server, nobody waits for the answer.
        let _ = self.queue.send(Event::Ready(self.call));
    }
}

/// The locks of one file.
struct Server {
    table: RecordLock,
    owners: HashMap<u64, Owner>,
    waiting: HashMap<u64, Request>,
    queue: Sender<Event>,
    /// The answers, in the order in which the kernel gets them.
    replies: Vec<(u64, Reply)>,
}

impl Server {
    fn new() -> (Self, Receiver<Event>) {
        let (queue, events) = channel();
        let (table, replies) = (RecordLock::new(), Vec::new());
        let (owners, waiting) = (HashMap::new(), HashMap::new());
        (
            Server {
                table,
                owners,
                waiting,
                queue,
                replies,
            },
            events,
        )
    }

    fn serve(&mut self, event: Event) {
        let (call, reply) = match event {
            Event::Ready(call) => (call, self.advance(call)),
            Event::Call(call, what) => (call, self.answer(call, what)),
        };
        self.replies.extend(reply.map(|reply| (call, reply)));
    }

    /// Returns the answer to a call, unless it waits.
    fn answer(&mut self, call: u64, what: Call) -> Option<Reply> {
        let result = match what {
            Call::Set {
                owner,
                range: [first, last],
                mode,
                wait,
            } => {
                let owner = match self.owner(owner) {
                    Ok(owner) => owner,
                    Err(error) => return Some(reply(Err(error))),
                };
                match mode {
                    None => owner.unlock(first..=last),
                    Some(mode) if wait => {
                        let request = owner.lock(first..=last, mode);
                        self.waiting.insert(call, request);
                        return self.advance(call);
                    }
                    Some(mode) => owner.try_lock(first..=last, mode),
                }
            }
            Call::Get {
                owner,
                range: [first, last],
                mode,
            } => {
                let found = self
                    .owner(owner)
                    .and_then(|owner| owner.test(first..=last, mode));
                return Some(found.map_or_else(|error| reply(Err(error)), Reply::Lock));
            }
            Call::Flush { owner } => {
                drop(self.owners.remove(&owner));
                Ok(())
            }
            Call::Interrupt { call } => {
                if self.waiting.remove(&call).is_some() {
                    self.replies.push((call, Reply::Interrupted));
                }
                return None;
            }
        };
        Some(reply(result))
    }

    fn owner(&mut self, id: u64) -> Result<&Owner, Error> {
        if !self.owners.contains_key(&id) {
            self.owners.insert(id, self.table.owner(id)?);
        }
        Ok(&self.owners[&id])
    }

    /// Polls a call that waits. It may have been interrupted after it was woken.
    fn advance(&mut self, call: u64) -> Option<Reply> {
        let request = self.waiting.get_mut(&call)?;
        let queue = self.queue.clone();
        let waker = Waker::from(Arc::new(Ready { call, queue }));
        match Pin::new(request).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => None,
            Poll::Ready(result) => {
                self.waiting.remove(&call);
                Some(reply(result))
            }
        }
    }
}

fn reply(result: Result<(), Error>) -> Reply {
    match result {
        Ok(()) => Reply::Done,
        Err(Error::Conflict(_)) => Reply::Again,
        Err(Error::Deadlock(_)) => Reply::Deadlock,
        Err(Error::Released) => Reply::Interrupted,
        Err(_) => Reply::NoLocks,
    }
}

fn main() {
    let (mut server, events) = Server::new();
    let set = |owner, range, mode, wait| Call::Set {
        owner,
        range,
        mode,
        wait,
    };
    let write = Some(Mode::Write);
    let calls = [
        set(1, [0, 9], write, false),
        set(2, [20, 29], write, false),
        set(2, [5, 6], write, false),
        Call::Get {
            owner: 3,
            range: [0, 99],
            mode: Mode::Read,
        },
        set(2, [5, 6], write, true),            // waits for owner 1
        set(1, [25, 26], write, true),          // would wait for owner 2
        set(3, [8, 8], Some(Mode::Read), true), // waits for owner 1
        Call::Interrupt { call: 6 },
        set(1, [4, 7], None, false), // lets call 4 go on
        Call::Flush { owner: 4 },    // has locked nothing
        Call::Flush { owner: 1 },
    ];
    for (call, what) in calls.into_iter().enumerate() {
        server.serve(Event::Call(call as u64, what));
        while let Ok(event) = events.try_recv() {
            server.serve(event);
        }
    }
    let first = Hold {
        owner: 1,
        first: 0,
        last: 9,
        mode: Mode::Write,
    };
    let expected = [
        (0, Reply::Done),
        (1, Reply::Done),
        (2, Reply::Again),
        (3, Reply::Lock(Some(first))),
        (5, Reply::Deadlock),
        (6, Reply::Interrupted),
        (8, Reply::Done),
        (4, Reply::Done),
        (9, Reply::Done),
        (10, Reply::Done),
    ];
    assert_eq!(server.replies, expected);
    let held: Vec<_> = (server.table.holds(..).expect("there is memory").iter())
        .map(|hold| (hold.owner, hold.first, hold.last))
        .collect();
    assert_eq!(held, [(2, 5, 6), (2, 20, 29)]);
    println!(
        "{} answers, and owner 2 holds {held:?}",
        server.replies.len()
    );
}

//! Calls that wait. `EDEADLK` needs processes: the kernel does not search for circles among open
//! file descriptions.

use std::fs::{self, File};
use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use spanlock_record_lock::{Error, Mode, Owner, RecordLock, Request, posix};

use crate::{alone, errno, fcntl, kind, scaled};

/// A call, as a process gets it: the command, the type, and the range.
type Call = [i64; 4];

/// An owner of the table, and the process that is its like in the kernel.
struct Process {
    owner: Owner,
    pid: i32,
    socket: UnixStream,
    /// What the owner waits for.
    waits: Option<Request>,
}

impl Process {
    fn new(table: &RecordLock, file: &File, id: u64) -> Self {
        let owner = table.owner(id).expect("is new");
        let (socket, other) = UnixStream::pair().expect("sockets");
        // SAFETY: the new process calls only `serve`, which makes system calls and nothing else.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            serve(other.as_raw_fd(), file.as_raw_fd());
        }
        assert!(pid > 0, "no process");
        socket.set_nonblocking(true).expect("a socket");
        Process {
            owner,
            pid,
            socket,
            waits: None,
        }
    }

    fn send(&mut self, command: i32, kind: i16, start: i64, len: i64) {
        let call: Call = [command.into(), kind.into(), start, len];
        let bytes = call.map(i64::to_ne_bytes).concat();
        self.socket.write_all(&bytes).expect("is there");
    }

    /// Waits until the process has an answer, or waits for a lock. Then the answer is `None`.
    fn answer(&mut self) -> Option<i32> {
        let pid = self.pid.to_string();
        loop {
            let mut answer = [0; 4];
            match self.socket.read_exact(&mut answer) {
                Ok(()) => return Some(i32::from_ne_bytes(answer)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            let text = fs::read_to_string("/proc/locks").expect("is a file");
            let mut waits = text.lines().filter(|line| line.contains("->"));
            if waits.any(|line| line.split_whitespace().any(|word| word == pid)) {
                return None;
            }
            thread::yield_now();
        }
    }

    /// Interrupts the call that waits.
    fn interrupt(&mut self) {
        // SAFETY: a system call.
        unsafe { libc::kill(self.pid, libc::SIGUSR1) };
        loop {
            match self.answer() {
                Some(answer) => return assert_eq!(answer, libc::EINTR),
                None => thread::yield_now(),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: system calls.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // SAFETY: as above. The process is a child of this one.
        unsafe { libc::waitpid(self.pid, core::ptr::null_mut(), 0) };
    }
}

/// What a process does: calls `fcntl`, and answers with the error, or 0.
fn serve(socket: i32, file: i32) -> ! {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: zero is a valid value of each field.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
    // SAFETY: the handler does nothing. Without SA_RESTART, the signal interrupts `fcntl`.
    unsafe { libc::sigaction(libc::SIGUSR1, &action, core::ptr::null_mut()) };
    loop {
        let mut call: Call = [0; 4];
        // SAFETY: the buffer has this size.
        let read = unsafe { libc::read(socket, call.as_mut_ptr().cast(), size_of::<Call>()) };
        if read != size_of::<Call>() as isize {
            // SAFETY: ends this process, and runs no code of it.
            unsafe { libc::_exit(0) };
        }
        let [command, kind, start, len] = call;
        let answer = match fcntl(file, command as i32, kind as i16, start, len) {
            Ok(_) => 0,
            Err(error) => error.unwrap_or(-1),
        };
        // SAFETY: the buffer has this size.
        unsafe { libc::write(socket, (&raw const answer).cast(), size_of::<i32>()) };
    }
}

fn poll(request: &mut Request) -> Poll<Result<(), Error>> {
    Pin::new(request).poll(&mut Context::from_waker(Waker::noop()))
}

/// What the random calls lock.
struct Drawn {
    bytes: i64,
    most: i64,
    modes: &'static [Mode],
    /// The kernel follows one hold that stops a request. So it finds each circle only if there
    /// never is a second one.
    finds_all: bool,
}

/// After a call, grants what the kernel has granted. Nothing else must be ready.
fn settle(processes: &mut [Process], told: &str) {
    let mut granted = Vec::new();
    for (at, process) in processes.iter_mut().enumerate() {
        if process.waits.is_none() {
            continue;
        }
        if let Some(answer) = process.answer() {
            assert_eq!(answer, 0, "{told}: {at}");
            granted.push(at);
        }
    }
    // A grant can be a downgrade that lets another one in, so the order matters.
    while !granted.is_empty() {
        let before = granted.len();
        granted.retain(|&at| {
            let request = processes[at].waits.as_mut().expect("waits");
            let polled = poll(request);
            if polled.is_ready() {
                assert_eq!(polled, Poll::Ready(Ok(())), "{told}: {at} is granted");
                processes[at].waits = None;
            }
            polled.is_pending()
        });
        assert!(granted.len() < before, "{told}: {granted:?} are granted");
    }
    for process in processes {
        if let Some(request) = &mut process.waits {
            assert!(
                poll(request).is_pending(),
                "{told}: {} waits",
                process.owner.id()
            );
        }
    }
}

/// Returns how many calls were granted after a wait, and how many failed because of a circle.
fn compare(drawn: &Drawn, calls: u64) -> [u64; 2] {
    let file = tempfile::tempfile().expect("a directory");
    let table = RecordLock::new();
    let mut processes: Vec<_> = (0..4).map(|id| Process::new(&table, &file, id)).collect();
    let random = &mut fastrand::Rng::with_seed(3);
    let [mut waits, mut circles] = [0; 2];
    for call in 0..calls {
        let id = random.usize(..processes.len());
        let process = &mut processes[id];
        let start = random.i64(0..drawn.bytes);
        let len = random.i64(1..=drawn.most);
        let mode = *random.choice(drawn.modes).expect("one");
        let told = format!("call {call}: {id}, {start}, {len}, {mode:?}");
        let range = posix(start, len).expect("valid");
        if process.waits.is_some() {
            if random.u8(..) < 40 {
                process.interrupt();
                process.waits = None;
            }
        } else if random.u8(..) < 90 {
            let all = random.bool();
            let (start, len) = if all { (0, 0) } else { (start, len) };
            process.send(libc::F_SETLK, kind(None), start, len);
            assert_eq!(process.answer(), Some(0), "{told}");
            let range = posix(start, len).expect("valid");
            process.owner.unlock(range).expect("memory");
        } else if random.u8(..) < 40 {
            process.send(libc::F_SETLK, kind(Some(mode)), start, len);
            let ours = process
                .owner
                .try_lock(range, mode)
                .map_or_else(errno, |()| 0);
            assert_eq!(process.answer(), Some(ours), "{told}");
        } else {
            process.send(libc::F_SETLKW, kind(Some(mode)), start, len);
            let mut request = process.owner.lock(range, mode);
            match (process.answer(), poll(&mut request)) {
                (None, Poll::Pending) => {
                    process.waits = Some(request);
                    waits += 1;
                }
                (Some(found), Poll::Ready(ours)) => {
                    assert_eq!(found, ours.map_or_else(errno, |()| 0), "{told}");
                    circles += u64::from(ours.is_err());
                }
                (None, Poll::Ready(Err(Error::Deadlock(_)))) if !drawn.finds_all => {
                    process.interrupt();
                    circles += 1;
                }
                (found, ours) => panic!("{told}: {found:?}, {ours:?}"),
            }
        }
        settle(&mut processes, &told);
    }
    [waits, circles]
}

#[test]
fn random_calls_that_wait_have_the_kernels_answers() {
    let _alone = alone();
    let (bytes, most, modes, finds_all) = (4, 1, &[Mode::Write][..], true);
    let drawn = Drawn {
        bytes,
        most,
        modes,
        finds_all,
    };
    let [waits, circles] = compare(&drawn, scaled(2_000));
    assert!(waits > 0 && circles > 0, "{waits} {circles}");
}

#[test]
fn the_kernel_finds_no_circle_that_is_none_here() {
    let _alone = alone();
    let (bytes, most, modes, finds_all) = (8, 4, &[Mode::Read, Mode::Write][..], false);
    let drawn = Drawn {
        bytes,
        most,
        modes,
        finds_all,
    };
    let [waits, circles] = compare(&drawn, scaled(2_000));
    assert!(waits > 0 && circles > 0, "{waits} {circles}");
}

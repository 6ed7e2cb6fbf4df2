//! Each item of loom's API, in a small model. A model's outcomes are those that std permits.

use std::sync::Arc as Real;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Duration;

use loom::model::Builder;
use loom::sync::atomic::{AtomicBool, AtomicI8, AtomicU8, AtomicUsize, fence};
use loom::sync::{Arc, Barrier, Condvar, Mutex, Notify, RwLock, mpsc};
use loom::{cell, thread};

mod common;
use common::{failure, outcomes};

const SOON: Duration = Duration::from_millis(1);

#[test]
fn stores_and_loads_are_those_of_the_memory_model() {
    let relaxed = outcomes(|| {
        let flag = Arc::new(AtomicUsize::new(0));
        let data = Arc::new(AtomicUsize::new(0));
        let (its_flag, its_data) = (flag.clone(), data.clone());
        let writer = thread::spawn(move || {
            its_data.store(1, Relaxed);
            its_flag.store(1, Release);
        });
        let seen = (flag.load(Relaxed), data.load(Relaxed));
        writer.join().unwrap();
        seen
    });
    assert_eq!(relaxed, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}

#[test]
fn seq_cst_operations_have_one_order() {
    // Loom finds (0, 0) here: loom#180.
    let seen = outcomes(|| {
        let cells = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let its = cells.clone();
        let other = thread::spawn(move || {
            its[0].store(1, SeqCst);
            its[1].load(SeqCst)
        });
        cells[1].store(1, SeqCst);
        let mine = cells[0].load(SeqCst);
        (other.join().unwrap(), mine)
    });
    assert_eq!(seen, [(0, 1), (1, 0), (1, 1)]);
}

#[test]
fn fences_order_relaxed_operations() {
    let seen = outcomes(|| {
        let cells = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let its = cells.clone();
        let other = thread::spawn(move || {
            its[0].store(1, Relaxed);
            fence(Release);
            its[1].store(1, Relaxed);
        });
        let flag = cells[1].load(Relaxed);
        fence(Acquire);
        let data = cells[0].load(Relaxed);
        other.join().unwrap();
        (flag, data)
    });
    assert_eq!(seen, [(0, 0), (0, 1), (1, 1)]);
}

#[test]
fn read_modify_writes_have_the_results_of_std() {
    loom::model(|| {
        // With a second thread, so that the operations are those of the search.
        let other = thread::spawn(|| ());
        let (ours, real) = (AtomicI8::new(-3), std::sync::atomic::AtomicI8::new(-3));
        for value in [-128, -7, -1, 0, 1, 5, 127] {
            assert_eq!(ours.fetch_add(value, AcqRel), real.fetch_add(value, AcqRel));
            assert_eq!(ours.fetch_max(value, AcqRel), real.fetch_max(value, AcqRel));
            assert_eq!(ours.fetch_sub(value, AcqRel), real.fetch_sub(value, AcqRel));
            assert_eq!(ours.fetch_min(value, AcqRel), real.fetch_min(value, AcqRel));
            assert_eq!(
                ours.fetch_nand(value, AcqRel),
                real.fetch_nand(value, AcqRel)
            );
            assert_eq!(ours.fetch_xor(value, AcqRel), real.fetch_xor(value, AcqRel));
            assert_eq!(ours.fetch_or(value, AcqRel), real.fetch_or(value, AcqRel));
            assert_eq!(ours.fetch_and(value, AcqRel), real.fetch_and(value, AcqRel));
            assert_eq!(ours.swap(value, AcqRel), real.swap(value, AcqRel));
        }
        let flag = AtomicBool::new(true);
        assert!(flag.fetch_nand(true, AcqRel));
        assert!(!flag.load(Acquire));
        let byte = AtomicU8::new(250);
        assert_eq!(
            byte.fetch_update(AcqRel, Acquire, |it| it.checked_add(5)),
            Ok(250)
        );
        assert_eq!(
            byte.fetch_update(AcqRel, Acquire, |it| it.checked_add(5)),
            Err(255)
        );
        assert_eq!(byte.compare_and_swap(255, 1, AcqRel), 255);
        assert_eq!(byte.into_inner(), 1);
        other.join().unwrap();
    });
}

#[test]
fn a_weak_compare_exchange_may_fail() {
    let seen = outcomes(|| {
        let value = Arc::new(AtomicUsize::new(0));
        let its = value.clone();
        let other = thread::spawn(move || its.compare_exchange_weak(0, 1, AcqRel, Acquire));
        (other.join().unwrap(), value.load(Relaxed))
    });
    assert_eq!(seen, [(Ok(0), 1), (Err(0), 0)]);
}

#[cfg(not(feature = "own-allocator"))]
fn free(memory: *mut u8) {
    if !memory.is_null() {
        // SAFETY: the memory is that of a box, which the caller alone has.
        drop(unsafe { Box::from_raw(memory) });
    }
}

#[cfg(not(feature = "own-allocator"))]
#[test]
fn pointers_keep_their_values_and_no_address_is_used_twice() {
    loom::model(|| {
        let stack = Arc::new(loom::sync::atomic::AtomicPtr::new(
            std::ptr::null_mut::<u8>(),
        ));
        let its = stack.clone();
        let other = thread::spawn(move || {
            let old = its.swap(Box::into_raw(Box::new(1)), AcqRel);
            free(old);
        });
        let first = Box::into_raw(Box::new(0));
        free(first);
        let second = Box::into_raw(Box::new(2));
        assert_ne!(first, second);
        let old = stack.swap(second, AcqRel);
        free(old);
        other.join().unwrap();
        let last = stack.swap(std::ptr::null_mut(), AcqRel);
        free(last);
    });
}

#[test]
fn exclusive_and_unsynchronized_accesses() {
    loom::model(|| {
        let mut value = Arc::new(AtomicUsize::new(1));
        let its = value.clone();
        let other = thread::spawn(move || its.load(Relaxed));
        // SAFETY: no thread writes meanwhile.
        assert_eq!(unsafe { value.unsync_load() }, 1);
        other.join().unwrap();
        let only = Arc::get_mut(&mut value).expect("the other reference is dropped");
        only.with_mut(|it| *it += 1);
        assert_eq!(only.load(Relaxed), 2);
    });
}

#[test]
fn arcs_count_their_references() {
    let seen = outcomes(|| {
        let arc = Arc::new(5);
        let its = arc.clone();
        assert_eq!(Arc::strong_count(&arc), 2);
        let other = thread::spawn(move || drop(its));
        let is_only = Arc::try_unwrap(arc).is_ok();
        other.join().unwrap();
        is_only
    });
    assert_eq!(seen, [false, true]);
}

#[test]
fn arcs_become_pointers_and_back() {
    loom::model(|| {
        let words: Arc<[u8]> = Arc::from_std(Real::new([1, 2]));
        assert_eq!(words.len(), 2);
        let arc = Arc::new(7);
        let raw = Arc::into_raw(arc.clone());
        // SAFETY: the pointer is of `into_raw`, and its reference is taken once.
        unsafe {
            Arc::increment_strong_count(raw);
            Arc::decrement_strong_count(raw);
            assert!(Arc::ptr_eq(&Arc::from_raw(raw), &arc));
        }
        assert_eq!(*Arc::pin(3), 3);
    });
}

#[test]
fn mutexes_exclude() {
    let seen = outcomes(|| {
        let mutex = Arc::new(Mutex::new(0));
        let its = mutex.clone();
        let other = thread::spawn(move || {
            let mut guard = its.lock().unwrap();
            let old = *guard;
            *guard = old + 1;
        });
        let tried = mutex.try_lock().map(|mut it| *it += 1).is_ok();
        other.join().unwrap();
        (tried, *mutex.lock().unwrap())
    });
    assert_eq!(seen, [(false, 1), (true, 2)]);
}

#[test]
fn reader_writer_locks_share_and_exclude() {
    let seen = outcomes(|| {
        let lock = Arc::new(RwLock::new(0));
        let its = lock.clone();
        let writer = thread::spawn(move || *its.write().unwrap() += 1);
        let its = lock.clone();
        let reader = thread::spawn(move || *its.read().unwrap());
        let tried = lock.try_read().map(|it| *it).ok();
        writer.join().unwrap();
        let read = reader.join().unwrap();
        let is_free = lock.try_write().is_ok();
        (tried, read, is_free)
    });
    let expected = [None, Some(0), Some(1)].map(|it| [(it, 0, true), (it, 1, true)]);
    assert_eq!(seen, expected.concat());
    loom::model(|| {
        let lock = RwLock::new(0);
        let (_one, _two) = (lock.read().unwrap(), lock.try_read().unwrap());
        assert!(lock.try_write().is_err());
    });
}

#[test]
fn a_notification_wakes_any_of_the_waiters() {
    let seen = outcomes(|| {
        let shared = Arc::new((Mutex::new((0, Vec::new())), Condvar::new()));
        let waiters = [1, 2].map(|number| {
            let its = shared.clone();
            thread::spawn(move || {
                let mut state = its.0.lock().unwrap();
                while state.0 == 0 {
                    state = its.1.wait(state).unwrap();
                }
                state.0 -= 1;
                state.1.push(number);
            })
        });
        for _ in 0..2 {
            shared.0.lock().unwrap().0 += 1;
            shared.1.notify_one();
        }
        waiters.into_iter().for_each(|it| it.join().unwrap());
        std::mem::take(&mut shared.0.lock().unwrap().1)
    });
    assert_eq!(seen, [[1, 2], [2, 1]]);
}

#[test]
fn waits_time_out() {
    let seen = outcomes(|| {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let its = shared.clone();
        let other = thread::spawn(move || {
            *its.0.lock().unwrap() = true;
            its.1.notify_all();
        });
        let state = shared.0.lock().unwrap();
        let late = match *state {
            true => None,
            false => {
                let (state, result) = shared.1.wait_timeout(state, SOON).unwrap();
                Some((*state, result.timed_out()))
            }
        };
        other.join().unwrap();
        late
    });
    let expected = [
        None,
        Some((false, true)),
        Some((true, false)),
        Some((true, true)),
    ];
    assert_eq!(seen, expected);
    // Without a notification, it is no deadlock.
    loom::model(|| {
        let other = thread::spawn(|| thread::park_timeout(SOON));
        thread::park_timeout(SOON);
        let (_sender, receiver) = mpsc::channel::<u8>();
        assert_eq!(receiver.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
        other.join().unwrap();
    });
}

#[test]
fn unpark_wakes_a_parked_thread() {
    loom::model(|| {
        let ready = Arc::new(AtomicBool::new(false));
        let its = ready.clone();
        let other = thread::spawn(move || {
            while !its.load(Acquire) {
                thread::park();
            }
        });
        ready.store(true, Release);
        other.thread().unpark();
        other.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Deadlock")]
fn a_lost_wakeup_is_a_deadlock() {
    loom::model(|| {
        let other = thread::spawn(thread::park);
        other.join().unwrap();
    });
}

#[test]
fn notify_is_a_flag() {
    loom::model(|| {
        let notify = Arc::new(Notify::new());
        let its = notify.clone();
        let other = thread::spawn(move || its.notify());
        notify.wait();
        other.join().unwrap();
    });
}

#[test]
fn barriers_have_one_leader_a_meeting() {
    let seen = outcomes(|| {
        let barrier = Arc::new(Barrier::new(2));
        let its = barrier.clone();
        let other = thread::spawn(move || [(); 2].map(|()| its.wait().is_leader()));
        let mine = [(); 2].map(|()| barrier.wait().is_leader());
        let its = other.join().unwrap();
        (0..2).for_each(|it| assert_ne!(mine[it], its[it]));
        mine
    });
    assert_eq!(seen.len(), 4);
}

#[test]
fn channels_deliver_in_order_and_end() {
    let seen = outcomes(|| {
        let (sender, receiver) = mpsc::channel();
        let senders = [1, 2].map(|number| {
            let sender = sender.clone();
            thread::spawn(move || sender.send(number).unwrap())
        });
        drop(sender);
        let first = receiver.try_recv();
        let rest: Vec<u8> = std::iter::from_fn(|| receiver.recv().ok()).collect();
        senders.into_iter().for_each(|it| it.join().unwrap());
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        (first.ok(), rest)
    });
    let none = [(None, vec![1, 2]), (None, vec![2, 1])];
    let expected = none
        .into_iter()
        .chain([(Some(1), vec![2]), (Some(2), vec![1])]);
    assert_eq!(seen, expected.collect::<Vec<_>>());
    loom::model(|| {
        let (sender, receiver) = mpsc::channel();
        drop(receiver);
        assert!(sender.send(1).is_err());
    });
}

#[test]
fn cells_find_races() {
    let race = || {
        let cell = Real::new(SendCell(cell::UnsafeCell::new(0)));
        let its = cell.clone();
        let other = thread::spawn(move || its.0.with_mut(|_| ()));
        cell.0.with(|_| ());
        other.join().unwrap();
    };
    let message = failure(race);
    assert!(
        message.contains("Race") && message.contains("api.rs"),
        "{message}"
    );
    loom::model(|| {
        let cell = cell::UnsafeCell::new(1);
        {
            let (one, two) = (cell.get(), cell.get());
            // SAFETY: the cell exists, and is only read.
            assert_eq!(unsafe { (*one.deref(), *two.deref()) }, (1, 1));
        }
        // SAFETY: nothing else accesses the cell.
        unsafe { *cell.get_mut().deref() = 2 };
        let (one, two) = (cell::Cell::new(1), cell::Cell::new(2));
        one.swap(&two);
        assert_eq!((one.get(), two.take(), two.into_inner()), (2, 1, 0));
        assert_eq!(cell.into_inner(), 2);
    });
    let message = failure(|| {
        let cell = cell::UnsafeCell::new(1);
        let _reads = cell.get();
        cell.with_mut(|_| ());
    });
    assert!(message.contains("has not ended"), "{message}");
}

struct SendCell(cell::UnsafeCell<i32>);

// SAFETY: a model searches for what this breaks.
unsafe impl Sync for SendCell {}

#[test]
fn leaks_fail_with_their_lines() {
    let leaks: [fn(); 3] = [
        || std::mem::forget(Arc::new(1)),
        || std::mem::forget(loom::alloc::Track::new(1)),
        || {
            let layout = loom::alloc::Layout::new::<u64>();
            // SAFETY: the layout is not empty.
            let _leaked = unsafe { loom::alloc::alloc(layout) };
        },
    ];
    for leak in leaks {
        let message = failure(leak);
        assert!(
            message.contains("Leak") && message.contains("api.rs"),
            "{message}"
        );
    }
    loom::model(|| {
        let layout = loom::alloc::Layout::new::<u64>();
        // SAFETY: the layout is not empty, and the memory is freed once.
        unsafe { loom::alloc::dealloc(loom::alloc::alloc_zeroed(layout), layout) };
        let mut tracked = loom::alloc::Track::new(1);
        *tracked.get_mut() += *tracked.get_ref();
        assert_eq!(tracked.into_inner(), 2);
    });
}

loom::thread_local! {
    static NUMBER: std::cell::Cell<usize> = std::cell::Cell::new(1);
    static OTHER: Dropped = Dropped(std::cell::RefCell::new(None));
}

struct Dropped(std::cell::RefCell<Option<Arc<AtomicUsize>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(drops) = &*self.0.borrow() {
            drops.fetch_add(1, Relaxed);
        }
        assert!(NUMBER.try_with(|_| ()).is_ok(), "it was there before");
    }
}

loom::lazy_static! {
    static ref LAZY: Mutex<usize> = Mutex::new(5);
}

#[test]
fn statics_belong_to_executions_and_locals_to_threads() {
    let seen = outcomes(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let its = drops.clone();
        let other = thread::spawn(move || {
            NUMBER.with(|it| it.set(it.get() + 1));
            OTHER.with(|it| *it.0.borrow_mut() = Some(its));
            *LAZY.lock().unwrap() += 1;
        });
        let before = *LAZY.lock().unwrap();
        other.join().unwrap();
        assert_eq!(drops.load(Relaxed), 1);
        (
            before,
            *LAZY.lock().unwrap(),
            NUMBER.with(std::cell::Cell::get),
        )
    });
    assert_eq!(seen, [(5, 6, 1), (6, 6, 1)]);
}

#[test]
fn threads_have_names_and_numbers() {
    loom::model(|| {
        let builder = thread::Builder::new().name("worker".into()).stack_size(1);
        let other = builder
            .spawn(|| thread::current().name().map(str::to_owned))
            .unwrap();
        assert_ne!(other.thread().id(), thread::current().id());
        assert_eq!(other.join().unwrap().as_deref(), Some("worker"));
        assert!(!thread::panicking());
    });
}

#[cfg(feature = "futures")]
#[test]
fn futures_are_woken() {
    use loom::future::{AtomicWaker, block_on};
    use std::task::Poll;
    let seen = outcomes(|| {
        let shared = Arc::new((AtomicWaker::new(), AtomicBool::new(false)));
        let its = shared.clone();
        let other = thread::spawn(move || {
            its.1.store(true, Release);
            its.0.wake();
        });
        let mut polls = 0;
        block_on(std::future::poll_fn(|context| {
            polls += 1;
            shared.0.register_by_ref(context.waker());
            match shared.1.load(Acquire) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        other.join().unwrap();
        polls
    });
    assert!(seen.starts_with(&[1, 2]), "{seen:?}");
}

#[test]
fn spin_loops_end_in_another_execution() {
    let seen = outcomes(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let its = flag.clone();
        let other = thread::spawn(move || its.store(true, Release));
        let mut rounds = 0;
        while !flag.load(Acquire) {
            loom::hint::spin_loop();
            rounds += 1;
        }
        // Not a loop: it yields three times in a row.
        (0..3).for_each(|_| thread::yield_now());
        other.join().unwrap();
        rounds > 0
    });
    assert_eq!(seen, [false, true]);
}

#[test]
fn limits_truncate_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let mut builder = Builder::new();
    builder.max_permutations = Some(2);
    let child = std::env::var_os("LOOM_REPORT_FILE").is_some();
    let search = move || {
        let cells = Arc::new(AtomicUsize::new(0));
        let threads = [1, 2, 3].map(|it| {
            let cells = cells.clone();
            thread::spawn(move || cells.store(it, Relaxed))
        });
        threads.into_iter().for_each(|it| it.join().unwrap());
    };
    builder.check(search);
    if child {
        return;
    }
    let this = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(this);
    command
        .args(["--exact", "limits_truncate_and_say_so"])
        .env("LOOM_REPORT_FILE", &file);
    let output = command.output().unwrap();
    assert!(output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("TRUNCATED"), "{errors}");
    let report = std::fs::read_to_string(file).unwrap();
    assert!(
        report.contains("\"verdict\": \"TRUNCATED\"") && report.contains("\"runs\": 2"),
        "{report}"
    );
}

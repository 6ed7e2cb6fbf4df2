//! Threads, as those of [`std::thread`].

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use spanlock_explorer::Ordering::{Acquire, Relaxed, Release};
use spanlock_explorer::{Condition, Op, Update, choose, current_thread, fault};

use crate::execution::{self, Kept, begin_again, kept, known, require, with, with_thread};

#[doc(no_inline)]
pub use std::thread::panicking;

/// How many waits of a thread may time out before another one counts as a round of a spin loop.
const TIMEOUTS: u32 = 3;

/// A handle to a thread.
#[derive(Clone)]
pub struct Thread {
    id: ThreadId,
    name: Option<String>,
    token: Arc<Kept>,
}

impl Thread {
    /// Returns the number of the thread.
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// Returns the name of the thread, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Wakes the thread from its present or next [`park`].
    #[track_caller]
    pub fn unpark(&self) {
        // Release: pairs with the Acquire of `park`. A swap, so that earlier ones stay visible.
        self.token.update(Update::new(Op::Swap, 1), Release);
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("Thread");
        it.field("id", &self.id).field("name", &self.name).finish()
    }
}

/// The number of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(usize);

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadId({})", self.0)
    }
}

/// Returns the calling thread.
#[track_caller]
pub fn current() -> Thread {
    let id = ThreadId(current_thread());
    with_thread("thread::current", |it| Thread {
        id,
        name: it.name.clone(),
        token: it.token.clone(),
    })
}

/// Waits for a call of [`Thread::unpark`], or wakes spuriously.
#[track_caller]
pub fn park() {
    let token = with_thread("thread::park", |it| it.token.clone());
    if fault(2) == 0 {
        token.exchange_when(1, 0, Acquire);
    }
}

/// Waits for a call of [`Thread::unpark`], or times out.
#[track_caller]
pub fn park_timeout(_timeout: Duration) {
    let token = with_thread("thread::park_timeout", |it| it.token.clone());
    if !times_out() {
        token.wait_until(Condition::equals(1).timed(), Relaxed);
    }
    // A failure means that the time was over: nothing was acquired.
    let _ = token.compare_exchange(1, 0, Acquire, Relaxed);
}

/// Chooses whether a wait of the calling thread times out.
#[track_caller]
pub(crate) fn times_out() -> bool {
    let times_out = choose(2) == 1;
    if times_out {
        let timeouts = with_thread("thread", |it| {
            it.timeouts += 1;
            it.timeouts
        });
        if timeouts > TIMEOUTS {
            spin();
        }
    }
    times_out
}

/// A round of a loop that waits for another thread. A loop that only reads ends in another
/// execution, in which it reads what it waits for.
#[track_caller]
pub fn yield_now() {
    require("thread::yield_now");
    spin();
}

#[track_caller]
fn spin() {
    known(|known| known.has_spun = true);
    spanlock_explorer::spin();
}

/// Starts a thread.
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    start(f, None)
}

#[track_caller]
fn start<F, T>(f: F, name: Option<String>) -> JoinHandle<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    require("thread::spawn");
    let token = Arc::new(kept(0));
    let result = Arc::new(Mutex::new(None));
    let its = result.clone();
    let handle = spanlock_explorer::spawn(move || {
        let value = Some(f());
        *its.lock().unwrap_or_else(PoisonError::into_inner) = value;
        drop_locals();
    });
    let id = ThreadId(handle.index());
    let mut thread = execution::Thread::new(name.clone(), token.clone());
    thread.handle = Some(handle);
    let count = with("thread::spawn", |it| {
        it.threads.insert(id.0, thread);
        it.threads.len()
    });
    let most = known(|known| known.most_threads);
    if count > most {
        spanlock_explorer::fail(&format!(
            "More than {most} threads: see `Builder::max_threads`."
        ));
    }
    let before = known(|known| {
        let before = known.threads;
        known.threads = before.max(count);
        before
    });
    if before < count {
        begin_again();
    }
    let thread = Thread { id, name, token };
    JoinHandle { result, thread }
}

/// Drops the thread-locals of the calling thread.
pub(crate) fn drop_locals() {
    let me = current_thread();
    let next = || {
        execution::try_with(|it| {
            let its = it.threads.get_mut(&me)?;
            // The key stays, so that a destructor that uses it does not create another value.
            let local = its
                .locals
                .as_mut()?
                .iter_mut()
                .rev()
                .find_map(|it| it.1.take());
            if local.is_none() {
                its.locals = None;
            }
            local
        })
    };
    // Dropped outside, because it may use others, or begin them.
    while let Some(local) = next().flatten() {
        drop(local);
    }
}

/// Waits for a thread.
pub struct JoinHandle<T> {
    result: Arc<Mutex<Option<T>>>,
    thread: Thread,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread has ended, and returns its result. A panic fails the model, so this
    /// returns no error.
    ///
    /// # Errors
    /// Never.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        let handle = with("thread::JoinHandle::join", |it| {
            it.threads.get_mut(&self.thread.id.0)?.handle.take()
        });
        handle.expect("a thread is joined once").join();
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(result.take().expect("a thread that has ended has a result"))
    }

    /// Returns the thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").finish_non_exhaustive()
    }
}

/// Says how to start a thread.
#[derive(Debug)]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    /// Returns a builder for a thread without a name.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Builder {
        Builder { name: None }
    }

    /// Names the thread.
    pub fn name(self, name: String) -> Builder {
        Builder { name: Some(name) }
    }

    /// Changes nothing: `LOOM_STACK_SIZE` sets the size of all stacks.
    pub fn stack_size(self, _bytes: usize) -> Builder {
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// Never.
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Ok(start(f, self.name))
    }
}

/// A thread-local, see [`thread_local!`](crate::thread_local).
pub struct LocalKey<T> {
    #[doc(hidden)]
    pub init: fn() -> T,
    #[doc(hidden)]
    pub _p: PhantomData<fn(T)>,
}

impl<T: 'static> LocalKey<T> {
    /// Calls `f` with the value of the calling thread.
    ///
    /// # Panics
    /// If the thread has begun to drop this value, or has dropped all.
    #[track_caller]
    pub fn with<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        self.try_with(f)
            .expect("cannot access a thread-local while the thread drops it, or later")
    }

    /// Calls `f` with the value of the calling thread.
    ///
    /// # Errors
    /// The thread has begun to drop this value, or has dropped all.
    #[track_caller]
    pub fn try_with<F, R>(&'static self, f: F) -> Result<R, AccessError>
    where
        F: FnOnce(&T) -> R,
    {
        let value = match self.get()? {
            Some(value) => value,
            None => {
                let (key, value) = (self.key(), Box::new((self.init)()));
                let add = |it: &mut execution::Thread| {
                    let locals = it.locals.as_mut();
                    locals.map(|locals| locals.push((key, Some(value as _))))
                };
                with_thread("thread::LocalKey::with", add).ok_or(AccessError {})?;
                self.get()?.expect("it was added")
            }
        };
        // SAFETY: the value lives in a box until its thread, which is the calling one, ends.
        Ok(f(unsafe { &*value }))
    }

    fn key(&'static self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    #[track_caller]
    fn get(&'static self) -> Result<Option<*const T>, AccessError> {
        let key = self.key();
        with_thread("thread::LocalKey::with", |it| {
            let locals = it.locals.as_ref().ok_or(AccessError {})?;
            let Some((_, its)) = locals.iter().find(|it| it.0 == key) else {
                return Ok(None);
            };
            let value = its.as_ref().ok_or(AccessError {})?;
            Ok(value.downcast_ref().map(core::ptr::from_ref))
        })
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("LocalKey { .. }")
    }
}

/// The thread has begun to drop the value of a thread-local, or has dropped all of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct AccessError {}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("already destroyed")
    }
}

impl std::error::Error for AccessError {}

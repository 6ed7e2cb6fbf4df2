//! Says when an execution hangs: a thread of the model waits for an atomic or a lock of std, which
//! no other thread of the model can change meanwhile.

use core::panic::Location;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use spanlock_explorer::{EventId, Graph, Observer};

use crate::report;

/// How long a search may stand still.
const PATIENCE: Duration = Duration::from_secs(5);

/// Counts what a search does.
#[derive(Default)]
pub(crate) struct Progress {
    steps: AtomicU64,
    last: Mutex<Option<&'static Location<'static>>>,
}

impl Progress {
    /// Counts a step: the beginning of a run, or an event.
    pub(crate) fn step(&self) {
        // Relaxed: only the number matters.
        self.steps.fetch_add(1, Relaxed);
    }
}

/// Watches a search, until it is dropped.
pub(crate) struct Watch {
    pub(crate) progress: Arc<Progress>,
    _ends: Sender<()>,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        let progress = Arc::new(Progress::default());
        let (sender, receiver) = channel();
        let its = progress.clone();
        let watch = move || {
            let mut before = 0;
            while receiver.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let steps = its.steps.load(Relaxed);
                if steps == before {
                    return say(&its);
                }
                before = steps;
            }
        };
        // Without a thread, nothing is said.
        let _ = std::thread::Builder::new().spawn(watch);
        Watch {
            progress,
            _ends: sender,
        }
    }
}

fn say(progress: &Progress) {
    let last = *progress.last.lock().unwrap_or_else(PoisonError::into_inner);
    let seconds = PATIENCE.as_secs();
    let last = last.map_or_else(|| "none".to_owned(), Location::to_string);
    report::line(&format!(
        "an execution stands still for {seconds} s. Its last operation of loom: {last}. Does the code \
         wait for an atomic or a lock of std? Use those of loom."
    ));
}

impl Observer for Watch {
    fn added(&mut self, graph: &Graph, event: EventId) {
        self.progress.step();
        let last = self.progress.last.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = Some(graph.event(event).place);
    }
}

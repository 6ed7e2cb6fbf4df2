//! Works through many items at the same time, and shows how far it is.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rayon::ThreadPoolBuilder;
use rayon::iter::{ParallelBridge, ParallelIterator};

/// Works through `items`, `workers` at the same time, and starts them in their order. The answers
/// are in the same order.
pub(super) fn at_the_same_time<T: Sync, R: Send>(
    items: &[T],
    workers: usize,
    what: &str,
    name: impl Fn(&T) -> String + Sync,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let progress = Progress::new(items.len(), what);
    let pool = ThreadPoolBuilder::new().num_threads(workers).build();
    let pool = pool.expect("threads can be started");
    // A bridge hands items out one by one, so that a costly one is not left for the end.
    let mut answers: Vec<(usize, R)> = pool.install(|| {
        let items = items.iter().enumerate().par_bridge();
        let answers = items.map(|(i, item)| {
            let name = name(item);
            progress.begin(&name);
            let answer = work(item);
            progress.end(&name);
            (i, answer)
        });
        answers.collect()
    });
    progress.bar.finish_and_clear();
    answers.sort_by_key(|&(i, _)| i);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Returns how many rows run at the same time: one for each core, unless `given`.
pub(super) fn workers(given: Option<NonZeroUsize>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    given.map_or_else(cores, NonZeroUsize::get)
}

struct Progress<'a> {
    bar: ProgressBar,
    what: &'a str,
    running: Mutex<BTreeSet<String>>,
    told: Mutex<Instant>,
}

impl<'a> Progress<'a> {
    fn new(items: usize, what: &'a str) -> Self {
        let bar = ProgressBar::new(items as u64);
        let template = format!("{{elapsed:>5}} {{bar:30}} {{pos}}/{{len}} {what}  {{wide_msg}}");
        let style = ProgressStyle::with_template(&template);
        bar.set_style(style.expect("the template is right"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress {
            bar,
            what,
            running: Mutex::new(BTreeSet::new()),
            told: Mutex::new(Instant::now()),
        }
    }

    fn begin(&self, name: &str) {
        self.show(|running| _ = running.insert(name.to_owned()));
    }

    fn end(&self, name: &str) {
        self.show(|running| _ = running.remove(name));
        self.bar.inc(1);
        if self.bar.is_hidden() {
            self.tell();
        }
    }

    fn show(&self, change: impl FnOnce(&mut BTreeSet<String>)) {
        let mut running = self.running.lock().expect("workers do not panic");
        change(&mut running);
        let names: Vec<_> = running.iter().map(String::as_str).collect();
        self.bar.set_message(names.join("  "));
    }

    /// Prints a line from time to time where no bar is seen, as in the log of a CI job.
    fn tell(&self) {
        let mut told = self.told.lock().expect("workers do not panic");
        if told.elapsed() < Duration::from_secs(30) {
            return;
        }
        *told = Instant::now();
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
        eprintln!("{done} of {all} {}, now {}", self.what, self.bar.message());
    }
}

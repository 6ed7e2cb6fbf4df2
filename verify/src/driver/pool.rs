//! Works through many items at the same time, and shows the progress.

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
    let bar = ProgressBar::new(items.len() as u64);
    let template = format!("{{elapsed:>5}} {{bar:30}} {{pos}}/{{len}} {what}  {{wide_msg}}");
    bar.set_style(ProgressStyle::with_template(&template).expect("the template is right"));
    bar.enable_steady_tick(Duration::from_millis(200));
    // The running items, and when a line was last printed (in a CI log, which shows no bar).
    let shown = Mutex::new((BTreeSet::new(), Instant::now()));
    let show = |change: &dyn Fn(&mut BTreeSet<String>)| {
        let (running, told) = &mut *shown.lock().expect("workers do not panic");
        change(running);
        bar.set_message(Vec::from_iter(running.iter().map(String::as_str)).join("  "));
        if bar.is_hidden() && told.elapsed() > Duration::from_secs(30) {
            *told = Instant::now();
            let (done, all) = (bar.position(), items.len());
            eprintln!("{done} of {all} {what}, now {}", bar.message());
        }
    };
    let pool = ThreadPoolBuilder::new().num_threads(workers).build();
    let pool = pool.expect("threads can be started");
    // A bridge hands items out one by one, so that a costly one is not left for the end.
    let mut answers: Vec<(usize, R)> = pool.install(|| {
        let items = items.iter().enumerate().par_bridge();
        let answers = items.map(|(i, item)| {
            let name = name(item);
            show(&|running| _ = running.insert(name.clone()));
            let answer = work(item);
            bar.inc(1);
            show(&|running| _ = running.remove(&name));
            (i, answer)
        });
        answers.collect()
    });
    bar.finish_and_clear();
    answers.sort_by_key(|&(i, _)| i);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Returns how many rows run at the same time: one for each core, unless `given`.
pub(super) fn workers(given: Option<NonZeroUsize>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    given.map_or_else(cores, NonZeroUsize::get)
}

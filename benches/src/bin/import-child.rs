//! Works on a volume and reports what has returned, until it is killed. Used by `tests/kill`.
//!
//! ```text
//! import-child VOLUME LOCK THREADS import FOLDER PREFIX
//! import-child VOLUME LOCK THREADS overwrite SEED
//! import-child VOLUME LOCK 1 compact SEED
//! ```
//! `import` removes files that were imported under other prefixes, imports FOLDER under PREFIX, and
//! waits to be killed. `overwrite` overwrites pages of [`HOT_FILES`] until it is killed.
//!
//! `compact` overwrites one of these files. It learns how often the file's log is cleaned and how
//! long that takes, then kills itself at a random moment of a cleaning. Cleanings take about a
//! hundredth of the time, so other kills rarely hit one. The child reports every event as a
//! [`Line`] on standard output.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Signal, getpid, kill_process};
use spanlock_benches::import::{Progress, Tree, import};
use spanlock_benches::killed::{HOT_FILES, HOT_PAGES, Line, Overwrite, PAGE, next};
use spanlock_benches::locks::{self, Make, Task};
use spanlock_benches::volume::remove_empty;
use spanlock_file_core::Volume;
use spanlock_pmem::{MappedFile, Options};
use spanlock_range_lock::RawRangeLock;

/// A thread checks whether a log was cleaned once in this many writes.
const LOOK_EVERY: u64 = 32;

/// Returns a number that grows with each cleaning of a log: of the copies, and the unlinked pages.
fn cleaned<L: RawRangeLock + 'static>(volume: &Volume<MappedFile, L>) -> u64 {
    let stats = volume.stats();
    stats.compactions + stats.unlinked_pages
}

struct Child {
    volume: String,
    threads: usize,
    work: Work,
}

enum Work {
    Import { folder: String, prefix: String },
    Overwrite { seed: u64 },
    Compact { seed: u64 },
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (volume, lock, threads, work) = match args[..] {
        [volume, lock, threads, "import", folder, prefix] => {
            let (folder, prefix) = (folder.to_owned(), prefix.to_owned());
            (volume, lock, threads, Work::Import { folder, prefix })
        }
        [volume, lock, threads, "overwrite", seed] => {
            let seed = seed.parse()?;
            (volume, lock, threads, Work::Overwrite { seed })
        }
        [volume, lock, "1", "compact", seed] => {
            let seed = seed.parse()?;
            (volume, lock, "1", Work::Compact { seed })
        }
        _ => bail!("usage: see the source of import-child"),
    };
    let child = Child {
        volume: volume.to_owned(),
        threads: threads.parse()?,
        work,
    };
    locks::with(lock, child)
}

impl Task for Child {
    type Output = Result<()>;

    fn run<L: RawRangeLock + 'static>(self, make: Make<L>) -> Result<()> {
        let region = MappedFile::open(&self.volume, Options::new())?;
        let (volume, _report) = Volume::try_open(region, make)?;
        match self.work {
            Work::Import { folder, prefix } => {
                import_once(&volume, &folder, &prefix, self.threads)?;
            }
            Work::Overwrite { seed } => overwrite_for_ever(&volume, self.threads, seed)?,
            Work::Compact { seed } => die_in_a_compaction(&volume, seed)?,
        }
        loop {
            std::thread::park();
        }
    }
}

fn import_once<L: RawRangeLock + 'static>(
    volume: &Volume<MappedFile, L>,
    folder: &str,
    prefix: &str,
    threads: usize,
) -> Result<()> {
    let tree = Tree::read(Path::new(folder), prefix.len(), |_| false)?;
    println!("{}", Line::Begin);
    for (name, _size) in volume.list() {
        if !name.starts_with(prefix) && !HOT_FILES.contains(&name.as_str()) {
            volume.remove(&name)?;
            println!("{}", Line::Removed(name));
        }
    }
    remove_empty(volume, "", &|path| !path.starts_with(prefix))?;
    let committed = |file: usize, chunk| {
        let file = tree.files[file].name.clone();
        println!("{}", Line::Imported { chunk, file });
    };
    let progress = Progress::new(&tree);
    import(&tree, volume, prefix, threads, &progress, &committed)?;
    println!("{}", Line::End);
    Ok(())
}

fn overwrite_for_ever<L: RawRangeLock + 'static>(
    volume: &Volume<MappedFile, L>,
    threads: usize,
    seed: u64,
) -> Result<()> {
    println!("{}", Line::Begin);
    std::thread::scope(|scope| {
        let worker = |it| move || overwrite(volume, next(seed.wrapping_add(it)));
        let workers: Vec<_> = (0..threads as u64)
            .map(|it| scope.spawn(worker(it)))
            .collect();
        let join = |it: std::thread::ScopedJoinHandle<'_, _>| it.join().expect("no panic");
        workers.into_iter().try_for_each(join)
    })
}

/// Runs one thread of `overwrite`: it writes one page, seldom more, of a random file. Threads
/// overlap.
fn overwrite<L: RawRangeLock + 'static>(
    volume: &Volume<MappedFile, L>,
    mut state: u64,
) -> Result<()> {
    let files = HOT_FILES.map(|name| volume.open_or_create(name));
    let (mut compactions, mut before) = (0, 0);
    for turn in 0.. {
        state = next(state);
        let (file, len) = ((state & 1) as usize, 1 + (state >> 1 & 7).saturating_sub(5));
        let first = (state >> 8) % (HOT_PAGES - len + 1);
        let overwrite = Overwrite {
            seed: state | 1,
            pages: first..first + len,
            file: HOT_FILES[file].to_owned(),
        };
        let (content, seed) = (overwrite.content(), overwrite.seed);
        println!("{}", Line::Writing(overwrite));
        let file = files[file].as_ref().map_err(|error| error.clone())?;
        file.write_at(&content, first * PAGE as u64)?;
        println!("{}", Line::Wrote(seed));
        if turn % LOOK_EVERY == 0 {
            let now = cleaned(volume);
            if now > before {
                (compactions, before) = (compactions + 1, now);
                println!("{}", Line::Compactions(compactions));
            }
        }
    }
    Ok(())
}

/// Overwrites single pages of one file. Each write appends one slot to the log. So after two
/// compactions, it is known which write causes the next one.
fn die_in_a_compaction<L: RawRangeLock + 'static>(
    volume: &Volume<MappedFile, L>,
    seed: u64,
) -> Result<()> {
    let file = volume.open_or_create(HOT_FILES[0])?;
    println!("{}", Line::Begin);
    let mut state = next(seed);
    // `last` is the write that caused the last compaction. `known` is the number of writes from one
    // compaction to the next, and the duration of a compaction.
    let (mut last, mut known) = (0, None);
    let mut compactions = 0;
    for turn in 1_u64.. {
        state = next(state);
        let page = (state >> 8) % HOT_PAGES;
        let overwrite = Overwrite {
            seed: state | 1,
            pages: page..page + 1,
            file: HOT_FILES[0].to_owned(),
        };
        let (content, seed) = (overwrite.content(), overwrite.seed);
        let before = cleaned(volume);
        println!("{}", Line::Writing(overwrite));
        match known {
            Some((period, took)) if turn == last + period => kill_within(took, next(seed)),
            _ => {}
        }
        let started = Instant::now();
        file.write_at(&content, page * PAGE as u64)?;
        let took = started.elapsed();
        println!("{}", Line::Wrote(seed));
        if cleaned(volume) > before {
            compactions += 1;
            println!("{}", Line::Compactions(compactions));
            // Ignore the first interval, because earlier children wrote part of the log.
            known = (compactions > 1).then_some((turn - last, took));
            last = turn;
        }
    }
    Ok(())
}

/// Starts a thread that kills this process at a random moment within `took` from now. Returns when
/// the thread is ready.
fn kill_within(took: Duration, random: u64) {
    let delay = took.mul_f64((random % 1024) as f64 / 1024.0);
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        let started = Instant::now();
        let _ = ready.send(());
        while started.elapsed() < delay {
            std::hint::spin_loop();
        }
        let killed = kill_process(getpid(), Signal::KILL);
        unreachable!("the process should have killed itself: {killed:?}");
    });
    let _ = is_ready.recv();
}

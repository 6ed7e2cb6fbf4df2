//! Compares the rendezvous with committing at once, in simulated time. The simulation has threads
//! that commit and think, a device, slow wakes and late deadlines.
//!
//! The simulation repeats the protocol of `compact/group.rs` as events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::Rendezvous;

const MICROSECOND: u64 = 1000;

/// A scenario. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Scene {
    threads: usize,
    flush: u64,
    /// Each flush is longer or shorter by up to this fraction of `flush`.
    flush_jitter: f64,
    think: Think,
    /// The time from a wake to the thread's first step. Each further thread that a leader wakes
    /// starts `between` later.
    wake: u64,
    between: u64,
    /// How late a deadline is.
    slack: u64,
    /// The fraction of flushes and wakes that take up to three flushes longer, as on a busy
    /// machine.
    noise: f64,
}

/// Think times, in flushes.
#[derive(Clone, Copy, Debug)]
enum Think {
    Even {
        mean: f64,
        jitter: f64,
    },
    /// Exponentially distributed, independently of the other threads.
    Free {
        mean: f64,
    },
    /// Half of the threads do not think.
    Half {
        mean: f64,
    },
    /// One in `one_in` pauses takes `mean`, the others take no time.
    Sometimes {
        one_in: u32,
        mean: f64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    per_second: f64,
    per_flush: f64,
    /// In flushes.
    latency: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A thread arrives with a record.
    Arrive(usize),
    /// A woken thread checks whether its record is durable.
    Look(usize),
    Deadline(usize),
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Gathering(usize),
    Leading(usize),
}

struct Simulation {
    scene: Scene,
    policy: Option<Rendezvous>,
    base: Instant,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    phase: Phase,
    /// Waiting threads, in order of arrival. The leader has taken the records of the first `taken`.
    sleepers: Vec<usize>,
    taken: usize,
    came: Vec<u64>,
    random: fastrand::Rng,
    commits: u64,
    flushes: u64,
    waited: u64,
}

impl Simulation {
    fn new(scene: Scene, is_rendezvous: bool) -> Self {
        let base = Instant::now();
        let mut this = Simulation {
            policy: is_rendezvous.then(|| Rendezvous::at(base)),
            scene,
            base,
            now: 0,
            events: BinaryHeap::new(),
            order: 0,
            phase: Phase::Idle,
            sleepers: Vec::new(),
            taken: 0,
            came: vec![0; scene.threads],
            random: fastrand::Rng::with_seed(scene.flush),
            commits: 0,
            flushes: 0,
            waited: 0,
        };
        for thread in 0..scene.threads {
            let at = this.random.u64(0..scene.flush);
            this.at(at, Event::Arrive(thread));
        }
        this
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn instant(&self) -> Instant {
        self.base + Duration::from_nanos(self.now)
    }

    fn run(mut self, commits: u64) -> Outcome {
        while self.commits < commits
            && let Some(Reverse((time, _, event))) = self.events.pop()
        {
            self.now = time;
            match event {
                Event::Arrive(thread) => {
                    self.came[thread] = self.now;
                    self.sleepers.push(thread);
                    let now = self.instant();
                    if let Some(policy) = &mut self.policy {
                        policy.arrived_at(now);
                    }
                    self.look(thread, false);
                }
                Event::Look(thread) if self.sleepers.contains(&thread) => self.look(thread, false),
                Event::Deadline(thread) if self.phase == Phase::Gathering(thread) => {
                    self.look(thread, true);
                }
                Event::Look(_) | Event::Deadline(_) => {}
                Event::Done => self.done(),
            }
        }
        Outcome {
            per_second: self.commits as f64 * 1e9 / self.now as f64,
            per_flush: self.commits as f64 / self.flushes as f64,
            latency: self.waited as f64 / self.commits as f64 / self.scene.flush as f64,
        }
    }

    /// Simulates `State::turn` of the group.
    fn look(&mut self, thread: usize, has_waited: bool) {
        if matches!(self.phase, Phase::Leading(_)) {
            return;
        }
        let waiting = self.sleepers.len();
        let is_candidate = self.phase == Phase::Idle || self.phase == Phase::Gathering(thread);
        let now = self.instant();
        let until = if has_waited {
            None
        } else {
            (self.policy.as_mut()).and_then(|policy| policy.hold_at(now, waiting))
        };
        match until {
            None => self.lead(thread),
            Some(until) if is_candidate => {
                self.phase = Phase::Gathering(thread);
                let until = until.duration_since(self.base).as_nanos() as u64;
                self.at(until + self.scene.slack, Event::Deadline(thread));
            }
            Some(_) => {}
        }
    }

    fn lead(&mut self, thread: usize) {
        let now = self.instant();
        self.taken = self.sleepers.len();
        if let Some(policy) = &mut self.policy {
            policy.started_at(now);
        }
        self.phase = Phase::Leading(thread);
        let jitter = 1.0 + self.scene.flush_jitter * (2.0 * self.random.f64() - 1.0);
        let takes = (self.scene.flush as f64 * jitter) as u64 + self.noise();
        self.at(self.now + takes, Event::Done);
    }

    fn done(&mut self) {
        let Phase::Leading(leader) = self.phase else {
            unreachable!("only a leader is done");
        };
        self.phase = Phase::Idle;
        self.flushes += 1;
        let released = Vec::from_iter(self.sleepers.drain(..self.taken));
        let now = self.instant();
        if let Some(policy) = &mut self.policy {
            policy.finished_at(now, released.len());
        }
        let mut woken = self.now + self.scene.wake;
        if let Some(&next) = self.sleepers.first() {
            self.at(woken, Event::Look(next));
            woken += self.scene.between;
        }
        for thread in released {
            self.commits += 1;
            // The leader is awake already, but continues only after it has woken the others.
            let mut free = woken + self.noise();
            if thread != leader {
                woken += self.scene.between;
            } else {
                free = self.now + self.scene.between * self.taken as u64;
            }
            self.waited += free - self.came[thread];
            let think = self.think(thread);
            self.at(free + MICROSECOND + think, Event::Arrive(thread));
        }
    }

    fn noise(&mut self) -> u64 {
        if self.random.f64() >= self.scene.noise {
            return 0;
        }
        (self.random.f64() * 3.0 * self.scene.flush as f64) as u64
    }

    fn think(&mut self, thread: usize) -> u64 {
        let flushes = match self.scene.think {
            Think::Even { mean, jitter } => mean * (1.0 + jitter * (2.0 * self.random.f64() - 1.0)),
            Think::Free { mean } => -mean * (1.0 - self.random.f64()).ln(),
            Think::Half { mean } if thread.is_multiple_of(2) => mean,
            Think::Sometimes { one_in, mean } if self.random.u32(0..one_in) == 0 => mean,
            Think::Half { .. } | Think::Sometimes { .. } => 0.0,
        };
        (flushes * self.scene.flush as f64) as u64
    }
}

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

fn scene(threads: usize, think: Think) -> Scene {
    Scene {
        threads,
        flush: 1000 * MICROSECOND,
        flush_jitter: 0.05,
        think,
        wake: 15 * MICROSECOND,
        between: 2 * MICROSECOND,
        slack: 60 * MICROSECOND,
        noise: 0.0,
    }
}

/// Returns two outcomes: of committing at once and of the rendezvous. Each covers the commits of
/// that many flushes.
fn both(scene: Scene, flushes: u64) -> [Outcome; 2] {
    let commits = flushes * scene.threads as u64;
    [false, true].map(|is_rendezvous| Simulation::new(scene, is_rendezvous).run(commits))
}

/// Returns the commits per second with the rendezvous, relative to committing at once.
fn ratio(scene: Scene, flushes: u64) -> f64 {
    let [plain, rendezvous] = both(scene, flushes);
    rendezvous.per_second / plain.per_second
}

/// Covers the grid of `cargo compare journal`: think times of up to four flushes.
#[test]
fn the_rendezvous_is_never_slower_on_the_grid() {
    for threads in THREADS {
        for mean in [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0] {
            for jitter in [0.0, 0.1] {
                let scene = scene(threads, Think::Even { mean, jitter });
                let ratio = ratio(scene, 1000);
                assert!(ratio >= 0.98, "{scene:?}: {ratio:.3}");
            }
        }
    }
}

/// Covers fast and slow devices, and threads whose think times differ and vary. The rendezvous may
/// lose only as much as its trials and chance cost.
#[test]
fn the_rendezvous_is_never_much_slower() {
    let mut thinks = Vec::new();
    for mean in [0.1, 0.25, 0.5, 1.0, 3.0] {
        thinks.push(Think::Even { mean, jitter: 0.5 });
        thinks.push(Think::Free { mean });
        thinks.push(Think::Half { mean });
        thinks.push(Think::Sometimes { one_in: 5, mean });
    }
    for threads in THREADS {
        for &think in &thinks {
            for (flush, wake, between) in [(30, 15, 2), (160, 15, 2), (1000, 60, 10), (8000, 15, 2)]
            {
                let scene = Scene {
                    flush: flush * MICROSECOND,
                    wake: wake * MICROSECOND,
                    between: between * MICROSECOND,
                    ..scene(threads, think)
                };
                let ratio = ratio(scene, 500);
                assert!(ratio >= 0.95, "{scene:?}: {ratio:.3}");
            }
        }
    }
}

#[test]
fn nearly_all_threads_share_a_flush() {
    for threads in [1, 2, 4, 8, 16, 32, 64] {
        let scene = scene(
            threads,
            Think::Even {
                mean: 0.0,
                jitter: 0.0,
            },
        );
        let [plain, rendezvous] = both(scene, 1000);
        assert!(
            rendezvous.per_flush >= 0.9 * threads as f64,
            "{threads}: {rendezvous:?}"
        );
        assert!(rendezvous.latency <= 1.4, "{threads}: {rendezvous:?}");
        // The commits per flush without the rendezvous: half of the threads.
        let half = (threads as f64 + 1.0) / 2.0;
        assert!(
            (plain.per_flush - half).abs() < 0.01 * half,
            "{threads}: {plain:?}"
        );
    }
}

/// If the device is faster than a sleep, the rendezvous does not wait.
#[test]
fn a_fast_device_is_never_waited_for() {
    for threads in THREADS {
        let scene = Scene {
            flush: 100 * MICROSECOND,
            flush_jitter: 0.0,
            ..scene(
                threads,
                Think::Even {
                    mean: 0.0,
                    jitter: 0.0,
                },
            )
        };
        let [plain, rendezvous] = both(scene, 500);
        assert_eq!(plain, rendezvous);
    }
}

/// On a busy machine some flushes and wakes take several times as long. This must not mislead a
/// short trial.
#[test]
fn noise_does_not_mislead_a_trial() {
    for noise in [0.03, 0.1] {
        for threads in [8, 16] {
            for (mean, least) in [(0.0, 1.3), (1.0, 0.95), (2.0, 0.95), (4.0, 0.95)] {
                for seed in 0..10 {
                    let scene = Scene {
                        noise,
                        // The flush also seeds the random numbers.
                        flush: (1000 + seed) * MICROSECOND,
                        ..scene(threads, Think::Even { mean, jitter: 0.1 })
                    };
                    let ratio = ratio(scene, 300);
                    assert!(ratio >= least, "{scene:?}: {ratio:.3}");
                }
            }
        }
    }
}

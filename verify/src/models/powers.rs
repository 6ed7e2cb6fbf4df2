//! The powers of a range lock: what it can do with a hold beyond giving it back, requests that wait without a thread, several ranges at once.
//!
//! As in [`super::lock`], each property is written once for every lock that has the power. Here a thread keeps its holds in a list, and a step is
//! about the last of them. Whatever a thread holds, it has looked at: at each later step nobody else may have written there.

use std::ops::Range;
use std::sync::Arc;

use spanlock::Access::{self, Read, Upgradable, Write};
use spanlock_sync::atomic::{AtomicBool, Ordering::*};
use spanlock_sync::{Park, Parker, thread};
use spanlock_testkit::Driven;
use spanlock_testkit::owner::{Asked, Hold, span};

use super::lock::Data;
use crate::primitives::{PRIMITIVES, Power, Primitive};
use crate::program::{Program, Run};
use crate::trace::{self, note};

/// A property of locks with some power.
struct Model {
    property: &'static str,
    claim: &'static str,
    power: Power,
    /// As in [`super::lock`].
    granular: bool,
    /// The steps of each thread; main's come first.
    threads: &'static [&'static [Step]],
}

const MODELS: &[Model] = &[
    Model {
        property: "downgrade-writer",
        claim: "a downgrade lets no writer in: what was written is what is read",
        power: Power::downgrade,
        granular: false,
        threads: &[
            &[Take(0..2, Write), Downgrade, Give],
            &[Take(1..3, Write), Give],
        ],
    },
    Model {
        property: "downgrade-reader",
        claim: "a downgrade wakes readers, who see what the writer wrote while it still reads",
        power: Power::downgrade,
        granular: false,
        threads: &[
            &[Take(0..2, Write), Downgrade, Join, Give],
            &[Take(1..3, Read), Give],
        ],
    },
    Model {
        property: "downgrade-upgradable",
        claim: "an upgradable hold that becomes shared wakes the next upgradable one",
        power: Power::downgrade,
        granular: false,
        threads: &[
            &[Take(0..2, Upgradable), Downgrade, Join, Give],
            &[Take(1..3, Upgradable), Give],
        ],
    },
    Model {
        property: "upgrade-readers",
        claim: "of two readers at most one becomes exclusive, and nobody writes between its read and its write",
        power: Power::upgrade,
        granular: false,
        threads: &[
            &[Take(0..1, Read), TryUpgrade, Give],
            &[Take(0..1, Upgradable), TryUpgrade, Give],
        ],
    },
    Model {
        property: "upgrade-writer",
        claim: "nobody writes between an upgradable read and its write",
        power: Power::upgrade,
        granular: false,
        threads: &[
            &[Take(0..2, Upgradable), TryUpgrade, Give],
            &[Try(1..3, Write)],
        ],
    },
    Model {
        property: "upgrade-waits",
        claim: "an upgrade gets in when the readers have left, and excludes those who come",
        power: Power::upgrade_wait,
        granular: false,
        threads: &[
            &[Take(0..2, Upgradable), Upgrade, Give],
            &[Take(1..3, Read), Give],
        ],
    },
    Model {
        property: "poll",
        claim: "a request that is polled is woken when its turn has come",
        power: Power::wait,
        granular: false,
        threads: &[&[Take(0..2, Write), Give], &[Ask(1..3, Write), Await, Give]],
    },
    Model {
        property: "cancel",
        claim: "a request that is given up leaves no trace, whether it was granted meanwhile or not",
        power: Power::wait,
        granular: false,
        threads: &[&[Take(1..2, Write), Give], &[Ask(0..2, Write), Cancel]],
    },
    Model {
        property: "cancel-shared",
        claim: "nor does a shared request that is given up",
        power: Power::wait,
        granular: false,
        threads: &[&[Take(1..2, Write), Give], &[Ask(0..2, Read), Cancel]],
    },
    Model {
        property: "cancel-reader",
        claim: "a waiting reader that gives up grants nothing to another while the writer holds",
        power: Power::wait,
        granular: false,
        threads: &[
            &[Take(0..2, Write), Ask(0..2, Read), Cancel, Again, Give],
            &[Take(1..3, Read), Give],
        ],
    },
    Model {
        property: "cancel-writer",
        claim: "a waiting writer that gives up lets in the reader whom only it held back",
        power: Power::wait,
        granular: false,
        threads: &[
            &[Take(0..2, Read), Ask(0..2, Write), Cancel, Join, Give],
            &[Take(1..3, Read), Give],
        ],
    },
    Model {
        property: "shrink-wakes",
        claim: "what a hold gives back wakes those who wait for it, while the rest is held",
        power: Power::split,
        granular: true,
        threads: &[
            &[Take(0..2, Write), Shrink(0..1), Join, Give],
            &[Take(1..2, Write), Give],
        ],
    },
    Model {
        property: "shrink-keeps",
        claim: "what a hold keeps is held throughout: nobody who waits for part of it is let in",
        power: Power::split,
        granular: true,
        threads: &[
            &[Take(0..2, Write), Shrink(1..2), Give],
            &[Take(1..2, Write), Give],
        ],
    },
    Model {
        property: "split-wakes",
        claim: "a part of a hold that is given back wakes those who wait for it, while the other is held",
        power: Power::split,
        granular: true,
        threads: &[
            &[Take(0..2, Write), Split(1), Give, Join, Give],
            &[Take(1..2, Write), Give],
        ],
    },
    Model {
        property: "split-keeps",
        claim: "who waits for one part of a hold that was cut is not let in when the other is given back",
        power: Power::split,
        granular: true,
        threads: &[
            &[Take(0..2, Write), Split(1), Give, Give],
            &[Take(0..1, Write), Give],
        ],
    },
    Model {
        property: "batch",
        claim: "ranges taken in one call are held all at once, and two calls never wait for each other in a circle",
        power: Power::batch,
        granular: true,
        threads: &[
            &[TakeAll(&[(0..1, Write), (1..2, Write)]), Give, Give],
            &[TakeAll(&[(1..2, Read)]), Give],
        ],
    },
    Model {
        property: "batch-across",
        claim: "a range that lies across those of one call never waits with it in a circle",
        power: Power::batch,
        granular: true,
        threads: &[
            &[TakeAll(&[(0..1, Write), (1..2, Write)]), Give, Give],
            &[Take(0..2, Write), Give],
        ],
    },
    Model {
        property: "batch-try",
        claim: "a try of several ranges takes all or none, and leaves no trace",
        power: Power::batch,
        granular: true,
        threads: &[
            &[TryAll(&[(0..1, Write), (2..3, Write)])],
            &[Take(2..4, Write), Give],
        ],
    },
];

/// Of a writer that waits, while main reads and another reads as often as it is let; by the bound that the lock states.
const fn overtaking(bound: u32) -> Model {
    Model {
        property: "bounded-overtaking",
        claim: match bound {
            0 => "a waiting writer is passed by 0 readers, though a reader holds all the time",
            _ => {
                "a waiting writer is passed by at most 32 readers (1 under a checker), though a reader holds all the time"
            }
        },
        power: Power::wait,
        granular: false,
        threads: &[
            &[Take(0..1, Read), Ask(0..1, Write), Join, Give, Await, Give],
            &[Pass(0..1), Pass(0..1)],
        ],
    }
}

use Step::*;

#[derive(Debug)]
enum Step {
    /// Blocks for a hold.
    Take(Range<u64>, Access),
    /// Blocks for several.
    TakeAll(&'static [(Range<u64>, Access)]),
    /// Tries for a hold, and gives it back.
    Try(Range<u64>, Access),
    /// Tries for several, and gives them back.
    TryAll(&'static [(Range<u64>, Access)]),
    /// Gives the last hold back; no step if there is none.
    Give,
    /// Writes once more under the last hold: who was let in beside it is found out.
    Again,
    Downgrade,
    TryUpgrade,
    Upgrade,
    Shrink(Range<u64>),
    /// Cuts the last hold; the upper part is the last then.
    Split(u64),
    /// Begins a request, and polls it once.
    Ask(Range<u64>, Access),
    /// Polls the request until it is granted.
    Await,
    /// Gives the request up; what it was granted when it was asked is given back.
    Cancel,
    /// Tries to read, which passes the writer that waits, if one does.
    Pass(Range<u64>),
    /// Main waits for the others to end.
    Join,
}

/// Every property of every lock that has what it is about.
pub fn programs() -> Vec<Program> {
    let mut programs = Vec::new();
    for primitive in PRIMITIVES {
        let bound = primitive.overtakes;
        let bounded = (bound < u32::MAX).then(|| overtaking(bound));
        let has = |model: &&Model| {
            primitive.powers.contains(&model.power) && (primitive.granular || !model.granular)
        };
        for model in MODELS.iter().chain(&bounded).filter(has) {
            let threads = model.threads;
            programs.push(Program {
                primitive: primitive.name,
                property: model.property,
                claim: model.claim,
                threads: threads.len() as u32,
                operations: threads.iter().map(|steps| steps.len() as u32).sum(),
                faults: &[],
                expected: None,
                run: Run::Once(Arc::new(move || workers(primitive, threads))),
            });
        }
    }
    programs
}

/// What the threads of an execution share.
struct Scene {
    lock: Driven,
    data: Data,
    /// Whether a request of main's waits. The door's own: who is told of it by this comes later than it, and passes it by the lock's bound.
    waits: AtomicBool,
    /// How many readers may pass it.
    overtakes: u32,
}

/// Runs each worker's steps in a thread of its own, main being the first; then nobody holds anything, nobody waits, and the data is what the
/// writes add up to.
fn workers(primitive: &Primitive, threads: &'static [&'static [Step]]) {
    let scene = Arc::new(Scene {
        lock: (primitive.make)(),
        data: Data::new(),
        waits: AtomicBool::new(false),
        overtakes: primitive.overtakes,
    });
    let spawn = |(i, &steps): (usize, &&'static [Step])| {
        let scene = scene.clone();
        thread::spawn(move || Parker::with(|parker| Worker::new(i + 1, &scene, parker).work(steps)))
    };
    let others: Vec<_> = threads[1..].iter().enumerate().map(spawn).collect();
    let written = Parker::with(|parker| {
        let mut main = Worker::new(0, &scene, parker);
        main.join = Some(Box::new(move || {
            let written = others
                .into_iter()
                .map(|o| o.join().expect("a worker panicked"));
            written.sum()
        }));
        main.work(threads[0])
    });
    let everything = Hold::try_lock(&scene.lock, span(0..4), Write);
    let everything = everything.expect("all holds are gone, yet a try on everything fails");
    assert_eq!(scene.data.sum(&(0..4)), written, "a write was lost");
    everything.release();
}

/// One thread.
struct Worker<'a> {
    me: usize,
    scene: &'a Scene,
    parker: &'a Parker,
    /// Each with the sum of what was seen there.
    holds: Vec<(Hold<'a>, u32)>,
    asked: Option<Asked<'a>>,
    /// What it added to the data.
    written: u32,
    passes: u32,
    /// Of main: waits for the others, and says what they added.
    join: Option<Box<dyn FnOnce() -> u32>>,
}

impl<'a> Worker<'a> {
    fn new(me: usize, scene: &'a Scene, parker: &'a Parker) -> Self {
        Worker {
            me,
            scene,
            parker,
            holds: Vec::new(),
            asked: None,
            written: 0,
            passes: 0,
            join: None,
        }
    }

    /// Returns how much was added to the data by this thread, and those that it waited for.
    fn work(mut self, steps: &'static [Step]) -> u32 {
        for step in steps {
            self.step(step);
            trace::finished();
        }
        self.wait_for_others();
        assert!(
            self.holds.is_empty() && self.asked.is_none(),
            "a model that ends untidily"
        );
        self.written
    }

    fn step(&mut self, step: &'static Step) {
        let lock = &self.scene.lock;
        let all = |batch: &'static [(Range<u64>, Access)]| -> Vec<_> {
            let spans = batch.iter().map(|(range, how)| (span(range.clone()), *how));
            spans.collect()
        };
        match step {
            Take(range, access) => {
                let held = Hold::lock(lock, span(range.clone()), *access);
                self.begin(held.expect("in range"));
            }
            TakeAll(batch) => {
                let held = Hold::lock_all(lock, &all(batch)).expect("in range");
                held.into_iter().for_each(|hold| self.begin(hold));
            }
            Try(range, access) => match Hold::try_lock(lock, span(range.clone()), *access) {
                Ok(held) => {
                    self.begin(held);
                    self.give();
                }
                Err(_) => note(self.me, "busy"),
            },
            TryAll(batch) => match Hold::try_lock_all(lock, &all(batch)) {
                Ok(held) => {
                    held.into_iter().for_each(|hold| self.begin(hold));
                    batch.iter().for_each(|_| self.give());
                }
                Err(_) => note(self.me, "busy"),
            },
            Give => self.give(),
            Again => {
                let (hold, _) = self.last();
                self.begin(hold);
            }
            Downgrade => self.change(Hold::downgrade),
            TryUpgrade => self.change(|hold| _ = hold.try_upgrade()),
            Upgrade => self.change(Hold::upgrade),
            Shrink(keep) => self.change(|hold| hold.shrink(span(keep.clone()))),
            Split(at) => {
                let mut high = None;
                self.change(|hold| high = Some(hold.split(*at)));
                let high = high.expect("cut just now");
                let sum = self.scene.data.sum(&high.span().range());
                self.holds.push((high, sum));
            }
            Ask(range, access) => {
                self.asked = Some(Asked::new(lock, span(range.clone()), *access));
                self.poll();
                // Relaxed: a checker runs its threads on one system thread.
                self.scene.waits.store(self.asked.is_some(), Relaxed);
            }
            Await => {
                while self.asked.is_some() {
                    self.parker.park_until(None);
                    self.poll();
                }
            }
            Cancel => match self.asked.take() {
                Some(asked) => asked.cancel(),
                None => self.give(),
            },
            Pass(range) => self.pass(range),
            Join => self.wait_for_others(),
        }
    }

    fn wait_for_others(&mut self) {
        self.written += self.join.take().map_or(0, |join| join());
    }

    fn poll(&mut self) {
        let polled = self
            .asked
            .as_mut()
            .map(|asked| asked.poll_with(self.parker.waker()));
        if let Some(Ok(Some(hold))) = polled {
            self.asked = None;
            self.begin(hold);
        }
    }

    fn begin(&mut self, hold: Hold<'a>) {
        let sum = self.touch(&hold);
        self.holds.push((hold, sum));
    }

    /// Writes if it may; returns what is there then.
    fn touch(&mut self, hold: &Hold<'_>) -> u32 {
        let (data, range) = (&self.scene.data, hold.span().range());
        if hold.access() == Write {
            data.add_one(&range);
            self.written += hold.span().len() as u32;
        }
        let sum = data.sum(&range);
        note(self.me, format!("{hold:?}={sum}"));
        sum
    }

    /// The last hold, in which nobody has written since it was looked at.
    fn last(&mut self) -> (Hold<'a>, u32) {
        let (hold, seen) = self.holds.pop().expect("a model that holds something");
        let sum = self.scene.data.sum(&hold.span().range());
        assert_eq!(sum, seen, "T{}: somebody wrote under {hold:?}", self.me);
        (hold, sum)
    }

    fn give(&mut self) {
        let (hold, _) = self.last();
        hold.release();
    }

    fn change(&mut self, change: impl FnOnce(&mut Hold<'a>)) {
        let (mut hold, seen) = self.last();
        let before = (hold.span(), hold.access());
        change(&mut hold);
        if hold.span() == before.0 {
            let sum = self.scene.data.sum(&hold.span().range());
            assert_eq!(sum, seen, "T{}: somebody wrote before {hold:?}", self.me);
        }
        let sum = match (before.1, hold.access()) {
            (from, Write) if from != Write => self.touch(&hold),
            _ => self.scene.data.sum(&hold.span().range()),
        };
        self.holds.push((hold, sum));
    }

    fn pass(&mut self, range: &Range<u64>) {
        // Asked before: a read that begins earlier passes nobody.
        let waits = self.scene.waits.load(Acquire);
        let tried = Hold::try_lock(&self.scene.lock, span(range.clone()), Read);
        if waits {
            self.passes += u32::from(tried.is_ok());
            trace::pass(tried.is_ok(), self.passes, self.scene.overtakes);
        }
        note(self.me, format!("passed {}", self.passes));
        tried.into_iter().for_each(Hold::release);
    }
}

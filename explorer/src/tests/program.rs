//! A small language of concurrent programs: the input of the explorer and of its oracles.

use core::fmt;
use core::ops::Range;

use crate::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Threads that run side by side. All locations are 0 at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) threads: Vec<Vec<Statement>>,
}

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) operation: Operation,
    /// Whether the thread first chooses between the operation and skipping it.
    pub(super) optional: bool,
}

/// What a thread does to a location, which the first field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Load(usize, Ordering),
    Store(usize, u64, Ordering),
    /// Adds 1.
    Add(usize, Ordering),
    /// Writes the second value where the first one is found. The orderings are those of success
    /// and failure.
    CompareExchange(usize, u64, u64, Ordering, Ordering),
    /// Blocks until it reads a value other than 0.
    Wait(usize, Ordering),
    /// Blocks until it finds the first value, then writes the second one.
    Lock(usize, u64, u64, Ordering),
    Fence(Ordering),
}
use Operation::{Add, CompareExchange, Fence, Load, Lock, Store, Wait};

/// The largest sizes of a random program.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// The largest number of statements of a thread, by the number of threads: two, three, four.
    pub(super) statements: [usize; 3],
    pub(super) locations: usize,
}

/// What the statements of a random program have in common. Programs of few kinds of operations
/// communicate more than a mixture does, and without relaxed accesses, they order more.
struct Style {
    locations: usize,
    /// The kinds of operations, as numbers of [`Statement::random`].
    operations: Range<u32>,
    /// 0 with relaxed accesses, 1 without.
    weakest: usize,
}

impl Program {
    /// Draws a program: few locations and few values, so that the threads meet.
    pub(super) fn random(random: &mut fastrand::Rng, sizes: Sizes) -> Program {
        let threads = [2, 2, 2, 3, 3, 4][random.usize(..6)];
        let style = Style::random(random, sizes.locations);
        let longest = sizes.statements[threads - 2];
        let thread = |random: &mut fastrand::Rng| {
            let length = random.usize(1..=longest);
            (0..length)
                .map(|_| Statement::random(random, &style))
                .collect()
        };
        Program {
            threads: (0..threads).map(|_| thread(random)).collect(),
        }
    }

    /// The number of locations.
    pub(super) fn locations(&self) -> usize {
        let statements = self.threads.iter().flatten();
        let named = statements.filter_map(|it| it.operation.location());
        named.max().map_or(0, |last| last + 1)
    }

    /// Simplifies the program step by step, as long as it remains one that `fails`.
    pub(super) fn shrink(mut self, fails: impl Fn(&Program) -> bool) -> Program {
        while let Some(simpler) = self.simpler().into_iter().find(&fails) {
            self = simpler;
        }
        self
    }

    /// The programs that have one thread or statement less, or a simpler statement.
    fn simpler(&self) -> Vec<Program> {
        let mut all = Vec::new();
        for thread in 0..self.threads.len() {
            let mut without = self.clone();
            without.threads.remove(thread);
            all.push(without);
        }
        for (thread, statements) in self.threads.iter().enumerate() {
            for (index, statement) in statements.iter().enumerate() {
                let mut without = self.clone();
                without.threads[thread].remove(index);
                all.push(without);
                all.extend(statement.simpler().into_iter().map(|simpler| {
                    let mut program = self.clone();
                    program.threads[thread][index] = simpler;
                    program
                }));
            }
        }
        all
    }
}

impl Style {
    fn random(random: &mut fastrand::Rng, locations: usize) -> Style {
        Style {
            locations: [1, 2, 2, 2, 3][random.usize(..5)].min(locations),
            // Loads and stores; with fences; everything; locks above all.
            operations: [0..9, 0..11, 0..22, 14..22][random.usize(..4)].clone(),
            weakest: random.usize(..2),
        }
    }
}

impl Statement {
    fn random(random: &mut fastrand::Rng, style: &Style) -> Statement {
        let location = random.usize(..style.locations);
        // SeqCst twice: it is the hardest to get right.
        let read = [Relaxed, Acquire, SeqCst, SeqCst][random.usize(style.weakest..4)];
        let write = [Relaxed, Release, SeqCst, SeqCst][random.usize(style.weakest..4)];
        let update = [Relaxed, AcqRel, Acquire, Release, SeqCst][random.usize(style.weakest..5)];
        let fence = [Acquire, Release, AcqRel, SeqCst, SeqCst][random.usize(..5)];
        let (current, new) = (random.u64(..2), random.u64(1..=2));
        let operation = match random.u32(style.operations.clone()) {
            0..5 => Load(location, read),
            5..9 => Store(location, new, write),
            9..11 => Fence(fence),
            11..14 => Add(location, update),
            14..16 => CompareExchange(location, current, new, update, read),
            16 => Wait(location, read),
            17..21 => Lock(location, current, random.u64(..3), update),
            _ => Store(location, 0, write),
        };
        Statement {
            operation,
            optional: random.u32(..12) == 0,
        }
    }

    fn simpler(self) -> Vec<Statement> {
        let Statement {
            operation,
            optional,
        } = self;
        let mut all = Vec::new();
        if optional {
            all.push(Statement {
                operation,
                optional: false,
            });
        }
        let weaker = |ordering: Ordering| match ordering {
            SeqCst => vec![Relaxed, AcqRel, Acquire, Release],
            AcqRel => vec![Relaxed, Acquire, Release],
            Acquire | Release => vec![Relaxed],
            _ => vec![],
        };
        let operations: Vec<Operation> = match operation {
            Load(at, ordering) => weaker(ordering)
                .into_iter()
                .map(|weak| Load(at, weak))
                .collect(),
            Store(at, value, ordering) => weaker(ordering)
                .into_iter()
                .map(|weak| Store(at, value, weak))
                .collect(),
            Add(at, ordering) => {
                let weak = weaker(ordering).into_iter().map(|weak| Add(at, weak));
                weak.chain([Load(at, ordering), Store(at, 1, ordering)])
                    .collect()
            }
            CompareExchange(at, current, new, success, failure) => {
                let weak = weaker(success).into_iter();
                let weak = weak.map(|weak| CompareExchange(at, current, new, weak, failure));
                let fails = weaker(failure).into_iter();
                let fails = fails.map(|fails| CompareExchange(at, current, new, success, fails));
                weak.chain(fails)
                    .chain([Load(at, failure), Store(at, new, success)])
                    .collect()
            }
            Wait(at, ordering) => {
                let weak = weaker(ordering).into_iter().map(|weak| Wait(at, weak));
                weak.chain([Load(at, ordering)]).collect()
            }
            Lock(at, current, new, ordering) => {
                let weak = weaker(ordering).into_iter();
                let weak = weak.map(|weak| Lock(at, current, new, weak));
                weak.chain([Add(at, ordering)]).collect()
            }
            Fence(ordering) => {
                let weak = weaker(ordering).into_iter();
                weak.filter(|weak| *weak != Relaxed).map(Fence).collect()
            }
        };
        let valid = operations.into_iter().filter(|it| it.is_valid());
        all.extend(valid.map(|operation| Statement {
            operation,
            optional,
        }));
        all
    }
}

impl Operation {
    pub(super) fn location(self) -> Option<usize> {
        match self {
            Load(at, _)
            | Store(at, ..)
            | Add(at, _)
            | CompareExchange(at, ..)
            | Wait(at, _)
            | Lock(at, ..) => Some(at),
            Fence(_) => None,
        }
    }

    /// Whether the operation may have its orderings.
    fn is_valid(self) -> bool {
        match self {
            Load(_, ordering) | Wait(_, ordering) | CompareExchange(.., ordering) => {
                !matches!(ordering, Release | AcqRel)
            }
            Store(.., ordering) => !matches!(ordering, Acquire | AcqRel),
            Fence(ordering) => ordering != Relaxed,
            Add(..) | Lock(..) => true,
        }
    }
}

impl From<Operation> for Statement {
    fn from(operation: Operation) -> Statement {
        Statement {
            operation,
            optional: false,
        }
    }
}

/// A program in which no operation is optional: one thread after the other.
impl FromIterator<Vec<Operation>> for Program {
    fn from_iter<I: IntoIterator<Item = Vec<Operation>>>(threads: I) -> Program {
        let thread = |it: Vec<Operation>| it.into_iter().map(Statement::from).collect();
        Program {
            threads: threads.into_iter().map(thread).collect(),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, thread) in self.threads.iter().enumerate() {
            write!(f, "  T{index}:")?;
            for statement in thread {
                let optional = if statement.optional { "maybe " } else { "" };
                write!(f, " {optional}{:?};", statement.operation)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

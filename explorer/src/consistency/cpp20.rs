//! The order S of C++20: a total order of all SeqCst operations.
//!
//! [atomics.order]/3 defines when A is *coherence-ordered before* B: by `rf`, `co`, from a read to
//! what overwrites its source, and by transitivity. Then S must have A before B
//!
//! - S1: if A *strongly happens before* B ([intro.races]/12), which means: A is before B in program
//!   order, or in `po; hb; po`, or a SeqCst A synchronizes with a SeqCst B;
//! - S2 (4.1): if A is coherence-ordered before B;
//! - S3 (4.2): if A is coherence-ordered before an access that happens before the fence B;
//! - S4 (4.3): if the fence A happens before an access that is coherence-ordered before B;
//! - S5 (4.4): if the fence A happens before an access that is coherence-ordered before another one
//!   that happens before the fence B.
//!
//! A read-modify-write is two events of the graph, but one operation: its halves are one
//! [`Operation`] here. If they were two, S1 would see program order between them, and make
//! `po; hb; po` of what is only `hb; po`.

use crate::MAX_THREADS;
use crate::clock::Clock;
use crate::event::{Event, EventId, Kind, Location};
use crate::graph::Graph;

/// What S must place before an operation.
#[derive(Clone, Copy, Default)]
struct Earlier {
    /// All SeqCst operations among these events.
    operations: Clock,
    /// The SeqCst fences among these events.
    fences: Clock,
}

impl Earlier {
    fn join(&mut self, other: &Earlier) {
        self.operations.join(&other.operations);
        self.fences.join(&other.fences);
    }
}

/// A SeqCst operation.
struct Operation {
    /// The index of its event, or of its first half.
    index: usize,
    is_fence: bool,
    earlier: Earlier,
}

/// Returns whether there is an order S.
pub(super) fn has_total_order(graph: &Graph) -> bool {
    let ordered = coherence_ordered(graph);
    let threads = 0..graph.threads();
    let operations = |thread| operations(graph, thread, &ordered);
    let operations = threads.map(operations).collect::<Vec<_>>();
    // Takes the operations in an order S, as long as there is one that S permits next.
    let mut taken = [0; MAX_THREADS];
    let mut left: usize = operations.iter().map(Vec::len).sum();
    while left > 0 {
        let may_be_next = |thread: &usize| {
            let next = operations[*thread].get(taken[*thread]);
            next.is_some_and(|next| is_free(&next.earlier, &operations, &taken))
        };
        let Some(thread) = (0..operations.len()).find(may_be_next) else {
            return false;
        };
        taken[thread] += 1;
        left -= 1;
    }
    true
}

/// Returns whether all that must be earlier has been taken.
fn is_free(earlier: &Earlier, all: &[Vec<Operation>], taken: &[usize]) -> bool {
    all.iter().enumerate().all(|(thread, its)| {
        let mut left = its[taken[thread]..].iter();
        let is_taken =
            |next: Option<&Operation>, events: usize| next.is_none_or(|next| next.index >= events);
        is_taken(left.clone().next(), earlier.operations.of(thread))
            && is_taken(left.find(|it| it.is_fence), earlier.fences.of(thread))
    })
}

/// Returns the SeqCst operations of a thread, in program order.
fn operations(graph: &Graph, thread: usize, ordered: &[Vec<Earlier>]) -> Vec<Operation> {
    let events = graph.events(thread);
    let is_first = |(_, event): &(usize, &Event)| event.is_seq_cst() && !is_second_half(event);
    let firsts = events.iter().enumerate().filter(is_first);
    let operations = firsts.map(|(index, event)| {
        let is_fence = event.kind == Kind::Fence;
        let mut earlier = ordered[thread][index];
        if event.exclusive && index + 1 < events.len() {
            earlier.join(&of_second_half(&ordered[thread][index + 1], thread, index));
        }
        if is_fence {
            // S3, S5: all threads' events that happen before the fence.
            for (other, its) in ordered.iter().enumerate() {
                let known = &its[..event.before.of(other)];
                known.iter().for_each(|before| earlier.join(before));
            }
            // S5, where the two accesses are a release sequence's head and a read of the sequence.
            earlier.fences.join(&event.before);
        }
        if !mutant!("no-strong-order") {
            earlier
                .operations
                .join(&strongly_before(graph, thread, index));
        }
        Operation {
            index,
            is_fence,
            earlier,
        }
    });
    operations.collect()
}

fn is_second_half(event: &Event) -> bool {
    event.kind == Kind::Write && event.exclusive
}

/// Returns what is coherence-ordered before the second half of the read-modify-write at `index`,
/// without its own first half.
fn of_second_half(ordered: &Earlier, thread: usize, index: usize) -> Earlier {
    let mut ordered = *ordered;
    if ordered.operations.of(thread) == index + 1 {
        ordered.operations.set(thread, index);
    }
    ordered
}

/// Returns what `po; hb; po` orders before an operation (S1).
fn strongly_before(graph: &Graph, thread: usize, index: usize) -> Clock {
    let mut strongly = Clock::default();
    let Some(previous) = index.checked_sub(1) else {
        return strongly;
    };
    let known = graph.events(thread)[previous].before;
    for other in 0..graph.threads() {
        // The last event that happens before ends `po; hb`, so the operation begins earlier.
        let Some(last) = known.of(other).checked_sub(1) else {
            continue;
        };
        let is_half = is_second_half(&graph.events(other)[last]);
        let halves = usize::from(is_half && !mutant!("halves-are-operations"));
        strongly.set(other, last - halves);
    }
    strongly
}

/// Returns what S2 and S4 order before each event: by thread and index.
fn coherence_ordered(graph: &Graph) -> Vec<Vec<Earlier>> {
    let events = |thread| vec![Earlier::default(); graph.events(thread).len()];
    let mut ordered = (0..graph.threads()).map(events).collect::<Vec<_>>();
    for location in 0..graph.locations() {
        let accesses = graph.accesses(Location(location as u32));
        let source = |read: &EventId| accesses.position(graph.event(*read).reads_from);
        let mut reads: Vec<_> = accesses.reads.iter().map(|it| (source(it), *it)).collect();
        reads.sort_unstable();
        let mut reads = &reads[..];
        let mut earlier = Earlier::default();
        let mut set = |event: EventId, earlier: &Earlier| {
            ordered[event.thread as usize][event.index as usize] = *earlier;
        };
        for position in 0..=accesses.newest() {
            if position > 0 {
                let write = accesses.write(position);
                set(write, &earlier);
                earlier.join(&of_access(graph, write));
            }
            // Reads of one write are not ordered among themselves.
            let (here, later) = reads.split_at(reads.partition_point(|it| it.0 == position));
            here.iter().for_each(|(_, read)| set(*read, &earlier));
            here.iter()
                .for_each(|(_, read)| earlier.join(&of_access(graph, *read)));
            reads = later;
        }
    }
    ordered
}

/// Returns what an access brings to what it is coherence-ordered before: itself, and fences.
fn of_access(graph: &Graph, access: EventId) -> Earlier {
    let event = graph.event(access);
    let mut brought = Earlier {
        fences: event.before,
        ..Earlier::default()
    };
    if event.is_seq_cst() {
        brought.operations.add(access);
    }
    brought
}

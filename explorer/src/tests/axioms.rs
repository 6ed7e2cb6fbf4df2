//! The axioms of C++20 and of RC11, as relations between the events of a candidate execution.
//!
//! This is the explorer's specification, and it shares no code with it: [`executions`] enumerates
//! every [candidate](candidates) and keeps the consistent ones. A read-modify-write is *one*
//! event here. Taken as two, a read followed by a write, it would strengthen `po ; hb ; po` below
//! by a `po` between the two halves.
//!
//! Candidates are executions in which `po ∪ rf` is acyclic. C++20 only advises against the others
//! ([atomics.order]), RC11 forbids them, and so does the explorer.
//!
//! Release sequences are those of C++20 under both models: RC11 as published still lets a later
//! store of the same thread continue one, which C++20 has abolished. So the models differ in what
//! they say about `SeqCst` alone.
//!
//! Quotations are from the C++20 standard, sections [intro.races], [atomics.order] and
//! [atomics.fences]; "the paper" is Lahav, Vafeiadis, Kang, Hur and Dreyer, "Repairing Sequential
//! Consistency in C/C++11", PLDI 2017, doi 10.1145/3062341.3062352.

mod candidates;

use super::execution::Executions;
use super::program::Program;
use super::relation::{Relation, Set};
use crate::{Model, Ordering};

/// The executions of `program` that `model` permits.
pub(super) fn executions(program: &Program, model: Model) -> Executions {
    candidates::those(program, &|candidate| candidate.is_consistent(model))
}

/// What is fixed about the events of a candidate before their sources are.
struct Events {
    reads: Set,
    /// The events that write. A read-modify-write is among the reads and among the writes.
    writes: Set,
    fences: Set,
    acquire: Set,
    release: Set,
    seq_cst: Set,
    /// "Sequenced before": program order.
    po: Relation,
    /// Two accesses of one location.
    same_location: Relation,
}

/// A candidate execution.
struct Candidate<'a> {
    events: &'a Events,
    /// From a write to the events that read its value.
    rf: Relation,
    /// "Precedes in the modification order".
    co: Relation,
    /// From a read to the writes later than the one whose value it reads, except itself.
    fr: Relation,
    /// "Synchronizes with".
    sw: Relation,
    /// "Happens before".
    hb: Relation,
}

/// The pairs of which the first event synchronizes with the second.
fn synchronizes_with(events: &Events, rf: &Relation) -> Relation {
    let Events {
        reads,
        writes,
        fences,
        acquire,
        release,
        po,
        ..
    } = events;
    // [intro.races]: "A release sequence headed by a release operation A on an atomic object M
    // is a maximal contiguous subsequence of side effects in the modification order of M, where
    // the first operation is A, and every subsequent operation is an atomic read-modify-write
    // operation." Contiguous ones read from each other, because they are atomic.
    let sequence = Relation::identity(*writes) | rf.to(*writes).closure();
    let reads_from_sequence = sequence.then(rf);
    // [atomics.order] 2: "An atomic operation A that performs a release operation on an atomic
    // object M synchronizes with an atomic operation B that performs an acquire operation on M
    // and takes its value from any side effect in the release sequence headed by A."
    //
    // [atomics.fences] 2 to 4: In the place of A, there may be a release fence sequenced before
    // an operation X that heads the sequence "if it were a release operation"; in the place of B,
    // an acquire fence that the reading operation is sequenced before.
    let releasing = Relation::identity(*release & *writes) | po.from(*release & *fences);
    let acquiring = Relation::identity(*acquire & *reads) | po.to(*acquire & *fences);
    releasing.then(&reads_from_sequence).then(&acquiring)
}

impl Candidate<'_> {
    fn is_consistent(&self, model: Model) -> bool {
        self.is_coherent()
            && match model {
                Model::Cpp20 => self.has_order_of_seq_cst(),
                Model::Rc11 => self.partial_order_of_seq_cst().is_acyclic(),
            }
    }

    /// [atomics.order] 3: "An atomic operation A on some atomic object M is coherence-ordered
    /// before another atomic operation B on M if
    /// - A is a modification, and B reads the value stored by A, or
    /// - A precedes B in the modification order of M, or
    /// - A and B are not the same atomic read-modify-write operation, and there exists an atomic
    ///   modification X of M such that A reads the value stored by X and X precedes B in the
    ///   modification order of M, or
    /// - there exists an atomic modification X of M such that A is coherence-ordered before X and
    ///   X is coherence-ordered before B."
    ///
    /// The paper calls this the extended coherence order, eco.
    fn coherence_ordered(&self) -> Relation {
        (self.rf | self.co | self.fr).closure()
    }

    /// [intro.races], write-write, read-read, read-write and write-read coherence of two accesses A
    /// and B of one location, where A happens before B. If both write, A is earlier in the
    /// modification order. If both read, B reads the same value or a later one. If A reads and B
    /// writes, A reads an earlier value than B's. If A writes and B reads, B reads A's value or a
    /// later one. In each case: B is not coherence-ordered before A.
    fn is_coherent(&self) -> bool {
        self.hb.then(&self.coherence_ordered()).is_irreflexive()
    }

    /// [atomics.order] 4: "There is a single total order S on all `memory_order::seq_cst`
    /// operations, including fences, that satisfies the following constraints." There is one if
    /// the constraints form no cycle.
    fn has_order_of_seq_cst(&self) -> bool {
        let Events {
            fences, seq_cst, ..
        } = self.events;
        let hb = &self.hb;
        let fence = *fences & *seq_cst;
        // "First, if A and B are `memory_order::seq_cst` operations and A strongly happens before
        // B, then A precedes B in S."
        let mut s = self.strongly_happens_before().from(*seq_cst).to(*seq_cst);
        // "Second, for every pair of atomic operations A and B on an object M, where A is
        // coherence-ordered before B, the following four conditions are required":
        let ordered = self.coherence_ordered();
        // (4.1) "if A and B are both `memory_order::seq_cst` operations, then A precedes B";
        s |= ordered.from(*seq_cst).to(*seq_cst);
        // (4.2) "if A is a `memory_order::seq_cst` operation and B happens before a
        // `memory_order::seq_cst` fence Y, then A precedes Y";
        s |= ordered.then(hb).from(*seq_cst).to(fence);
        // (4.3) "if a `memory_order::seq_cst` fence X happens before A and B is a
        // `memory_order::seq_cst` operation, then X precedes B";
        s |= hb.then(&ordered).from(fence).to(*seq_cst);
        // (4.4) "if a `memory_order::seq_cst` fence X happens before A and B happens before a
        // `memory_order::seq_cst` fence Y, then X precedes Y".
        s |= hb.then(&ordered).then(hb).from(fence).to(fence);
        s.is_acyclic()
    }

    /// [intro.races]: "An evaluation A strongly happens before an evaluation D if, either
    /// - A is sequenced before D, or
    /// - A synchronizes with D, and both A and D are sequentially consistent atomic operations, or
    /// - there are evaluations B and C such that A is sequenced before B, B simply happens before
    ///   C, and C is sequenced before D, or
    /// - there is an evaluation B such that A strongly happens before B, and B strongly happens
    ///   before D."
    ///
    /// Without `consume`, "simply happens before" is "happens before".
    fn strongly_happens_before(&self) -> Relation {
        let Events { po, seq_cst, .. } = self.events;
        let synchronizes = self.sw.from(*seq_cst).to(*seq_cst);
        (*po | synchronizes | po.then(&self.hb).then(po)).closure()
    }

    /// The paper's partial-SC relation, psc.
    fn partial_order_of_seq_cst(&self) -> Relation {
        let Events {
            fences,
            seq_cst,
            po,
            same_location,
            ..
        } = self.events;
        let (hb, eco) = (&self.hb, self.coherence_ordered());
        let fence = *fences & *seq_cst;
        let elsewhere = *po & same_location.complement();
        // scb = po ∪ po|≠loc ; hb ; po|≠loc ∪ hb|loc ∪ mo ∪ rb
        let scb =
            *po | elsewhere.then(hb).then(&elsewhere) | (*hb & *same_location) | self.co | self.fr;
        // psc_base = ([E^sc] ∪ [F^sc] ; hb?) ; scb ; ([E^sc] ∪ hb? ; [F^sc])
        let before = Relation::identity(*seq_cst) | hb.from(fence);
        let after = Relation::identity(*seq_cst) | hb.to(fence);
        let base = before.then(&scb).then(&after);
        // psc_F = [F^sc] ; (hb ∪ hb ; eco ; hb) ; [F^sc]
        let between = (*hb | hb.then(&eco).then(hb)).from(fence).to(fence);
        base | between
    }
}

fn acquires(ordering: Ordering) -> bool {
    matches!(
        ordering,
        Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst
    )
}

fn releases(ordering: Ordering) -> bool {
    matches!(
        ordering,
        Ordering::Release | Ordering::AcqRel | Ordering::SeqCst
    )
}

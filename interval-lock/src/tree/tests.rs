//! Compares the tree with a plain list, and checks the tree's invariants after each step.

use proptest::prelude::*;
use spanlock_range_lock::Span;

use super::{CAPACITY, FEWEST, Index, NIL, Tree};

impl<T: Default> Tree<T> {
    /// Asserts IL-T1 to IL-T6.
    pub(crate) fn check(&self) {
        if self.nodes.is_empty() {
            return assert_eq!((self.len, self.slots.len()), (0, 0));
        }
        let (mut order, mut nodes) = (Vec::new(), 0);
        self.check_below(self.root, &mut order, &mut nodes);
        assert!(order.is_sorted(), "IL-T1");
        assert_eq!(order.len(), self.len());
        let bound = 1.0 + f64::log2(self.len().max(1) as f64) / f64::log2(7.0);
        let levels = 1 + self.node(self.root).level;
        assert!(f64::from(levels) <= bound + 1e-9, "IL-T2: the bound");
        assert!(nodes <= 1 + self.len() / 6, "IL-T2: the bound");
        let free = |first, next: &dyn Fn(Index) -> Index| {
            let some = |at| (at != NIL).then_some(at);
            std::iter::successors(some(first), |&at| some(next(at))).count()
        };
        let free_slots = free(self.free_slot, &|at| self.slots[at as usize].leaf);
        assert_eq!(order.len() + free_slots, self.slots.len(), "IL-T5");
        let free_nodes = free(self.free_node, &|at| self.node(at).parent);
        assert_eq!(nodes + free_nodes, self.nodes.len(), "IL-T5");
        assert!(self.nodes.capacity() > self.slots.capacity() / 6, "IL-T6");
    }

    /// Checks the subtree at `at`; returns the span that covers it.
    fn check_below(&self, at: Index, order: &mut Vec<u64>, nodes: &mut usize) -> Option<Span> {
        *nodes += 1;
        let node = self.node(at);
        let fewest = match node.level {
            _ if at != self.root => FEWEST,
            0 => 0,
            _ => 2,
        };
        assert!((fewest..=CAPACITY).contains(&node.len()), "IL-T2");
        for entry in node.entries() {
            if node.is_leaf() {
                assert_eq!(self.slots[entry.to as usize].leaf, at, "IL-T4");
                order.push(entry.span.start());
                continue;
            }
            assert_eq!(self.node(entry.to).level + 1, node.level, "IL-T2");
            assert_eq!(self.node(entry.to).parent, at, "IL-T4");
            let latest = order.last().copied().unwrap_or(0);
            assert!(entry.span.start() >= latest, "IL-T3");
            let below = self.check_below(entry.to, order, nodes);
            let below = below.expect("IL-T2");
            assert!(entry.span.start() <= below.start(), "IL-T3");
            assert_eq!(entry.span.end(), below.end(), "IL-T3");
        }
        (node.len() > 0).then(|| node.hull())
    }

    fn overlaps(&self, span: Span) -> Vec<Index> {
        let first = self.first_overlap(span);
        std::iter::successors(first, |&index| self.next_overlap(index, span)).collect()
    }
}

fn span(start: u64, end: u64) -> Span {
    Span::new(start..end).unwrap().unwrap()
}

/// The reference model: a list of spans.
#[derive(Default)]
struct List(Vec<Listed>);

struct Listed {
    span: Span,
    /// The number of the step that inserted the span or last changed its start.
    since: u64,
    value: u64,
    index: Index,
}

impl List {
    /// Returns the overlaps in the tree's order.
    fn overlaps(&self, span: Span) -> Vec<Index> {
        let overlapping = |it: &&Listed| it.span.overlaps(span);
        let mut found: Vec<_> = self.0.iter().filter(overlapping).collect();
        found.sort_by_key(|it| (it.span.start(), it.since));
        found.into_iter().map(|it| it.index).collect()
    }
}

impl<T: Default> Tree<T> {
    fn add(&mut self, span: Span, value: T) -> Index {
        // Exactly as much as is needed, so that IL-T6 is checked for each number of spans.
        self.try_reserve(self.len() + 1).expect("memory");
        let gap = self.gap(span);
        assert!(!gap.free || self.overlaps(span).is_empty());
        // Few, because this compares with each.
        let few = self.len() <= 150;
        let all = Vec::from_iter(few.then(|| self.overlaps(Span::FULL)).into_iter().flatten());
        for index in all {
            let before = self.span(index);
            if before.end() > span.start() || self.overlaps(before) != [index] {
                continue;
            }
            if let Some(behind) = self.gap_behind(index, span) {
                assert!(behind.free && self.overlaps(span).is_empty());
                assert_eq!((behind.leaf, behind.at), (gap.leaf, gap.at));
            }
        }
        let index = match self.len() {
            0 => self.insert_first(span),
            _ => self.insert(gap, span),
        };
        *self.value_mut(index) = value;
        index
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Span),
    Remove(prop::sample::Index),
    Resize(prop::sample::Index, Span),
    Query(Span),
    Clear,
}

fn some_span(positions: u64) -> impl Strategy<Value = Span> {
    let short = (0..positions, 1..=4_u64).prop_map(|(start, len)| span(start, start + len));
    let any = (0..positions, 1..=positions).prop_map(|(start, len)| span(start, start + len));
    let high = (1..=4_u64).prop_map(|len| span(u64::MAX - len, u64::MAX));
    prop_oneof![8 => short, 4 => any, 1 => high, 1 => Just(Span::FULL)]
}

fn step(positions: u64) -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        100 => some_span(positions).prop_map(Step::Insert),
        75 => which().prop_map(Step::Remove),
        25 => (which(), some_span(positions)).prop_map(|(which, span)| Step::Resize(which, span)),
        100 => some_span(positions).prop_map(Step::Query),
        1 => Just(Step::Clear),
    ]
}

fn replay(steps: &[Step]) {
    let (mut tree, mut list) = (Tree::new(), List::default());
    for (since, step) in (0..).zip(steps) {
        match step {
            Step::Insert(span) => list.0.push(Listed {
                span: *span,
                since,
                value: since,
                index: tree.add(*span, since),
            }),
            Step::Remove(which) if !list.0.is_empty() => {
                let which = which.index(list.0.len());
                tree.remove(list.0.swap_remove(which).index);
            }
            Step::Resize(which, span) if !list.0.is_empty() => {
                let which = which.index(list.0.len());
                let it = &mut list.0[which];
                tree.resize(it.index, *span);
                if it.span.start() != span.start() {
                    it.since = since;
                }
                it.span = *span;
            }
            Step::Query(span) => assert_eq!(tree.overlaps(*span), list.overlaps(*span)),
            Step::Clear if tree.room() > 0 => {
                let memory = tree.memory_usage();
                tree.clear();
                list.0.clear();
                assert_eq!(tree.memory_usage(), memory);
            }
            Step::Remove(_) | Step::Resize(..) | Step::Clear => {}
        }
        tree.check();
        for it in &list.0 {
            let told = (tree.span(it.index), *tree.value(it.index));
            assert_eq!(told, (it.span, it.value));
        }
    }
    assert_eq!(tree.overlaps(Span::FULL), list.overlaps(Span::FULL));
    for it in list.0 {
        tree.remove(it.index);
        tree.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_list_where_many_overlap(steps in prop::collection::vec(step(12), 200)) {
        replay(&steps);
    }

    #[test]
    fn agrees_with_a_list_where_few_overlap(steps in prop::collection::vec(step(10_000), 200)) {
        replay(&steps);
    }

}

proptest! {
    // Few cases: each step checks all spans.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Inserts enough spans for two levels of inner nodes. `replay` removes all of them at the end.
    #[test]
    fn agrees_with_a_list_of_many_spans(steps in prop::collection::vec(step(10_000), 400)) {
        let many = (0..400).map(|start| Step::Insert(span(25 * start, 25 * start + 20)));
        let all: Vec<Step> = many.chain(steps).collect();
        replay(&all);
    }
}

#[test]
fn stays_balanced_in_several_orders_of_insertion_and_removal() {
    const COUNT: u64 = 4096;
    let orders: [fn(u64) -> u64; 4] = [
        |i| i,
        |i| COUNT - 1 - i,
        |i| i * 2051 % COUNT,
        // From both ends towards the middle.
        |i| if i % 2 == 0 { i / 2 } else { COUNT - 1 - i / 2 },
    ];
    for insertion in orders {
        for removal in orders {
            let mut tree = Tree::new();
            tree.try_reserve(COUNT as usize).expect("memory");
            let memory = tree.memory_usage();
            let mut places = vec![NIL; COUNT as usize];
            for i in 0..COUNT {
                let at = insertion(i);
                places[at as usize] = tree.add(span(10 * at, 10 * at + 10), ());
            }
            tree.check();
            assert_eq!(tree.overlaps(span(95, 125)), places[9..13]);
            for i in 0..COUNT {
                tree.remove(places[removal(i) as usize]);
                if i % 97 == 0 {
                    tree.check();
                }
            }
            assert_eq!((tree.len(), tree.memory_usage()), (0, memory));
        }
    }
}

#[test]
fn free_slots_are_reused() {
    let mut tree = Tree::new();
    assert_eq!(tree.memory_usage(), 0);
    let first = tree.add(span(0, 1), ());
    let mut memory = 0;
    for number in 1..10_000 {
        let second = tree.add(span(number, number + 1), ());
        tree.remove(second);
        memory = if number == 1 {
            tree.memory_usage()
        } else {
            memory
        };
    }
    assert_eq!(tree.memory_usage(), memory);
    tree.remove(first);
    tree.check();
}

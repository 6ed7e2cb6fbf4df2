//! The tree against a plain list, and its invariants after each step.

use proptest::prelude::*;
use spanlock::Span;

use super::{Index, LEFT, NIL, RIGHT, Tree};

impl<T: Copy> Tree<T> {
    /// Asserts T1 to T6.
    pub(crate) fn check(&self) {
        let Some(no_node) = self.nodes.first() else {
            return assert_eq!(self.len, 0);
        };
        assert_eq!((no_node.max_end, no_node.height), (0, 0), "T6");
        assert_eq!(no_node.children[RIGHT], NIL, "T6");
        let root = no_node.children[LEFT];
        let mut order = Vec::new();
        self.check_below(NIL, root, &mut order);
        assert!(order.is_sorted_by(|a, b| a < b), "T1");
        assert_eq!(order.len(), self.len());
        let bound = 1.4405 * f64::log2(self.len() as f64 + 2.0);
        assert!(f64::from(self.node(root).height) <= bound, "T2: the bound");
        let mut free = 0;
        let mut at = self.free;
        while at != NIL {
            free += 1;
            at = self.node(at).parent;
        }
        assert_eq!(order.len() + free + 1, self.nodes.len(), "T5");
    }

    fn check_below(&self, parent: Index, at: Index, order: &mut Vec<(u64, u64)>) -> (u8, u64) {
        if at == NIL {
            return (0, 0);
        }
        let node = self.node(at);
        assert_eq!(node.parent, parent, "T4");
        let (left, left_end) = self.check_below(at, node.children[LEFT], order);
        order.push((node.span.start(), node.number));
        let (right, right_end) = self.check_below(at, node.children[RIGHT], order);
        assert!(left.abs_diff(right) <= 1, "T2");
        let height = 1 + left.max(right);
        let max_end = node.span.end().max(left_end).max(right_end);
        assert_eq!((node.height, node.max_end), (height, max_end), "T2, T3");
        (height, max_end)
    }

    fn overlaps(&self, span: Span) -> Vec<Index> {
        let first = self.first_overlap(span);
        std::iter::successors(first, |&index| self.next_overlap(index, span)).collect()
    }
}

fn span(start: u64, end: u64) -> Span {
    Span::new(start..end).unwrap().unwrap()
}

/// The same, as a list.
#[derive(Default)]
struct List(Vec<(Span, u64, Index)>);

impl List {
    /// In the tree's order.
    fn overlaps(&self, span: Span) -> Vec<Index> {
        let mut found: Vec<_> = self.0.iter().filter(|(s, ..)| s.overlaps(span)).collect();
        found.sort_by_key(|(span, number, _)| (span.start(), *number));
        found.into_iter().map(|&(_, _, index)| index).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Span),
    Remove(prop::sample::Index),
    Resize(prop::sample::Index, Span),
    Query(Span),
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
        4 => some_span(positions).prop_map(Step::Insert),
        3 => which().prop_map(Step::Remove),
        1 => (which(), some_span(positions)).prop_map(|(which, span)| Step::Resize(which, span)),
        4 => some_span(positions).prop_map(Step::Query),
    ]
}

fn replay(steps: &[Step]) {
    let (mut tree, mut list) = (Tree::with_capacity(0), List::default());
    for (number, step) in (0..).zip(steps) {
        match step {
            Step::Insert(span) => {
                let index = tree.insert(*span, number, !number);
                list.0.push((*span, number, index));
            }
            Step::Remove(which) if !list.0.is_empty() => {
                let (.., index) = list.0.swap_remove(which.index(list.0.len()));
                tree.remove(index);
            }
            Step::Resize(which, span) if !list.0.is_empty() => {
                let which = which.index(list.0.len());
                let entry = &mut list.0[which];
                *entry = (*span, entry.1, tree.resize(entry.2, *span));
            }
            Step::Query(span) => assert_eq!(tree.overlaps(*span), list.overlaps(*span)),
            Step::Remove(_) | Step::Resize(..) => {}
        }
        tree.check();
        for &(span, number, index) in &list.0 {
            let node = tree.node(index);
            assert_eq!(
                (node.span(), node.number(), node.value),
                (span, number, !number)
            );
        }
    }
    assert_eq!(tree.overlaps(Span::FULL), list.overlaps(Span::FULL));
    for (.., index) in list.0 {
        tree.remove(index);
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

#[test]
fn stays_flat_in_every_order_of_insertion_and_removal() {
    const COUNT: u64 = 4096;
    let orders: [fn(u64) -> u64; 4] = [
        |i| i,
        |i| COUNT - 1 - i,
        |i| i * 2051 % COUNT,
        // From both ends to the middle.
        |i| if i % 2 == 0 { i / 2 } else { COUNT - 1 - i / 2 },
    ];
    for insertion in orders {
        for removal in orders {
            let mut tree = Tree::with_capacity(COUNT as usize);
            let memory = tree.memory_usage();
            let mut places = vec![NIL; COUNT as usize];
            for i in 0..COUNT {
                let at = insertion(i);
                places[at as usize] = tree.insert(span(10 * at, 10 * at + 10), i, ());
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
fn slots_are_used_again() {
    let mut tree = Tree::with_capacity(0);
    assert_eq!(tree.memory_usage(), 0);
    let first = tree.insert(span(0, 1), 0, ());
    let memory = tree.memory_usage();
    for number in 1..10_000 {
        let second = tree.insert(span(number, number + 1), number, ());
        tree.remove(second);
    }
    assert_eq!(tree.memory_usage(), memory);
    tree.remove(first);
    tree.check();
}

//! The places at which operations are reported.

use core::panic::Location;

use spanlock_explorer::Ordering::Relaxed;
use spanlock_explorer::{Atomic, EventId, Graph, Observer, Search, at, spawn};

#[test]
fn a_named_place_is_that_of_the_first_operation() {
    #[derive(Default)]
    struct Places(Vec<u32>);

    impl Observer for Places {
        fn added(&mut self, graph: &Graph, event: EventId) {
            self.0.push(graph.event(event).place.line());
        }
    }

    let mut places = Places::default();
    let named = Location::caller();
    Search::new().explore(&mut places, move || {
        let thread = spawn(|| ());
        let location = Atomic::new(0);
        at(named, || {
            location.store(1, Relaxed);
            location.load(Relaxed);
        });
        at(named, || ());
        location.store(2, Relaxed);
        thread.join();
    });
    let is_named: Vec<bool> = places.0.iter().map(|it| *it == named.line()).collect();
    assert_eq!(is_named, [false, true, false, false, false]);
}

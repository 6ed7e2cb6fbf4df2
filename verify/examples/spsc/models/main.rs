use spanlock_sync::thread;
use spanlock_verify::{Program, Scene, Suite, note, perform};
use spsc::Ring;
use std::{process::ExitCode, sync::Arc};
fn push<T>(ring: &Ring<T>, value: T) {
    // SAFETY, here and in `pop`: one thread of each program pushes, and one pops.
    note(format!("push {}", unsafe { ring.push(value) }.is_ok()));
    perform("push");
}
fn pop<T>(ring: &Ring<T>) -> Option<T> {
    perform("pop");
    unsafe { ring.pop() }
}
fn two_values(name: &str, claim: &str, capacity: usize) -> Scene<Ring<u32>> {
    let scene = Program::new(name, claim).scene(move || Ring::new(capacity));
    let scene = scene.thread(["push"], |ring| (1..3).for_each(|it| push(ring, it)));
    scene.thread(["pop"], |ring| {
        let popped = Vec::from_iter([pop(ring), pop(ring)].into_iter().flatten());
        note(format!("{popped:?}"));
        assert!([1, 2].starts_with(&popped), "{popped:?} out of order");
    })
}
fn drop_with_values() {
    let (value, ring) = (Arc::new(()), Arc::new(Ring::new(2)));
    let popping = ring.clone();
    let other = thread::spawn(move || _ = pop(&popping));
    (0..2).for_each(|_| push(&ring, value.clone()));
    other.join().unwrap();
    drop(ring);
    assert_eq!(Arc::strong_count(&value), 1);
}
fn main() -> ExitCode {
    let drops = Program::new("drop", "the ring drops the values that are left in it");
    spanlock_verify::main([Suite::new("ring")
        .no_pair("push", "push", "only one thread pushes")
        .no_pair("pop", "pop", "only one thread pops")
        .program(two_values("exchange", "values arrive in order", 2))
        .program(two_values("full", "a full ring refuses a value", 1))
        .program(drops.performs([["push"], ["pop"]]).run(drop_with_values))])
}

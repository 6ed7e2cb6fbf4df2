//! The facade, as shipped. The tests in files beside this folder need a process, or a program, of
//! their own.

mod atomic;
mod barrier;
mod cell;
mod hint;
mod injected_bug;
mod mapped;
mod mutex;
mod park;
mod parker;
mod rcu;
mod thread;
mod wait;

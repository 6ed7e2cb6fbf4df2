//! Litmus tests of the checkers: small programs whose outcomes are known. Also tests of the
//! searches with a bound.

mod bounded;
mod litmus;

use std::process::ExitCode;

fn main() -> ExitCode {
    spanlock_verify::main([litmus::suite(), bounded::suite()])
}

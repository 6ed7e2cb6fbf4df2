//! Litmus tests of the checkers: small programs whose outcomes are known.

mod litmus;

use std::process::ExitCode;

fn main() -> ExitCode {
    spanlock_verify::main([litmus::suite()])
}

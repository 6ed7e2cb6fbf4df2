//! Tests of the checkers themselves: litmus tests, whose outcomes are known.

mod litmus;

use std::process::ExitCode;

fn main() -> ExitCode {
    spanlock_verify::main([litmus::suite()])
}

//! The models of the parts of the facade that locks are built from.

mod rcu;

use std::process::ExitCode;

fn main() -> ExitCode {
    spanlock_verify::main([rcu::suite()])
}

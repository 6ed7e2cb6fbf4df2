//! The object store under a checker: crashes of every pair of operations in two threads and of
//! sequences of operations, with every image that a crash may leave.

mod disk;
mod objects;
mod versions;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut suites = objects::suites();
    suites.push(versions::suite());
    spanlock_verify::main(suites)
}

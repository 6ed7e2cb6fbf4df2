//! The object store under a checker: crashes of every pair of operations in two threads and of
//! sequences of operations, with every image that a crash may leave.

mod disk;
mod objects;

use std::process::ExitCode;

fn main() -> ExitCode {
    spanlock_verify::main(objects::suites())
}

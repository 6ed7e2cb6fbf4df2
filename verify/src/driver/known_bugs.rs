//! `cargo verify known-bugs`: published bugs of other projects, each re-created at its smallest in
//! a buggy and a fixed form. The checkers must fail the one and pass the other.

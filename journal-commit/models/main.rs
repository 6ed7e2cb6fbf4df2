//! Models of the state machines that make up a commit, and of whole journals and logs.

mod compact;
mod crashes;
mod journal;
mod lazy;
mod logs;
mod threads;

use std::process::ExitCode;

fn main() -> ExitCode {
    let [with_room, at_end, full, failing] = crashes::suites();
    let [new, part, torn, reopened] = lazy::suites();
    spanlock_verify::main([
        with_room,
        at_end,
        full,
        failing,
        new,
        part,
        torn,
        reopened,
        journal::signal::suite(),
        journal::tickets::suite(),
        journal::owner::suite(),
        journal::updates::suite(),
        journal::holders::suite(),
        journal::medium::suite(),
        journal::submission::suite(),
        journal::rendezvous::suite(),
        compact::group(),
        compact::rendezvous(),
        logs::compact_log(),
        logs::journal(),
    ])
}

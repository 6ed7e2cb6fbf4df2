//! `cargo verify`: builds the models under each checker and runs them.

#[cfg(any(spanlock_loom, spanlock_shuttle))]
fn main() {
    // The command drives the checkers; it is never built under one, save by a build of all binaries.
    std::process::exit(2);
}

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
fn main() -> std::process::ExitCode {
    use clap::Parser;
    use spanlock_verify::command::{Args, run};

    run(&Args::parse()).unwrap_or_else(|error| {
        eprintln!("cargo verify: {error:#}");
        std::process::ExitCode::from(2)
    })
}

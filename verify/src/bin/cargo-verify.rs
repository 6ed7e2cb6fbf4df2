//! `cargo verify`: builds the models under each checker and runs them.

#[cfg(any(spanlock_loom, spanlock_shuttle))]
fn main() {
    // A build of all targets under a checker builds this too, and runs it never.
    std::process::exit(2);
}

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
fn main() -> std::process::ExitCode {
    use clap::Parser;
    use spanlock_verify::driver::{args::Args, run};

    let mut words: Vec<_> = std::env::args_os().collect();
    // Cargo passes the subcommand's name on.
    if words.get(1).is_some_and(|word| word == "verify") {
        words.remove(1);
    }
    run(&Args::parse_from(words)).unwrap_or_else(|error| {
        eprintln!("cargo verify: {error:#}");
        std::process::ExitCode::from(2)
    })
}

//! `cargo verify`: builds the models under each checker and runs them.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Cargo also builds this binary when it builds all targets for a checker. It cannot work there.
    #[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
    {
        eprintln!("cargo verify: unset RUSTFLAGS: the command adds a checker's `--cfg` itself");
        return ExitCode::from(2);
    }
    #[cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]
    spanlock_verify::driver::main()
}

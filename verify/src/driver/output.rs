//! What the command prints.
//!
//! A reader that has closed the pipe keeps nothing from being judged and recorded, and does not
//! change the exit code. The macros of std would panic.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Prints a line.
macro_rules! say {
    () => { $crate::driver::output::tell(format_args!("\n")) };
    ($($text:tt)*) => {
        $crate::driver::output::tell(format_args!("{}\n", format_args!($($text)*)))
    };
}
pub(super) use say;

/// Prints text. Reports any failure except that nobody reads it.
pub(super) fn tell(text: fmt::Arguments<'_>) {
    if let Err(error) = io::stdout().write_fmt(text)
        && error.kind() != ErrorKind::BrokenPipe
    {
        warn(format_args!(
            "cargo verify: cannot print the results: {error}"
        ));
    }
}

/// Prints whole lines.
pub(super) fn tell_lines(lines: &str) {
    tell(format_args!("{lines}"));
}

/// Prints a line to the standard error, if that is possible.
pub(super) fn warn(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns the exit code of a run that has judged everything.
pub(super) fn exit_code(success: bool) -> ExitCode {
    ExitCode::from(u8::from(!success))
}

//! Standard output: how wide it is, and what happens if its reader leaves.

use std::cell::{Cell, RefCell};
use std::env;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Columns of a table in a file or a pipe.
const COLUMNS: usize = 100;
/// A narrower terminal counts as one of this many columns.
const LEAST: usize = 20;

/// The width of the output in columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Columns that a table may take.
    pub columns: usize,
    /// Whether sentences are wrapped, too. In a file or a pipe they are not, so that a search finds
    /// them.
    wraps: bool,
}

impl Width {
    /// Creates the width of a terminal with this many columns.
    pub fn of(columns: usize) -> Self {
        Width {
            columns: columns.max(LEAST),
            wraps: true,
        }
    }

    /// Returns the width of standard output: the environment variable `COLUMNS`, or else the width
    /// of the terminal.
    pub fn of_output() -> Self {
        let set = env::var("COLUMNS").ok();
        let set = set.and_then(|it| it.trim().parse().ok());
        let of_terminal = || comfy_table::Table::new().width().map(usize::from);
        match set.filter(|&it| it > 0).or_else(of_terminal) {
            Some(columns) => Self::of(columns),
            None => Width {
                columns: COLUMNS,
                wraps: false,
            },
        }
    }

    /// Breaks the lines of `text` between words. Leaves lines that begin with four spaces as they
    /// are: they are commands to copy.
    pub fn wrapped(self, text: &str) -> String {
        if !self.wraps {
            return text.to_owned();
        }
        let lines = text.lines().map(|line| self.wrapped_line(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn wrapped_line(self, line: &str) -> String {
        if line.starts_with("    ") {
            return line.to_owned();
        }
        let (mut wrapped, mut columns) = (String::new(), 0);
        for word in line.split(' ') {
            let len = word.chars().count();
            if columns > 0 && columns + 1 + len > self.columns {
                wrapped.push('\n');
                columns = 0;
            } else if columns > 0 {
                wrapped.push(' ');
                columns += 1;
            }
            wrapped.push_str(word);
            columns += len;
        }
        wrapped
    }
}

/// Standard output. If its reader leaves early, as `head` does, the run continues and writes its
/// files, and its exit status does not change.
#[derive(Debug)]
pub struct Terminal {
    width: Width,
    is_closed: Cell<bool>,
    error: RefCell<Option<io::Error>>,
}

impl Default for Terminal {
    fn default() -> Self {
        Terminal {
            width: Width::of_output(),
            is_closed: Cell::new(false),
            error: RefCell::default(),
        }
    }
}

impl Terminal {
    /// Returns the width.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Writes sentences, which are wrapped.
    pub fn say(&self, text: &str) {
        self.show(&self.width.wrapped(text));
    }

    /// Writes text that fits already.
    pub fn show(&self, text: &str) {
        if self.is_closed.get() {
            return;
        }
        if let Err(error) = writeln!(io::stdout(), "{text}") {
            self.is_closed.set(true);
            if error.kind() != ErrorKind::BrokenPipe {
                *self.error.borrow_mut() = Some(error);
            }
        }
    }

    /// Ends the output.
    ///
    /// # Errors
    /// Something could not be written, and not because the reader has left.
    pub fn end(self) -> Result<()> {
        match self.error.into_inner() {
            None => Ok(()),
            Some(error) => Err(error).context(
                "writing to standard output; the report and the rows have been written completely",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_between_words() {
        let width = Width::of(20);
        assert_eq!(
            width.wrapped("one two three four five\nsix\n    a command to copy that is long"),
            "one two three four\nfive\nsix\n    a command to copy that is long"
        );
        let word = "a-word-that-is-longer-than-the-line";
        assert_eq!(
            width.wrapped(&format!("x {word} y")),
            format!("x\n{word}\ny")
        );
        assert_eq!(Width::of(1), width);
        let file = Width {
            wraps: false,
            ..width
        };
        assert_eq!(
            file.wrapped("one two three four five"),
            "one two three four five"
        );
    }
}

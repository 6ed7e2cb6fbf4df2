//! Tables in Markdown, and numbers as text.

use std::fmt;

/// A table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    columns: Vec<String>,
    lines: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new<C: Into<String>>(columns: impl IntoIterator<Item = C>) -> Self {
        Table {
            columns: columns.into_iter().map(Into::into).collect(),
            lines: Vec::new(),
        }
    }

    pub(super) fn push<C: Into<String>>(&mut self, line: impl IntoIterator<Item = C>) {
        let line: Vec<String> = line.into_iter().map(Into::into).collect();
        assert_eq!(line.len(), self.columns.len(), "a cell for each column");
        self.lines.push(line);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} |", self.columns.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(self.columns.len()))?;
        let mut lines = self.lines.iter();
        lines.try_for_each(|it| writeln!(f, "| {} |", it.join(" | ")))
    }
}

/// A table whose cells are set one by one. Lines are in the order of their first cell.
#[derive(Debug)]
pub(super) struct Grid {
    /// The headings of the columns that name a line.
    names: &'static [&'static str],
    /// The names of the other columns.
    columns: Vec<String>,
    lines: Vec<(Vec<String>, Vec<String>)>,
}

impl Grid {
    pub(super) fn new(names: &'static [&'static str], columns: &[String]) -> Self {
        Grid {
            names,
            columns: columns.to_vec(),
            lines: Vec::new(),
        }
    }

    /// Sets the cell of this line and column. Does nothing if there is no such column.
    pub(super) fn set(&mut self, line: Vec<String>, column: &str, cell: String) {
        let Some(place) = self.columns.iter().position(|it| it == column) else {
            return;
        };
        let known = self.lines.iter().position(|it| it.0 == line);
        let nth = known.unwrap_or_else(|| {
            let cells = vec!["–".to_owned(); self.columns.len()];
            self.lines.push((line, cells));
            self.lines.len() - 1
        });
        self.lines[nth].1[place] = cell;
    }

    /// Returns the table, with `heading` applied to the names of columns.
    pub(super) fn table(self, heading: impl Fn(&str) -> String) -> Table {
        let names = self.names.iter().map(|&it| it.to_owned());
        let columns = self.columns.iter().map(|it| heading(it));
        let mut table = Table::new(names.chain(columns));
        for (names, cells) in self.lines {
            table.push(names.into_iter().chain(cells));
        }
        table
    }
}

/// Formats a name as code.
pub(super) fn code(name: &str) -> String {
    format!("`{name}`")
}

/// Formats a number, rounded, with a comma between groups of three digits.
pub(super) fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.round());
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats thousands.
pub(super) fn thousands(number: f64) -> String {
    match number < 10_000.0 {
        true => format!("{:.1}", number / 1e3),
        false => count(number / 1e3),
    }
}

/// Formats a ratio: two decimals, or two digits if it is small.
pub(super) fn ratio(ratio: f64) -> String {
    match ratio {
        it if it >= 100.0 => count(it),
        it if it >= 10.0 => format!("{it:.1}"),
        it if it >= 0.1 || it == 0.0 => format!("{it:.2}"),
        it => {
            let decimals = 1 - it.abs().log10().floor() as i32;
            format!("{it:.*}", decimals.clamp(2, 9) as usize)
        }
    }
}

/// Formats nanoseconds with a unit.
pub(super) fn time(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    // A value that rounds to 1000 of a unit is shown in the next one.
    let unit = units.into_iter().find(|(unit, _)| ns >= unit * 0.99995);
    match unit {
        None => format!("{ns:.1} ns"),
        Some((unit, name)) if ns < unit * 10.0 => format!("{:.2} {name}", ns / unit),
        Some((unit, name)) => format!("{:.1} {name}", ns / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_few_digits() {
        assert_eq!([0.4, 999.0, 1.5e6].map(count), ["0", "999", "1,500,000"]);
        assert_eq!(
            [512.0, 9_340.0, 1.4694e6].map(thousands),
            ["0.5", "9.3", "1,469"]
        );
        assert_eq!(
            [0.0, 0.0067, 0.05, 0.8123, 3.0, 12.34, 1234.0].map(ratio),
            ["0.00", "0.0067", "0.050", "0.81", "3.00", "12.3", "1,234"]
        );
        assert_eq!(
            [5.31, 999.9, 999.96, 1_500.0, 62_800.0, 6.7e6, 2.5e9].map(time),
            [
                "5.3 ns", "999.9 ns", "1.00 µs", "1.50 µs", "62.8 µs", "6.70 ms", "2.50 s"
            ]
        );
    }

    #[test]
    fn a_cell_that_is_not_set_is_a_dash() {
        let columns = ["a", "b"].map(str::to_owned);
        let mut grid = Grid::new(&["case"], &columns);
        grid.set(vec!["x".to_owned()], "b", "1".to_owned());
        grid.set(vec!["x".to_owned()], "other", "2".to_owned());
        grid.set(vec!["y".to_owned()], "a", "3".to_owned());
        assert_eq!(
            grid.table(code).to_string(),
            "| case | `a` | `b` |\n|---|---|---|\n| x | – | 1 |\n| y | 3 | – |\n"
        );
    }
}

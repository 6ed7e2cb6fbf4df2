//! Tables on a terminal, which fit its width.

use std::borrow::Cow;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table};

use crate::terminal::Width;

/// Spaces between two columns.
const GAP: usize = 2;

/// A column of a table.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) title: Cow<'static, str>,
    /// Whether it holds names, which are left-aligned and may be broken, and not figures.
    pub(super) is_name: bool,
    /// In a table that is too wide, the columns with the highest rank are left out first, and those
    /// without a rank never.
    rank: u8,
}

impl Column {
    /// A column of names.
    pub(super) const fn name(title: &'static str) -> Self {
        Column {
            title: Cow::Borrowed(title),
            is_name: true,
            rank: 0,
        }
    }

    /// A column of figures.
    pub(super) const fn figure(title: &'static str, rank: u8) -> Self {
        Column {
            title: Cow::Borrowed(title),
            is_name: false,
            rank,
        }
    }

    /// A column of figures whose title depends on the run.
    pub(super) fn of_run(title: String, rank: u8) -> Self {
        Column {
            title: Cow::Owned(title),
            is_name: false,
            rank,
        }
    }
}

/// Draws a table. If it is too wide, titles are broken first, then columns are left out, and then
/// names are broken. A line below the table says what is left out.
pub(super) fn drawn<R: Into<Vec<String>>>(
    columns: &[Column],
    rows: impl IntoIterator<Item = R>,
    width: Width,
) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().map(Into::into).collect();
    let fit = Fit::new(columns, &rows, width);
    let told = fit.left_out_told().into_iter();
    let lines: Vec<_> = [fit.drawn(&rows)].into_iter().chain(told).collect();
    lines.join("\n")
}

/// Draws groups of rows, each with a title, as tables with the same columns.
pub(super) fn drawn_in_groups(
    columns: &[Column],
    groups: &[(String, Vec<Vec<String>>)],
    width: Width,
) -> Vec<String> {
    let rows: Vec<_> = groups.iter().flat_map(|it| it.1.clone()).collect();
    let fit = Fit::new(columns, &rows, width);
    let tables = groups
        .iter()
        .map(|(title, rows)| format!("{}\n{}", width.wrapped(title), fit.drawn(rows)));
    tables.chain(fit.left_out_told()).collect()
}

/// Returns a sentence that says what a table leaves out.
pub(super) fn left_out_told(what: &[&str], width: Width) -> String {
    width.wrapped(&format!(
        "Left out, because {} columns are too few: {}. The report and the JSON have them.",
        width.columns,
        what.join(", ")
    ))
}

/// Returns whether a table fits without leaving anything out.
pub(super) fn fits(columns: &[Column], rows: &[Vec<String>], width: Width) -> bool {
    Fit::whole(columns, rows, width, |title| title.chars().count()).columns() <= width.columns
}

/// The columns of a table that are drawn.
struct Fit<'a> {
    columns: Vec<(usize, &'a Column)>,
    /// The width of each column of the table, drawn or not.
    widths: Vec<usize>,
    left_out: Vec<&'a str>,
    width: Width,
}

impl<'a> Fit<'a> {
    fn new(columns: &'a [Column], rows: &[Vec<String>], width: Width) -> Self {
        let fit = Self::whole(columns, rows, width, |title| title.chars().count());
        if fit.columns() <= width.columns {
            return fit;
        }
        let mut fit = Self::whole(columns, rows, width, |title| {
            let words = title.split(' ').map(|it| it.chars().count());
            words.max().unwrap_or(0)
        });
        while fit.columns() > width.columns && fit.leaves_out() {}
        fit
    }

    /// Returns all columns. `of_title` returns the least width of a title.
    fn whole(
        columns: &'a [Column],
        rows: &[Vec<String>],
        width: Width,
        of_title: impl Fn(&str) -> usize,
    ) -> Self {
        let of_cells = |place: usize| {
            let cells = rows.iter().map(|row| row[place].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths = columns.iter().enumerate();
        let widths = widths.map(|(place, it)| of_cells(place).max(of_title(&it.title)));
        Fit {
            widths: widths.collect(),
            columns: columns.iter().enumerate().collect(),
            left_out: Vec::new(),
            width,
        }
    }

    /// Returns the columns of the terminal that the table takes.
    fn columns(&self) -> usize {
        let widths = self.columns.iter().map(|it| self.widths[it.0] + GAP);
        widths.sum::<usize>().saturating_sub(GAP)
    }

    /// Leaves out the column with the highest rank. Returns false if there is none.
    fn leaves_out(&mut self) -> bool {
        let ranked = self.columns.iter().enumerate();
        let ranked = ranked.filter(|(_, it)| it.1.rank > 0);
        let Some((place, _)) = ranked.max_by_key(|(_, it)| it.1.rank) else {
            return false;
        };
        let (_, column) = self.columns.remove(place);
        self.left_out.push(&column.title);
        true
    }

    fn left_out_told(&self) -> Option<String> {
        (!self.left_out.is_empty()).then(|| left_out_told(&self.left_out, self.width))
    }

    fn drawn(&self, rows: &[Vec<String>]) -> String {
        let mut table = Table::new();
        let line = LineStyle::none().fill('─').junction('─');
        table
            .load_style(NOTHING.header_separator(line))
            .set_header(self.columns.iter().map(|it| &*it.1.title));
        if self.columns() > self.width.columns {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(u16::try_from(self.width.columns).unwrap_or(u16::MAX));
        }
        for row in rows {
            table.add_row(self.columns.iter().map(|it| &row[it.0]));
        }
        let last = self.columns.len() - 1;
        for (nth, column) in table.column_iter_mut().enumerate() {
            let (place, described) = self.columns[nth];
            // The style separates columns by one space.
            let gap = if nth == last { 0 } else { GAP - 1 };
            column.set_padding((0, gap as u16));
            let columns = (self.widths[place] + gap) as u16;
            let is_path = |row: &Vec<String>| row[place].contains('/') && !row[place].contains(' ');
            if !described.is_name {
                let columns = comfy_table::Width::Fixed(columns);
                column.set_cell_alignment(CellAlignment::Right);
                column.set_constraint(ColumnConstraint::Absolute(columns));
            } else if rows.iter().all(is_path) {
                column.set_delimiter('/');
            }
        }
        table.trim_fmt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::name("case"),
        Column::figure("longest wait", 1),
        Column::figure("p50", 2),
        Column::figure("ratio", 0),
    ];

    fn table(columns: usize) -> String {
        let rows = [
            ["one/two/three", "1.00 ms", "1.00 ns", "0.5"],
            ["four", "12.00 ms", "2.00 ns", "10.5"],
        ];
        let rows = rows.map(|row| row.map(str::to_owned));
        drawn(&COLUMNS, rows, Width::of(columns))
    }

    #[test]
    fn the_least_important_columns_are_left_out_of_a_narrow_table() {
        let wide = "\
case           longest wait      p50  ratio
───────────────────────────────────────────
one/two/three       1.00 ms  1.00 ns    0.5
four               12.00 ms  2.00 ns   10.5";
        assert_eq!(table(100), wide);
        assert_eq!(table(43), wide);
        // The title takes two lines.
        let narrow = table(39);
        assert!(
            narrow.lines().all(|it| it.chars().count() <= 39),
            "{narrow}"
        );
        assert!(narrow.contains("p50") && narrow.contains("12.00 ms"));
        assert!(!narrow.contains("Left out"), "{narrow}");
        let narrow = table(30);
        assert!(
            narrow.lines().all(|it| it.chars().count() <= 30),
            "{narrow}"
        );
        assert!(narrow.contains("few: p50."), "{narrow}");
        assert!(narrow.contains("12.00 ms") && !narrow.contains("1.00 ns"));
    }

    #[test]
    fn groups_have_the_same_columns() {
        let group = |title: &str, cell: &str| {
            let row = ["a", cell, "2", "3"].map(str::to_owned).to_vec();
            (title.to_owned(), vec![row])
        };
        let groups = [group("one", "short"), group("other", "a longer figure")];
        let drawn = drawn_in_groups(&COLUMNS, &groups, Width::of(33));
        let wanted = ["one\ncase     longest wait  p50  ratio", "other\ncase"];
        for (drawn, wanted) in drawn.iter().zip(wanted) {
            assert!(drawn.starts_with(wanted), "{drawn}");
        }
        let width = |table: &String| table.lines().nth(2).map(|it| it.chars().count());
        assert_eq!(width(&drawn[0]), width(&drawn[1]));
        assert_eq!(drawn.len(), 2);
        let narrow = drawn_in_groups(&COLUMNS, &groups, Width::of(28));
        assert!(narrow[2].starts_with("Left out"), "{narrow:?}");
    }

    #[test]
    fn names_are_broken_if_nothing_else_helps() {
        let narrow = table(20);
        assert!(
            narrow.lines().all(|it| it.chars().count() <= 20),
            "{narrow}"
        );
        for wanted in ["three", "10.5", "p50,", "longest wait."] {
            assert!(narrow.contains(wanted), "no {wanted:?} in {narrow}");
        }
    }
}

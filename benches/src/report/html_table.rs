//! Tables on a page. A table that is wider than the window can be scrolled. On a phone, each of its
//! rows becomes a block of figures with their titles instead.

use std::fmt::Write;

use super::html::escaped;
use super::table::Column;

/// What stands for a missing figure.
const NONE: &str = "–";
/// The most characters of a cell that is not broken.
const LONGEST: usize = 26;
/// Pixels of a character in the widest usual font, and around a cell.
const CHARACTER: f64 = 8.4;
const AROUND: f64 = 15.0;
/// Pixels of the page's edges and of a scroll bar.
const EDGES: f64 = 52.0;
/// The width of a phone, in pixels.
const PHONE: f64 = 600.0;

/// A row of a table.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) cells: Vec<String>,
    /// The columns whose figures are bad.
    guilty: Vec<usize>,
}

impl Line {
    pub(super) fn new(cells: impl Into<Vec<String>>) -> Self {
        Line {
            cells: cells.into(),
            guilty: Vec::new(),
        }
    }

    /// Marks the figure in a column if it is bad.
    pub(super) fn guilty_if(mut self, is_bad: bool, column: usize) -> Self {
        if is_bad {
            self.guilty.push(column);
        }
        self
    }

    pub(super) fn without_first(&self) -> Self {
        let guilty = self.guilty.iter().filter_map(|it| it.checked_sub(1));
        Line {
            cells: self.cells[1..].to_vec(),
            guilty: guilty.collect(),
        }
    }

    /// Returns the text of a cell, and its class.
    fn cell(&self, column: &Column, place: usize) -> (&str, &'static str) {
        let text = &*self.cells[place];
        let is_bad = self.guilty.contains(&place);
        let class = match text.chars().count() > LONGEST {
            true if is_bad => "long bad",
            true => "long",
            false if is_bad => "bad",
            false if text == NONE => "none",
            false if column.is_name => "name",
            false => "",
        };
        (text, class)
    }
}

/// Returns a table as HTML. Leaves out columns without figures. `number` is unique on the page.
pub(super) fn drawn(number: usize, columns: &[Column], lines: &[Line]) -> String {
    let shown: Vec<_> = columns
        .iter()
        .enumerate()
        .filter(|(place, _)| lines.iter().any(|it| it.cells[*place] != NONE))
        .collect();
    let mut html = style(number, &shown, lines);
    let _ = write!(
        html,
        "<div class=\"scroll\" tabindex=\"0\">\n<table id=\"t{number}\">\n<tr>"
    );
    for (_, column) in &shown {
        let class = if column.is_name { "name" } else { "" };
        let _ = write!(
            html,
            "<th class=\"{class}\">{}</th>",
            escaped(&column.title)
        );
    }
    html.push_str("</tr>\n");
    // The column whose changes begin a group of rows.
    let group = shown.iter().find(|it| GROUPS.contains(&&*it.1.title));
    let value = |line: &Line| group.map(|it| line.cells[it.0].clone());
    let mut last = lines.first().and_then(value);
    let changes = lines.windows(2).filter(|it| value(&it[0]) != value(&it[1]));
    // Rows that alternate are no groups.
    let has_groups = changes.count() * 2 < lines.len();
    for line in lines {
        let now = value(line);
        let first = if last == now || !has_groups {
            ""
        } else {
            " class=\"first\""
        };
        last = now;
        let _ = write!(html, "<tr{first}>");
        for (place, column) in &shown {
            let (text, class) = line.cell(column, *place);
            let _ = match class {
                "" => write!(html, "<td>{}</td>", escaped(text)),
                class => write!(html, "<td class=\"{class}\">{}</td>", escaped(text)),
            };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n</div>\n");
    html
}

/// Titles of columns whose changes begin a group of rows.
const GROUPS: [&str; 2] = ["threads", "cores"];

/// Returns the style of a table on phones that are too narrow for it.
fn style(number: usize, shown: &[(usize, &Column)], lines: &[Line]) -> String {
    let title = |column: &Column| column.title.split(' ').map(|it| it.chars().count()).max();
    let titles = shown.iter().map(|it| title(it.1).unwrap_or(0));
    let cells = shown.iter().map(|(place, _)| {
        let cells = lines.iter().map(|it| it.cells[*place].chars().count());
        cells.map(|it| it.min(LONGEST)).max().unwrap_or(0)
    });
    let both: Vec<_> = titles.zip(cells).collect();
    let pixels = |characters: usize| characters as f64 * CHARACTER + AROUND;
    let width = both.iter().map(|it| pixels(it.0.max(it.1)));
    let width = (width.sum::<f64>() + EDGES).min(PHONE);
    // Of a block, a figure takes as much as its title and its widest value.
    let figure = both
        .iter()
        .map(|it| pixels(it.0 + it.1 + 1))
        .fold(0.0, f64::max);
    let id = format!("#t{number}");
    let mut style = format!(
        "<style>@media (max-width:{width:.0}px){{{id},{id} tbody{{display:block}}{id} tr:first-child{{display:none}}\
         {id} tr{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,{figure:.0}px),1fr));gap:0 1.5em;padding:.4em 0;\
         border-bottom:1px solid var(--line)}}\
         {id} td{{display:flex;gap:1em;justify-content:space-between;border:0;padding:0}}\
         {id} td.none{{display:none}}{id} td.long{{display:block;grid-column:1/-1;min-width:0}}\
         {id} td::before{{color:var(--dim);font-weight:normal;margin-right:.6em;white-space:normal}}"
    );
    for (nth, (_, column)) in (1..).zip(shown) {
        let title = column.title.replace(['"', '\\', '<'], "");
        let _ = write!(
            style,
            "{id} td:nth-child({nth})::before{{content:\"{title}\"}}"
        );
    }
    style.push_str("}</style>\n");
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::name("lock"),
        Column::figure("threads", 0),
        Column::figure("p99", 0),
    ];

    fn line(lock: &str, threads: &str, p99: &str) -> Line {
        Line::new([lock, threads, p99].map(str::to_owned))
    }

    #[test]
    fn the_guilty_figure_is_marked_and_no_other() {
        let all = [("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")];
        let lines =
            all.map(|(lock, threads)| line(lock, threads, "5 ns").guilty_if(lock == "a", 2));
        let html = drawn(1, &COLUMNS, &lines);
        assert_eq!(html.matches("bad").count(), 1, "{html}");
        assert!(html.contains("<td class=\"bad\">5\u{a0}ns</td>"), "{html}");
        assert!(html.contains("<tr class=\"first\"><td class=\"name\">c</td>"));
        let rest = drawn(1, &COLUMNS[1..], &lines.map(|it| it.without_first()));
        assert!(rest.contains("<td class=\"bad\">5\u{a0}ns</td>"), "{rest}");
    }

    #[test]
    fn a_column_without_figures_is_left_out() {
        let html = drawn(1, &COLUMNS, &[line("a", "1", NONE)]);
        assert!(!html.contains("p99"), "{html}");
    }
}

//! The rows in which one of our locks or logs is slower.

use super::html_table::Line;
use super::page::Page;
use super::table::{Column, drawn};
use super::text::LOSS_MARK;
use crate::terminal::Width;

/// Rows of a table on the terminal. A page has all of them.
const SHOWN: usize = 5;

/// Losses: what was compared, and where another is faster.
pub(super) struct Losses {
    /// How many rows were compared, and how many are losses.
    pub(super) said: String,
    pub(super) columns: Vec<Column>,
    /// The losses, the worst first.
    pub(super) rows: Vec<Vec<String>>,
}

impl Losses {
    /// Sorts rows by their factors, the lowest first.
    pub(super) fn sorted(mut rows: Vec<(f64, Vec<String>)>) -> Vec<Vec<String>> {
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.into_iter().map(|it| it.1).collect()
    }

    /// Returns the sentence without marks.
    fn plain(&self) -> String {
        self.said.replace("**", "")
    }

    /// Returns the sentence, and the worst losses.
    pub(super) fn told(&self, width: Width) -> String {
        let lost = self.rows.len();
        if lost == 0 {
            return width.wrapped(&self.plain());
        }
        let which = match lost > SHOWN {
            true => format!(" The worst {SHOWN} (the report has all):"),
            false => String::new(),
        };
        let said = width.wrapped(&format!("{LOSS_MARK} {}{which}", self.plain()));
        let shown = self.rows.iter().take(SHOWN).cloned();
        format!("{said}\n{}", drawn(&self.columns, shown, width))
    }

    /// Appends the sentence and all losses. The figure is in the last column.
    pub(super) fn append(&self, page: &mut Page) {
        page.heading("Losses");
        page.said(&self.said);
        let lines = self.rows.iter().map(|it| {
            let last = it.len() - 1;
            Line::new(it.clone()).guilty_if(true, last)
        });
        page.bare_table(&self.columns, &Vec::from_iter(lines));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_shows_the_worst_and_the_page_all() {
        let row = |factor: f64| (factor, vec![format!("case-{factor}"), factor.to_string()]);
        let losses = Losses {
            said: "7 of 9 are lost.".to_owned(),
            columns: vec![Column::name("case"), Column::figure("ratio", 0)],
            rows: Losses::sorted((1..=7).rev().map(|it| row(f64::from(it))).collect()),
        };
        let told = losses.told(Width::of(80));
        assert!(
            told.starts_with("▼ 7 of 9 are lost. The worst 5 (the report"),
            "{told}"
        );
        assert!(told.contains("case-1") && told.contains("case-5") && !told.contains("case-6"));
        let mut page = Page::default();
        losses.append(&mut page);
        let page = page.into_html();
        assert!(page.contains("case-1") && page.contains("case-7"), "{page}");
        let none = Losses {
            rows: Vec::new(),
            ..losses
        };
        assert_eq!(none.told(Width::of(80)), "7 of 9 are lost.");
    }
}

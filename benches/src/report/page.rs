//! A page that is being written, and its first screen.

use super::bars::{self, Bar, Unit};
use super::html::{escaped, marked, words};
use super::html_table::{self, Line};
use super::table::Column;

/// The first screen of a page. In its sentences, `**` encloses figures, and backticks names.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The winner, and by how much it wins.
    pub said: String,
    /// What it costs, in further sentences. May be empty.
    pub cost: String,
    /// What a reader must know before the answer. May be empty.
    pub before: String,
    /// What the picture shows.
    pub caption: String,
    /// The picture.
    pub bars: Vec<Bar>,
    /// The figure at which the picture has a line.
    pub even: Option<f64>,
    /// What the figures of the picture are.
    pub unit: Unit,
    /// What a reader of the picture must know. May be empty.
    pub note: String,
}

/// A page that is being written.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    tables: usize,
}

impl Page {
    /// Returns the whole text.
    pub(super) fn into_html(self) -> String {
        self.text
    }

    /// Appends HTML.
    pub(super) fn put(&mut self, html: &str) {
        self.text.push_str(html);
    }

    pub(super) fn heading(&mut self, title: &str) {
        let title = marked(title);
        self.put(&format!("<h2>{title}</h2>\n"));
    }

    /// Appends a paragraph.
    pub(super) fn said(&mut self, text: &str) {
        let text = marked(text);
        self.put(&format!("<p>{text}</p>\n"));
    }

    /// Appends a paragraph of a class of the style sheet.
    pub(super) fn classed(&mut self, class: &str, text: &str) {
        let text = marked(text);
        self.put(&format!("<p class=\"{class}\">{text}</p>\n"));
    }

    /// Appends a list of names, with what they mean.
    pub(super) fn list<N: AsRef<str>, T: AsRef<str>>(
        &mut self,
        all: impl IntoIterator<Item = (N, T)>,
    ) {
        self.put("<ul>\n");
        for (name, told) in all {
            let (name, told) = (words(name.as_ref()), marked(told.as_ref()));
            self.put(&format!("<li><code>{name}</code>: {told}</li>\n"));
        }
        self.put("</ul>\n");
    }

    /// Appends a list of what the colours of plots mean: their places, names and descriptions.
    pub(super) fn keys<'a>(&mut self, all: impl IntoIterator<Item = (usize, &'a str, &'a str)>) {
        self.put("<ul class=\"keys\">\n");
        for (place, name, about) in all {
            let about = match about {
                "" => String::new(),
                about => format!(" <span>{}</span>", marked(about)),
            };
            self.put(&format!(
                "<li><span class=\"key\" style=\"background:var(--c{place})\"></span><code>{}</code>{about}</li>\n",
                escaped(name)
            ));
        }
        self.put("</ul>\n");
    }

    /// Appends bars. There is a line at the figure `even`.
    pub(super) fn bars(&mut self, caption: &str, bars: &[Bar], even: Option<f64>, unit: Unit) {
        self.put(&bars::drawn(caption, bars, even, unit));
    }

    /// Appends a table with a heading.
    pub(super) fn table(
        &mut self,
        title: &str,
        columns: &[Column],
        lines: impl IntoIterator<Item = Line>,
    ) {
        let lines: Vec<Line> = lines.into_iter().collect();
        if lines.is_empty() {
            return;
        }
        self.heading(title);
        self.bare_table(columns, &lines);
    }

    /// Appends a table, unless it is empty.
    pub(super) fn bare_table(&mut self, columns: &[Column], lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        self.tables += 1;
        let html = html_table::drawn(self.tables, columns, lines);
        self.put(&html);
    }

    /// Appends the figures as a table for each value of the first column. Readers open the tables
    /// of a long list one by one.
    pub(super) fn figures(&mut self, columns: &[Column], lines: impl IntoIterator<Item = Line>) {
        let lines: Vec<Line> = lines.into_iter().collect();
        self.heading("Figures");
        let open = if lines.len() > LONG { "" } else { " open" };
        for of_case in lines.chunk_by(|a, b| a.cells[0] == b.cells[0]) {
            let title = escaped(&of_case[0].cells[0]);
            let rest: Vec<_> = of_case.iter().map(Line::without_first).collect();
            self.put(&format!("<details{open}><summary>{title}</summary>\n"));
            self.bare_table(&columns[1..], &rest);
            self.put("</details>\n");
        }
    }
}

/// The number of rows above which tables are closed.
const LONG: usize = 400;

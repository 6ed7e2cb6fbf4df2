//! Texts as HTML, and the style sheet of all pages.

use std::fmt::Write;

/// The style sheet, which the report of `cargo verify` has as well.
pub(super) const STYLE: &str = include_str!("../../../verify/assets/report.css");

/// Returns a text as HTML. `**` encloses what is bold and never broken across lines, and backticks
/// enclose code.
pub(super) fn marked(text: &str) -> String {
    let mut html = String::new();
    for (nth, part) in escaped(text).split("**").enumerate() {
        let is_bold = nth % 2 == 1;
        html.push_str(if is_bold { "<b>" } else { "" });
        for (nth, part) in part.split('`').enumerate() {
            let _ = match nth % 2 {
                1 => write!(html, "<code>{}</code>", whole_words(part)),
                _ => write!(html, "{part}"),
            };
        }
        html.push_str(if is_bold { "</b>" } else { "" });
    }
    html
}

/// Returns code as HTML. A line is broken only at its spaces, and not at hyphens and slashes.
pub(super) fn words(code: &str) -> String {
    whole_words(&escaped(code))
}

fn whole_words(html: &str) -> String {
    if !html.contains(' ') {
        return html.to_owned();
    }
    let words = html.split(' ').map(|it| format!("<span>{it}</span>"));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns a text as HTML. The space between a number and its next digits or its unit is never
/// broken.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::new();
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        let after = text[at + character.len_utf8()..].chars().next();
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            ' ' if before.is_ascii_digit()
                && after.is_some_and(|it| it.is_alphanumeric() || it == '%') =>
            {
                html.push('\u{a0}');
            }
            other => html.push(other),
        }
        before = character;
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_elements() {
        assert_eq!(
            marked("`a<b` is **2 times** faster"),
            "<code>a&lt;b</code> is <b>2\u{a0}times</b> faster"
        );
        assert_eq!(
            marked("`cargo --a-b`"),
            "<code><span>cargo</span> <span>--a-b</span></code>"
        );
    }
}

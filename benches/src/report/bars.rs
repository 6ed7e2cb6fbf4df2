//! Bars on a page, one line each, with a name before and a figure behind, so that no label can lie
//! upon another.

use std::fmt::Write;

use super::html::{escaped, marked};

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The name of what is measured.
    pub name: String,
    /// The figure, which is not negative.
    pub value: f64,
    /// The figure as text.
    pub told: String,
    /// What it is.
    pub kind: Kind,
    /// Whether the figure is bad.
    pub is_bad: bool,
}

/// What a bar is of, which its colour shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Spanlock.
    Ours,
    /// Others.
    Other,
    /// The same as the line of this place in plots.
    Place(usize),
}

impl Bar {
    /// Creates a bar of Spanlock or of others.
    pub(super) fn new(is_ours: bool, name: impl Into<String>, value: f64, told: String) -> Self {
        Bar {
            name: name.into(),
            value,
            told,
            kind: if is_ours { Kind::Ours } else { Kind::Other },
            is_bad: false,
        }
    }
}

/// A ratio between the largest and the smallest figure above which lengths are logarithmic.
const WIDE: f64 = 30.0;

/// Returns the bars as HTML. There is a line at the figure `even`.
pub(super) fn drawn(caption: &str, bars: &[Bar], even: Option<f64>) -> String {
    let all = || bars.iter().map(|it| it.value).chain(even);
    let most = all().fold(0.0, f64::max);
    let least = all().filter(|&it| it > 0.0).fold(most, f64::min);
    let is_wide = most > WIDE * least;
    let place = |value: f64| match most {
        most if most <= 0.0 => 0.0,
        _ if !is_wide => value / most,
        _ if value < least => 0.0,
        _ => (value / least * 2.0).ln() / (most / least * 2.0).ln(),
    };
    let scale = if is_wide {
        " (logarithmic lengths)"
    } else {
        ""
    };
    let mut html = format!(
        "<figure><figcaption>{}{scale}</figcaption>\n<div class=\"bars\">\n",
        escaped(caption)
    );
    for bar in bars {
        let color = match bar.kind {
            Kind::Ours => "ours".to_owned(),
            Kind::Other => "other".to_owned(),
            Kind::Place(place) => format!("c{place}"),
        };
        let line = even.map_or_else(String::new, |it| {
            format!("<u style=\"left:{:.1}%\"></u>", place(it) * 100.0)
        });
        let _ = writeln!(
            html,
            "<span>{}</span><span class=\"track\"><i style=\"width:{:.1}%;background:var(--{color})\"></i>{line}</span>\
             <span class=\"told{}\">{}</span>",
            escaped(&bar.name),
            place(bar.value) * 100.0,
            if bar.is_bad { " bad" } else { "" },
            marked(&bar.told),
        );
    }
    html.push_str("</div></figure>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_shares_of_the_longest_or_logarithmic() {
        let bar = |value: f64| Bar::new(true, "a", value, value.to_string());
        let html = drawn("x", &[bar(1.0), bar(4.0)], Some(2.0));
        for wanted in ["width:25.0%", "width:100.0%", "left:50.0%"] {
            assert!(html.contains(wanted), "no {wanted} in {html}");
        }
        let html = drawn("x", &[bar(0.0), bar(1.0), bar(50.0), bar(5_000.0)], None);
        for wanted in ["logarithmic", "width:0.0%", "width:7.5%", "width:50.0%"] {
            assert!(html.contains(wanted), "no {wanted} in {html}");
        }
    }
}

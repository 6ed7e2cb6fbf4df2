//! Bars on a page, one line each, with a name before and a figure behind, so that no label can lie
//! upon another.

use std::fmt::Write;

use super::html::{escaped, marked};
use super::text::{grouped, time};

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The name of what is measured.
    pub name: String,
    /// The figure, which is not negative.
    pub value: f64,
    /// The figure as text.
    pub told: String,
    /// A second figure of the same name, as a thin bar below the first.
    pub second: Option<f64>,
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
    /// A limit, which no lock can reach.
    Limit,
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
            second: None,
            kind: if is_ours { Kind::Ours } else { Kind::Other },
            is_bad: false,
        }
    }
}

/// What the figures of bars are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Numbers.
    #[default]
    Number,
    /// Nanoseconds.
    Time,
}

impl Unit {
    /// Returns a decade as text.
    pub(super) fn tick(self, value: f64) -> String {
        match self {
            Unit::Time => time(value).replace(".00", "").replace(".0", ""),
            Unit::Number if value < 1.0 => value.to_string(),
            Unit::Number => grouped(value as u64),
        }
    }
}

/// A ratio between the largest and the smallest figure above which lengths are logarithmic.
const WIDE: f64 = 30.0;

/// Returns the bars as HTML. There is a line at the figure `even`.
pub(super) fn drawn(caption: &str, bars: &[Bar], even: Option<f64>, unit: Unit) -> String {
    let figures = |it: &Bar| [Some(it.value), it.second].into_iter().flatten();
    let all = || bars.iter().flat_map(figures).chain(even);
    let most = all().fold(0.0, f64::max);
    let least = all().filter(|&it| it > 0.0).fold(most, f64::min);
    let is_wide = most > WIDE * least;
    let place = |value: f64| match most {
        most if most <= 0.0 => 0.0,
        _ if !is_wide => value / most,
        _ => ((value / least * 2.0).ln() / (most / least * 2.0).ln()).max(0.0),
    };
    let mut html = format!(
        "<figure><figcaption>{}</figcaption>\n<div class=\"bars\">\n",
        escaped(caption)
    );
    for bar in bars {
        let color = match bar.kind {
            Kind::Ours => "ours".to_owned(),
            Kind::Other => "other".to_owned(),
            Kind::Limit => "limit".to_owned(),
            Kind::Place(place) => format!("c{place}"),
        };
        let part = |value: f64, class: &str| {
            let width = place(value) * 100.0;
            format!("<i{class} style=\"width:{width:.1}%;background:var(--{color})\"></i>")
        };
        let parts = match bar.second {
            None => part(bar.value, ""),
            Some(second) => {
                part(bar.value, " class=\"half\"") + &part(second, " class=\"half second\"")
            }
        };
        let line = even.map_or_else(String::new, |it| {
            format!("<u style=\"left:{:.1}%\"></u>", place(it) * 100.0)
        });
        let _ = writeln!(
            html,
            "<span>{}</span><span class=\"track\">{parts}{line}</span><span class=\"told{}\">{}</span>",
            escaped(&bar.name),
            if bar.is_bad { " bad" } else { "" },
            told(&bar.told),
        );
    }
    if is_wide {
        html.push_str("<span></span><span class=\"ticks\">");
        for power in decades(least / 2.0, most) {
            let (at, tick) = (place(power) * 100.0, unit.tick(power));
            // A label at an edge stays within it.
            let class = match at {
                it if it < 20.0 => " class=\"first\"",
                it if it > 80.0 => " class=\"last\"",
                _ => "",
            };
            let _ = write!(
                html,
                "<b{class} style=\"left:{at:.1}%\">{}</b>",
                escaped(&tick)
            );
        }
        html.push_str("</span><span></span>\n");
    }
    html.push_str("</div></figure>\n");
    html
}

/// Returns a figure as HTML. What follows it in parentheses gets a line of its own on a phone.
fn told(text: &str) -> String {
    match text.split_once(" (") {
        None => marked(text),
        Some((figure, rest)) => format!("{} <small>({}</small>", marked(figure), marked(rest)),
    }
}

/// Returns the decades from `least` to `most`, or every second or third of them: at most four.
fn decades(least: f64, most: f64) -> impl Iterator<Item = f64> {
    let (first, last) = (least.log10().ceil() as i32, most.log10().floor() as i32);
    let step = (last - first).max(0) / 4 + 1;
    (first..=last)
        .step_by(step as usize)
        .map(|it| 10f64.powi(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_shares_of_the_longest_or_logarithmic() {
        let bar = |value: f64| Bar::new(true, "a", value, value.to_string());
        let html = drawn("x", &[bar(1.0), bar(4.0)], Some(2.0), Unit::Number);
        for wanted in ["width:25.0%", "width:100.0%", "left:50.0%"] {
            assert!(html.contains(wanted), "no {wanted} in {html}");
        }
        assert!(!html.contains("ticks"), "{html}");
        let bars = [bar(0.0), bar(1.0), bar(50.0), bar(5_000.0)];
        let html = drawn("x", &bars, None, Unit::Time);
        for wanted in [
            "width:0.0%",
            "width:7.5%",
            "width:50.0%",
            ">1\u{a0}ns<",
            ">1\u{a0}µs<",
        ] {
            assert!(html.contains(wanted), "no {wanted} in {html}");
        }
    }
}

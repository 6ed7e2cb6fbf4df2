//! A single figure, for use within a sentence.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

use super::input::{Options, Source};
use crate::figures::table::{count, ratio, time};

/// The name of the block.
pub(super) const NAME: &str = "value";

/// Returns one field of one row: `of` is the comparison, `figure` the field, and every other option
/// a field that the row must have with this value.
pub(super) fn value(options: &Options<'_>, source: &Source<'_>) -> Result<String> {
    let of = options.one("of", "")?;
    let figure = options.one("figure", "")?;
    ensure!(
        !of.is_empty() && !figure.is_empty(),
        "it needs `of=COMPARISON`, `figure=FIELD`, and fields that select a row"
    );
    let mut rows: Vec<Map<String, Value>> = source.rows(of)?;
    for (key, _) in &options.0.options {
        if ["of", "figure"].contains(key) {
            continue;
        }
        let wanted = options.one(key, "")?;
        ensure!(
            rows.iter().any(|it| it.contains_key(*key)),
            "no row of {of}.json has a field `{key}`"
        );
        let text = |it: &Map<String, Value>| it.get(*key).map(text).unwrap_or_default();
        options.choose(key, rows.iter().map(text))?;
        rows.retain(|it| text(it) == wanted);
    }
    let [row] = &rows[..] else {
        bail!(
            "{} rows of {of}.json are like that: add fields that select one",
            rows.len()
        );
    };
    let found = row.get(figure);
    let found = found.with_context(|| format!("the row has no field `{figure}`"))?;
    match found {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            Ok(match figure {
                "ns" => time(number),
                _ if figure.ends_with("_ns") => time(number),
                _ if found.is_u64() || number >= 1000.0 => count(number),
                _ => ratio(number),
            })
        }
        Value::String(text) => Ok(text.clone()),
        _ => bail!("`{figure}` of that row is {found}"),
    }
}

/// Returns a field as text: a number without a fraction has no point.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

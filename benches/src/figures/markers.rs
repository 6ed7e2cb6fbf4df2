//! Finds the blocks of a document by their markers, which are comments.

use std::ops::Range;

use anyhow::{Result, bail, ensure};

/// A block of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// The number of the first marker's line.
    pub line: usize,
    pub name: &'a str,
    /// The keys after the name, with their values.
    pub options: Vec<(&'a str, Vec<&'a str>)>,
    /// The place between the markers, in bytes.
    pub body: Range<usize>,
}

/// Returns the blocks of a document, or the line and the description of a malformed marker.
pub(super) fn blocks(text: &str) -> Result<Vec<Block<'_>>, (usize, anyhow::Error)> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for marker in markers(text) {
        let at_line = |error| (marker.line, error);
        match (marker.content(text).map_err(at_line)?, open.take()) {
            (Content::Begin(name, options), None) => {
                open = Some(Block {
                    line: marker.line,
                    name,
                    options,
                    body: marker.place.end..text.len(),
                });
            }
            (Content::End, Some(mut block)) => {
                block.body.end = marker.place.start;
                blocks.push(block);
            }
            (Content::Begin(..), Some(block)) => return Err(unclosed(&block)),
            (Content::End, None) => {
                let told = anyhow::anyhow!("`<!-- /figures -->` ends a block, but none begins");
                return Err((marker.line, told));
            }
        }
    }
    match open {
        Some(block) => Err(unclosed(&block)),
        None => Ok(blocks),
    }
}

fn unclosed(block: &Block<'_>) -> (usize, anyhow::Error) {
    let name = block.name;
    let told = anyhow::anyhow!("block `{name}` does not end: `<!-- /figures -->` is missing");
    (block.line, told)
}

/// A comment that looks like a marker.
struct Marker {
    line: usize,
    /// The place in the document, with `<!--` and `-->`.
    place: Range<usize>,
    is_whole: bool,
}

/// The meaning of a marker.
enum Content<'a> {
    Begin(&'a str, Vec<(&'a str, Vec<&'a str>)>),
    End,
}

/// Finds all comments that begin with `figure`, and those with `/` before that, so that a
/// misspelled marker is found. Skips code.
fn markers(text: &str) -> Vec<Marker> {
    let (mut markers, mut start, mut is_code) = (Vec::new(), 0, false);
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        is_code ^= content.trim_start().starts_with("```");
        for (at, comment) in content.match_indices("<!--") {
            let rest = &content[at + comment.len()..];
            let word = rest.trim_start().trim_start_matches('/').trim_start();
            let in_code = is_code || content[..at].matches('`').count() % 2 == 1;
            if in_code || !word.starts_with("figure") {
                continue;
            }
            let end = rest.find("-->").map(|it| at + comment.len() + it + 3);
            markers.push(Marker {
                line,
                place: start + at..start + end.unwrap_or(content.len()),
                is_whole: end.is_some(),
            });
        }
        start += content.len();
    }
    markers
}

impl Marker {
    fn content<'a>(&self, text: &'a str) -> Result<Content<'a>> {
        let whole = text[self.place.clone()].trim();
        ensure!(
            self.is_whole,
            "the marker `{whole}` does not end on its line"
        );
        let inner = whole[4..whole.len() - 3].trim();
        if inner == "/figures" {
            return Ok(Content::End);
        }
        let Some(inner) = inner.strip_prefix("figures:") else {
            bail!(
                "malformed marker `{whole}`: expected `<!-- figures: NAME -->` or `<!-- /figures -->`"
            );
        };
        let mut words = inner.split_whitespace();
        let Some(name) = words.next().filter(|it| !it.contains('=')) else {
            bail!("the marker `{whole}` names no block");
        };
        let mut options: Vec<(&str, Vec<&str>)> = Vec::new();
        for word in words {
            let (key, values) = match word.split_once('=') {
                Some((key, values)) => (key, values.split(',').collect()),
                None => (word, Vec::new()),
            };
            ensure!(
                !values.contains(&""),
                "the marker `{whole}` has `{word}`, which lacks a value"
            );
            ensure!(
                options.iter().all(|it| it.0 != key),
                "the marker `{whole}` has `{key}` twice"
            );
            options.push((key, values));
        }
        Ok(Content::Begin(name, options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_with_their_options() {
        let text = "a\n<!-- figures: micro locks=x,y flag -->\nold\n<!-- /figures --> and <!--figures: value a=1-->2<!-- /figures -->.\n";
        let blocks = blocks(text).unwrap();
        let found: Vec<_> = blocks
            .iter()
            .map(|it| (it.line, it.name, &text[it.body.clone()]))
            .collect();
        assert_eq!(found, [(2, "micro", "\nold\n"), (4, "value", "2")]);
        assert_eq!(
            blocks[0].options,
            [("locks", vec!["x", "y"]), ("flag", vec![])]
        );
    }

    #[test]
    fn markers_in_code_and_other_comments_are_no_markers() {
        let text =
            "```text\n<!-- figures: x -->\n```\nwrite `<!-- figures: x -->` <!-- a comment -->\n";
        assert_eq!(blocks(text).unwrap(), []);
    }

    #[test]
    fn a_malformed_marker_is_an_error_with_its_line() {
        for (text, line, wanted) in [
            ("\n<!-- figures: a -->", 2, "block `a` does not end"),
            (
                "<!-- figures: a -->\n<!-- figures: b -->\n<!-- /figures -->",
                1,
                "block `a` does not end",
            ),
            ("\n\n<!-- /figures -->", 3, "none begins"),
            ("<!-- figures a -->", 1, "expected `<!-- figures: NAME -->`"),
            ("<!-- figure: a -->", 1, "malformed marker"),
            ("<!-- / figures -->", 1, "malformed marker"),
            ("<!-- figures: -->", 1, "names no block"),
            ("<!-- figures: a=b -->", 1, "names no block"),
            ("<!-- figures: a b= -->", 1, "`b=`, which lacks a value"),
            ("<!-- figures: a b=1 b=2 -->", 1, "has `b` twice"),
            ("<!-- figures: a\n-->", 1, "does not end on its line"),
        ] {
            let (found, error) = blocks(text).unwrap_err();
            let told = error.to_string();
            assert!(found == line && told.contains(wanted), "{found}: {told}");
        }
    }
}

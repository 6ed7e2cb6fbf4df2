//! The input of a block: its options, and the results.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use serde::de::DeserializeOwned;

use crate::figures::markers::Block;
use crate::figures::results::{Results, ResultsOf};

/// The results that a block uses.
pub(super) struct Source<'a> {
    results: &'a Results,
    /// The names of comparisons, each once.
    used: RefCell<Vec<String>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(results: &'a Results) -> Self {
        Source {
            results,
            used: RefCell::default(),
        }
    }

    pub(super) fn rows<R: DeserializeOwned>(&self, name: &str) -> Result<Vec<R>> {
        let rows = self.results.rows(name)?;
        let mut used = self.used.borrow_mut();
        if !used.iter().any(|it| it == name) {
            used.push(name.to_owned());
        }
        Ok(rows)
    }

    pub(super) fn origins(&self) -> Result<Vec<Rc<ResultsOf>>> {
        let used = self.used.borrow();
        used.iter().map(|name| self.results.of(name)).collect()
    }
}

/// The options of a block.
pub(super) struct Options<'a>(pub &'a Block<'a>);

impl Options<'_> {
    pub(super) fn values(&self, key: &str) -> Option<&[&str]> {
        let mut all = self.0.options.iter();
        all.find(|it| it.0 == key).map(|it| &it.1[..])
    }

    /// Returns the only value of an option, or `default` if it is not given.
    pub(super) fn one<'a>(&'a self, key: &str, default: &'a str) -> Result<&'a str> {
        match self.values(key) {
            None => Ok(default),
            Some([one]) => Ok(one),
            Some(_) => bail!("`{key}` takes one value"),
        }
    }

    /// Returns the values of an option, all of which must be among `all`, or everything in `all` if
    /// the option is not given; each once.
    pub(super) fn choose(
        &self,
        key: &str,
        all: impl Iterator<Item = String>,
    ) -> Result<Vec<String>> {
        let mut known: Vec<String> = Vec::new();
        for one in all {
            if !known.contains(&one) {
                known.push(one);
            }
        }
        let Some(chosen) = self.values(key) else {
            return Ok(known);
        };
        for value in chosen {
            ensure!(
                known.iter().any(|it| it == value),
                "`{key}`: the results have no `{value}`; they have {}",
                known.join(", ")
            );
        }
        Ok(chosen.iter().map(|&it| it.to_owned()).collect())
    }
}

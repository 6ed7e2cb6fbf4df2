//! The findings of a command, as the terminal and the files show them.

use anyhow::Result;
use serde::Serialize;

use super::origin::Origin;
use super::page::{Answer, Page};
use crate::load::Others;
use crate::target::Target;
use crate::terminal::Width;

/// The result of a command.
pub trait Findings {
    /// A row of the JSON.
    type Row: Serialize;

    /// What the page is about.
    const TITLE: &'static str;

    /// Returns what this page is about.
    fn title(&self) -> &'static str {
        Self::TITLE
    }

    /// Whether the rows are figures of speed, which mean nothing in a build that is not optimized.
    const IS_MEASURED: bool = true;

    /// Returns all rows.
    fn rows(&self) -> &[Self::Row];

    /// Returns the load of other programs; `None` if it does not affect the result.
    fn others(&self) -> Option<Others>;

    /// Describes each place where the run stored data.
    fn media(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the tables of the rows.
    fn figures(&self, width: Width) -> Vec<String>;

    /// Returns the targets, with verdicts. `None` if the command has none.
    fn targets(&self) -> Option<Vec<Target>> {
        None
    }

    /// Returns the losses, and whatever else the rows show.
    fn conclusions(&self, width: Width) -> Vec<String>;

    /// Returns what the first screen of the page says and shows.
    fn answer(&self, origin: &Origin) -> Answer;

    /// Appends the tables and plots of the page.
    ///
    /// # Errors
    /// A plot cannot be drawn.
    fn body(&self, page: &mut Page) -> Result<()>;

    /// Returns further facts about the run, which the page names.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Appends the losses to the page.
    fn losses(&self, _: &mut Page) {}

    /// Returns the names of what makes the command fail.
    fn failed(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

//! Targets of rows, and whether a run meets them.

use serde::{Deserialize, Serialize};

/// A limit on a figure of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// The name of the row, or of the rows, of which the worst is judged.
    #[serde(skip)]
    pub of: String,
    /// The figure that is judged, usually a field of the row.
    pub figure: String,
    /// Whether the figure must be at least or at most the limit.
    pub bound: Bound,
    /// The limit.
    pub asked: f64,
    /// The figure in this run; `None` if a row that it needs was not measured.
    pub measured: Option<f64>,
    /// Whether the target is met; `None` if a row that it needs was not measured.
    pub met: Option<bool>,
    /// The locks or contestants whose rows are missing.
    #[serde(skip)]
    pub missing: Vec<String>,
}

/// The direction of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The figure must not be lower.
    AtLeast,
    /// The figure must not be higher.
    AtMost,
}

impl Target {
    /// Judges a figure that must not be lower than `asked`.
    pub fn at_least(
        of: impl Into<String>,
        figure: impl Into<String>,
        asked: f64,
        measured: Option<f64>,
    ) -> Self {
        Self::judged(of.into(), figure.into(), Bound::AtLeast, asked, measured)
    }

    /// Judges a figure that must not be higher than `asked`.
    pub fn at_most(
        of: impl Into<String>,
        figure: impl Into<String>,
        asked: f64,
        measured: Option<f64>,
    ) -> Self {
        Self::judged(of.into(), figure.into(), Bound::AtMost, asked, measured)
    }

    fn judged(of: String, figure: String, bound: Bound, asked: f64, measured: Option<f64>) -> Self {
        let met = measured.map(|it| match bound {
            Bound::AtLeast => it >= asked,
            Bound::AtMost => it <= asked,
        });
        Target {
            of,
            figure,
            bound,
            asked,
            measured,
            met,
            missing: Vec::new(),
        }
    }

    /// Names the locks or contestants whose rows are missing if the figure was not measured.
    #[must_use]
    pub fn lacking(mut self, missing: Vec<String>) -> Self {
        if self.measured.is_none() {
            self.missing = missing;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_itself_meets_the_target() {
        assert_eq!(Target::at_least("", "x", 2.0, Some(2.0)).met, Some(true));
        assert_eq!(Target::at_least("", "x", 2.0, Some(1.9)).met, Some(false));
        assert_eq!(Target::at_most("", "x", 2.0, Some(2.0)).met, Some(true));
        assert_eq!(Target::at_most("", "x", 2.0, Some(2.1)).met, Some(false));
        let missing = vec!["lock".to_owned()];
        let target = Target::at_most("", "x", 2.0, None).lacking(missing.clone());
        assert_eq!((target.met, target.missing), (None, missing.clone()));
        let target = Target::at_most("", "x", 2.0, Some(1.0)).lacking(missing);
        assert!(target.missing.is_empty());
    }
}

//! Targets of rows, and whether a run meets them.

use serde::Serialize;

use crate::journal::rows::Bound;

/// A target of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// The field of the row that is judged.
    pub figure: &'static str,
    /// Whether the figure must be at least or at most the limit.
    pub bound: Bound,
    /// The limit.
    pub asked: f64,
    /// The figure in this run; `None` if a row that it needs was not measured.
    pub measured: Option<f64>,
    /// Whether the target is met; `None` if a row that it needs was not measured.
    pub met: Option<bool>,
}

impl Target {
    /// Judges a figure that must not be lower than `asked`.
    pub fn at_least(figure: &'static str, asked: f64, measured: Option<f64>) -> Self {
        Target {
            figure,
            bound: Bound::AtLeast,
            asked,
            measured,
            met: measured.map(|it| it >= asked),
        }
    }

    /// Judges a figure that must not be higher than `asked`.
    pub fn at_most(figure: &'static str, asked: f64, measured: Option<f64>) -> Self {
        Target {
            figure,
            bound: Bound::AtMost,
            asked,
            measured,
            met: measured.map(|it| it <= asked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_itself_meets_the_target() {
        assert_eq!(Target::at_least("x", 2.0, Some(2.0)).met, Some(true));
        assert_eq!(Target::at_least("x", 2.0, Some(1.9)).met, Some(false));
        assert_eq!(Target::at_most("x", 2.0, Some(2.0)).met, Some(true));
        assert_eq!(Target::at_most("x", 2.0, Some(2.1)).met, Some(false));
        assert_eq!(Target::at_most("x", 2.0, None).met, None);
    }
}

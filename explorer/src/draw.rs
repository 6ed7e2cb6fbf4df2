//! Drawings of an execution.
use crate::graph::Graph;
/// Draws the execution as text.
pub fn text(_graph: &Graph) -> String {
    String::new()
}

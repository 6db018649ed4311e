//! A line of what happened, and who listens.

use super::units::MS;
use crate::history::Nanos;
use core::fmt;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, in virtual nanoseconds.
    pub at: Nanos,
    /// Who took part: `s0` a server, `p0` a proxy, `coordinator`, `app0` an application. The first one
    /// acted.
    pub nodes: Vec<String>,
    /// What.
    pub text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, nodes) = (self.at as f64 / MS as f64, self.nodes.join(" → "));
        write!(f, "{at:>13.6} ms  {nodes:<14} {}", self.text)
    }
}

/// Hears every line of a story.
pub type Listener = Box<dyn FnMut(&Line)>;

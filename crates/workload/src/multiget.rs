//! How many keys a get has, and which belong together.

use crate::graph::{Graph, PowerLaw};
use crate::text::{self, Term};
use crate::{WorkloadError, refuse};
use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;
use std::sync::Arc;

/// Most keys of a get with independent keys. A graph may have users with more friends.
pub const MULTIGET_MAX: u64 = 10_000;

/// Keys of a get, as text `1`, `geometric(0.382, 128)`, `friends(PATH)` or
/// `friends(power-law(100k))`.
#[derive(Clone, Debug, PartialEq)]
pub enum MultiGet {
    /// This many, each drawn on its own.
    Keys(u64),
    /// Each key is followed by another with probability 1 − p, up to `max`; each drawn on its own
    /// (LinkBench; Armstrong et al., SIGMOD 2013).
    Geometric {
        /// Probability that no further key follows.
        p: f64,
        /// Most keys.
        max: u64,
    },
    /// All friends of a user. The law of popularity is over users that have friends, and the number of
    /// keys is that of the graph's users; what is written is the user's own key (Raindel and Birk,
    /// "Replicate and bundle", IPDPS 2013, section III-B, with uniform popularity).
    Friends(GraphSource),
}

/// Where a social graph comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphSource {
    /// A list of edges, as SNAP publishes them.
    File(PathBuf),
    /// Generated from the workload's seed.
    PowerLaw(PowerLaw),
    /// One that is in memory already.
    Loaded(Arc<Graph>),
}

impl GraphSource {
    /// The graph.
    ///
    /// # Errors
    /// When the file cannot be read, or the graph is too large or too small.
    pub fn load(&self, seed: u64) -> Result<Arc<Graph>, WorkloadError> {
        Ok(match self {
            GraphSource::File(path) => Arc::new(Graph::read(path)?),
            GraphSource::PowerLaw(law) => Arc::new(law.generate(seed)?),
            GraphSource::Loaded(graph) => Arc::clone(graph),
        })
    }
}

impl MultiGet {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        match *self {
            MultiGet::Keys(max) | MultiGet::Geometric { max, .. }
                if !(1..=MULTIGET_MAX).contains(&max) =>
            {
                refuse(format!(
                    "a get of {max} keys is not within 1 and {MULTIGET_MAX}"
                ))
            }
            MultiGet::Geometric { p, .. } if !(p > 0.0 && p <= 1.0) => {
                refuse(format!("probability {p} is not within 0 and 1"))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for MultiGet {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut term = Term::parse(text)?;
        let multiget = match term.name() {
            "geometric" => MultiGet::Geometric {
                p: term.required(0, "p", text::number)?,
                max: term.required(1, "max", text::count)?,
            },
            "friends" => MultiGet::Friends(term.required(0, "graph", |graph| {
                Ok(if graph.starts_with("power-law") {
                    GraphSource::PowerLaw(graph.parse()?)
                } else {
                    GraphSource::File(graph.into())
                })
            })?),
            number if !term.has_arguments() && number.starts_with(|c: char| c.is_ascii_digit()) => {
                MultiGet::Keys(text::count(number)?)
            }
            _ => {
                return term.unknown(
                    "a number of keys",
                    "COUNT, geometric(P, MAX), friends(PATH) or friends(power-law(USERS))",
                );
            }
        };
        term.finish()?;
        multiget.check()?;
        Ok(multiget)
    }
}

impl fmt::Display for MultiGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MultiGet::Keys(keys) => write!(f, "{keys}"),
            MultiGet::Geometric { p, max } => write!(f, "geometric({p}, {max})"),
            MultiGet::Friends(GraphSource::File(path)) => write!(f, "friends({})", path.display()),
            MultiGet::Friends(GraphSource::PowerLaw(law)) => write!(f, "friends({law})"),
            MultiGet::Friends(GraphSource::Loaded(graph)) => {
                write!(f, "friends(graph of {} users)", graph.users())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_keys_are_read_and_written() {
        for text in [
            "1",
            "100",
            "geometric(0.382, 128)",
            "friends(/data/soc.txt.gz)",
            "friends(power-law(1000, exponent=2.2, max=100))",
        ] {
            assert_eq!(text.parse::<MultiGet>().unwrap().to_string(), text);
        }
        for text in [
            "0",
            "10001",
            "x",
            "geometric(0, 5)",
            "geometric(0.5, 0)",
            "geometric(0.5)",
            "friends",
            "friends(power-law())",
        ] {
            assert!(text.parse::<MultiGet>().is_err(), "{text}");
        }
    }
}

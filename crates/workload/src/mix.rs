//! What requests do, and in which shares.

use crate::alias::AliasTable;
use crate::rng::WorkloadRng;
use crate::text::{self, Term};
use crate::{WorkloadError, refuse};
use core::fmt;
use core::str::FromStr;
use rand_xoshiro::rand_core::Rng;

/// What a request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads values.
    #[default]
    Get,
    /// Writes a value.
    Set,
    /// Writes a value if the key has none.
    Add,
    /// Writes a value if the key has one.
    Replace,
    /// Puts bytes behind a value.
    Append,
    /// Puts bytes before a value.
    Prepend,
    /// Reads a value with its version, and writes another if the version is still the same: the
    /// write is sent when the read is answered.
    Cas,
    /// Forgets a value.
    Delete,
    /// Adds 1 to the counter of a key.
    Incr,
    /// Takes 1 from the counter of a key.
    Decr,
    /// Gives a value a new time to live.
    Touch,
    /// Reads a value and writes another: the write is sent when the read is answered.
    ReadModifyWrite,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 12] = [
        Operation::Get,
        Operation::Set,
        Operation::Add,
        Operation::Replace,
        Operation::Append,
        Operation::Prepend,
        Operation::Cas,
        Operation::Delete,
        Operation::Incr,
        Operation::Decr,
        Operation::Touch,
        Operation::ReadModifyWrite,
    ];

    /// Its name in a mix.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::Set => "set",
            Operation::Add => "add",
            Operation::Replace => "replace",
            Operation::Append => "append",
            Operation::Prepend => "prepend",
            Operation::Cas => "cas",
            Operation::Delete => "delete",
            Operation::Incr => "incr",
            Operation::Decr => "decr",
            Operation::Touch => "touch",
            Operation::ReadModifyWrite => "rmw",
        }
    }

    /// Whether it goes to the counter of a key, which is an item of its own, and not to its value.
    pub fn is_for_counters(self) -> bool {
        matches!(self, Operation::Incr | Operation::Decr)
    }
}

/// What one draw from a mix asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// An operation on a key that the popularity chooses.
    On(Operation),
    /// A set of a key that did not exist before.
    Insert,
}

impl Action {
    fn named(name: &str) -> Option<Action> {
        if name == "insert" {
            return Some(Action::Insert);
        }
        Operation::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
            .map(Action::On)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::On(operation) => operation.name(),
            Action::Insert => "insert",
        })
    }
}

/// Shares of operations, as text `mix(get=0.95, set=0.05)`. They need not add up to 1: what counts is
/// their proportion.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    shares: Vec<(Action, f64)>,
}

impl Mix {
    /// Gets in this share, and sets.
    ///
    /// # Errors
    /// When the share is not within 0 and 1.
    pub fn gets(share: f64) -> Result<Self, WorkloadError> {
        if !(0.0..=1.0).contains(&share) {
            return refuse(format!("share of gets {share} is not within 0 and 1"));
        }
        // 1 - 0.95 is not 0.05; to twelve digits it is.
        let rest = ((1.0 - share) * 1e12).round() / 1e12;
        Ok(Mix {
            shares: [(Operation::Get, share), (Operation::Set, rest)]
                .into_iter()
                .filter(|&(_, share)| share > 0.0)
                .map(|(operation, share)| (Action::On(operation), share))
                .collect(),
        })
    }

    /// Operations with their shares.
    ///
    /// # Errors
    /// When a share is not a number of at least 0, or none is above.
    pub fn of(shares: &[(Operation, f64)]) -> Result<Self, WorkloadError> {
        Mix::checked(
            shares
                .iter()
                .map(|&(operation, share)| (Action::On(operation), share))
                .collect(),
        )
    }

    fn checked(shares: Vec<(Action, f64)>) -> Result<Self, WorkloadError> {
        if let Some((action, share)) = shares
            .iter()
            .find(|(_, share)| !(share.is_finite() && *share >= 0.0))
        {
            return refuse(format!("share {share} of {action} is not at least 0"));
        }
        for (index, (action, _)) in shares.iter().enumerate() {
            if shares[..index].iter().any(|(other, _)| other == action) {
                return refuse(format!("the mix has {action} twice"));
            }
        }
        let shares: Vec<_> = shares
            .into_iter()
            .filter(|&(_, share)| share > 0.0)
            .collect();
        if shares.is_empty() {
            return refuse("the mix has no operation with a share above 0");
        }
        Ok(Mix { shares })
    }

    /// The share of an operation among all draws, 0 to 1. Inserts are not among the sets.
    pub fn share(&self, operation: Operation) -> f64 {
        self.share_of(Action::On(operation))
    }

    /// The share of inserts among all draws, 0 to 1.
    pub fn insert_share(&self) -> f64 {
        self.share_of(Action::Insert)
    }

    fn share_of(&self, action: Action) -> f64 {
        let total: f64 = self.shares.iter().map(|(_, share)| share).sum();
        self.shares
            .iter()
            .find(|(other, _)| *other == action)
            .map_or(0.0, |(_, share)| share / total)
    }
}

impl FromStr for Mix {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut term = Term::parse(text)?;
        if term.name() != "mix" {
            return term.unknown("a mix", "mix(get=0.95, set=0.05)");
        }
        let mut shares = Vec::new();
        for (name, share) in term.pairs()? {
            let Some(action) = Action::named(name) else {
                let names: Vec<&str> = Operation::ALL.iter().map(|op| op.name()).collect();
                return refuse(format!(
                    "'{name}' in '{text}' is not an operation: {} or insert",
                    names.join(", ")
                ));
            };
            shares.push((action, text::number(share)?));
        }
        Mix::checked(shares)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mix({})", text::pairs_text(&self.shares))
    }
}

/// Draws from a mix.
#[derive(Clone, Debug)]
pub(crate) struct MixSampler {
    actions: Box<[Action]>,
    table: AliasTable,
}

impl MixSampler {
    pub(crate) fn new(mix: &Mix) -> Self {
        let (actions, shares): (Vec<Action>, Vec<f64>) = mix.shares.iter().copied().unzip();
        MixSampler {
            actions: actions.into(),
            table: AliasTable::new(&shares),
        }
    }

    #[inline]
    pub(crate) fn sample(&self, rng: &mut WorkloadRng) -> Action {
        match &*self.actions {
            [only] => *only,
            actions => actions[self.table.pick(rng.next_u64())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use crate::statistics::{assert_fits, seed};

    #[test]
    fn operations_are_drawn_by_their_shares() {
        let mix: Mix = "mix(get=70, set=20, incr=6, insert=4)".parse().unwrap();
        let sampler = MixSampler::new(&mix);
        let mut rng = stream(seed(), 0);
        let exact = [0.7, 0.2, 0.06, 0.04];
        assert_fits(
            "mix",
            4,
            |n| exact[n as usize],
            200_000,
            || {
                let action = sampler.sample(&mut rng);
                mix.shares.iter().position(|(a, _)| *a == action).unwrap() as u64
            },
        );
        assert!((mix.share(Operation::Get) - 0.7).abs() < 1e-12);
        assert!((mix.insert_share() - 0.04).abs() < 1e-12);
        assert_eq!(mix.share(Operation::Touch), 0.0);
    }

    #[test]
    fn mixes_are_read_and_written() {
        for text in [
            "mix(get=0.95, set=0.05)",
            "mix(cas=1)",
            "mix(rmw=0.5, touch=0.5)",
        ] {
            assert_eq!(text.parse::<Mix>().unwrap().to_string(), text);
        }
        assert_eq!(
            Mix::gets(0.95).unwrap().to_string(),
            "mix(get=0.95, set=0.05)"
        );
        assert_eq!(Mix::gets(1.0).unwrap().to_string(), "mix(get=1)");
        assert_eq!(
            Mix::of(&[(Operation::Delete, 1.0), (Operation::Get, 0.0)])
                .unwrap()
                .to_string(),
            "mix(delete=1)"
        );
        for text in [
            "mix",
            "mix()",
            "mix(get)",
            "mix(get=0)",
            "mix(get=-1, set=2)",
            "mix(get=x)",
            "mix(got=1)",
            "mix(get=1, get=1)",
            "get=1",
            "mix(get=inf)",
        ] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
        for share in [-0.1, 1.1, f64::NAN] {
            assert!(Mix::gets(share).is_err());
        }
    }
}

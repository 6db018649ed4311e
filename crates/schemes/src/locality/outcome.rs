//! What a request ended in: the classes that the paper on locality tells apart (Talaga and Chapin, Figure 1), since they may cost
//! different ways.

/// What a request ended in. The number of a class is its place in Figure 1, read row by row, and is what files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// A `set` that was stored.
    SetHit,
    /// A `set` that was not, for want of memory or since the value was too large.
    SetMiss,
    /// An `add` that was stored: nothing was there.
    AddHit,
    /// An `add` that was not.
    AddMiss,
    /// A `replace` that was stored: something was there.
    ReplaceHit,
    /// A `replace` that was not.
    ReplaceMiss,
    /// A `delete` of what was there.
    DeleteHit,
    /// A `delete` of what was not.
    DeleteMiss,
    /// An `incr` of what was there.
    IncrHit,
    /// An `incr` of what was not.
    IncrMiss,
    /// A `decr` of what was there.
    DecrHit,
    /// A `decr` of what was not.
    DecrMiss,
    /// A `get`, `gets`, `touch` or `gat` of one key that found it. A request for several keys is as many outcomes.
    GetHit,
    /// One that did not.
    GetMiss,
    /// An `append` or `prepend` that was stored: something was there.
    AppendHit,
    /// One that was not.
    AppendMiss,
    /// A `cas` that was stored.
    CasStored,
    /// A `cas` whose unique was no longer that of the item.
    CasExists,
    /// A `cas` of what was not there.
    CasNotFound,
    /// A `flush_all`.
    Flush,
    /// Anything else, which names no key or is an error.
    Other,
}

impl Outcome {
    /// All of them, each at its number.
    pub const ALL: [Outcome; 21] = [
        Outcome::SetHit,
        Outcome::SetMiss,
        Outcome::AddHit,
        Outcome::AddMiss,
        Outcome::ReplaceHit,
        Outcome::ReplaceMiss,
        Outcome::DeleteHit,
        Outcome::DeleteMiss,
        Outcome::IncrHit,
        Outcome::IncrMiss,
        Outcome::DecrHit,
        Outcome::DecrMiss,
        Outcome::GetHit,
        Outcome::GetMiss,
        Outcome::AppendHit,
        Outcome::AppendMiss,
        Outcome::CasStored,
        Outcome::CasExists,
        Outcome::CasNotFound,
        Outcome::Flush,
        Outcome::Other,
    ];

    /// Its number, 0 to 20.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The class with this number. `None` from 21 on.
    pub fn from_number(number: u8) -> Option<Outcome> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// What it is called, in lower case; the paper's CAS1 to CAS3 by what they mean.
    pub const fn word(self) -> &'static str {
        match self {
            Outcome::SetHit => "set hit",
            Outcome::SetMiss => "set miss",
            Outcome::AddHit => "add hit",
            Outcome::AddMiss => "add miss",
            Outcome::ReplaceHit => "replace hit",
            Outcome::ReplaceMiss => "replace miss",
            Outcome::DeleteHit => "delete hit",
            Outcome::DeleteMiss => "delete miss",
            Outcome::IncrHit => "incr hit",
            Outcome::IncrMiss => "incr miss",
            Outcome::DecrHit => "decr hit",
            Outcome::DecrMiss => "decr miss",
            Outcome::GetHit => "get hit",
            Outcome::GetMiss => "get miss",
            Outcome::AppendHit => "append/prepend hit",
            Outcome::AppendMiss => "append/prepend miss",
            Outcome::CasStored => "cas stored",
            Outcome::CasExists => "cas exists",
            Outcome::CasNotFound => "cas not found",
            Outcome::Flush => "flush",
            Outcome::Other => "other",
        }
    }

    /// Whether it is a read as the paper has them (section 5): a get, found or not.
    pub const fn is_read(self) -> bool {
        matches!(self, Outcome::GetHit | Outcome::GetMiss)
    }
}

#[cfg(test)]
impl Outcome {
    /// Whether it has found what it wanted to find, or has stored.
    pub(crate) fn is_hit(self) -> bool {
        use Outcome::{
            AddHit, AppendHit, CasStored, DecrHit, DeleteHit, GetHit, IncrHit, ReplaceHit, SetHit,
        };
        matches!(
            self,
            SetHit
                | AddHit
                | ReplaceHit
                | DeleteHit
                | IncrHit
                | DecrHit
                | GetHit
                | AppendHit
                | CasStored
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_has_the_number_of_its_place_and_a_word_of_its_own() {
        for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(outcome.number()), place);
            assert_eq!(Outcome::from_number(outcome.number()), Some(outcome));
        }
        assert_eq!(Outcome::from_number(21), None);
        assert_eq!(Outcome::from_number(255), None);
        let words: BTreeSet<_> = Outcome::ALL.iter().map(|outcome| outcome.word()).collect();
        assert_eq!(words.len(), Outcome::ALL.len());
        assert_eq!(Outcome::GetHit.number(), 12);
        assert_eq!(Outcome::Other.number(), 20);
    }
}

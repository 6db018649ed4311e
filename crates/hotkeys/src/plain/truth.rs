//! What the home of a hot key last said of it, and which reads that can stand for.
//!
//! A replica holds a value and its client flags, which is what its name is made of. Some reads show more,
//! and what they show is the home's to say: the truth keeps it, and lends it to the replica's answer.
//!
//! - **The CAS unique.** The home is always asked for it. Value and unique are then a pair that the home
//!   held at one moment, whichever server the value comes from, so that a `cas` with it is refused as soon
//!   as anybody has written. An answer that tells the unique alone tells the value, too, if it is the unique
//!   that came with it before. A server counts its uniques anew when it is started anew; so truths end with
//!   the connection to their home.
//! - **Recaching.** A meta command tells whether an item is stale or somebody recaches it (`W`, `X`, `Z`), a
//!   classic one does not, and neither does its unique: who wins the right to recache changes nothing else.
//!   So a meta command may read a replica only for a lease from when a *meta* command was told at the home
//!   that nobody recaches. A classic read is never asked in meta commands, because of a stale item that
//!   would take the right away from somebody who means to use it.

use evenkeel_types::{Instant, Version};

use super::content::{NamePrefix, REPLICA_VALUE_LEN_MAX};

/// What the home was found to hold.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// This.
    Value {
        /// Client flags.
        flags: u32,
        /// The value.
        value: &'a [u8],
        /// The CAS unique, if the answer tells.
        cas: Option<Version>,
        /// Whether somebody recaches it.
        recaching: Recaching,
    },
    /// A value with this CAS unique, which the answer does not tell.
    Unique {
        /// The CAS unique.
        cas: Version,
        /// Whether somebody recaches it.
        recaching: Recaching,
    },
    /// Nothing.
    Absent,
    /// The answer does not say.
    Unknown,
}

/// The CAS unique of all items on a server that keeps none.
const NO_UNIQUE: Version = Version(0);

/// What an answer tells of recaching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recaching {
    /// Nothing: it is one to a classic command.
    Untold,
    /// The item is not stale, and nobody has won the right to recache it.
    No,
    /// Somebody has, or should.
    Yes,
}

/// What a read shows besides value and client flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The CAS unique.
    pub cas: bool,
    /// Whether somebody recaches it.
    pub recaching: bool,
}

impl Wants {
    /// Nothing: `get`.
    pub const VALUE: Wants = Wants {
        cas: false,
        recaching: false,
    };
    /// As `gets`, and all reads of the binary protocol.
    pub const CAS: Wants = Wants {
        cas: true,
        recaching: false,
    };
    /// As `mg`.
    pub const META: Wants = Wants {
        cas: true,
        recaching: true,
    };
}

/// What the home said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Truth {
    /// Value and client flags.
    pub content: NamePrefix,
    /// `None` if it was not asked for it.
    pub cas: Option<Version>,
    /// When the last read was sent that it was the answer to.
    pub sent_at: Instant,
    pub recaching: Recaching,
    /// When the last read was sent that was told of recaching.
    pub recaching_sent_at: Instant,
}

impl Truth {
    /// What the home says by its answer to a read that was sent then. `before` is what it has said
    /// before on the same connection. `None` if it does not say what the key's content is.
    pub fn learned(found: Found<'_>, sent_at: Instant, before: Option<&Truth>) -> Option<Truth> {
        let (content, cas, recaching) = match found {
            Found::Value {
                flags,
                value,
                cas,
                recaching,
            } if value.len() <= REPLICA_VALUE_LEN_MAX => {
                (NamePrefix::of(flags, value), cas, recaching)
            }
            Found::Unique { cas, recaching } if cas != NO_UNIQUE => {
                let same = before.filter(|before| before.cas == Some(cas))?;
                (same.content, Some(cas), recaching)
            }
            _ => return None,
        };
        Some(Truth {
            content,
            cas,
            sent_at,
            recaching,
            recaching_sent_at: sent_at,
        })
    }

    /// Whether another answer says the same.
    pub fn agrees_with(&self, other: &Truth) -> bool {
        let untold = [self.recaching, other.recaching].contains(&Recaching::Untold);
        self.content == other.content
            && self.cas == other.cas
            && (untold || self.recaching == other.recaching)
    }

    /// The home has said the same again.
    pub fn renew(&mut self, again: &Truth) {
        self.sent_at = self.sent_at.max(again.sent_at);
        if again.recaching != Recaching::Untold {
            self.recaching = again.recaching;
            self.recaching_sent_at = self.recaching_sent_at.max(again.sent_at);
        }
    }

    /// From when on it stands for reads that show this; `None` if it does not.
    pub fn since(&self, wants: Wants) -> Option<Instant> {
        if wants.cas && self.cas.is_none() {
            return None;
        }
        match (wants.recaching, self.recaching) {
            (false, _) => Some(self.sent_at),
            (true, Recaching::No) => Some(self.recaching_sent_at),
            (true, Recaching::Untold | Recaching::Yes) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(cas: Option<u64>, recaching: Recaching, ms: u64) -> Truth {
        Truth {
            content: NamePrefix::of(0, b"v"),
            cas: cas.map(Version),
            sent_at: Instant::from_millis(ms),
            recaching,
            recaching_sent_at: Instant::from_millis(ms),
        }
    }

    #[test]
    fn it_stands_for_what_was_told_and_from_when_it_was() {
        use Recaching::{No, Untold, Yes};
        let ms = |ms| Some(Instant::from_millis(ms));
        let mut told = truth(Some(7), Untold, 10);
        let since = |told: &Truth| [Wants::VALUE, Wants::CAS, Wants::META].map(|w| told.since(w));
        assert_eq!(since(&told), [ms(10), ms(10), None]);
        told.renew(&truth(Some(7), No, 20));
        assert_eq!(since(&told), [ms(20); 3]);
        told.renew(&truth(Some(7), Untold, 30));
        assert_eq!(since(&told), [ms(30), ms(30), ms(20)]);
        assert_eq!(
            since(&truth(Some(7), Yes, 40)),
            [ms(40), ms(40), None],
            "a classic command reads what is stale"
        );
        assert_eq!(since(&truth(None, No, 50)), [ms(50), None, None]);
    }

    #[test]
    fn the_unique_alone_tells_the_content_if_it_is_the_one_that_was_told_with_it() {
        let before = truth(Some(7), Recaching::Untold, 10);
        let told = |cas, before| {
            let found = Found::Unique {
                cas: Version(cas),
                recaching: Recaching::No,
            };
            Truth::learned(found, Instant::from_millis(20), before)
        };
        let again = told(7, Some(&before)).unwrap();
        assert!(before.agrees_with(&again));
        assert_eq!(again.since(Wants::META), Some(Instant::from_millis(20)));
        assert!(told(8, Some(&before)).is_none());
        assert!(told(7, None).is_none());
        let unkept = truth(Some(0), Recaching::Untold, 10);
        assert!(told(0, Some(&unkept)).is_none(), "all items have it there");
    }

    #[test]
    fn another_unique_and_a_change_of_recaching_are_another_truth() {
        use Recaching::{No, Untold, Yes};
        let one = truth(Some(7), No, 10);
        assert!(one.agrees_with(&truth(Some(7), No, 20)));
        assert!(one.agrees_with(&truth(Some(7), Untold, 20)));
        for other in [
            truth(Some(8), No, 20),
            truth(None, No, 20),
            truth(Some(7), Yes, 20),
        ] {
            assert!(!one.agrees_with(&other), "{other:?}");
        }
    }
}

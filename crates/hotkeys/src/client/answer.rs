//! What a read was answered, and what that tells of the key.

use evenkeel_types::Version;

/// What a read was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A value of this version.
    Hit(Version),
    /// No value; with the newest version that the home server has issued, if it said so.
    Miss(Option<Version>),
    /// No answer, or an error.
    Failed,
}

/// What an answer told of a key. A miss is newer than the value of the same version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Seen {
    pub version: Version,
    pub is_miss: bool,
}

impl Seen {
    pub fn of(answer: Answer) -> Option<Self> {
        let (version, is_miss) = match answer {
            Answer::Hit(version) => (version, false),
            Answer::Miss(version) => (version?, true),
            Answer::Failed => return None,
        };
        Some(Seen { version, is_miss })
    }

    /// The answer that tells it.
    pub fn answer(self) -> Answer {
        match self.is_miss {
            true => Answer::Miss(Some(self.version)),
            false => Answer::Hit(self.version),
        }
    }
}

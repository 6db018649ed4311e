//! Names of choices in configurations, and what is said of one that does not exist.

/// A name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {given:?} is not one of {known}")]
pub struct UnknownName {
    what: &'static str,
    given: String,
    known: String,
}

impl UnknownName {
    pub(super) fn new<'a>(
        what: &'static str,
        given: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        UnknownName {
            what,
            given: given.to_owned(),
            known: known.collect::<Vec<_>>().join(", "),
        }
    }
}

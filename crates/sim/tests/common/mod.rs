//! What the tests over many seeds share.

/// A number that somebody has set for this run.
pub fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} is not a number")),
    )
}

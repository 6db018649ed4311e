//! Names of proxies in sentences for people.

/// Names that a sentence tells at most.
pub(super) const NAMED_MAX: usize = 3;

/// Some names, and how many there are besides.
pub(super) fn named(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMED_MAX)].join(", ");
    let word = if names.len() == 1 { "proxy" } else { "proxies" };
    match names.len().saturating_sub(NAMED_MAX) {
        0 => format!("{word} {shown}"),
        more => format!("{word} {shown} and {more} more"),
    }
}

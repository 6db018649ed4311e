//! "Did you mean …?" for names that nobody knows.

/// How alike two names must be (Jaro-Winkler, 0 to 1) for one to be taken for a slip of the other.
const LIKENESS_MIN: f64 = 0.85;

/// The words `; did you mean NAME?` for the known name that is most like `given`, or none.
pub fn did_you_mean<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> String {
    known
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, name)| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["port", "listen", "threads"];
        let said = |given| did_you_mean(given, known.into_iter());
        assert_eq!(said("thraeds"), "; did you mean threads?");
        assert_eq!(said("colour"), "");
    }
}

//! How long a run may take, and what it has no time for.

use std::time::{Duration, Instant};

/// The time that there is.
#[derive(Debug)]
pub(super) struct Bound {
    end: Option<Instant>,
    /// What has taken longest so far: whatever comes next may take as long.
    longest: Duration,
    left_out: Vec<String>,
}

impl Bound {
    /// This much time from now on, or as much as it takes.
    pub fn new(time: Option<Duration>) -> Bound {
        Bound {
            end: time.map(|time| Instant::now() + time),
            longest: Duration::ZERO,
            left_out: Vec::new(),
        }
    }

    /// What there was no time for.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Does something if there is time for it.
    ///
    /// # Errors
    /// What it returns.
    pub fn within<T>(
        &mut self,
        what: String,
        act: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let begun = Instant::now();
        if self.end.is_some_and(|end| begun + self.longest > end) {
            self.left_out.push(what);
            return Ok(None);
        }
        let done = act()?;
        self.longest = self.longest.max(begun.elapsed());
        Ok(Some(done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_time_for_is_told() {
        let mut none = Bound::new(Some(Duration::ZERO));
        let mut all = Bound::new(None);
        // Time has gone on since.
        none.longest = Duration::from_nanos(1);
        let act = |bound: &mut Bound| bound.within("a".into(), || Ok(())).expect("it does");
        assert_eq!([act(&mut none), act(&mut all)], [None, Some(())]);
        assert_eq!(none.left_out(), ["a"]);
        assert!(all.left_out().is_empty());
    }
}

//! The newest of what has happened, for those who look now and then.

use std::collections::VecDeque;

/// The newest events of a kind, at most this many, and how many there were in all.
#[derive(Clone, Debug)]
pub struct Recent<E, const MOST: usize> {
    newest: VecDeque<E>,
    total: u64,
}

impl<E, const MOST: usize> Default for Recent<E, MOST> {
    fn default() -> Self {
        Recent {
            newest: VecDeque::new(),
            total: 0,
        }
    }
}

impl<E, const MOST: usize> Recent<E, MOST> {
    /// Something has happened.
    pub(crate) fn push(&mut self, event: E) {
        if self.newest.len() == MOST {
            self.newest.pop_front();
        }
        self.newest.push_back(event);
        self.total += 1;
    }

    /// What is kept, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &E> + DoubleEndedIterator {
        self.newest.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut E> {
        self.newest.iter_mut()
    }

    /// How many there were since the process started.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many are not kept any more.
    pub fn forgotten(&self) -> u64 {
        self.total - self.newest.len() as u64
    }

    /// What came after the first `seen` of them, oldest first, as far as it is kept.
    pub fn since(&self, seen: u64) -> impl Iterator<Item = &E> {
        let news = self.total.saturating_sub(seen);
        let news = usize::try_from(news).unwrap_or(usize::MAX);
        self.newest
            .iter()
            .skip(self.newest.len().saturating_sub(news))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anyone_who_looks_in_time_sees_each_once() {
        let mut recent = Recent::<_, 3>::default();
        let (mut seen, mut told) = (0, Vec::new());
        for number in 0..10 {
            recent.push(number);
            if number % 3 == 2 {
                told.extend(recent.since(seen).copied());
                seen = recent.total();
            }
        }
        assert_eq!(told, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(recent.since(0).copied().collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!((recent.total(), recent.forgotten()), (10, 7));
        assert_eq!(recent.since(11).count(), 0);
    }
}

//! What was last done in each class of connection and key: numbers in tables.

use evenkeel_types::KeyHash;

use super::entry::Entry;
use super::ticket::Connection;

/// Who has written or was shown what is remembered in this many classes of connection and key together.
pub(super) const PAIR_CLASSES: usize = 4096;

/// The writes of each class of connection and key. Classes are shared by chance, which costs reads at the home and nothing else.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// The number of the last write that is not known. Empty until there is one.
    marks: Vec<u64>,
    /// The number of the last touch. Empty until there is one.
    touches: Vec<u64>,
}

impl Writes {
    /// Whether a copy of the key may lack a write of the class, or a touch, without that being seen from its answer.
    #[inline]
    pub fn may_hide(&self, class: usize, entry: &Entry) -> bool {
        is_past(&self.marks, class, entry.granted)
            || is_past(&self.touches, class, entry.granted_whole)
    }

    /// Whether a write of the class has turned out not to be known since the read of that number was sent.
    #[inline]
    pub fn is_marked_since(&self, class: usize, number: u64) -> bool {
        is_past(&self.marks, class, number)
    }

    /// A touch of the class is about to be sent.
    pub fn touch(&mut self, class: usize, number: u64) {
        note(&mut self.touches, class, number);
    }

    /// Of a write of the class nobody knows what copies lack.
    pub fn mark(&mut self, class: usize, number: u64) {
        note(&mut self.marks, class, number);
    }

    #[cfg(test)]
    pub fn marks(&self) -> &[u64] {
        &self.marks
    }

    #[cfg(test)]
    pub fn of_marks(marks: Vec<u64>) -> Self {
        Writes {
            marks,
            touches: Vec::new(),
        }
    }
}

#[inline]
pub(super) fn pair_class(hash: KeyHash, connection: Connection) -> usize {
    // Connections may be numbered by positions in a table.
    let mixed = hash.0 ^ connection.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32) as usize % PAIR_CLASSES
}

#[inline]
fn is_past(numbers: &[u64], class: usize, number: u64) -> bool {
    numbers.get(class).is_some_and(|&noted| noted > number)
}

/// Notes the number of what was last done in a class.
pub(super) fn note(numbers: &mut Vec<u64>, class: usize, number: u64) {
    if numbers.is_empty() {
        *numbers = vec![0; PAIR_CLASSES];
    }
    numbers[class] = number;
}

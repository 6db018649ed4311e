//! What is still to happen, in the order of time.

use crate::history::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events by time, and by the order in which they were put in where times are equal.
///
/// The heap moves three words for each event; the events themselves stay where they are.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    order: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    events: Vec<Option<T>>,
    free: Vec<u32>,
    count: u64,
}

impl<T> Queue<T> {
    pub fn new() -> Self {
        Queue {
            order: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            count: 0,
        }
    }

    pub fn push(&mut self, at: Nanos, event: T) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.events[slot as usize] = Some(event);
                slot
            }
            None => {
                self.events.push(Some(event));
                u32::try_from(self.events.len() - 1).expect("memory ends before slots do")
            }
        };
        self.count += 1;
        self.order.push(Reverse((at, self.count, slot)));
    }

    pub fn pop(&mut self) -> Option<(Nanos, T)> {
        let Reverse((at, _, slot)) = self.order.pop()?;
        self.free.push(slot);
        let event = self.events[slot as usize].take();
        Some((at, event.expect("a slot in the order holds an event")))
    }

    /// Events that have been put in so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_turn() {
        let mut queue = Queue::new();
        for (at, name) in [(5, "c"), (3, "a"), (5, "d"), (3, "b")] {
            queue.push(at, name);
        }
        let first: Vec<_> = (0..2).filter_map(|_| queue.pop()).collect();
        assert_eq!(first, [(3, "a"), (3, "b")]);
        queue.push(5, "e");
        let rest: Vec<_> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [(5, "c"), (5, "d"), (5, "e")]);
        assert_eq!((queue.count(), queue.events.len()), (5, 4));
    }
}

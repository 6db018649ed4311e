//! What is still to happen, in the order of time.

use crate::history::Nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Events by time, and by the order in which they were put in where times are equal.
///
/// The heap moves three words for each event; the events themselves stay where they are. Events that
/// come after equal delays come in the order in which they are put in: such need no heap, and may
/// stand in one of `LINES` lines.
#[derive(Debug)]
pub(crate) struct Queue<T, const LINES: usize = 0> {
    order: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    events: Vec<Option<T>>,
    free: Vec<u32>,
    /// Each in order.
    lines: [VecDeque<(Nanos, u64, T)>; LINES],
    count: u64,
}

impl<T, const LINES: usize> Queue<T, LINES> {
    pub fn new() -> Self {
        Queue {
            order: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            lines: [const { VecDeque::new() }; LINES],
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

    /// As [`push`](Self::push), and faster where events of this line come in order.
    #[inline]
    pub fn push_in_line(&mut self, line: usize, at: Nanos, event: T) {
        if self.lines[line].back().is_some_and(|last| last.0 > at) {
            return self.push(at, event);
        }
        self.count += 1;
        self.lines[line].push_back((at, self.count, event));
    }

    /// When the next event is, its turn among those of that time, and its line if it stands in one.
    #[inline]
    fn next(&self) -> Option<(Nanos, u64, Option<usize>)> {
        let of_heap = self.order.peek();
        let mut next = of_heap.map(|&Reverse((at, turn, _))| (at, turn, None));
        for (i, line) in self.lines.iter().enumerate() {
            if let Some(&(at, turn, _)) = line.front()
                && next.is_none_or(|next| (at, turn) < (next.0, next.1))
            {
                next = Some((at, turn, Some(i)));
            }
        }
        next
    }

    pub fn pop(&mut self) -> Option<(Nanos, T)> {
        self.pop_until(Nanos::MAX)
    }

    /// The next event, if it is not later than this.
    #[inline]
    pub fn pop_until(&mut self, until: Nanos) -> Option<(Nanos, T)> {
        let (at, _, line) = self.next().filter(|next| next.0 <= until)?;
        if let Some(line) = line {
            return self.lines[line]
                .pop_front()
                .map(|(at, _, event)| (at, event));
        }
        let Reverse((_, _, slot)) = self.order.pop()?;
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
    use crate::random::Random;

    #[test]
    fn events_come_by_time_and_then_by_turn() {
        let mut queue: Queue<_> = Queue::new();
        for (at, name) in [(5, "c"), (3, "a"), (5, "d"), (3, "b")] {
            queue.push(at, name);
        }
        let first: Vec<_> = (0..2).filter_map(|_| queue.pop()).collect();
        assert_eq!(first, [(3, "a"), (3, "b")]);
        queue.push(5, "e");
        assert_eq!(queue.pop_until(4), None);
        let rest: Vec<_> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [(5, "c"), (5, "d"), (5, "e")]);
        assert_eq!((queue.count(), queue.events.len()), (5, 4));
    }

    /// Twin: the heap alone.
    #[test]
    fn lines_change_nothing_but_speed() {
        let seed = 0x5eed_0011;
        println!("seed {seed:#x}");
        let mut random = Random::new(seed);
        let mut heap: Queue<u64> = Queue::new();
        let mut lined: Queue<u64, 2> = Queue::new();
        let mut now = 0;
        for number in 0..20_000 {
            let kind = random.index(4);
            // Lines of equal delays, and now and then one that is not.
            let at = now + [30, 7, random.below(50), random.below(50)][kind];
            heap.push(at, number);
            match kind {
                0 | 1 => lined.push_in_line(kind, at, number),
                2 => lined.push_in_line(random.index(2), at, number),
                _ => lined.push(at, number),
            }
            for _ in 0..random.index(3) {
                let next = heap.pop();
                assert_eq!(lined.pop(), next, "event {number}");
                now = next.map_or(now, |(at, _)| at);
            }
        }
        while let Some(next) = heap.pop() {
            assert_eq!(lined.pop(), Some(next));
        }
        assert_eq!(lined.pop(), None);
    }
}

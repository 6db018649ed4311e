//! The lines that watchers read, on their way from where something happened to who watches.
//!
//! A watcher is a connection of one worker; what it watches happens at all of them. Each worker knows
//! which kinds of events are watched at which worker, writes a line once for each of those, and sends
//! what has gathered with the next turn:
//!
//! ```text
//!  event ──> outgoing lines for worker W ──message, one at a time──> watchers of W ──> their output
//!             (at most worker_logbuf_size,        (at most watcher_logbuf_size unread, then
//!              then dropped and counted)           skipped, counted, and the watcher is told)
//! ```
//!
//! So anyone who watches and does not read costs a bounded amount of memory, and nobody waits.

use evenkeel_protocol::admin::Streams;

/// Some lines, each with the kinds of events that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    bytes: Vec<u8>,
    marks: Vec<(Streams, usize)>,
}

impl Lines {
    /// Adds a line.
    pub fn push(&mut self, streams: Streams, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.marks.push((streams, line.len()));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The lines with their kinds.
    pub fn iter(&self) -> impl Iterator<Item = (Streams, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.marks.iter().map(move |&(streams, len)| {
            let (line, after) = rest.split_at(len);
            rest = after;
            (streams, line)
        })
    }
}

/// Who watches at one worker, and what waits to be sent there.
#[derive(Debug, Default)]
pub struct Target {
    /// Kinds of events that somebody there watches.
    pub streams: Streams,
    /// How many watch there.
    pub watchers: u16,
    /// Lines that were not sent yet.
    pub waiting: Lines,
    /// Lines are on their way, and have not been taken yet.
    pub in_flight: bool,
}

impl Target {
    /// Adds a line if it is wanted; false when there was no room for it.
    pub fn offer(&mut self, streams: Streams, line: &[u8], bytes_max: usize) -> bool {
        if !self.streams.intersects(streams) {
            return true;
        }
        let fits = self.waiting.bytes.len() + line.len() <= bytes_max;
        if fits {
            self.waiting.push(streams, line);
        }
        fits
    }

    /// What can be sent now.
    pub fn take(&mut self) -> Option<Lines> {
        if self.in_flight || self.waiting.is_empty() {
            return None;
        }
        self.in_flight = true;
        Some(core::mem::take(&mut self.waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_one_batch_is_on_its_way() {
        let mut target = Target {
            streams: Streams::FETCHERS,
            ..Target::default()
        };
        assert!(target.offer(Streams::EVICTIONS, b"not wanted\n", 0));
        assert!(target.take().is_none());
        assert!(target.offer(Streams::FETCHERS, b"one\n", 8));
        assert!(target.offer(Streams::FETCHERS, b"two\n", 8));
        assert!(!target.offer(Streams::FETCHERS, b"x\n", 8));
        let lines = target.take().expect("lines");
        assert_eq!(
            lines.iter().collect::<Vec<_>>(),
            [
                (Streams::FETCHERS, b"one\n".as_slice()),
                (Streams::FETCHERS, b"two\n")
            ]
        );
        assert!(target.offer(Streams::FETCHERS, b"three\n", 8));
        assert!(target.take().is_none(), "the first is still on its way");
        target.in_flight = false;
        assert!(target.take().is_some());
    }
}

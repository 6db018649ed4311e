//! How much of a server's memory copies may take that this worker stores there.
//!
//! A memcached has one LRU: a copy that is stored pushes out what was used least recently, which may be an item that stands nowhere else. The paper
//! takes memory for granted in which all items stay, and copies use what is left (Replicate and Bundle, section III-D). So the bytes of copies
//! that are stored at a server within the time that a copy lives are bounded to a part of its memory: those that live there at any time are
//! no more. Each worker has an equal part of that part, and counts for itself.
//!
//! How much memory a server has it says itself, once on each connection: somebody may have started it anew with more or less. Who does not say
//! it is filled nothing. A server of ours says that it keeps copies apart: they take what its items leave, and it is filled whatever is read.
//!
//! What is counted is what memcached counts of an item. It takes up to a quarter more, since its pieces of memory have a few sizes.

use crate::pipe::handshake::Handshake;
use crate::show::is_error;
use core::time::Duration;
use evenkeel_protocol::Reply;
use evenkeel_types::Instant;

/// What a server is asked. A memcached answers the first with an error.
pub(crate) const QUESTION: &[u8] = b"stats evenkeel\r\nstats\r\n";
const ANSWERS: u8 = 2;

/// What it calls its memory, in bytes.
const MEMORY: &[u8] = b"limit_maxbytes";

/// What a server counts that keeps copies apart.
const APART: &[u8] = b"bundle_copies";

/// Bytes that memcached 1.6 counts of an item besides its name and its value: head 48, unique 8, client flags 4, and the ends of both 3.
const ITEM_OVERHEAD: u64 = 63;

/// Into this many slots the time is divided for which is counted: what was stored is forgotten after that time, and at most one slot later.
const SLOTS: usize = 16;

/// How much may be stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FillBound {
    /// The part of the server's memory, 0 to 1.
    pub share: f64,
    /// Within which time: whole seconds, at least 1.
    pub within: Duration,
}

/// What a server has said of its memory, and what was stored there.
#[derive(Debug, Default)]
pub(crate) struct Room {
    handshake: Handshake,
    /// Answers that have ended on this connection.
    answers: u8,
    /// Whether it has said on this connection that copies evict nothing there.
    is_apart: bool,
    /// In bytes; 0 as long as it has not said it on this connection.
    memory: u64,
    stored: Stored,
}

/// It has said something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

/// Bytes that were stored lately.
#[derive(Debug, Default)]
struct Stored {
    /// By slot, modulo their number: those that are over, and the present one.
    bytes: [u64; SLOTS + 1],
    /// The present one, counted from the beginning of time.
    slot: u64,
}

impl Room {
    /// Another connection is made: somebody else may be there.
    pub fn begin_anew(&mut self) {
        self.handshake = Handshake::default();
        (self.answers, self.is_apart, self.memory) = (0, false, 0);
    }

    /// Whether the server is to be asked before the greeting. Once on each connection.
    pub fn is_to_be_asked(&mut self) -> bool {
        self.handshake.say()
    }

    /// Whether its answer is to come, or to go on.
    pub fn is_asked(&self) -> bool {
        self.handshake.is_said()
    }

    /// A line of its answer. An error is one, too.
    pub fn handle(&mut self, reply: &Reply<'_>) -> Result<(), NoAnswer> {
        match reply {
            Reply::Stat { name, value } if *name == MEMORY => {
                let number = str::from_utf8(value).ok().and_then(|it| it.parse().ok());
                self.memory = number.unwrap_or(0);
            }
            Reply::Stat { name, .. } => self.is_apart |= *name == APART,
            Reply::End => self.end_answer(),
            reply if is_error(reply) => self.end_answer(),
            _ => return Err(NoAnswer),
        }
        Ok(())
    }

    fn end_answer(&mut self) {
        self.answers += 1;
        if self.answers == ANSWERS {
            self.handshake.answered();
        }
    }

    /// Whether a copy with a name and a value of this many bytes together may be stored now. O(1).
    pub fn fits(&mut self, now: Instant, bound: FillBound, len: usize) -> bool {
        if self.is_apart {
            return true;
        }
        let most = (self.memory as f64 * bound.share) as u64;
        let stored = self.stored.sum(now, bound.within);
        stored.saturating_add(bytes_of(len)) <= most
    }

    /// The same; if so it is stored.
    pub fn take(&mut self, now: Instant, bound: FillBound, len: usize) -> bool {
        let fits = self.fits(now, bound, len);
        if fits && !self.is_apart {
            self.stored.add(bytes_of(len));
        }
        fits
    }
}

/// What memcached counts of an item with a name and a value of this many bytes together.
fn bytes_of(len: usize) -> u64 {
    len as u64 + ITEM_OVERHEAD
}

impl Stored {
    /// What was stored within this time, and up to a slot longer. What was counted by another time is forgotten.
    fn sum(&mut self, now: Instant, within: Duration) -> u64 {
        let slot = (u128::from(now.0) * SLOTS as u128 / within.as_nanos()) as u64;
        let over = slot.abs_diff(self.slot).min(self.bytes.len() as u64);
        for passed in 0..over {
            self.bytes[place(slot.wrapping_sub(passed))] = 0;
        }
        self.slot = slot;
        self.bytes.iter().sum()
    }

    /// Something is stored in the slot that was last looked at.
    fn add(&mut self, bytes: u64) {
        self.bytes[place(self.slot)] += bytes;
    }
}

fn place(slot: u64) -> usize {
    (slot % (SLOTS as u64 + 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    const MINUTE: Duration = Duration::from_secs(60);

    fn said(lines: &[Reply<'_>]) -> Room {
        let mut room = Room::default();
        assert!(!room.is_asked() && room.is_to_be_asked());
        for line in lines {
            assert!(room.is_asked());
            assert_eq!(room.handle(line), Ok(()));
        }
        assert!(!room.is_asked() && !room.is_to_be_asked());
        room
    }

    fn stat<'a>(name: &'a [u8], value: &'a [u8]) -> Reply<'a> {
        Reply::Stat { name, value }
    }

    fn bound(share: f64) -> FillBound {
        FillBound {
            share,
            within: MINUTE,
        }
    }

    #[test]
    fn who_does_not_say_how_much_memory_it_has_is_stored_nothing() {
        let now = Instant::from_millis(5);
        let memory = stat(b"limit_maxbytes", b"640");
        let mut room = said(&[Reply::Error, stat(b"pid", b"1"), memory.clone(), Reply::End]);
        assert!(room.fits(now, bound(0.5), 320 - 63) && !room.fits(now, bound(0.5), 321 - 63));
        for other in [
            &[Reply::End, Reply::End][..],
            &[Reply::Error, Reply::Error],
            &[Reply::End, Reply::ServerError(b"busy")],
            &[Reply::Error, stat(b"limit_maxbytes", b"64m"), Reply::End],
            &[Reply::Error, stat(b"limit_maxbytes", b"-1"), Reply::End],
            &[Reply::Error, stat(b"maxbytes", b"640"), Reply::End],
        ] {
            assert!(!said(other).fits(now, bound(1.0), 0), "{other:?}");
        }
        assert!(!Room::default().fits(now, bound(1.0), 0));
        room.begin_anew();
        assert!(!room.fits(now, bound(1.0), 0));
        assert!(room.is_to_be_asked());
        assert_eq!(room.handle(&Reply::Stored), Err(NoAnswer));
    }

    #[test]
    fn who_keeps_copies_apart_is_filled_until_another_may_have_come() {
        let now = Instant::from_millis(5);
        let memory = stat(b"limit_maxbytes", b"640");
        let apart = stat(b"bundle_copies", b"0");
        let mut room = said(&[apart, Reply::End, memory.clone(), Reply::End]);
        assert!((0..100).all(|_| room.take(now, bound(0.1), 1 << 20)));
        room.begin_anew();
        assert!(!room.fits(now, bound(1.0), 0));
        for answer in [Reply::Error, memory, Reply::End] {
            assert_eq!(room.handle(&answer), Ok(()));
        }
        assert!(room.take(now, bound(1.0), 500) && !room.fits(now, bound(1.0), 500));
    }

    #[test]
    fn what_was_counted_by_another_time_is_forgotten() {
        let (now, memory) = (
            Instant::from_millis(90_000),
            stat(b"limit_maxbytes", b"100"),
        );
        let mut room = said(&[Reply::Error, memory, Reply::End]);
        assert!(room.take(now, bound(1.0), 37) && !room.fits(now, bound(1.0), 0));
        let longer = FillBound {
            share: 1.0,
            within: 10 * MINUTE,
        };
        assert!(room.take(now, longer, 37) && !room.fits(now, longer, 0));
    }

    /// Against a list of all that was stored, and when.
    #[test]
    fn no_more_is_stored_in_any_such_time_and_it_is_forgotten_a_slot_later_at_most() {
        let (mut taken, mut refused) = (0, 0);
        for seed in 0..300 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut below = |n: u64| random.next_u64() % n;
            let within = Duration::from_secs(1 + below(90));
            let share = [0.25, 0.5, 1.0][below(3) as usize];
            let most = 1_000 + below(20_000);
            let memory = format!("{}", (most as f64 / share) as u64);
            let memory_stat = stat(b"limit_maxbytes", memory.as_bytes());
            let mut room = said(&[Reply::Error, memory_stat, Reply::End]);
            let most = (memory.parse::<u64>().unwrap() as f64 * share) as u64;
            let bound = FillBound { share, within };
            let mut list: Vec<(Instant, u64)> = Vec::new();
            let mut now = Instant(below(u64::MAX / 2));
            for _ in 0..500 {
                let slots = [0, 0, 1, 1, 2, 40][below(6) as usize];
                now = now + within * slots / 16 + Duration::from_nanos(below(1 << 27));
                let len = below(2_000);
                let sum = |longest: Duration| -> u64 {
                    let lately = list.iter().filter(|(then, _)| now.since(*then) < longest);
                    lately.map(|(_, bytes)| bytes).sum()
                };
                let fits_at_least = sum(within + within / 16) + len + 63 <= most;
                let fits_at_most = sum(within) + len + 63 <= most;
                let fits = room.fits(now, bound, len as usize);
                assert!(!fits_at_least || fits, "seed {seed}");
                assert!(!fits || fits_at_most, "seed {seed}");
                assert_eq!(room.take(now, bound, len as usize), fits, "seed {seed}");
                if fits {
                    list.push((now, len + 63));
                }
                *[&mut refused, &mut taken][usize::from(fits)] += 1;
            }
        }
        assert!(taken > 10_000 && refused > 10_000, "{taken} {refused}");
    }
}

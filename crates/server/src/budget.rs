//! The memory for what connections have sent and not been answered, and for answers that they have not
//! read: one budget for all workers of the process.
//!
//! What one connection may hold is bounded (`-I` and a read; 1 MiB of answers and the one that went
//! beyond), but many connections hold many times that. A [`Budget`] bounds the sum, in two pools: bytes
//! of input and bytes of answers. What happens as a pool fills:
//!
//! | pool | input | answers |
//! |---|---|---|
//! | up to three quarters | a command whose length is known gets its room at once | as without a budget |
//! | above ([`Level::Tight`]) | the same; reads are small | a connection's commands wait for its earlier answers |
//! | full ([`Level::Full`]) | a command that finds no room waits, unread, in line with others | all commands wait |
//!
//! Waiting alone can last for ever: who holds memory may never send the rest, or never read. So while a
//! pool is tight or somebody waits, each worker looks at its own connections ten times a second and
//! closes the one that has held its memory for longest, if that is longer than [`PATIENCE`]: a client
//! that moves at all gets a value of 1 MiB through in less. While no answer finds room, all that have
//! held theirs for so long go at once. A command that has waited for [`WAIT_MAX`] is refused. What
//! commands add that are carried out while a pool fills is at most one answer for each worker, and
//! those of commands that other workers had begun.
//!
//! A worker counts what it holds by itself, in a [`Share`], and takes from the pools in steps of
//! [`STEP`]: a connection that is answered and has read its answers holds nothing and costs nothing, and
//! what others hold in between touches no memory that workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of input that all connections may hold, unless `-o read_buf_mem_limit` says otherwise.
pub const INPUT_BYTES_MAX: usize = 12 << 20;

/// Bytes of answers that all connections may hold, unless `-o resp_obj_mem_limit` says otherwise.
pub const ANSWER_BYTES_MAX: usize = 12 << 20;

/// In what steps a worker takes from a pool, in bytes. What it has taken and does not use, less than
/// two steps, is lost to the others.
const STEP: usize = 32 << 10;

/// A connection that holds less is not worth closing, in bytes.
pub const HOLDER_MIN: usize = 16 << 10;

/// Most bytes of one read while input is [`Level::Tight`].
pub const TIGHT_READ: usize = 4 << 10;

/// From how many bytes of its answers on a connection waits while answers are [`Level::Tight`].
pub const TIGHT_UNREAD: usize = 16 << 10;

/// How long a connection may hold memory that others need.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// How long a command may wait for memory.
pub const WAIT_MAX: Duration = Duration::from_secs(10);

/// How often a worker looks for a connection to close while memory is short.
pub const LOOK: Duration = Duration::from_millis(100);

/// How often a worker looks whether there is memory for those who wait: others do not tell.
pub const WAIT_LOOK: Duration = Duration::from_millis(10);

/// How much of a pool is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Up to three quarters.
    #[default]
    Easy,
    /// More than that.
    Tight,
    /// More than all of it.
    Full,
}

/// A bound on bytes.
#[derive(Debug)]
pub struct Pool {
    limit: usize,
    /// What workers have taken, and what is on its way between them.
    taken: AtomicUsize,
    /// Connections that wait for room.
    waiting: AtomicUsize,
}

impl Pool {
    /// A pool of so many bytes; without bound for zero.
    pub fn new(limit: usize) -> Self {
        let limit = if limit == 0 { usize::MAX } else { limit };
        Pool {
            limit,
            taken: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// How much of it is taken.
    #[inline]
    pub fn level(&self) -> Level {
        match self.taken.load(Ordering::Relaxed) {
            taken if taken > self.limit => Level::Full,
            taken if taken > self.limit / 4 * 3 => Level::Tight,
            _ => Level::Easy,
        }
    }

    /// Whether some connection waits for room.
    pub fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Counts bytes that are on their way from one worker to another; whoever receives them gives them
    /// back. Nobody is asked: they are there already.
    pub fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// See [`Pool::take`].
    pub fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The pools of a process.
#[derive(Debug)]
pub struct Budget {
    /// Bytes received and not carried out.
    pub input: Pool,
    /// Bytes of answers that were not written.
    pub answers: Pool,
}

/// Something about each of the two pools: what one connection holds, in bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held<T = usize> {
    /// Of input.
    pub input: T,
    /// Of answers.
    pub answers: T,
}

/// What a worker holds of one pool.
#[derive(Debug, Default)]
struct Part {
    used: usize,
    /// Taken from the pool. Invariant: at least `used`.
    taken: usize,
}

impl Part {
    /// A connection held `before` and holds `after`.
    fn change(&mut self, pool: &Pool, before: usize, after: usize) {
        self.used = (self.used + after).saturating_sub(before);
        if self.used > self.taken {
            let more = (self.used - self.taken).next_multiple_of(STEP);
            pool.take(more);
            self.taken += more;
        } else if self.taken - self.used >= 2 * STEP {
            self.trim(pool, STEP);
        }
    }

    /// Gives back what is neither used nor to be kept.
    fn trim(&mut self, pool: &Pool, keep: usize) {
        let unused = (self.taken - self.used).saturating_sub(keep);
        pool.give_back(unused);
        self.taken -= unused;
    }
}

/// What one worker holds.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    input: Part,
    answers: Part,
}

impl Share {
    /// A worker that holds nothing yet.
    pub fn new(budget: Arc<Budget>) -> Self {
        Share {
            budget,
            input: Part::default(),
            answers: Part::default(),
        }
    }

    /// The pools.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Bytes of input that this worker's connections hold.
    pub fn input_bytes(&self) -> usize {
        self.input.used
    }

    /// A connection held `before` and holds `after`.
    pub fn change(&mut self, before: Held, after: Held) {
        if before.input != after.input {
            let pool = &self.budget.input;
            self.input.change(pool, before.input, after.input);
        }
        if before.answers != after.answers {
            let pool = &self.budget.answers;
            self.answers.change(pool, before.answers, after.answers);
        }
    }

    /// Whether there are `more` bytes of input for a connection that holds `held`. A command that is
    /// larger than the whole pool finds room once others hold no more than a quarter of it. What is
    /// granted is counted with the connection, by [`Share::change`].
    pub fn has_input_room(&mut self, held: usize, more: usize) -> bool {
        let pool = &self.budget.input;
        self.input.trim(pool, 0);
        let taken = pool.taken.load(Ordering::Relaxed);
        taken.saturating_add(more) <= pool.limit || taken.saturating_sub(held) <= pool.limit / 4
    }

    /// Gives back what is kept at hand, because somebody waits.
    pub fn trim(&mut self) {
        self.input.trim(&self.budget.input, 0);
    }

    /// A connection begins or ends to wait for room.
    pub fn set_waiting(&self, waits: bool) {
        let waiting = &self.budget.input.waiting;
        match waits {
            true => waiting.fetch_add(1, Ordering::Relaxed),
            false => waiting.fetch_sub(1, Ordering::Relaxed),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn budget(limit: usize) -> Arc<Budget> {
        Arc::new(Budget {
            input: Pool::new(limit),
            answers: Pool::new(limit),
        })
    }

    fn input(bytes: usize) -> Held {
        Held {
            input: bytes,
            answers: 0,
        }
    }

    #[test]
    fn a_pool_says_how_full_it_is() {
        let pool = Pool::new(4 * MIB);
        for (more, level) in [
            (3 * MIB, Level::Easy),
            (1, Level::Tight),
            (MIB - 1, Level::Tight),
            (1, Level::Full),
        ] {
            pool.take(more);
            assert_eq!(pool.level(), level);
        }
        pool.give_back(4 * MIB);
        assert_eq!(pool.level(), Level::Easy);
        let pool = Pool::new(0);
        pool.take(1 << 40);
        assert_eq!(pool.level(), Level::Easy, "without bound");
    }

    /// Whatever connections of several workers come to hold and leave, the pool knows it, within what
    /// each worker keeps at hand.
    #[test]
    fn the_pool_knows_what_all_workers_hold() {
        let budget = budget(64 * MIB);
        let mut shares: Vec<Share> = (0..3).map(|_| Share::new(budget.clone())).collect();
        let mut held = vec![Held::default(); 30];
        let mut random: usize = 7;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (random >> 33) % held.len();
            let after = match (random >> 40) % 3 {
                0 => Held::default(),
                1 => input((random >> 20) % 3000),
                _ => input((random >> 20) % MIB),
            };
            shares[at % 3].change(held[at], after);
            held[at] = after;
            let sum: usize = held.iter().map(|held| held.input).sum();
            let taken = budget.input.taken.load(Ordering::Relaxed);
            assert!(
                (sum..sum + 3 * 2 * STEP).contains(&taken),
                "{sum} held, {taken} taken"
            );
        }
        for (at, held) in held.iter().enumerate() {
            shares[at % 3].change(*held, Held::default());
        }
        assert!(shares.iter().all(|share| share.input_bytes() == 0));
        assert_eq!(budget.answers.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn input_finds_room_up_to_the_limit_and_a_lone_command_always() {
        let budget = budget(4 * MIB);
        let (mut one, mut other) = (Share::new(budget.clone()), Share::new(budget));
        assert!(one.has_input_room(0, 3 * MIB));
        one.change(Held::default(), input(3 * MIB));
        assert!(other.has_input_room(0, MIB));
        assert!(!other.has_input_room(0, MIB + 1));
        assert!(
            !other.has_input_room(0, 5 * MIB),
            "more than the pool, of which others hold most"
        );
        assert!(
            one.has_input_room(3 * MIB, 5 * MIB),
            "the only one that holds any"
        );
        one.change(input(3 * MIB), input(100));
        assert!(other.has_input_room(0, 5 * MIB));
    }

    #[test]
    fn those_who_wait_are_known_to_all() {
        let budget = budget(MIB);
        let share = Share::new(budget.clone());
        assert!(!budget.input.is_awaited());
        share.set_waiting(true);
        assert!(budget.input.is_awaited());
        share.set_waiting(false);
        assert!(!budget.input.is_awaited());
    }
}

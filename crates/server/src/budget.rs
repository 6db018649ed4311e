//! The memory for what connections have sent and not been answered, and for answers that they have not
//! read: two pools for all workers of the process, each with the rules of
//! [`runtime::budget`](evenkeel_runtime::budget).
//!
//! | level | input | answers |
//! |---|---|---|
//! | `Easy` | a command takes memory as it comes, twice what is there at most | a connection has up to 1 MiB unread, and the answer that goes beyond |
//! | `Tight` | the same; reads are small | a connection's commands wait for its earlier answers |
//! | `Full` | the next step of a command of more than [`LARGE_ANSWER`] bytes waits, unread, in line with others | so does a command whose answer is a larger value, here or at the worker that holds it |
//! | `Over` | small commands wait, too | none waits |
//!
//! At `Full`, a client that has read a large answer to its end does not wait: it shares what is beyond the limit with the
//! small ones. Those who wait go on two in a turn, and connections of other workers one answer after the other.
//!
//! So anyone who has nothing unread is answered at once with values of up to [`LARGE_ANSWER`] bytes, and
//! stores such values at once, whatever others hold. When that takes more than the quarter that is
//! kept for it, the slowest of those who hold memory go at once.
//!
//! A line moves because the slowest go (`who_goes`), and because the first of those who wait for the rest
//! of a command is let in beyond the limit, one of each worker at a time: otherwise commands that all wait
//! halfway would wait for each other. A command that has waited for [`WAIT_MAX`] is refused.
//!
//! Rejected: to compose large answers in pieces as the socket takes them. The item may be replaced,
//! evicted or expire in between, and then the connection would have to be closed, or the item kept
//! ([decision](../../../docs/decisions/034-large-answers-wait.md)).

use evenkeel_runtime::budget::{Pool, Portion};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of input that all connections may hold, unless `-o read_buf_mem_limit` says otherwise.
pub const INPUT_BYTES_MAX: usize = 12 << 20;

/// Bytes of answers that all connections may hold, unless `-o resp_obj_mem_limit` says otherwise.
pub const ANSWER_BYTES_MAX: usize = 12 << 20;

/// A command of at most this many bytes is small: it is let in while what others hold fills the pool.
pub const SMALL_INPUT: usize = 64 << 10;

/// Most bytes of one read while input is [`Level::Tight`](evenkeel_runtime::budget::Level).
pub const TIGHT_READ: usize = 4 << 10;

/// From how many bytes of its answers on a connection waits while answers are `Tight`.
pub const TIGHT_UNREAD: usize = 16 << 10;

/// How long a command may wait for memory.
pub const WAIT_MAX: Duration = Duration::from_secs(10);

/// How often a worker looks for connections to close while memory is short.
pub const LOOK: Duration = Duration::from_millis(100);

/// How often a worker looks while somebody waits: others do not tell when they have made room.
pub const WAIT_LOOK: Duration = Duration::from_millis(10);

/// The pools of a process.
#[derive(Debug)]
pub struct Budget {
    /// Bytes received and not executed.
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

/// What one worker holds.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    input: Portion,
    answers: Portion,
}

impl Share {
    /// A worker that holds nothing yet.
    pub fn new(budget: Arc<Budget>) -> Self {
        Share {
            budget,
            input: Portion::default(),
            answers: Portion::default(),
        }
    }

    /// The pools.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Bytes that this worker's connections hold.
    pub fn used(&self) -> Held {
        Held {
            input: self.input.used(),
            answers: self.answers.used(),
        }
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

    /// Whether there are `more` bytes of input; `is_small` for a command of at most [`SMALL_INPUT`]. What
    /// is granted is counted with the connection, by [`Share::change`].
    pub fn has_input_room(&mut self, more: usize, is_small: bool) -> bool {
        self.input.trim(&self.budget.input);
        self.budget.input.has_room(more, is_small)
    }

    /// Gives back what is kept at hand, because memory is short.
    pub fn trim(&mut self) {
        self.input.trim(&self.budget.input);
        self.answers.trim(&self.budget.answers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_one_worker_holds_is_missing_to_the_other() {
        let budget = Arc::new(Budget {
            input: Pool::new(4 * MIB, 0, 2),
            answers: Pool::new(4 * MIB, 0, 2),
        });
        let (mut one, mut other) = (Share::new(budget.clone()), Share::new(budget.clone()));
        let held = Held {
            input: 3 * MIB,
            answers: MIB,
        };
        assert!(one.has_input_room(3 * MIB, false));
        one.change(Held::default(), held);
        assert!(other.has_input_room(MIB, false));
        assert!(!other.has_input_room(MIB + 1, false));
        assert!(other.has_input_room(2 * MIB, true), "small commands");
        assert_eq!(budget.answers.taken(), MIB);
        one.change(held, Held::default());
        one.trim();
        assert_eq!((budget.input.taken(), budget.answers.taken()), (0, 0));
        assert!(other.has_input_room(4 * MIB, false));
    }
}

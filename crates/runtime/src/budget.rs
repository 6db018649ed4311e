//! Memory that all connections of a process share for what they have sent in part and have not read: how
//! much of it is taken, and who has to go when it is short.
//!
//! What one connection may hold is bounded, but many connections hold many times that. A [`Pool`] bounds
//! the sum. Its users keep three rules, so that anyone who holds much is in nobody's way but his own:
//!
//! | [`Level`] | up to | |
//! |---|---|---|
//! | `Easy` | three quarters | everybody as without a bound |
//! | `Tight` | the limit | connections do one thing at a time; those who hardly move go |
//! | `Full` | a quarter more, and what is let in at once | what is large waits, alone; what is small has this quarter to itself |
//! | `Over` | | as many as necessary go at once, so that nobody waits for them |
//!
//! Waiting alone could last for ever: who holds memory may never send the rest, or never read. So
//! [`who_goes`] names those who move least for what they hold. Everybody begins with the credit of a second
//! at [`RATE_MIN`], so that who has just come is not taken for slow. A client that takes or sends more than
//! [`RATE_MIN`] goes only when somebody waits and nobody is slower.
//!
//! A thread counts what its connections hold by itself, in a [`Portion`], and takes from the pool in steps
//! of `STEP`: a connection that holds nothing costs nothing, and what others hold in between touches no
//! memory that threads share.
//!
//! Rejected: one bound for each connection (there are thousands), and one for each thread (a value of the
//! largest size would not fit into most of them).

use evenkeel_types::Instant;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// In what steps a thread takes from a pool, in bytes. What it has taken and does not use, less than
/// two steps, is lost to the others.
const STEP: usize = 32 << 10;

/// A connection that holds less is not worth closing, in bytes.
pub const HOLDER_MIN: usize = 16 << 10;

/// The same when a pool is [`Level::Over`]. This many bytes of each connection are beyond all limits.
pub const SMALL_HOLDER_MIN: usize = 2 << 10;

/// Bytes a second that a client has to move to keep what others need: half a megabit, which the slowest
/// networks of machines do many times over.
pub const RATE_MIN: usize = 64 << 10;

/// How long a connection may hold memory and hardly move. In a second also what was lost on a network has
/// been sent again. With many who wait it is less: see [`patience`].
pub const PATIENCE: Duration = Duration::from_secs(1);

/// This many who wait take the whole [`PATIENCE`]. A pool has room for about as many of the largest values;
/// with twice as many each gets half the time, so that all have their turn within a second or two.
const WAITERS_PATIENT: usize = 8;

/// Least of it: anyone who is closed comes again, and that costs more than to let him wait.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

/// What is held for less than that has had no turn of its worker to move: others go first.
const JUDGED_FROM: Duration = Duration::from_millis(1);

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
    /// More than all of it, a quarter, and what is let in at once.
    Over,
}

/// A bound on bytes.
#[derive(Debug)]
pub struct Pool {
    limit: usize,
    /// Most that is taken without somebody having to go at once. At least `limit`.
    top: usize,
    /// Threads that use it.
    threads: usize,
    /// What threads have taken, and what is on its way between them.
    taken: AtomicUsize,
    /// How many wait for room.
    waiting: AtomicUsize,
}

impl Pool {
    /// A pool of this many bytes for this many threads; without bound for zero. What is large is let in while
    /// the limit is not reached, whatever its size: each thread may bring `at_once` bytes beyond it.
    pub fn new(limit: usize, at_once: usize, threads: usize) -> Self {
        let limit = if limit == 0 { usize::MAX } else { limit };
        let at_once = at_once.saturating_mul(threads);
        Pool {
            limit,
            top: limit.saturating_add(limit / 4).saturating_add(at_once),
            threads: threads.max(1),
            taken: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Its size in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// How much of it is taken.
    #[inline]
    pub fn level(&self) -> Level {
        match self.taken() {
            taken if taken <= self.limit / 4 * 3 => Level::Easy,
            taken if taken <= self.limit => Level::Tight,
            taken if taken <= self.top => Level::Full,
            _ => Level::Over,
        }
    }

    /// Bytes that a thread has to give back at once, which holds this many: no more than it has beyond its
    /// part. Others do the same as soon as they look.
    pub fn excess(&self, used: usize) -> usize {
        let beyond_part = used.saturating_sub(self.top / self.threads);
        self.taken().saturating_sub(self.top).min(beyond_part)
    }

    /// Whether there are `more` bytes: within the limit, or for what is small below what is too much.
    pub fn has_room(&self, more: usize, is_small: bool) -> bool {
        let limit = if is_small { self.top } else { self.limit };
        self.taken().saturating_add(more) <= limit
    }

    /// A thread's part of the bytes that are left until somebody has to go at once.
    pub fn room(&self) -> usize {
        self.top.saturating_sub(self.taken()) / self.threads
    }

    /// How many wait for room, all threads together.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Of a thread `before` waited and `after` do.
    pub fn tell_waiting(&self, before: usize, after: usize) {
        if after > before {
            self.waiting.fetch_add(after - before, Ordering::Relaxed);
        } else if before > after {
            self.waiting.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Counts bytes that are on their way from one thread to another; anyone who receives them gives them
    /// back. Nobody is asked: they are there already.
    pub fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// See [`Pool::take`].
    pub fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What a thread's connections hold of a pool.
#[derive(Debug, Default)]
pub struct Portion {
    used: usize,
    /// Taken from the pool. Invariant: at least `used`.
    taken: usize,
}

impl Portion {
    /// Bytes that they hold.
    pub fn used(&self) -> usize {
        self.used
    }

    /// A connection held `before` and holds `after`.
    pub fn change(&mut self, pool: &Pool, before: usize, after: usize) {
        self.used = (self.used + after).saturating_sub(before);
        if self.used > self.taken {
            let more = (self.used - self.taken).next_multiple_of(STEP);
            pool.take(more);
            self.taken += more;
        } else if self.taken - self.used >= 2 * STEP {
            self.give_back(pool, STEP);
        }
    }

    /// Gives back what is kept at hand, because somebody waits.
    pub fn trim(&mut self, pool: &Pool) {
        self.give_back(pool, 0);
    }

    fn give_back(&mut self, pool: &Pool, keep: usize) {
        let unused = (self.taken - self.used).saturating_sub(keep);
        pool.give_back(unused);
        self.taken -= unused;
    }
}

/// What a connection holds, and what it does for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Bytes that it holds.
    pub bytes: usize,
    /// From when on it has been judged.
    pub since: Instant,
    /// Bytes that it has moved since.
    pub moved: usize,
    /// It has moved much before, and to the end: then it has the whole [`PATIENCE`], and goes after those who have not.
    pub moves_well: bool,
}

impl Holding {
    /// Bytes a second, with the credit of a second.
    fn rate(&self, now: Instant) -> u128 {
        let nanos = now.since(self.since) + PATIENCE;
        (self.moved + RATE_MIN) as u128 * 1_000_000_000 / nanos.as_nanos()
    }

    /// The same for each byte that it holds, times 2^32.
    fn rate_by_byte(&self, now: Instant) -> u128 {
        (self.rate(now) << 32) / self.bytes.max(1) as u128
    }

    fn is_slow(&self, now: Instant, patience: Duration) -> bool {
        let age = now.since(self.since);
        let patience = if self.moves_well { PATIENCE } else { patience };
        self.bytes >= HOLDER_MIN && age >= patience && self.rate(now) < RATE_MIN as u128
    }
}

/// How long who hardly moves may keep what this many wait for.
pub fn patience(waiting: usize) -> Duration {
    let turns = (waiting / WAITERS_PATIENT).max(1);
    let patience = PATIENCE / u32::try_from(turns).unwrap_or(u32::MAX);
    patience.max(PATIENCE_MIN)
}

/// Who of those that hold memory of a pool, with a name each, has to go now: at a [`Level::Tight`] pool
/// those who have hardly moved for a second, at a full one after less if many wait; and if that is nobody
/// while somebody waits, the slowest of those who have had a second. Besides, the slowest until `excess`
/// bytes are free, those with less than [`HOLDER_MIN`] last.
pub fn who_goes<N: Copy>(
    now: Instant,
    level: Level,
    waiting: usize,
    excess: usize,
    holders: impl Iterator<Item = (N, Holding)>,
) -> Vec<N> {
    if level == Level::Easy {
        return Vec::new();
    }
    let patience = if level == Level::Tight {
        PATIENCE
    } else {
        patience(waiting)
    };
    let may_go = |(_, holding): &(N, Holding)| holding.bytes >= SMALL_HOLDER_MIN;
    let mut holders: Vec<(N, Holding)> = holders.filter(may_go).collect();
    holders.sort_by_cached_key(|(_, holding)| {
        let holds_little = holding.bytes < HOLDER_MIN;
        // With io_uring an answer is on its way when its connection is judged: nothing of it can have moved.
        let is_fresh = now.since(holding.since) < JUDGED_FROM;
        let rate = holding.rate_by_byte(now);
        (
            holds_little,
            holding.moves_well,
            is_fresh,
            rate,
            holding.since,
        )
    });
    let mut freed = 0;
    let mut go = Vec::new();
    for (name, holding) in &holders {
        if holding.is_slow(now, patience) || freed < excess {
            freed += holding.bytes;
            go.push(*name);
        }
    }
    if go.is_empty() && waiting > 0 && level >= Level::Full {
        let has_had_its_time =
            |holding: &Holding| holding.bytes >= HOLDER_MIN && now.since(holding.since) >= PATIENCE;
        let slowest = holders
            .iter()
            .find(|(_, holding)| has_had_its_time(holding));
        go.extend(slowest.map(|(name, _)| *name));
    }
    go
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_pool_says_how_full_it_is() {
        let pool = Pool::new(4 * MIB, 0, 1);
        for (more, level, excess) in [
            (3 * MIB, Level::Easy, 0),
            (1, Level::Tight, 0),
            (MIB - 1, Level::Tight, 0),
            (1, Level::Full, 0),
            (MIB, Level::Over, 1),
        ] {
            pool.take(more);
            assert_eq!((pool.level(), pool.excess(pool.taken())), (level, excess));
        }
        pool.give_back(5 * MIB);
        assert_eq!(pool.level(), Level::Easy);
        let pool = Pool::new(0, MIB, 2);
        pool.take(1 << 40);
        assert_eq!(pool.level(), Level::Easy, "without bound");
        assert!(pool.has_room(1 << 40, false));
    }

    #[test]
    fn each_thread_gives_back_what_it_has_beyond_its_part() {
        let pool = Pool::new(4 * MIB, 0, 2);
        pool.take(6 * MIB);
        assert_eq!(pool.excess(6 * MIB), MIB);
        assert_eq!(pool.excess(3 * MIB), MIB / 2);
        assert_eq!(pool.excess(2 * MIB), 0, "the other has the rest");
    }

    #[test]
    fn what_is_small_finds_room_beyond_the_limit() {
        let pool = Pool::new(4 * MIB, MIB, 2);
        pool.take(4 * MIB - 1);
        assert!(pool.has_room(1, false));
        assert!(!pool.has_room(2, false));
        assert!(pool.has_room(3 * MIB + 1, true));
        assert!(!pool.has_room(3 * MIB + 2, true));
    }

    /// Whatever connections of several threads come to hold and leave, the pool knows it, within what
    /// each thread keeps at hand.
    #[test]
    fn the_pool_knows_what_all_threads_hold() {
        let pool = Pool::new(64 * MIB, 0, 3);
        let mut portions: Vec<Portion> = (0..3).map(|_| Portion::default()).collect();
        let mut held = vec![0; 30];
        let mut random: usize = 7;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (random >> 33) % held.len();
            let after = match (random >> 40) % 3 {
                0 => 0,
                1 => (random >> 20) % 3000,
                _ => (random >> 20) % MIB,
            };
            portions[at % 3].change(&pool, held[at], after);
            held[at] = after;
            let sum: usize = held.iter().sum();
            let taken = pool.taken();
            assert!(
                (sum..sum + 3 * 2 * STEP).contains(&taken),
                "{sum} held, {taken} taken"
            );
        }
        for (at, held) in held.iter().enumerate() {
            portions[at % 3].change(&pool, *held, 0);
        }
        assert!(portions.iter().all(|portion| portion.used() == 0));
        portions.iter_mut().for_each(|portion| portion.trim(&pool));
        assert_eq!(pool.taken(), 0);
    }

    #[test]
    fn those_who_wait_are_known_to_all() {
        let pool = Pool::new(MIB, 0, 1);
        pool.tell_waiting(0, 3);
        pool.tell_waiting(0, 2);
        pool.tell_waiting(3, 1);
        assert_eq!(pool.waiting(), 3);
        pool.tell_waiting(2, 0);
        pool.tell_waiting(1, 0);
        assert_eq!(pool.waiting(), 0);
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(100_000 + ms)
    }

    fn holding(bytes: usize, since: u64, moved: usize) -> Holding {
        Holding {
            bytes,
            since: at(since),
            moved,
            moves_well: false,
        }
    }

    fn going(now: u64, level: Level, waiting: usize, excess: usize, of: &[Holding]) -> Vec<usize> {
        let holders = of.iter().copied().enumerate();
        who_goes(at(now), level, waiting, excess, holders)
    }

    #[test]
    fn who_hardly_moves_goes_after_a_second_and_after_less_when_many_wait() {
        let holders = [
            holding(MIB, 0, 0),
            holding(MIB, 0, 40 << 10),
            holding(MIB, 0, 100 << 10),
            holding(HOLDER_MIN - 1, 0, 0),
            holding(MIB, 900, 0),
        ];
        assert!(going(9000, Level::Easy, 9, 0, &holders).is_empty());
        assert!(going(999, Level::Tight, 100, 0, &holders[..4]).is_empty());
        assert_eq!(going(1000, Level::Tight, 0, 0, &holders), [0, 1]);
        assert_eq!(going(1000, Level::Full, 80, 0, &holders), [0, 1, 4]);
        assert_eq!(going(999, Level::Full, 8000, 0, &holders), [0, 1]);
        let before = Holding {
            moves_well: true,
            ..holders[0]
        };
        assert!(going(999, Level::Full, 8000, 0, &[before]).is_empty());
        assert_eq!(going(1000, Level::Full, 8000, 0, &[before]), [0]);
    }

    #[test]
    fn who_moves_goes_only_when_somebody_waits_and_nobody_is_slower() {
        let holders = [holding(MIB, 0, 9 * MIB), holding(MIB, 0, MIB)];
        assert!(going(2000, Level::Full, 0, 0, &holders).is_empty());
        assert_eq!(going(2000, Level::Full, 1, 0, &holders), [1]);
        assert!(going(900, Level::Full, 1, 0, &holders).is_empty());
    }

    #[test]
    fn beyond_the_top_the_slowest_go_at_once_and_no_more_than_necessary() {
        let holders = [
            holding(MIB, 990, 0),
            holding(MIB, 0, 10),
            holding(SMALL_HOLDER_MIN, 500, 0),
            holding(SMALL_HOLDER_MIN - 1, 0, 0),
        ];
        assert_eq!(going(990, Level::Over, 0, MIB, &holders), [1]);
        let more = 2 * MIB + 1;
        assert_eq!(going(990, Level::Over, 0, more, &holders), [1, 0, 2]);
        // Of those who have just come, who holds most; who has moved well before is last.
        let mut holders = [holding(MIB, 0, 0), holding(2 * MIB, 9, 0)];
        assert_eq!(going(10, Level::Over, 0, 1, &holders), [1]);
        holders[1].moves_well = true;
        assert_eq!(going(10, Level::Over, 0, 1, &holders), [0]);
        // Nobody can have read of what was put there in this moment.
        let holders = [holding(MIB, 9, 100 << 10), holding(MIB, 10, 0)];
        assert_eq!(going(10, Level::Over, 0, 1, &holders), [0]);
    }

    /// The same rules, said one connection after the other.
    #[test]
    fn a_simple_twin_names_the_same() {
        let mut random: u64 = 11;
        let mut draw = move |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..3000 {
            let holders: Vec<Holding> = (0..draw(12))
                .map(|_| {
                    let bytes = draw(64) as usize * 1024;
                    let moved = draw(300) as usize * 1024;
                    Holding {
                        moves_well: draw(4) == 0,
                        ..holding(bytes, draw(2000), moved)
                    }
                })
                .collect();
            let level = [Level::Tight, Level::Full, Level::Over][draw(3) as usize];
            let waiting = draw(40) as usize;
            let excess = match level {
                Level::Over => draw(100) as usize * 1024,
                _ => 0,
            };
            let gone = going(2000, level, waiting, excess, &holders);

            let limit = |of: &Holding| match level {
                _ if of.moves_well => 1000.0,
                Level::Tight => 1000.0,
                _ => (1000.0 / (waiting / 8).max(1) as f64).max(100.0),
            };
            let age = |of: &Holding| at(2000).since(of.since).as_secs_f64();
            let is_slow = |of: &Holding| {
                of.bytes >= 16 << 10
                    && age(of) * 1000.0 >= limit(of)
                    && (of.moved as f64) < age(of) * 65536.0 - 1.0
            };
            for (name, of) in holders.iter().enumerate() {
                assert!(!is_slow(of) || gone.contains(&name), "{of:?}");
            }
            let others: Vec<&Holding> = gone.iter().map(|name| &holders[*name]).collect();
            let sum = |of: &[&Holding]| of.iter().map(|of| of.bytes).sum::<usize>();
            let may_be_one = level >= Level::Full && waiting > 0 && others.len() == 1;
            for (place, of) in others.iter().enumerate() {
                let is_needed = sum(&others[..place]) < excess;
                assert!(is_slow(of) || is_needed || may_be_one, "{of:?}");
            }
            let counts = |of: &&Holding| of.bytes >= SMALL_HOLDER_MIN;
            let total: usize = holders.iter().filter(counts).map(|of| of.bytes).sum();
            assert!(sum(&others) >= excess.min(total), "and as many as that");
        }
    }
}

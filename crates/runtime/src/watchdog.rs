//! Finds turns of event loops that take too long, and what they do meanwhile.
//!
//! A loop writes down which turn it is in and at which step, a plain store each; a thread of the process looks at that some
//! forty times a second:
//!
//! ```text
//!   look          |        |        |        |        |
//!   turn 7  ──────┐ turn 8 begins ─────────────────────────>
//!                 └─────── seen ─── still ── still: 50 ms and more
//! ```
//!
//! So what is found has taken this long for certain, and is told while it goes on, which a loop that looks at the clock itself
//! could not do of one that hangs. A turn of 50 to 100 ms may be missed. Where the watchdog itself was not run, the process was
//! stopped or the machine has too much to do: nothing is concluded from such a time. Turns that took this long only because their thread
//! was in line for a processor for a part of it, as the kernel says, are counted apart; one that goes on may be counted as both.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A turn that takes this long is slow: a hundred times what a full one takes, and what a person begins to notice.
pub const SLOW_TURN: Duration = Duration::from_millis(50);

/// How often the watchdog looks: at each turn that is slow by half twice at least.
const LOOK: Duration = Duration::from_millis(25);

/// A look that comes so late says nothing: the watchdog was not run itself.
const LATE: Duration = Duration::from_millis(50);

/// A line about slow turns is written so often at most.
const TELL_PAUSE: Duration = Duration::from_secs(1);

/// What an event loop does in a part of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// Taking events; accepting on an own port.
    Events = 1,
    /// Taking words of other threads.
    Words,
    /// Taking connections.
    Connections,
    /// Taking messages of other workers.
    Messages,
    /// Reading sockets, executing what came, and answering.
    Serving,
    /// What clients ask of the whole process.
    Process,
    /// Moving links to other servers.
    Links,
    /// Writing what was decided.
    Output,
    /// Timers and housekeeping.
    Housekeeping,
}

impl Step {
    fn name(number: u8) -> &'static str {
        const ALL: [(Step, &str); 9] = [
            (Step::Events, "taking events"),
            (Step::Words, "taking words of other threads"),
            (Step::Connections, "taking connections"),
            (Step::Messages, "taking messages of other workers"),
            (Step::Serving, "serving connections"),
            (Step::Process, "doing what clients ask of the process"),
            (Step::Links, "moving links to other servers"),
            (Step::Output, "writing"),
            (Step::Housekeeping, "housekeeping"),
        ];
        let found = ALL.iter().find(|(step, _)| *step as u8 == number);
        found.map_or("beginning", |(_, name)| name)
    }
}

/// Where a loop says what it does.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    /// Number of the turn times 256, and the step; no step where it rests.
    state: AtomicU64,
    /// The kernel's name of the thread; 0 before it has begun.
    thread: AtomicI32,
}

/// A loop's end.
#[derive(Debug)]
pub struct TurnMark {
    slot: Arc<Slot>,
    turn: u64,
}

/// The watchdog's end.
#[derive(Debug)]
pub struct Watched {
    name: String,
    slot: Arc<Slot>,
}

/// The two ends for a loop that is told of by this name.
pub fn watched(name: String) -> (TurnMark, Watched) {
    let slot = Arc::new(Slot {
        state: AtomicU64::new(0),
        thread: AtomicI32::new(0),
    });
    let mark = TurnMark {
        slot: Arc::clone(&slot),
        turn: 0,
    };
    (mark, Watched { name, slot })
}

impl TurnMark {
    /// To be called once by the loop's thread.
    pub fn begin(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.slot.thread.store(thread, Ordering::Relaxed);
    }

    /// A turn begins.
    #[inline]
    pub fn turn(&mut self) {
        self.turn += 1;
        self.step(Step::Events);
    }

    /// The turn goes on with that.
    #[inline]
    pub fn step(&self, step: Step) {
        let state = self.turn << 8 | u64::from(step as u8);
        self.slot.state.store(state, Ordering::Relaxed);
    }

    /// The turn is over; the loop may sleep.
    #[inline]
    pub fn rest(&self) {
        self.slot.state.store(self.turn << 8, Ordering::Relaxed);
    }
}

/// Turns since the start that were found.
#[derive(Debug, Default)]
pub struct TurnCounts {
    slow: AtomicU64,
    starved: AtomicU64,
}

impl TurnCounts {
    /// Those that took [`SLOW_TURN`] or longer for what they did or waited for, without the time in line for a processor.
    pub fn slow(&self) -> u64 {
        self.slow.load(Ordering::Relaxed)
    }

    /// Those that took this long only with the time in which their thread was in line for a processor.
    pub fn starved(&self) -> u64 {
        self.starved.load(Ordering::Relaxed)
    }
}

/// Watches loops until `stop` is set, counts, and says a line about slow turns, once a second at most.
pub fn watch(
    watched: &[Watched],
    counts: &TurnCounts,
    stop: &AtomicBool,
    mut say: impl FnMut(&str),
) {
    let mut sights: Vec<Sight> = watched.iter().map(|_| Sight::default()).collect();
    let mut last = Instant::now();
    let mut told = None;
    let mut untold = 0;
    while !stop.load(Ordering::Acquire) {
        std::thread::park_timeout(LOOK);
        let now = Instant::now();
        let was_run = now - last < LATE;
        last = now;
        for (watched, sight) in watched.iter().zip(&mut sights) {
            let state = watched.slot.state.load(Ordering::Relaxed);
            let health = || Health::of(watched.slot.thread.load(Ordering::Relaxed));
            let Some(slow) = sight.look(state, now, was_run, health) else {
                continue;
            };
            let count = match slow.why {
                Why::Starved => &counts.starved,
                Why::Works | Why::Waits => &counts.slow,
            };
            if slow.is_first {
                count.fetch_add(1, Ordering::Relaxed);
            }
            let how = match slow.why {
                Why::Works => "working",
                Why::Waits => "waiting",
                Why::Starved => continue,
            };
            if told.is_some_and(|told| now - told < TELL_PAUSE) {
                untold += u64::from(slow.is_first);
                continue;
            }
            told = Some(now);
            let others = match std::mem::take(&mut untold) {
                0 => String::new(),
                untold => format!("; {untold} more slow turns since the last such line"),
            };
            let (name, took) = (&watched.name, slow.took.as_millis());
            let what = Step::name(slow.step);
            let in_line = match slow.in_line.as_millis() {
                0 => String::new(),
                in_line => format!(", {in_line} ms of it in line for a processor"),
            };
            say(&format!(
                "{name} has been in one turn for {took} ms{in_line}, {how}: {what}{others}"
            ));
        }
    }
}

/// What a turn does that is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It needs the processor.
    Works,
    /// It is in a call that waits.
    Waits,
    /// It would run, and was not run for so long that it would not be slow otherwise: others have the processors, or another
    /// machine has them.
    Starved,
}

/// A turn that is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slow {
    step: u8,
    took: Duration,
    /// How long of that it had no processor, as far as that was seen.
    in_line: Duration,
    why: Why,
    /// It was not found before, or was starved alone.
    is_first: bool,
}

/// How a thread is, as the kernel knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Health {
    /// How long it has run so far.
    ran: Duration,
    /// How long it would have run and had no processor, until it had one.
    in_line: Duration,
    /// It would run now, or does.
    is_runnable: bool,
}

impl Health {
    /// Of a thread of this process. Where the kernel does not say, it seems to wait.
    fn of(thread: i32) -> Health {
        let read = |file| fs::read_to_string(format!("/proc/self/task/{thread}/{file}"));
        let times = read("schedstat").unwrap_or_default();
        let mut times = times.split(' ').map_while(|word| word.parse().ok());
        let mut next = || Duration::from_nanos(times.next().unwrap_or(0));
        let (ran, in_line) = (next(), next());
        // The name of a thread, in brackets, may have spaces and brackets itself.
        let state = read("stat").unwrap_or_default();
        let state = state.rsplit_once(") ").map_or("", |(_, rest)| rest);
        Health {
            ran,
            in_line,
            is_runnable: state.starts_with('R'),
        }
    }
}

/// What is known of a thread during a turn.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// When it was looked at first, and how long it had been in line then.
    since: Instant,
    in_line_before: Duration,
    /// How long it had run at the look before.
    ran: Duration,
    /// How long it has had no processor since the first look.
    in_line: Duration,
}

impl Known {
    fn new(now: Instant, health: Health) -> Self {
        Known {
            since: now,
            in_line_before: health.in_line,
            ran: health.ran,
            in_line: Duration::ZERO,
        }
    }

    /// How it is, this long after the look before. Gives how long it has run in between.
    fn look(&mut self, now: Instant, time: Duration, health: Health) -> Duration {
        let ran = health.ran.saturating_sub(self.ran);
        let in_line = match health.is_runnable {
            // The kernel does not say how long it has been in line by now: as long as it did not run.
            true => self.in_line + time.saturating_sub(ran),
            false => health.in_line.saturating_sub(self.in_line_before),
        };
        self.in_line = in_line.min(now - self.since);
        self.ran = health.ran;
        ran
    }
}

/// What the watchdog has seen of a loop.
#[derive(Clone, Copy, Debug, Default)]
struct Sight {
    /// The state in which it was seen.
    state: u64,
    /// When this turn was seen first, and at the look before; none where it rested.
    seen: Option<(Instant, Instant)>,
    /// What is known of its thread, from the second look at the turn on.
    known: Option<Known>,
    told: Option<Why>,
}

impl Sight {
    fn look(
        &mut self,
        state: u64,
        now: Instant,
        was_run: bool,
        health: impl FnOnce() -> Health,
    ) -> Option<Slow> {
        let step = state as u8;
        let is_same = state >> 8 == self.state >> 8;
        self.state = state;
        let Some((first, before)) = self.seen.filter(|_| is_same && was_run && step != 0) else {
            *self = Sight {
                state,
                seen: (step != 0).then_some((now, now)),
                // One that was told of before the watchdog was held up is the same one.
                told: self.told.filter(|_| is_same),
                ..Sight::default()
            };
            return None;
        };
        self.seen = Some((first, now));
        let (health, time) = (health(), now - before);
        // Nothing is known before the first look.
        let known = (self.known).get_or_insert_with(|| Known::new(now, health));
        let ran = known.look(now, time, health);
        let in_line = known.in_line;
        let took = now - first;
        if took < SLOW_TURN {
            return None;
        }
        // The time before the first look at the thread counts as the turn's own.
        let own = took - in_line;
        let why = match (own >= SLOW_TURN, ran * 2 >= time) {
            (false, _) => Why::Starved,
            (true, true) => Why::Works,
            (true, false) => Why::Waits,
        };
        let told = self.told.replace(why);
        Some(Slow {
            step,
            took,
            in_line,
            why,
            is_first: told.is_none_or(|told| told == Why::Starved && why != Why::Starved),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Longer than any test takes; reached only by a failure.
    const DEADLINE: Duration = Duration::from_secs(60);

    fn state(turn: u64, step: Step) -> u64 {
        turn << 8 | u64::from(step as u8)
    }

    /// Looks at states at the watchdog's pace, of a thread that has run and been in line this many milliseconds more at each.
    fn looks(
        sight: &mut Sight,
        from: Instant,
        states: &[u64],
        (ran, in_line): (u64, u64),
        is_runnable: bool,
    ) -> Vec<Slow> {
        let health = |look: usize| Health {
            ran: Duration::from_millis(ran) * look as u32,
            in_line: Duration::from_millis(in_line) * look as u32,
            is_runnable,
        };
        let each = states.iter().enumerate();
        each.filter_map(|(look, state)| {
            sight.look(*state, from + LOOK * look as u32, true, || health(look))
        })
        .collect()
    }

    #[test]
    fn a_turn_that_goes_on_is_found_and_counted_once() {
        let (mut sight, now) = (Sight::default(), Instant::now());
        let found = looks(&mut sight, now, &[state(7, Step::Links); 4], (0, 0), false);
        assert_eq!(found.len(), 2);
        let slow = found[0];
        assert_eq!(
            (slow.step, slow.took, slow.why),
            (Step::Links as u8, SLOW_TURN, Why::Waits)
        );
        assert_eq!([found[0].is_first, found[1].is_first], [true, false]);
    }

    #[test]
    fn turns_that_end_and_rests_are_not_slow() {
        let (mut sight, now) = (Sight::default(), Instant::now());
        let turns: Vec<_> = (0..10).map(|turn| state(turn, Step::Serving)).collect();
        assert_eq!(looks(&mut sight, now, &turns, (25, 0), true), []);
        assert_eq!(looks(&mut sight, now, &[7 << 8; 10], (0, 0), false), []);
    }

    #[test]
    fn who_works_is_told_from_who_has_no_processor() {
        // What each look of 25 ms adds; of the first nothing is known.
        for (ran, in_line, is_runnable, whys) in [
            (25, 0, true, [Why::Works; 3]),
            (20, 0, false, [Why::Works; 3]),
            (1, 0, false, [Why::Waits; 3]),
            (1, 24, false, [Why::Starved; 3]),
            (1, 0, true, [Why::Starved; 3]),
            // 25 and 13, 26 and 39 of its own.
            (13, 12, true, [Why::Starved, Why::Works, Why::Works]),
            (13, 12, false, [Why::Starved, Why::Works, Why::Works]),
            (1, 12, false, [Why::Starved, Why::Waits, Why::Waits]),
        ] {
            let (mut sight, now) = (Sight::default(), Instant::now());
            let states = [state(7, Step::Words); 5];
            let found = looks(&mut sight, now, &states, (ran, in_line), is_runnable);
            assert_eq!(found.iter().map(|slow| slow.why).collect::<Vec<_>>(), whys);
            let counted = found.iter().filter(|slow| slow.is_first).count();
            assert_eq!(counted, 1 + usize::from(whys[0] != whys[1]), "once as each");
        }
    }

    #[test]
    fn a_wait_in_line_that_the_kernel_tells_of_later_counts_once() {
        let (mut sight, now) = (Sight::default(), Instant::now());
        let in_turn = state(7, Step::Serving);
        let health = |ran, in_line, is_runnable| Health {
            ran: Duration::from_millis(ran),
            in_line: Duration::from_millis(in_line),
            is_runnable,
        };
        // In line from the second look to the third, which the kernel says at the fourth; from then on it waits in a call.
        let healths = [(1, 0, true), (1, 0, true), (2, 25, false), (2, 25, false)];
        assert_eq!(sight.look(in_turn, now, true, Health::default), None);
        let found: Vec<_> = (healths.into_iter().zip(1..))
            .filter_map(|((ran, in_line, is_runnable), look)| {
                let at = now + LOOK * look;
                sight.look(in_turn, at, true, || health(ran, in_line, is_runnable))
            })
            .map(|slow| (slow.took, slow.in_line, slow.why))
            .collect();
        let expected = [
            (LOOK * 2, LOOK, Why::Starved),
            (LOOK * 3, LOOK, Why::Waits),
            (LOOK * 4, LOOK, Why::Waits),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn nothing_is_concluded_from_a_time_in_which_the_watchdog_was_stopped() {
        let (mut sight, now) = (Sight::default(), Instant::now());
        let in_turn = state(7, Step::Serving);
        assert_eq!(sight.look(in_turn, now, true, Health::default), None);
        let later = now + Duration::from_secs(5);
        assert_eq!(sight.look(in_turn, later, false, Health::default), None);
        assert_eq!(
            sight.look(in_turn, later + LOOK, true, Health::default),
            None
        );
        let found = sight.look(in_turn, later + SLOW_TURN, true, Health::default);
        assert_eq!(found.expect("from then on").took, SLOW_TURN);
    }

    #[test]
    fn a_thread_that_waits_is_told_of_while_it_does() {
        let (mark, watched) = watched("worker-3".into());
        let (go_on, wait) = channel::<()>();
        let (said, told) = channel();
        let stop = AtomicBool::new(false);
        let counts = TurnCounts::default();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut mark = mark;
                mark.begin();
                mark.turn();
                mark.step(Step::Messages);
                let _ = wait.recv();
                mark.rest();
            });
            scope.spawn(|| {
                watch(&[watched], &counts, &stop, |line| {
                    said.send(line.to_owned()).expect("the test waits");
                });
            });
            let line = told.recv_timeout(DEADLINE).expect("a line");
            let (begins, ends) = (
                "worker-3 has been in one turn for ",
                "ms, waiting: taking messages of other workers",
            );
            assert!(line.starts_with(begins) && line.ends_with(ends), "{line}");
            assert_eq!((counts.slow(), counts.starved()), (1, 0));
            drop(go_on);
            stop.store(true, Ordering::Release);
        });
    }
}

//! Which faults and which commands a run knows. Each seed leaves some of them out: a fault that
//! always comes with all others hides what only it would show, and some states need the *absence*
//! of a command (a key that is never deleted grows old; a cluster without crashes moves far).

use super::led_report::LedKind;
use super::units::MS;
use crate::history::Nanos;
use crate::random::Random;

macro_rules! set_of {
    ($(#[$meta:meta])* $set:ident of $(#[$item_meta:meta])* $item:ident {
        $($(#[$doc:meta])* $name:ident = $words:literal,)*
    }) => {
        $(#[$item_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $item {
            $($(#[$doc])* $name,)*
        }

        impl $item {
            /// All of them.
            pub const ALL: &'static [$item] = &[$($item::$name),*];

            /// How reports call it.
            pub fn name(self) -> &'static str {
                match self {
                    $($item::$name => $words,)*
                }
            }
        }

        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set(u32);

        impl $set {
            /// Whether it is in the set.
            pub fn has(self, item: $item) -> bool {
                self.0 & (1 << item as u32) != 0
            }

            /// The set with one more.
            pub fn with(self, item: $item) -> Self {
                $set(self.0 | 1 << item as u32)
            }

            /// The set without some.
            pub fn without(self, items: &[$item]) -> Self {
                let out = items.iter().fold(0, |out, &item| out | 1 << item as u32);
                $set(self.0 & !out)
            }

            /// Everything.
            pub fn all() -> Self {
                $item::ALL.iter().fold($set(0), |set, &item| set.with(item))
            }

            /// What is in the set.
            pub fn iter(self) -> impl Iterator<Item = $item> {
                $item::ALL.iter().copied().filter(move |&item| self.has(item))
            }

            fn some(random: &mut Random, times: u64, of: u64) -> Self {
                $item::ALL.iter().fold($set(0), |set, &item| {
                    if random.chance(times, of) { set.with(item) } else { set }
                })
            }
        }
    };
}

set_of! {
    /// Faults that may come.
    Hazards of
    /// A kind of fault.
    Hazard {
        /// A connection between processes breaks.
        Reset = "connections reset",
        /// Several do.
        ManyResets = "many connections reset",
        /// Two hosts, or one and all others, do not reach each other for a while.
        Partition = "partitions",
        /// The same in one direction alone.
        OneWay = "one-way partitions",
        /// A proxy does not reach the home of the hottest key, but everybody else.
        CutFromHome = "proxies cut from a home",
        /// A host loses 1 to 30 % of its packets: what TCP carries comes later, by its own
        /// timers; a heartbeat does not come.
        Loss = "spells of packet loss",
        /// A host's packets take up to 200 ms longer.
        SlowHost = "spells of a slow host",
        /// A host has 1 Mbit/s.
        NarrowHost = "spells of a narrow host",
        /// Heartbeats arrive twice.
        Duplicates = "spells of duplicated heartbeats",
        /// A server's process dies and another starts, empty.
        Crash = "servers killed",
        /// A server's process dies and none follows until the end of the faults.
        CrashForLong = "servers killed for long",
        /// A server's process stands still and goes on (SIGSTOP, SIGCONT).
        StopServer = "servers stopped",
        /// A server's process stands still when it has just looked at its clock.
        StopInTurn = "servers stopped within a turn",
        /// A server is cut off from the coordinator and from all other servers; clients reach it.
        CutFromCluster = "servers cut from their cluster",
        /// A proxy's does.
        StopProxy = "proxies stopped",
        /// Another server joins, and cachelets move.
        Join = "servers joined",
        /// A cachelet goes to another worker of its server.
        MoveCachelet = "cachelets moved between workers",
        /// Cachelets go to other servers, and something may go wrong at any step of it.
        Migrate = "migrations wanted",
        /// A server is emptied, or one that was gets its share again.
        Drain = "servers drained and filled",
        /// Plans that even out load are executed from now on, or not any more.
        SwitchPlans = "plans switched",
        /// An operator switches hot keys off, and on again.
        SwitchHotKeys = "hot keys switched",
        /// The coordinator does not answer for a while, at times a long one.
        CoordinatorAway = "coordinator away",
        /// The coordinator dies, and another goes on from what it had saved.
        CoordinatorCrash = "coordinator restarted",
        /// A host's wall clock jumps, by a second, an hour or 30 days, in either direction.
        WallJump = "wall clocks jumped",
        /// An application closes its connection.
        ApplicationGone = "applications gone",
    }
}

set_of! {
    /// What applications do besides plain reads and sets.
    Habits of
    /// A kind of command.
    Habit {
        /// `append` and `prepend`.
        Concatenate = "concatenations",
        /// `add` and `replace`.
        Conditional = "conditional stores",
        /// `cas`.
        Swap = "swaps",
        /// `delete`, and `touch` with an expiry in the past.
        Delete = "deletes",
        /// `flush_all`.
        Flush = "flushes",
        /// `incr` on keys that hold numbers.
        Count = "increments",
        /// Expiry in seconds, by `set` and by `touch`.
        Expire = "expiries",
        /// Gets of several keys.
        MultiGet = "multi-gets",
        /// Meta commands.
        Meta = "meta commands",
        /// Stores without an answer.
        Quiet = "stores without an answer",
        /// Values of some thousand bytes.
        Large = "large values",
    }
}

/// What makes cachelets change places, and does no harm to anything that they hold.
const GENTLE: [Hazard; 6] = [
    Hazard::Join,
    Hazard::MoveCachelet,
    Hazard::Migrate,
    Hazard::Drain,
    Hazard::SwitchPlans,
    Hazard::SwitchHotKeys,
];

/// A run's share of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swarm {
    /// Faults that may come.
    pub hazards: Hazards,
    /// Whether something goes wrong just when cachelets have come to a certain step of what they go through.
    pub step_faults: bool,
    /// Whether some servers cannot pass cachelets on with their contents.
    pub has_old_servers: bool,
    /// What applications do.
    pub habits: Habits,
    /// Least and longest pause between two faults, in nanoseconds.
    pub pause: (Nanos, Nanos),
    /// Racks that hosts stand in, by turns.
    pub racks: usize,
    /// What a packet from one rack to another takes longer, in nanoseconds.
    pub switch_latency: Nanos,
    /// How far clocks run too fast or too slow at most, in parts per million.
    pub drift_ppm: u64,
    /// One delivery in this many takes much longer than others.
    pub tail: u64,
    /// Writes in a thousand commands.
    pub write_share: u64,
    /// Whether a coordinator leads a pool of plain servers.
    pub is_led: bool,
    /// What of it that changes.
    pub leads: LedKind,
}

/// Which of this many seeds have a pool that is led, in front of plain servers.
const LED_EVERY: u64 = 4;
const LED_OF: u64 = 1;

/// One seed in this many has no faults at all, but what a busy network does anyway.
const CALM_EVERY: u64 = 10;

/// Which of them nothing goes wrong in, but cachelets are on their ways all the time.
const GENTLE_OF: u64 = 5;

/// The same, but something goes wrong just when they have come to a certain step.
const STRUCK_OF: u64 = 3;

/// The same where cachelets are moved by plans alone, which wait while they move for other reasons.
const PLANNED_OF: u64 = 7;

/// Drifts: the one that is promised to be survived, and one ten times the bound of NTP and still
/// within a lease's margin.
const DRIFTS_PPM: [u64; 2] = [200, 5_000];

impl Swarm {
    /// What a seed leaves of everything.
    pub fn of(seed: u64) -> Self {
        // Another stream of chance than the run's own.
        let mut random = Random::new(seed ^ 0x5a5a_5a5a_5a5a_5a5a);
        let turn = seed % CALM_EVERY;
        let is_gentle = turn == GENTLE_OF;
        let is_on_ways = [GENTLE_OF, STRUCK_OF, PLANNED_OF].contains(&turn);
        let hazards = if seed.is_multiple_of(CALM_EVERY) {
            Hazards::default()
        } else if turn == PLANNED_OF {
            Hazards::default().with(Hazard::SwitchPlans)
        } else if is_on_ways {
            GENTLE.iter().fold(Hazards::default(), |set, &hazard| {
                if random.chance(2, 3) {
                    set.with(hazard)
                } else {
                    set
                }
            })
        } else if random.chance(1, 4) {
            // A few faults alone, in depth.
            Hazards::some(&mut random, 1, 6)
        } else {
            Hazards::some(&mut random, 1, 2)
        };
        let pauses = [
            (20 * MS, 300 * MS),
            (100 * MS, 1_500 * MS),
            (500 * MS, 4_000 * MS),
        ];
        let habits = Habits::some(&mut random, 3, 4);
        Swarm {
            hazards,
            step_faults: !is_gentle && (is_on_ways || random.chance(3, 4)),
            has_old_servers: !is_on_ways && random.chance(1, 5),
            // Ten seconds after a flush nothing migrates.
            habits: match is_on_ways {
                true => habits.without(&[Habit::Flush]),
                false => habits,
            },
            pause: pauses[random.index(pauses.len())],
            racks: 1 + random.index(3),
            switch_latency: random.between(MS / 10, MS),
            drift_ppm: DRIFTS_PPM[random.index(DRIFTS_PPM.len())],
            tail: if seed.is_multiple_of(CALM_EVERY) {
                400
            } else {
                60
            },
            write_share: [20, 50, 100, 200][random.index(4)],
            is_led: seed % LED_EVERY == LED_OF,
            leads: LedKind::ALL[random.index(LedKind::ALL.len())],
        }
    }

    /// The same without any fault.
    pub fn without_hazards(self) -> Self {
        Swarm {
            hazards: Hazards::default(),
            tail: 400,
            ..self
        }
    }

    /// The same for plain servers: without what only a coordinator makes happen. One that leads a pool knows no cluster.
    pub(super) fn of_plain_servers(self) -> Self {
        let of_clusters = [
            Hazard::Join,
            Hazard::CutFromCluster,
            Hazard::MoveCachelet,
            Hazard::Migrate,
            Hazard::Drain,
            Hazard::SwitchPlans,
            Hazard::SwitchHotKeys,
        ];
        let of_coordinators = [
            Hazard::CoordinatorAway,
            Hazard::CoordinatorCrash,
            Hazard::Duplicates,
        ];
        let hazards = self.hazards.without(&of_clusters);
        Swarm {
            hazards: match self.is_led {
                true => hazards,
                false => hazards.without(&of_coordinators),
            },
            ..self
        }
    }

    /// Whether cachelets may go anywhere and everything that they hold goes with them.
    pub fn is_gentle(&self) -> bool {
        let is_harmless = self.hazards.without(&GENTLE) == Hazards::default();
        is_harmless && !self.step_faults && !self.has_old_servers && !self.habits.has(Habit::Flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_in_what_they_leave_out_and_leave_nothing_out_for_ever() {
        let swarms: Vec<_> = (0..200).map(Swarm::of).collect();
        for &hazard in Hazard::ALL {
            let with = swarms.iter().filter(|s| s.hazards.has(hazard)).count();
            assert!((20..180).contains(&with), "{hazard:?} in {with} of 200");
        }
        for &habit in Habit::ALL {
            let with = swarms.iter().filter(|s| s.habits.has(habit)).count();
            assert!((100..190).contains(&with), "{habit:?} in {with} of 200");
        }
        let calm = swarms.iter().filter(|s| s.hazards == Hazards::default());
        assert!(calm.count() >= 20);
        assert_eq!(Hazards::all().iter().count(), Hazard::ALL.len());
        assert_eq!(Swarm::of(7), Swarm::of(7));
    }
}

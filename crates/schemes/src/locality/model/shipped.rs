//! How long a command takes in each architecture as our proxies run it.
//!
//! SDC and SDS are as [in the paper](super::paper). SDR is not: the key's home alone says what an item
//! is, and copies are filled by who reads them and deleted by who writes ([`crate::copies`]).
//!
//! | SDR | steps |
//! |---|---|
//! | any write, also one that stores nothing | at home, then the copies are deleted side by side |
//! | get that finds the item | at the nearest place, and at home if that is a copy which was not read since the last write |
//! | get that finds nothing | at the nearest place, and at home if that was another |
//!
//! Reads and writes of a key are taken to come in any order, from all racks alike. So of what comes to a copy, its reads and all writes, the last before a
//! read was a read by their shares.
//!
//! Snoop and Dir take the [`rounds`] of their machines. Of what is there `ps` is in the own rack and the rest in others, where a note leads. A set of what the own
//! rack holds takes one round, since the rack has set it last and remembers its unique. As many sets as gets find nothing are of what is nowhere.

use super::held::{Held, rounds};
use super::{Architecture, Distances, Racks, Usage, paper};
use crate::locality::Outcome;
use crate::locality::holder::Kind;

/// How long a command takes on average, in ms: of each outcome its share. `None` where the architecture needs a central server and there
/// is none.
pub fn mean(
    architecture: Architecture,
    usage: &Usage,
    distances: Distances,
    racks: Racks,
) -> Option<f64> {
    match architecture {
        Architecture::Sdr => {
            let filled = filled(usage, racks);
            usage.mean(|outcome| Some(sdr(outcome, filled, distances, racks)))
        }
        Architecture::Snoop | Architecture::Dir => {
            let kind = match architecture {
                Architecture::Snoop => Kind::Snoop,
                _ => Kind::Directory,
            };
            let new = newly_set(usage);
            usage.mean(|outcome| Some(held(kind, outcome, (usage.ps, new), distances, racks)))
        }
        Architecture::Sdc | Architecture::Sds => paper::mean(architecture, usage, distances, racks),
    }
}

/// The share of sets that store what is nowhere.
fn newly_set(usage: &Usage) -> f64 {
    let (sets, misses) = (usage.share(Outcome::SetHit), usage.share(Outcome::GetMiss));
    match sets {
        0.0 => 0.0,
        sets => (misses / sets).min(1.0),
    }
}

/// One where this many keys are the session's own, and this many sets are of what is nowhere.
fn held(
    kind: Kind,
    outcome: Outcome,
    (ps, new): (f64, f64),
    distances: Distances,
    racks: Racks,
) -> f64 {
    let (own, other) = (distances.own, distances.other);
    let spread = racks.own_share() * own + (1.0 - racks.own_share()) * other;
    let directory = distances.central.unwrap_or(spread);
    let at = |held| {
        let rounds = rounds(kind, outcome, held)?;
        let (by_own, by_other) = (f64::from(rounds.own) * own, f64::from(rounds.other) * other);
        Some(by_own + f64::from(rounds.directory) * directory + by_other)
    };
    let is_set = matches!(outcome, Outcome::SetHit | Outcome::SetMiss);
    let here = match is_set {
        true => Some(own),
        false => at(Held::Here),
    };
    match (here, at(Held::Elsewhere), at(Held::Nowhere)) {
        (Some(here), Some(elsewhere), Some(nowhere)) => {
            new * nowhere + (1.0 - new) * (ps * here + (1.0 - ps) * elsewhere)
        }
        (Some(here), Some(elsewhere), None) => ps * here + (1.0 - ps) * elsewhere,
        (_, _, Some(nowhere)) => nowhere,
        _ if outcome == Outcome::Flush => other,
        _ => own,
    }
}

/// The chance that a copy is there when it is read. A read that finds nothing fills nothing.
fn filled(usage: &Usage, racks: Racks) -> f64 {
    let places = f64::from(racks.copies.max(1));
    let reads = usage.share(Outcome::GetHit) / places;
    let writes = Outcome::ALL
        .into_iter()
        .filter(|outcome| is_write(*outcome));
    let writes: f64 = writes.map(|outcome| usage.share(outcome)).sum();
    match reads + writes {
        0.0 => 1.0,
        both => reads / both,
    }
}

fn is_write(outcome: Outcome) -> bool {
    !outcome.is_read() && !matches!(outcome, Outcome::Flush | Outcome::Other)
}

fn sdr(outcome: Outcome, filled: f64, distances: Distances, racks: Racks) -> f64 {
    let (own, other) = (distances.own, distances.other);
    let home_is_near = racks.own_share();
    let either = |share: f64| share * own + (1.0 - share) * other;
    // At the nearest place, and with this chance at home if that was a copy.
    let get = |again: f64| {
        let copy_is_near = racks.near_share() - home_is_near;
        let none_is_near = 1.0 - racks.near_share();
        // Of places that are equally far one is asked, which is the home or not.
        let is_copy = 1.0 - 1.0 / f64::from(racks.copies.max(1));
        home_is_near * own
            + copy_is_near * (own + again * other)
            + none_is_near * (other + is_copy * again * other)
    };
    match outcome {
        Outcome::GetHit => get(1.0 - filled),
        Outcome::GetMiss => get(1.0),
        // Again behind the first time: a copy that is being filled is not there any more, either.
        Outcome::Flush => 2.0 * other,
        Outcome::Other => own,
        _ => {
            let deletes = match racks.copies {
                0 | 1 => 0.0,
                2 => either(home_is_near),
                // One of them is elsewhere.
                _ => other,
            };
            either(home_is_near) + deletes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    const DISTANCES: Distances = Distances {
        own: 1.25,
        central: None,
        other: 3.5,
    };

    /// A key, and which of its copies are filled.
    struct Key {
        /// Its home first.
        places: Vec<u32>,
        filled: Vec<bool>,
    }

    impl Key {
        /// How long a command from a rack takes.
        fn ask(&mut self, outcome: Outcome, from: u32, random: &mut SplitMix64) -> f64 {
            let to = |rack: u32| {
                if rack == from {
                    DISTANCES.own
                } else {
                    DISTANCES.other
                }
            };
            let home = to(self.places[0]);
            if is_write(outcome) {
                self.filled.fill(false);
                let copies = self.places[1..].iter().map(|rack| to(*rack));
                return home + copies.fold(0.0, f64::max);
            }
            let near = self.places.iter().position(|rack| *rack == from);
            let asked = near.unwrap_or_else(|| random.below(self.places.len() as u64) as usize);
            let is_there = asked == 0 || self.filled[asked] && outcome == Outcome::GetHit;
            self.filled[asked] |= outcome == Outcome::GetHit;
            to(self.places[asked]) + if is_there { 0.0 } else { home }
        }
    }

    #[test]
    fn sdr_takes_what_it_takes_on_average_step_by_step() {
        let mut random = SplitMix64::new(seed(0x5d7));
        for (racks, copies) in [(2, 2), (3, 1), (3, 2), (5, 2), (5, 3), (4, 4)] {
            for reads in [0.2, 0.9] {
                let shares = [
                    (Outcome::GetHit, 0.8 * reads),
                    (Outcome::GetMiss, 0.2 * reads),
                    (Outcome::SetHit, 0.7 * (1.0 - reads)),
                    (Outcome::IncrMiss, 0.3 * (1.0 - reads)),
                ];
                let usage = Usage {
                    shares: Usage::mix(&shares),
                    ps: 0.0,
                    rw_net: reads,
                    object_bytes: 1.0,
                    message_bytes: 1.0,
                };
                let mut sums = [(0.0, 0u32); 4];
                let mut key = Key {
                    places: Vec::new(),
                    filled: Vec::new(),
                };
                for number in 0..300_000 {
                    if number % 300 == 0 {
                        let mut places: Vec<u32> = (0..racks).collect();
                        for at in 0..places.len() {
                            let other = random.below(racks.into()) as usize;
                            places.swap(at, other);
                        }
                        places.truncate(copies as usize);
                        key = Key {
                            filled: vec![false; places.len()],
                            places,
                        };
                    }
                    let mut chance = random.unit();
                    let is_it = |(_, share): &(Outcome, f64)| {
                        chance -= share;
                        chance < 0.0
                    };
                    let kind = shares.iter().position(is_it).unwrap_or(0);
                    let from = random.below(racks.into()) as u32;
                    let took = key.ask(shares[kind].0, from, &mut random);
                    sums[kind] = (sums[kind].0 + took, sums[kind].1 + 1);
                }
                let all = Racks { racks, copies };
                for ((outcome, _), (sum, count)) in shares.into_iter().zip(sums) {
                    let (took, said) = (
                        sum / f64::from(count),
                        sdr(outcome, filled(&usage, all), DISTANCES, all),
                    );
                    assert!(
                        (said / took - 1.0).abs() < 0.02,
                        "{racks} {copies} {reads} {outcome:?}: {said} {took}"
                    );
                }
            }
        }
    }

    #[test]
    fn where_one_rack_holds_an_item_a_mix_takes_what_its_rounds_take() {
        let distances = Distances {
            central: Some(2.0),
            ..DISTANCES
        };
        let racks = Racks {
            racks: 5,
            copies: 2,
        };
        let usage = |shares: &[(Outcome, f64)], ps| Usage {
            shares: Usage::mix(shares),
            ps,
            rw_net: 0.5,
            object_bytes: 1.0,
            message_bytes: 1.0,
        };
        let (own, central, other) = (1.25, 2.0, 3.5);
        let all_found = [(Outcome::GetHit, 0.5), (Outcome::SetHit, 0.5)];
        let new = [(Outcome::GetMiss, 0.5), (Outcome::SetHit, 0.5)];
        for (architecture, shares, ps, expected) in [
            (Architecture::Snoop, all_found, 1.0, own),
            (Architecture::Dir, all_found, 1.0, own),
            (
                Architecture::Snoop,
                all_found,
                0.0,
                0.5 * (own + other) + 0.5 * (2.0 * own + other),
            ),
            (
                Architecture::Dir,
                all_found,
                0.0,
                0.5 * (own + central + other) + 0.5 * (3.0 * own + 2.0 * central + other),
            ),
            (
                Architecture::Snoop,
                new,
                1.0,
                0.5 * own + 0.5 * (3.0 * own + other),
            ),
            (
                Architecture::Dir,
                new,
                1.0,
                0.5 * (own + central) + 0.5 * (3.0 * own + 3.0 * central + other),
            ),
        ] {
            let mean = mean(architecture, &usage(&shares, ps), distances, racks);
            let mean = mean.expect("there is a central rack");
            assert!(
                (mean - expected).abs() < 1e-9,
                "{architecture} {ps}: {mean}"
            );
        }
    }

    #[test]
    fn a_flush_of_sdr_goes_to_all_racks_twice() {
        let racks = Racks {
            racks: 5,
            copies: 2,
        };
        let takes = sdr(Outcome::Flush, 1.0, DISTANCES, racks);
        assert_eq!(takes, 2.0 * DISTANCES.other);
    }

    #[test]
    fn central_and_spread_servers_are_as_in_the_paper() {
        let distances = Distances {
            central: Some(2.0),
            ..DISTANCES
        };
        let racks = Racks {
            racks: 5,
            copies: 2,
        };
        let usage = Usage {
            shares: [1.0 / 21.0; 21],
            ps: 0.5,
            rw_net: 0.5,
            object_bytes: 1.0,
            message_bytes: 1.0,
        };
        for architecture in Architecture::ALL {
            let ours = mean(architecture, &usage, distances, racks);
            let theirs = paper::mean(architecture, &usage, distances, racks);
            let is_paper = matches!(architecture, Architecture::Sdc | Architecture::Sds);
            assert_eq!(ours == theirs, is_paper, "{architecture}");
        }
    }
}

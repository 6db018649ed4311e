//! Which cells there are: one axis at a time from a base, and what the targets name.

use super::cell::Offered::{Closed, Percent};
use super::cell::{Cell, DEEP, Deployment, Event, FEW, FLAT, Keys};
use super::vulnerable::{TRIGGERS, Trigger};
use evenkeel_bench::BadUsage;
use evenkeel_hotkeys::config::Mode as HotKeys;

/// For counts without clocks.
pub(super) fn fewest() -> Vec<Cell> {
    let events = [Event::Nothing, Event::Burst(150), Event::Crowd];
    events
        .map(|event| Cell {
            event,
            ..Cell::BASE
        })
        .to_vec()
}

/// What a run of two minutes has time for.
pub(super) fn few() -> Vec<Cell> {
    let base = Cell::BASE;
    vec![
        base,
        Cell { writes: 10, ..base },
        Cell {
            connections: FLAT,
            ..base
        },
        Cell {
            keys: Keys::Zipf(1.2),
            ..base
        },
        Cell {
            offered: Percent(60),
            event: Event::Burst(150),
            ..base
        },
        Cell {
            event: Event::Crowd,
            ..base
        },
        Cell {
            event: Event::HomeKilled,
            ..base
        },
    ]
}

/// One axis at a time from the base, and what the targets name.
pub(super) fn all() -> Vec<Cell> {
    let base = Cell::BASE;
    let mut cells = vec![base];
    for keys in [Keys::Zipf(0.99), Keys::Zipf(1.2), Keys::Two] {
        cells.push(Cell { keys, ..base });
    }
    cells.push(Cell {
        keys: Keys::Registry,
        writes: 0,
        ..base
    });
    for connections in [FLAT, FEW] {
        for keys in [Keys::One, Keys::Zipf(1.2)] {
            cells.push(Cell {
                keys,
                connections,
                ..base
            });
        }
    }
    for connections in [FLAT, DEEP, FEW] {
        cells.push(Cell {
            connections,
            offered: Closed,
            ..base
        });
    }
    for writes in [0, 1, 10] {
        cells.push(Cell { writes, ..base });
    }
    for connections in [FLAT, FEW] {
        cells.push(Cell {
            connections,
            writes: 10,
            ..base
        });
    }
    cells.push(Cell {
        keys: Keys::Zipf(1.2),
        writes: 10,
        ..base
    });
    for keys in [Keys::One, Keys::Zipf(1.2)] {
        for offered in [60, 95].map(Percent) {
            cells.push(Cell {
                keys,
                offered,
                ..base
            });
        }
    }
    // More than the servers have room for, with hot keys and without.
    for hot_keys in [HotKeys::On, HotKeys::Off] {
        cells.push(Cell {
            deployment: Deployment {
                hot_keys,
                ..base.deployment
            },
            writes: 30,
            ..base
        });
    }
    for event in [Event::Crowd, Event::Changes] {
        for offered in [60, 80].map(Percent) {
            cells.push(Cell {
                offered,
                event,
                ..base
            });
        }
    }
    cells.push(Cell {
        offered: Percent(60),
        event: Event::Burst(150),
        ..base
    });
    for event in [Event::Burst(150), Event::HomePaused] {
        cells.push(Cell {
            offered: Percent(95),
            event,
            ..base
        });
    }
    for event in [
        Event::HomeKilled,
        Event::OtherKilled,
        Event::HomePaused,
        Event::OtherSlow,
        Event::Reconnect,
        Event::LeasesRefused,
        Event::ProxyKilled,
        Event::CoordinatorAway,
        Event::LinksDown,
    ] {
        cells.push(Cell { event, ..base });
    }
    for deployment in [
        Deployment::THREE_PROXIES,
        Deployment::TWELVE,
        Deployment::PLAIN,
    ] {
        for keys in [Keys::One, Keys::Zipf(1.2)] {
            cells.push(Cell {
                deployment,
                keys,
                ..base
            });
        }
    }
    cells
}

/// A cell, or a trigger whose vulnerable load is looked for: whatever has a name by which it can be chosen.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub cells: Vec<Cell>,
    pub triggers: Vec<Trigger>,
}

impl Chosen {
    /// Those whose names contain one of some words.
    ///
    /// # Errors
    /// When a word is in no name; the names are told.
    pub fn named(words: &[String]) -> Result<Chosen, BadUsage> {
        let (cells, triggers) = (all(), TRIGGERS.to_vec());
        let of_cells = cells.iter().map(Cell::to_string);
        let names: Vec<String> = of_cells
            .chain(triggers.iter().map(Trigger::to_string))
            .collect();
        let is_unknown = |word: &&String| !names.iter().any(|name| name.contains(word.as_str()));
        if let Some(word) = words.iter().find(is_unknown) {
            return Err(BadUsage(format!(
                "no cell's name contains '{word}':\n  {}",
                names.join("\n  ")
            )));
        }
        Ok(Chosen {
            cells: of_names(cells, words),
            triggers: of_names(triggers, words),
        })
    }
}

fn of_names<T: ToString>(all: Vec<T>, words: &[String]) -> Vec<T> {
    let is_named = |one: &T| {
        let name = one.to_string();
        words.iter().any(|word| name.contains(word.as_str()))
    };
    all.into_iter().filter(is_named).collect()
}

/// Each cell's reference comes before it, once.
pub(super) fn with_references(cells: Vec<Cell>) -> Vec<Cell> {
    let mut all: Vec<Cell> = Vec::with_capacity(2 * cells.len());
    for cell in cells {
        for cell in [cell.reference(), cell] {
            if !all.contains(&cell) {
                all.push(cell);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_names_of_their_own_and_references_before_them() {
        let cells = with_references(all());
        let names: Vec<_> = cells.iter().map(Cell::to_string).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name} twice");
        }
        for (at, cell) in cells.iter().enumerate() {
            assert!(cells[..=at].contains(&cell.reference()), "{cell}");
        }
        let few = with_references(few());
        assert!(few.iter().all(|cell| cells.contains(cell)));
    }

    #[test]
    fn cells_can_be_named() {
        let named = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            Chosen::named(&words)
        };
        let killed = named(&["home killed", "other server killed"]).expect("names");
        assert_eq!((killed.cells.len(), killed.triggers.len()), (2, 0));
        let slow = named(&["slow"]).expect("a name");
        assert_eq!((slow.cells.len(), slow.triggers.len()), (1, 1));
        let vulnerable = named(&["vulnerable"]).expect("a name");
        assert_eq!((vulnerable.cells.len(), vulnerable.triggers.len()), (0, 5));
        let unknown = named(&["killed", "nothing"]).unwrap_err().to_string();
        assert!(unknown.contains("'nothing'") && unknown.contains("coordinator away"));
    }
}

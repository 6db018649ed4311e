//! The *vulnerable load* of a trigger (Huang et al., Metastable failures in the wild, OSDI 2022): the largest load from which a fleet
//! comes back by itself when it happens.
//!
//! Looked for by halves among loads that are five per cent of the capacity apart: each try is a cell of its own, and whether it came
//! back is what the target of such a cell says.

use super::cell::{Cell, Event, Offered};
use core::fmt;

/// What is looked for: loads from half of the capacity to a fifth above it, in per cent of it.
const LEAST: u32 = 50;
const MOST: u32 = 120;
const STEP: u32 = 5;

/// What may throw a fleet out of its balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trigger(Event);

pub(super) const TRIGGERS: [Trigger; 5] = [
    Trigger(Event::Surge),
    Trigger(Event::OtherSlow),
    Trigger(Event::Crowd),
    Trigger(Event::Reconnect),
    Trigger(Event::LeasesRefused),
];

/// What was found of a trigger with one seed.
#[derive(Clone, Debug)]
pub(super) struct Vulnerable {
    pub trigger: Trigger,
    pub seed: u64,
    /// Of the capacity, in per cent; none where the fleet came back from no load that was tried.
    pub percent: Option<u32>,
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vulnerable load{}", self.0)
    }
}

impl Trigger {
    /// What tells whether a fleet comes back from a load of this many per cent of the capacity.
    fn cell(self, percent: u32) -> Cell {
        Cell {
            offered: Offered::Percent(percent),
            event: self.0,
            ..Cell::BASE
        }
    }

    /// The largest load from which it comes back, in per cent; none where it does from no load that is tried.
    ///
    /// # Errors
    /// What `comes_back` returns.
    pub fn vulnerable_load(
        self,
        mut comes_back: impl FnMut(Cell) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Option<u32>> {
        // Steps from which it comes back are below `good`, those from which it does not from `bad` on.
        let (mut good, mut bad) = (0, (MOST - LEAST) / STEP + 1);
        while good < bad {
            let middle = good.midpoint(bad);
            match comes_back(self.cell(LEAST + middle * STEP))? {
                true => good = middle + 1,
                false => bad = middle,
            }
        }
        Ok(good.checked_sub(1).map(|step| LEAST + step * STEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_load_is_found_wherever_it_is() {
        for largest in (LEAST - STEP..=MOST).step_by(STEP as usize) {
            let mut tries = 0;
            let found = TRIGGERS[0].vulnerable_load(|cell| {
                tries += 1;
                let Offered::Percent(percent) = cell.offered else {
                    panic!("an open loop");
                };
                Ok(percent <= largest)
            });
            let found = found.expect("it is measured");
            assert_eq!(found, (largest >= LEAST).then_some(largest));
            assert!(tries <= 4, "{tries} tries");
        }
    }
}
